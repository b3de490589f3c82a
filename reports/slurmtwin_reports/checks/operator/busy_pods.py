"""No busy pod is deleted unless a person asked for it (issue SO#79; scenarios X20, X32, X33).

A healthy machine that the operator deletes takes its pods with it, and counts as deleting them.
"""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.checks.operator.board import OPERATOR, PEOPLE, Board, is_own_action
from slurmtwin_reports.history import History, at
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "no-busy-pod-deleted"
WATCHERS: Final = ("apiserver", "collector", "kubelet")
"""Actors that only report a deletion: who asked for it is another row."""


def check(history: History) -> Verdict:
    """Broken when an operator or a controller deletes a pod while a job runs on its Slurm node."""
    board, findings, deletions = Board(), [], 0
    for row in history.rows():
        names: list[str] = []
        if is_own_action(row, "delete") and row.details.get("object") == "Pod":
            names = [row.node or ""]
        elif row.kind == "pod.deleting" and row.actor not in (*PEOPLE, *WATCHERS):
            names = [str(row.details.get("pod", "")).rpartition("/")[2]]
        elif row.kind == "kube_node.deleted" and row.actor == OPERATOR and row.node not in board.lost_machines:
            names = [pod.name for pod in board.pods.values() if pod.machine == row.node]
        for name in names:
            deletions += 1
            jobs = list(board.running.get(name, ()))
            if jobs:
                findings.append(f"{row.actor} deleted pod {name} at {at(row.t_ns)} with job {jobs[0]} on it")
        board.take(row)
    if findings:
        return broken(NAME, findings)
    return holds(NAME, f"{deletions} deletions") if board.seen_pods else unknown(NAME, "no pod rows")
