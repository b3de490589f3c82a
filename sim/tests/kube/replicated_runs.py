"""Replications of recorded runs in pods, for tests that look at single rows."""

from __future__ import annotations

from pathlib import Path

from slurmtwin.campaign.replications import Batch, Made, Variant, batches, prepared, run_one
from slurmtwin.contract.events import Event
from slurmtwin.contract.scenario import load_scenario
from slurmtwin_reports.load import load_run

SCENARIOS = Path(__file__).parents[3] / "scenarios"


def made(scenario: Path, recording: str) -> tuple[Batch, Made]:
    """What replications of a recording share, which its scenario's name and its own number tell (26.05)."""
    folder = SCENARIOS / "recordings" / scenario.stem / "26.05" / "pods" / recording
    batch = batches(scenario, folder, "26.05", Variant(), 1)[0]
    return batch, prepared(batch, load_scenario(scenario), load_run(folder))


def replicated(scenario: Path, recording: str, number: int = 0) -> list[Event]:
    """The rows of one replication of a recording."""
    return list(run_one(*made(scenario, recording), number)[1])
