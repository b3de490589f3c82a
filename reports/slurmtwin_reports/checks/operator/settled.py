"""Eventually stable: an operator that was left alone stops writing, and does not change its mind (X12, X36; Anvil)."""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.checks.operator.board import OPERATOR, OWN_PREFIXES, PEOPLE
from slurmtwin_reports.history import History, Row, at, nodes_of
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "eventually-stable"
SETTLE_NS: Final = 600_000_000_000
"""The longest timers an operator may wait for: SlurmdTimeout, a minute for a lost pod, two requeue holds."""
MOST_DRAINS: Final = 2
"""Drains of one node by the operator between two causes from outside."""
CAUSES: Final = (
    "fault.injected", "fault.cleared", "object.changed", "job.submitted", "job.ended", "job.requeued", "pod.ended",
    "kube_node.deleted",
)  # fmt: skip


def check(history: History) -> Verdict:
    """Broken when it acts long after the last cause, or drains one node again and again without a cause."""
    last_cause, last_act, acts = 0, None, 0
    drains: dict[str, int] = {}
    findings: list[str] = []
    for row in history.rows():
        if _is_cause(row):
            last_cause = row.t_ns
            drains.clear()
        elif row.kind in ("action.issued", "action.failed"):
            acts += 1
            last_act = row
            if row.t_ns - last_cause > SETTLE_NS:
                findings.append(f"{_act(row)} at {at(row.t_ns)}, the last cause was at {at(last_cause)}")
        elif row.kind == "node.drained" and str(row.details.get("reason", "")).startswith(OWN_PREFIXES):
            for name in nodes_of(row.node or ""):
                drains[name] = drains.get(name, 0) + 1
                if drains[name] > MOST_DRAINS:
                    findings.append(f"{name} was drained {drains[name]} times without a cause by {at(row.t_ns)}")
    if findings:
        return broken(NAME, findings)
    return holds(NAME, f"{acts} actions") if last_act is not None else unknown(NAME, "no actions in the rows")


def _is_cause(row: Row) -> bool:
    return row.kind in CAUSES or (row.actor in PEOPLE and row.actor != OPERATOR)


def _act(row: Row) -> str:
    return f"{row.details.get('do')} of {row.node}"
