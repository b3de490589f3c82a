"""Fault scenarios without a recording: each runs in the twin, inside the bounds of its file, its properties hold."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.jobs import to_dict
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.workload.resolve import resolve
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.checks import run_checks
from slurmtwin_reports.faults.milestones import all_marks
from slurmtwin_reports.history import history_of, rows_of_events

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
RECORDINGS = FAULTS.parent / "recordings"
OUTSIDE = {
    "x87-array": "one task per node every 3 s, not two: a job without --mem takes a node's memory, so 1000 take 750 s",
}
"""Files whose prediction the twin does not meet, and what it finds instead."""
NAMES = sorted(p.stem for p in FAULTS.glob("[sx]*.yaml") if not list((RECORDINGS / p.stem).glob("*/pods/*")))
assert set(OUTSIDE) <= set(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name not in OUTSIDE])
def test_the_twin_stays_inside_the_bounds_of_the_file(name: str) -> None:
    """Spans within their bounds; what must not happen does not; the properties that the file names hold."""
    scenario = load_scenario(FAULTS / f"{name}.yaml")
    jobs = {job.job_id: to_dict(job) for job in resolve(scenario, FAULTS, 1)}
    run = run_scenario(scenario, FAULTS, TwinOptions(seed=1, keep=True))
    phases = scenario.expect.phases
    assert phases
    for phase, marks in zip(phases, all_marks(rows_of_events(run.kept or []), phases), strict=True):
        assert marks.start is not None, phase.name
        if phase.absent:
            assert marks.end is None, phase.name
            continue
        assert marks.end is not None, phase.name
        span_s = (marks.end.t_ns - marks.start.t_ns) / SECOND
        high = phase.high if phase.high is not None else 1 << 62
        assert phase.low <= marks.end.t_ns - marks.start.t_ns <= high, f"{phase.name}: {span_s} s"
    history = history_of(run.manifest, run.kept or [], jobs)
    verdicts = run_checks(history, scenario.expect.properties)
    assert not [verdict for verdict in verdicts if verdict.is_finding]


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_the_twin_finds_outside_the_bounds_is_named(name: str) -> None:
    """Such a file runs, and a span of it is still outside: else its entry is stale."""
    scenario = load_scenario(FAULTS / f"{name}.yaml")
    run = run_scenario(scenario, FAULTS, TwinOptions(seed=1, keep=True))
    phases = scenario.expect.phases
    outside = [
        phase.name
        for phase, marks in zip(phases, all_marks(rows_of_events(run.kept or []), phases), strict=True)
        if marks.end is None
        or (marks.start is not None and phase.high is not None and marks.end.t_ns - marks.start.t_ns > phase.high)
    ]
    assert outside
