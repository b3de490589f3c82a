"""What was asked for is there in the end: as many live pods as replicas (issues SO#249, SO#239; scenario X24).

And never more on the way: a pod created beyond the number asked for is a finding, when that number had time to be seen.
"""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.checks.operator.board import Board
from slurmtwin_reports.history import History, Row, at
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "desired-reached"
SEEN_NS: Final = 200_000_000_000
"""A change of the number is seen by then, however late the caches are."""


def check(history: History) -> Verdict:
    """Broken when a set of counted nodes ends with more or fewer pods; unknown when the end is not quiet."""
    board = Board()
    findings: list[str] = []
    for row in history.rows():
        if row.kind == "pod.created":
            findings += _beyond(board, row)
        board.take(row)
    counted = {name: state for name, state in board.sets.items() if state.counted}
    if not counted:
        return unknown(NAME, "no node sets of counted nodes in the rows")
    if not board.quiet:
        return unknown(NAME, "the run ends before it is quiet")
    for name, state in sorted(counted.items()):
        live = sum(pod.node_set == name and not pod.deleting for pod in board.pods.values())
        if live != state.replicas:
            findings.append(f"{name} has {live} pods at the end, {state.replicas} were asked for")
    return broken(NAME, findings) if findings else holds(NAME, f"{len(counted)} node sets")


def _beyond(board: Board, row: Row) -> list[str]:
    """A pod created although the set had all it should have."""
    name = str(row.details.get("node_set", ""))
    state = board.sets.get(name)
    if state is None or not state.counted:
        return []
    wanted = max(state.replicas, state.before) if row.t_ns - state.changed_ns < SEEN_NS else state.replicas
    there = sum(pod.node_set == name for pod in board.pods.values())
    return [f"{name} got a pod too many at {at(row.t_ns)}"] if there >= wanted else []
