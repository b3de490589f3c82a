"""Replications of recorded runs in pods, and runs at the medians, for tests that look at single rows."""

from __future__ import annotations

from pathlib import Path

from slurmtwin.campaign.replications import Batch, Made, Variant, batches, prepared, run_one
from slurmtwin.contract.clock import MS
from slurmtwin.contract.events import Event
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.history import History, Row, rows_of_events
from slurmtwin_reports.load import load_run

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def _folder(name: str, recording: str) -> Path:
    return SCENARIOS / "recordings" / name / "26.05" / "pods" / recording


def recorded(name: str, recording: str) -> History:
    """A recording, by its scenario's name and its own number (26.05)."""
    return load_run(_folder(name, recording))


def made(scenario: Path, recording: str) -> tuple[Batch, Made]:
    """What replications of a recording share."""
    batch = batches(scenario, _folder(scenario.stem, recording), "26.05", Variant(), 1)[0]
    return batch, prepared(batch, load_scenario(scenario), recorded(scenario.stem, recording))


def still_rows(scenario: Path, times: StartTimes | None = None, **changed_ms: int) -> list[Row]:
    """The rows of a run with these durations, the others at their medians."""
    durations = still_durations() | {name.replace("_", "-"): (ms * MS,) for name, ms in changed_ms.items()}
    options = TwinOptions(keep=True, durations=durations, still=True, times=times or StartTimes())
    return list(rows_of_events(run_scenario(load_scenario(scenario), scenario.parent, options).kept or []))


def replicated(scenario: Path, recording: str, number: int = 0) -> list[Event]:
    """The rows of one replication of a recording."""
    return list(run_one(*made(scenario, recording), number)[1])
