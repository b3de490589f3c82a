"""The same bytes: stored event hashes, hash seeds, worker counts. Other Pythons: CI runs this file on each."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmtwin.campaign.pool import run_tasks

HERE = Path(__file__).parent
STORED = json.loads((HERE / "hashes.json").read_text())
pytestmark = pytest.mark.golden


def event_hash(name: str) -> str:
    done = subprocess.run(
        [sys.executable, str(HERE / "renew.py"), name], capture_output=True, text=True, check=True, timeout=100
    )
    return json.loads(done.stdout)[name]


@pytest.mark.parametrize("name", sorted(STORED))
def test_a_shipped_scenario_gives_its_stored_event_hash(name: str) -> None:
    """Replay: slurmtwin run scenarios/NAME.yaml --seed 7; if the change is meant: python sim/tests/golden/renew.py."""
    assert event_hash(name) == STORED[name], f"slurmtwin run scenarios/{name}.yaml --seed 7"


@pytest.mark.parametrize("hash_seed", ["0", "1", "4242"])
@pytest.mark.parametrize("name", ["workloads/fair-share", "workloads/node-failure"])
def test_the_hash_seed_of_python_changes_nothing(name: str, hash_seed: str) -> None:
    """Sets of strings must not reach any order (peers.md 10, trap 5)."""
    done = subprocess.run(
        [sys.executable, str(HERE / "renew.py"), name],
        capture_output=True, text=True, check=True, timeout=100, env={**os.environ, "PYTHONHASHSEED": hash_seed},
    )  # fmt: skip
    assert json.loads(done.stdout)[name] == STORED[name]


def test_the_number_of_workers_changes_nothing() -> None:
    """1, 2 and 4 worker processes give equal results in equal order."""
    names = ["workloads/serial", "workloads/arrays", "workloads/dependencies", "smoke/generated"]
    for workers in (1, 2, 4):
        assert run_tasks(event_hash, names, workers) == [STORED[name] for name in names]
