"""When an operator's pods are probed is read from their starts, which lie before each fault."""

from __future__ import annotations

import json

import pytest

from slurmtwin.campaign.before_faults import mounted, quiet_part
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.models.kubelet.defaults import VOLUME_POLL_NS
from slurmtwin_reports.history import rows_of_events

BOUND = -50 * SECOND


LOOK_MS = VOLUME_POLL_NS // MS


def changed(kind: Kind, t_ns: int, place: int) -> list[Event]:
    """An object's cut stamp, and the collector's receipt 20 ms later."""
    detail = json.dumps({"app": "slurmd", "pod": "ns/w-0"})
    cut = t_ns // SECOND * SECOND + SECOND // 2
    return [
        Event(cut, kind, "apiserver", detail=detail, t_err_ns=SECOND // 2, pod_uid="u"),
        Event(t_ns + 20 * MS, kind, "collector", detail=detail, t_err_ns=20 * MS, pod_uid="u", cause_seq=place),
    ]


def started(mounted_ms: int, periods: int = 3, bound: int = BOUND) -> list[Event]:
    """A worker that is probed so long after its binding, and answers at that probe."""
    ready = bound + mounted_ms * MS + periods * 10 * SECOND
    return [*changed(Kind.POD_SCHEDULED, bound, 0), *changed(Kind.POD_READY, ready, 2)]


@pytest.mark.parametrize("mounted_ms", [310, 640, 900, 1500, 2800])
@pytest.mark.parametrize("periods", [1, 3, 4])
@pytest.mark.parametrize("since_second_ms", [0, 340, 680, 970])
def test_the_time_to_the_first_probe_lies_in_its_interval(mounted_ms: int, periods: int, since_second_ms: int) -> None:
    """However many probes went by before slurmd answered one, and wherever in their seconds both stamps lie."""
    rows = started(mounted_ms, periods, BOUND + since_second_ms * MS)
    ((bound, probed),) = mounted(list(rows_of_events(rows)))
    assert probed[0] - bound[1] <= mounted_ms <= probed[1] - bound[0]
    assert probed[1] - probed[0] + bound[1] - bound[0] < 100
    assert probed[1] - bound[0] >= LOOK_MS


def test_a_pod_that_was_mounted_at_the_first_look_took_no_period_more() -> None:
    """Bound a little later than its clock says, it seems to be mounted before that look."""
    ((bound, probed),) = mounted(list(rows_of_events(started(LOOK_MS - 60))))
    assert probed[1] - bound[0] < LOOK_MS


def test_what_comes_behind_the_first_fault_is_not_read() -> None:
    """A pod that the fault brought is judged, so nothing is measured on it."""
    fault = Event(BOUND + SECOND, Kind.FAULT_INJECTED, "fault", detail='{"fault":{"kind":"pod.delete"}}')
    rows = list(rows_of_events([*changed(Kind.POD_SCHEDULED, BOUND, 0), fault, *changed(Kind.POD_READY, 0, 3)]))
    assert [row.kind for row in quiet_part(rows)] == ["pod.scheduled", "pod.scheduled"]
    assert not list(mounted(quiet_part(rows)))
