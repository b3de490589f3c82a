"""What a world outside the simulator is asked for, and what it answers (worlds/registry.py calls it).

Such a world is a function `run_scenario(order: RunOrder) -> RunAnswer`. Everything that needs the simulator's own
readers (files, traces, generators) is resolved before it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from slurmtwin.contract.events import Event
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.manifest import Manifest
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
