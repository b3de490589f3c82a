"""What slurm-operator asked for, by the API server's log."""

from __future__ import annotations

import pytest

from slurmtwin_e2e.kind.request_log import Request, requests, spans_ms, summary

SET = "/apis/slinky.slurm.net/v1beta1/namespaces/st/nodesets/w/status"
REVISION = "/apis/apps/v1/namespaces/st/controllerrevisions"
SERVICE = "/api/v1/namespaces/st/services/slurm-controller-internal"
STATEFULSET = "/apis/apps/v1/namespaces/st/statefulsets/slurm-controller"
POD = "/api/v1/namespaces/st/pods/w-1"


def line(at: str, verb: str, path: str, latency: str, agent: str = "manager/v0.0.0 (linux/amd64)") -> str:
    """One of the log, as containerd keeps it."""
    return (
        f'2026-11-28T01:12:42.945754611Z stderr F I1128 {at}       1 httplog.go:134] "HTTP" verb="{verb}" URI="{path}" '
        f'latency="{latency}" userAgent="{agent}" audit-ID="6d8f" apf_execution_time="1.8ms" resp=200'
    )


def test_a_request_begins_its_latency_before_its_line() -> None:
    """Other clients' are left out, and watches, whose latency is how long they lasted, and what is no request."""
    lines = [
        line("01:12:42.944000", "PUT", f"{SET}?timeout=5s", "4.5ms"),
        line("01:12:43.000000", "GET", POD, "350µs"),
        line("01:12:43.100000", "GET", POD, "3ms", agent="kubectl/v1.34.2"),
        line("01:12:43.200000", "WATCH", "/api/v1/namespaces/st/pods", "8.1s"),
        "2026-11-28T01:12:42.9Z stderr F I1128 01:12:43.300000       1 trace.go:236] nothing",
    ]
    found = list(requests(lines, 2026))
    assert [(one.verb, one.path, one.namespace) for one in found] == [("PUT", SET, "st"), ("GET", POD, "st")]
    assert [one.took_ms for one in found] == pytest.approx([4.5, 0.35], abs=0.01)
    assert found[1].answered_ms - found[0].answered_ms == pytest.approx(56, abs=0.01)


def test_a_pass_behind_a_status_goes_beside_one_of_the_controller() -> None:
    """The gap before its revision is told where that is met; a revision behind a pause of its own is one alone."""
    asked = [
        Request(0, 6, "PUT", SET),
        Request(8, 12, "PATCH", SERVICE),
        Request(11, 20, "PATCH", f"{POD}/status"),
        Request(24, 31, "POST", REVISION),
        Request(25, 40, "PATCH", STATEFULSET),
        Request(500, 504, "POST", REVISION),
        Request(1500, 1510, "PATCH", POD),
        Request(1517, 1521, "POST", REVISION),
    ]
    spans = spans_ms(asked)
    assert spans == {
        "behind": [4], "between": [5], "revision_beside": [7], "revision_alone": [4, 4], "controller": [32],
        "status": [6], "conditions": [9], "idle": [],
    }  # fmt: skip
    assert summary(spans)["revision_alone"] == {"count": 2, "ms": [4, 4, 4, 4, 4]}


def test_a_pass_that_wrote_nothing_is_told_by_what_it_takes_beside_its_looks() -> None:
    """From its revision to the next one; one that wrote, waited for a list or was of another cluster is none."""
    other = REVISION.replace("/st/", "/other/")
    at_ms = [(0, REVISION), (2022, REVISION), (34041, REVISION), (34500, other), (37060, REVISION), (39090, REVISION)]
    asked = [Request(begun, begun + 5, "POST", path) for begun, path in at_ms]
    assert spans_ms(asked)["idle"] == [22, 19, 30]
    assert spans_ms([*asked, Request(38000, 38006, "PUT", SET)])["idle"] == [22, 19]


def test_namespaces_do_not_follow_each_other() -> None:
    """A status of one cluster is nobody else's."""
    other = REVISION.replace("/st/", "/other/")
    asked = [Request(0, 6, "PUT", SET), Request(8, 12, "PATCH", SERVICE), Request(9, 11, "POST", other),
             Request(13, 20, "PATCH", STATEFULSET)]  # fmt: skip
    assert spans_ms(asked)["behind"] == []
    assert summary(spans_ms(asked))["behind"] == {"count": 0, "ms": []}
