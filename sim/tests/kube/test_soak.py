"""The soak itself: a short one holds, and it tells a double run with a named fault from one without."""

from __future__ import annotations

import pytest
from soak import double_runs, soak

from slurmtwin.contract.events import Event, Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin_reports.history import rows_of_events


@pytest.mark.parametrize("operator", ["default", "slinky"])
def test_a_short_soak_breaks_nothing_and_all_workers_are_back(operator: str) -> None:
    """Five hours, eight workers, a fault each four minutes."""
    said: list[str] = []
    assert soak(0.21, 8, 400, 3, operator, said.append) == 0, said
    assert any("nodes 8 IDLE; 0 jobs run, 0 wait" in text for text in said), said


@pytest.mark.parametrize(("target", "named"), [("worker2", 1), ("worker3", 0)])
def test_a_double_run_needs_a_fault_of_its_own_machine(target: str, named: int) -> None:
    """A cut of another machine explains nothing."""
    events = [
        Event(0, Kind.POD_SCHEDULED, "apiserver", node="worker2", detail=detail_text(pod="st-soak/w-0")),
        Event(1, Kind.SCRIPT_STARTED, "slurmd", 7, "w-0"),
        Event(2, Kind.FAULT_INJECTED, "fault", detail=detail_text(fault={"kind": "network.cut", "target": target})),
        Event(3, Kind.SCRIPT_STARTED, "slurmd", 7, "w-1"),
    ]
    found = double_runs(iter(rows_of_events(events)))
    assert [len(part) for part in found] == [named, 1 - named]


def fault_of_slurmctld(t_ns: int, kind: str) -> Event:
    return Event(t_ns, Kind.FAULT_INJECTED, "fault", detail=detail_text(fault={"kind": kind, "target": "slurmctld"}))


SAVED, CRASHED = Event(4, Kind.SLURMCTLD_SAVED, "slurmctld"), Event(6, Kind.SLURMCTLD_CRASHED, "slurmctld")


@pytest.mark.parametrize(
    ("between", "named"),
    [
        ([fault_of_slurmctld(5, "process.signal"), CRASHED], ["process.signal"]),
        ([fault_of_slurmctld(5, "process.freeze"), CRASHED], ["process.freeze"]),
        ([SAVED, fault_of_slurmctld(5, "process.signal"), CRASHED], []),
        ([fault_of_slurmctld(5, "process.signal")], []),
        ([CRASHED], []),
        ([fault_of_slurmctld(5, "process.signal"), CRASHED, Event(7, Kind.JOB_REQUEUED, "slurmctld", 7)], []),
    ],
    ids=["killed", "frozen-and-killed", "start-was-saved", "did-not-crash", "crashed-by-itself", "requeued"],
)
def test_slurmctld_forgets_only_a_start_that_it_had_not_saved(between: list[Event], named: list[str]) -> None:
    """A fault of its own explains a second run where slurmctld crashed before the first one's start was saved."""
    first, second = Event(3, Kind.SCRIPT_STARTED, "slurmd", 7, "w-0"), Event(8, Kind.SCRIPT_STARTED, "slurmd", 7, "w-0")
    old = fault_of_slurmctld(1, "process.signal")
    found = double_runs(iter(rows_of_events([old, first, *between, second])))
    assert [text.rpartition(": ")[2] for text in found[0]] == named
    assert len(found[1]) == 1 - len(named)
