"""Fault scenarios without a recording yet: each runs in the twin, inside the bounds of its file."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.faults.milestones import all_marks
from slurmtwin_reports.history import rows_of_events

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
NAMES = (
    "x48-ghost", "x60-resume-timeout", "x66-cut-past-down", "x69-maintenance", "x70-undrain-before-down",
    "x72-machine-restart", "x74-restart-return-0", "x84-stale-capacity",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_twin_stays_inside_the_bounds_of_the_file(name: str) -> None:
    """Spans within their bounds; what must not happen does not."""
    scenario = load_scenario(FAULTS / f"{name}.yaml")
    run = run_scenario(scenario, FAULTS, TwinOptions(seed=1, keep=True))
    phases = scenario.expect.phases
    assert phases
    for phase, marks in zip(phases, all_marks(rows_of_events(run.kept or []), phases), strict=True):
        if phase.absent:
            assert marks.end is None, phase.name
            continue
        assert marks.start is not None and marks.end is not None, phase.name  # noqa: PT018
        assert phase.high is not None
        span_s = (marks.end.t_ns - marks.start.t_ns) / SECOND
        assert phase.low <= marks.end.t_ns - marks.start.t_ns <= phase.high, f"{phase.name}: {span_s} s"
