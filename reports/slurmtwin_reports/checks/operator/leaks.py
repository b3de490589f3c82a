"""Nothing is left over: no pod without its set, no node record without its pod, no stale drain (X22, X48)."""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.checks.operator.board import OWN_PREFIXES, Board
from slurmtwin_reports.history import History
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "nothing-leaked"


def check(history: History) -> Verdict:
    """Broken for what is left at the end of a quiet run; unknown when the end is not quiet."""
    board = Board()
    for row in history.rows():
        board.take(row)
    if not board.seen_pods:
        return unknown(NAME, "no pod rows")
    if not board.quiet:
        return unknown(NAME, "the run ends before it is quiet")
    findings = [
        f"pod {p.name} outlived its node set {p.node_set}" for p in board.pods.values() if _ownerless(board, p.name)
    ]
    findings += [
        f"Slurm node {name} has no pod"
        for name, node in sorted(board.nodes.items())
        if name not in board.pods and not node.foreign
    ]
    findings += [f"the record of {name} was deleted under its pod" for name in board.dropped if name in board.pods]
    for name, state in sorted(board.sets.items()):
        pods = [pod for pod in board.pods.values() if pod.node_set == name]
        if len(pods) == state.replicas and all(pod.revision == state.revision for pod in pods):
            findings += [f"{pod.name} is still drained: {board.nodes[pod.name].reason}" for pod in pods
                         if _stale_drain(board, pod.name)]  # fmt: skip
    return broken(NAME, findings) if findings else holds(NAME, f"{len(board.pods)} pods, {len(board.nodes)} nodes")


def _ownerless(board: Board, name: str) -> bool:
    owner = board.sets.get(board.pods[name].node_set)
    return owner is not None and owner.deleted


def _stale_drain(board: Board, name: str) -> bool:
    """Drained for a scale-in or an update that is over."""
    node = board.nodes.get(name)
    if node is None or not node.drained or not node.reason.startswith(OWN_PREFIXES):
        return False
    return node.reason.endswith(("scale-in", "update", "is terminating"))
