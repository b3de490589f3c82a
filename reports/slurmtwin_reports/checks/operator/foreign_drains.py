"""A drain that somebody else set is never undone by the operator (issue SO#3; scenarios X44, X45)."""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.checks.operator.board import OPERATOR, Board, is_own_action
from slurmtwin_reports.history import History, Row, at, nodes_of
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "no-foreign-drain-undone"
NEAR_NS: Final = 2_000_000_000
"""A resume that slurmctld reports this close to the operator's own resume was the operator's."""


def check(history: History) -> Verdict:
    """Broken when a node with a foreign drain is resumed, or its record deleted, by the operator."""
    acts = [(row.node or "", row.t_ns) for row in history.rows() if is_own_action(row, "resume", "delete-slurm-node")]
    board, findings, drains = Board(), [], 0
    for row in history.rows():
        if row.kind in ("node.resumed", "node.deleted"):
            for name in nodes_of(row.node or ""):
                state = board.nodes.get(name)
                if state is not None and state.foreign and _by_operator(row, name, acts):
                    verb = row.kind.partition(".")[2]
                    findings.append(f"{name}, drained by somebody else ({state.reason}), was {verb} at {at(row.t_ns)}")
        board.take(row)
        if row.kind == "node.drained":
            drains += sum(board.nodes[name].foreign for name in nodes_of(row.node or ""))
    if findings:
        return broken(NAME, findings)
    return holds(NAME, f"{drains} foreign drains") if board.seen_pods else unknown(NAME, "no pod rows")


def _by_operator(row: Row, name: str, acts: list[tuple[str, int]]) -> bool:
    return row.actor == OPERATOR or any(node == name and abs(t - row.t_ns) <= NEAR_NS for node, t in acts)
