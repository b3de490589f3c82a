"""CPUs promised twice: a row that tells of it is a finding, one that says it is over is none."""

from __future__ import annotations

from slurmtwin.contract.events import Event
from slurmtwin_reports.checks import PROPERTIES, run_checks
from slurmtwin_reports.checks.cpus_once import NAME
from slurmtwin_reports.testing import a_history, in_order, row
from slurmtwin_reports.verdict import Outcome


def judged(*events: Event) -> tuple[Outcome, str]:
    """Outcome and words of the property."""
    [verdict] = run_checks(a_history(in_order(list(events))), [NAME])
    return verdict.outcome, str(verdict)


STARTED = row(1, "container.started", node="worker1", container="slurmd")


def test_too_many_cpus_are_a_finding_that_names_jobs_and_set() -> None:
    """Two jobs on one CPU."""
    over = row(5, "cpu.overbooked", node="worker1", value=1, unit="cpu", cpuset="0", jobs=[1, 2])
    outcome, words = judged(STARTED, over)
    assert outcome is Outcome.BROKEN
    assert "jobs 1, 2 hold 1 CPUs too many of 0 on worker1" in words


def test_the_end_of_it_is_no_finding_and_no_container_is_unknown() -> None:
    """value 0: no longer."""
    over = row(5, "cpu.overbooked", node="worker1", value=0, unit="cpu", cpuset="0", jobs=[1])
    assert judged(STARTED, over)[0] is Outcome.HOLDS
    assert judged(row(1, "job.submitted", 1, actor="user"))[0] is Outcome.UNKNOWN


def test_it_is_judged_only_where_it_is_asked_for() -> None:
    """Designs that share CPUs on purpose are not broken by it."""
    assert NAME not in PROPERTIES
