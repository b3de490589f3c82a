"""An update never takes more nodes out of service than its budget (issue SO#229; scenarios X37, X38).

Judged when the operator takes a serving node out: drains it for an update, or deletes its outdated pod. What broke
by itself less than a minute before may not have been seen yet and is not counted.
"""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.checks.operator.board import OPERATOR, Board, PodState, SetState
from slurmtwin_reports.history import History, Row, at, nodes_of
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "update-within-budget"
RECENT_NS: Final = 60_000_000_000


def check(history: History) -> Verdict:
    """Broken when a node is taken out although the budget is used up; unknown without node sets."""
    board, findings, taken = Board(), [], 0
    for row in history.rows():
        for name in _victims(row):
            pod = board.pods.get(name)
            owner = board.sets.get(pod.node_set) if pod is not None else None
            if pod is None or owner is None or not _could_serve(board, pod) or not _for_update(pod, owner, row):
                continue
            taken += 1
            out = _out_of_service(board, pod.node_set, owner, row.t_ns) + 1
            allowed = _allowed(owner)
            if out > allowed:
                findings.append(f"{name} was taken out at {at(row.t_ns)} as number {out} of {allowed} allowed")
        board.take(row)
    if findings:
        return broken(NAME, findings)
    return holds(NAME, f"{taken} nodes taken out") if board.sets else unknown(NAME, "no node sets in the rows")


def _could_serve(board: Board, pod: PodState) -> bool:
    """It serves, or would in a moment: a silent node may be back."""
    node = board.nodes.get(pod.name)
    return node is not None and pod.ready and not pod.deleting and not (node.down or node.drained)


def _victims(row: Row) -> list[str]:
    """Nodes that this row takes out by an act of the operator's."""
    if row.kind == "node.drained" and (row.actor == OPERATOR or str(row.details.get("reason", "")).endswith("update")):
        return list(nodes_of(row.node or ""))
    if row.kind == "pod.deleting" and row.actor not in ("user", "admin", "fault"):
        return [str(row.details.get("pod", "")).rpartition("/")[2]]
    return []


def _for_update(pod: PodState, owner: SetState, row: Row) -> bool:
    if owner.deleted or owner.update != "rolling" or pod.revision == owner.revision:
        return False
    return row.kind == "pod.deleting" or str(row.details.get("reason", "")).endswith("update")


def _allowed(owner: SetState) -> int:
    text = owner.max_unavailable
    return max(1, owner.replicas * int(text[:-1]) // 100 if text.endswith("%") else int(text))


def _out_of_service(board: Board, node_set: str, owner: SetState, now: int) -> int:
    """Nodes of the set that do not serve, those left out that broke or were asked for a moment ago."""
    wanted = min(owner.replicas, owner.before) if now - owner.changed_ns < RECENT_NS else owner.replicas
    names = [pod.name for pod in board.pods.values() if pod.node_set == node_set]
    serving = sum(board.serves(name) for name in names)
    fresh = sum(not board.serves(name) and now - board.lost_ns.get(name, -RECENT_NS) < RECENT_NS for name in names)
    return max(0, wanted - serving - fresh)
