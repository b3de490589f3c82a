"""Write hashes.json anew: `python sim/tests/golden/renew.py`. Results changed: say so in CHANGELOG.md.

Called with scenario names it prints their hashes as JSON and writes nothing (the tests do that).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from slurmtwin.contract.manifest import write_atomic
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.twin import TwinOptions, run_scenario

ROOT = Path(__file__).resolve().parents[3]
STORED = Path(__file__).with_name("hashes.json")
SCENARIOS = (
    "workloads/serial", "workloads/mixed", "workloads/arrays", "workloads/dependencies", "workloads/preemption",
    "workloads/fair-share", "workloads/node-failure", "workloads/slurmctld-restart", "smoke/generated",
)  # fmt: skip


def event_hash(name: str, seed: int = 7) -> str:
    """The event hash of one shipped scenario in the twin."""
    path = ROOT / "scenarios" / f"{name}.yaml"
    return run_scenario(load_scenario(path), path.parent, TwinOptions(seed=seed)).event_hash


if __name__ == "__main__":
    names = sys.argv[1:] or SCENARIOS
    text = json.dumps({name: event_hash(name) for name in names}, indent=1, sort_keys=True) + "\n"
    if sys.argv[1:]:
        sys.stdout.write(text)
    else:
        write_atomic(STORED, text)
