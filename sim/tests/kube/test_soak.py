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


@pytest.mark.parametrize(("target", "named"), [("worker2", 1), ("worker3", 0), ("slurmctld", 1)])
def test_a_double_run_needs_a_fault_of_its_own_machine(target: str, named: int) -> None:
    """A cut of another machine explains nothing; a slurmctld that was killed may have forgotten the start."""
    kind = "process.signal" if target == "slurmctld" else "network.cut"
    cut = detail_text(fault={"kind": kind, "target": target})
    events = [
        Event(0, Kind.POD_SCHEDULED, "apiserver", node="worker2", detail=detail_text(pod="st-soak/w-0")),
        Event(1, Kind.SCRIPT_STARTED, "slurmd", 7, "w-0"),
        Event(2, Kind.FAULT_INJECTED, "fault", detail=cut),
        Event(3, Kind.SCRIPT_STARTED, "slurmd", 7, "w-1"),
    ]
    found = double_runs(iter(rows_of_events(events)))
    assert [len(part) for part in found] == [named, 1 - named]
