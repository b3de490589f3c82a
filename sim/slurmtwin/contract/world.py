"""What a world outside the simulator is asked for, and what it answers (worlds/registry.py calls it).

Such a world is a function `run_scenario(order: RunOrder) -> RunAnswer`. Everything that needs the simulator's own
readers (files, traces, generators) is resolved before it is called.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurmtwin.contract.events import Event
from slurmtwin.contract.jobs import JobRequest, to_dict
from slurmtwin.contract.manifest import Manifest, sha256_text
from slurmtwin.contract.scenario import Scenario


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOrder:
    """One run that is wanted."""

    scenario: Scenario
    """Its configuration is literal: files that it named are written out (contract.slurm_files.literal_section)."""
    jobs: tuple[JobRequest, ...]
    """The whole workload in submit order."""
    folder: Path | None = None
    """Where the run folder is written; None: nothing is kept."""
    seed: int = 0
    replication: int = 0


@dataclass(frozen=True, slots=True)
class RunAnswer:
    """What happened. manifest.results holds run_id and stop_reason, manifest.resources wall_s (seconds)."""

    manifest: Manifest
    events: Sequence[Event]
    """In the order of the table."""


def conditions_sha256(scenario: Scenario, jobs: Sequence[JobRequest]) -> str:
    """Hex hash of what a run is made of: Slurm's settings but the version, the jobs, the faults.

    Defaults are left out, so that a new key of the scenario format does not change it.
    """
    document = {
        "slurm": scenario.slurm.model_dump(mode="json", exclude_defaults=True, exclude={"version"}),
        "faults": [f.model_dump(mode="json", exclude_defaults=True) | {"kind": f.kind} for f in scenario.faults],
        "jobs": [to_dict(job) for job in sorted(jobs, key=lambda job: (job.submit_ns, job.job_id))],
    }
    return sha256_text(json.dumps(document, sort_keys=True, separators=(",", ":")))
