"""Passes of the reference operator in a recorded run: what its looks, changes of nodes and marks on pods take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from slurmtwin.campaign.pod_spans import Interval, bounds
from slurmtwin.contract.clock import MS
from slurmtwin.worlds.pod_faults import REQUEST_NS
from slurmtwin.worlds.pod_operator import GATHER_NS

if TYPE_CHECKING:
    from slurmtwin_reports.history import Row

STORED_NS: Final = sum(REQUEST_NS) // 4
"""A pass's memory is at the API server half a request behind its decision."""
WATCHED_NS: Final = 2 * MS
"""Two changes that one watch brings are as far apart as they happened, to so much."""
PASS_NS: Final = 400 * MS
"""A pass that a change of its node set brings has stored its memory by then."""


def node_changes(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each drain right behind another one: when the operator had the answer to that, and slurmctld's line of it."""
    for done, line in _neighbours(rows, PASS_NS, "node.drained"):
        if _does(done, "drain") and line.kind == "node.drained":
            yield bounds(done), bounds(line)


def pod_patches(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each pod that the operator marks right behind another one, in the same pass: the answers to both."""
    for before, row in _neighbours(rows, GATHER_NS):
        if _does(before, "label-pod") and _does(row, "label-pod"):
            yield bounds(before), bounds(row)


def operator_looks(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each change of a node set: when its pass began, and when that had decided; both by the same watch."""
    from slurmtwin_reports.history import fault_of

    told = [row for row in rows if row.kind == "object.changed" and row.details.get("resource") == "NodeSet"]
    for asked in rows:
        if asked.kind == "fault.injected" and fault_of(asked).get("kind") == "operator.scale":
            heard = [row.t_ns for row in told if 0 <= row.t_ns - asked.t_ns < PASS_NS]
            if len(heard) > 1:
                began, decided = (heard[0] + GATHER_NS) / MS, heard[1] - STORED_NS
                yield (began, began), ((decided - WATCHED_NS) / MS, (decided + WATCHED_NS) / MS)


def _neighbours(rows: Sequence[Row], within_ns: int, *kinds: str) -> Iterator[tuple[Row, Row]]:
    """Actions of the operator, and rows of these kinds, that follow each other so soon."""
    told = sorted((row for row in rows if row.kind in ("action.issued", *kinds)), key=lambda row: row.t_ns)
    return (pair for pair in pairwise(told) if pair[1].t_ns - pair[0].t_ns < within_ns)


def _does(row: Row, action: str) -> bool:
    return row.kind == "action.issued" and row.details.get("do") == action
