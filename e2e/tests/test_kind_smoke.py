"""The smoke run fails when a milestone that a scenario names did not happen."""

from __future__ import annotations

import pytest

from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.phases import Milestone, Phase
from slurmtwin_e2e.kind.smoke import missing_milestones


def phase(end: Milestone, *, absent: bool = False) -> Phase:
    """A phase that ends so."""
    start = Milestone(kind=Kind.FAULT_INJECTED)
    return Phase(name="p", start=start, end=end, low="0s", absent=absent, rests_on="x", source="x")


@pytest.mark.parametrize(
    ("end", "absent", "missing"),
    [
        (Milestone(kind=Kind.JOB_REQUEUED), False, []),
        (Milestone(kind=Kind.JOB_REQUEUED, job=1), False, []),
        (Milestone(kind=Kind.JOB_REQUEUED, job=2), False, ["p"]),
        (Milestone(kind=Kind.JOB_STARTED, job=1), False, ["p"]),
        (Milestone(kind=Kind.JOB_STARTED, job=1), True, []),
    ],
)
def test_a_phase_without_its_end_is_named(end: Milestone, absent: bool, missing: list[str]) -> None:
    """Kind and job must match; a phase that is predicted not to end is not asked for."""
    events = [Event(5, Kind.JOB_REQUEUED, "slurmctld", job_id=1)]
    assert missing_milestones([phase(end, absent=absent)], events) == missing
