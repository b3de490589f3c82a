"""What passes of the reference operator take is read off its quiet runs: by neighbours, and within a pass alone."""

from __future__ import annotations

import json

from slurmtwin.campaign import operator_spans
from slurmtwin.contract.clock import MS
from slurmtwin.contract.events import Event, Kind
from slurmtwin_reports.history import rows_of_events


def told_by_operator(node: str, at_ms: int, do: str = "drain") -> Event:
    """An operator's log says that an action is done, to a millisecond."""
    detail = json.dumps({"do": do, "outcome": "done"})
    return Event(at_ms * MS, Kind.ACTION_ISSUED, "operator", node=node, detail=detail, t_err_ns=MS)


def test_drains_behind_each_other_tell_what_slurmrestd_takes() -> None:
    """From the answer to one to slurmctld's line of the next; neither the first, nor one of another pass, nor one that
    follows another action."""
    rows = [
        line
        for place, (node, drained_ms, done_ms) in enumerate(
            [("w-0", 40, 41), ("w-1", 45, 46), ("w-2", 49, 50), ("w-3", 5040, 5041)]
        )
        for line in (
            Event(drained_ms * MS, Kind.NODE_DRAINED, "slurmctld", node=node, t_err_ns=MS // 2),
            told_by_operator(node, done_ms),
            *([told_by_operator(node, 5050, "delete")] if place == 3 else []),
        )
    ]
    rows.append(Event(5060 * MS, Kind.NODE_DRAINED, "slurmctld", node="w-4", t_err_ns=MS // 2))
    found = list(operator_spans.node_changes(rows_of_events(rows)))
    assert found == [((40, 42), (44.5, 45.5)), ((45, 47), (48.5, 49.5))]


def test_pods_that_are_marked_behind_each_other_tell_what_a_patch_takes() -> None:
    """Not the first, nor one of the next pass, which gathers for 100 ms, nor one behind another action."""
    marks = [("w-0", 10, "label-pod"), ("w-1", 22, "label-pod"), ("w-2", 130, "label-pod"), ("w-2", 140, "delete"),
             ("w-3", 150, "label-pod")]  # fmt: skip
    found = operator_spans.pod_patches(rows_of_events([told_by_operator(*mark) for mark in marks]))
    assert list(found) == [((9, 11), (21, 23))]


def test_a_scaled_node_set_tells_what_a_look_takes() -> None:
    """A pass gathers for 100 ms, and its memory is at the API server half a request behind its decision: 31 ms of 137.
    A set whose status nobody wrote tells nothing, nor do other objects."""
    fault = {"kind": "operator.scale", "target": "workers"}
    scaled = Event(0, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault}))

    def changed(at_ms: int, resource: str) -> Event:
        return Event(at_ms * MS, Kind.OBJECT_CHANGED, "collector", detail=json.dumps({"resource": resource}))

    rows = [scaled, changed(2, "Pod"), changed(4, "NodeSet"), changed(90, "Pod"), changed(141, "NodeSet")]
    assert list(operator_spans.operator_looks(rows_of_events(rows))) == [((104, 104), (133, 137))]
    assert list(operator_spans.operator_looks(rows_of_events(rows[:-1]))) == []
