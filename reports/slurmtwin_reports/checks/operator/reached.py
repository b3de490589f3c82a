"""What was asked for is there in the end: as many live pods as replicas (issues SO#249, SO#239; scenario X24)."""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.checks.operator.board import Board
from slurmtwin_reports.checks.operator.leaks import QUIET_NS
from slurmtwin_reports.history import History
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "desired-reached"


def check(history: History) -> Verdict:
    """Broken when a set of counted nodes ends with more or fewer pods; unknown when the end is not quiet."""
    board, last_cause, end = Board(), 0, 0
    for row in history.rows():
        board.take(row)
        end = row.t_ns
        if row.actor in ("user", "admin", "fault") or row.kind in ("job.ended", "job.requeued", "kube_node.deleted"):
            last_cause = row.t_ns
    counted = {name: state for name, state in board.sets.items() if state.counted}
    if not counted:
        return unknown(NAME, "no node sets of counted nodes in the rows")
    if end - last_cause < QUIET_NS:
        return unknown(NAME, "the run ends before it is quiet")
    findings = []
    for name, state in sorted(counted.items()):
        live = sum(pod.node_set == name and not pod.deleting for pod in board.pods.values())
        if live != state.replicas:
            findings.append(f"{name} has {live} pods at the end, {state.replicas} were asked for")
    return broken(NAME, findings) if findings else holds(NAME, f"{len(counted)} node sets")
