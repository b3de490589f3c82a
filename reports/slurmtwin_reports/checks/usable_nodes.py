"""Nobody starts on a node that is DOWN, drained, not responding, INVAL or gone (slurm.md 4.1 "Schedulable").

Silence is judged only where all is seen: real slurmctld clears NO_RESPOND at a registration without a log line.
"""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.history import History, Row, at, label, loses_state, nodes_of
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "usable-nodes"

BARS: Final = {
    "node.down": "DOWN", "node.drained": "drained", "node.not_responding": "not responding",
    "node.invalid": "INVAL", "node.deleted": "deleted",
}  # fmt: skip
CLEARS: Final = {
    "node.up": ("DOWN",),
    "node.resumed": ("DOWN", "drained"),
    "node.responding": ("not responding",),
    "node.registered": ("not responding", "INVAL"),
    "node.created": ("deleted",),
}


def check(history: History) -> Verdict:
    """Broken for a start that surely came after the node became unusable; unknown when no job started."""
    findings: list[str] = []
    barred: dict[str, dict[str, int]] = {}
    starts, forgotten = 0, False
    for row in history.rows():
        if row.kind in BARS and (history.sees_all or row.kind != "node.not_responding"):
            for node in nodes_of(row.node or ""):
                barred.setdefault(node, {})[BARS[row.kind]] = row.t_ns + row.t_err_ns
        elif row.kind in CLEARS:
            for node in nodes_of(row.node or ""):
                for word in CLEARS[row.kind]:
                    barred.get(node, {}).pop(word, None)
        elif row.kind == "fault.injected":
            forgotten = forgotten or loses_state(row)
        elif row.kind in ("slurmctld.started", "slurmctld.took_over"):
            barred = _after_restart(barred, forgotten)
            forgotten = False
        elif row.kind == "job.started":
            starts += 1
            if barred:
                findings += _misplaced(row, barred)
    if findings:
        return broken(NAME, findings)
    return holds(NAME, f"{starts} starts") if starts else unknown(NAME, "no job started")


def _after_restart(barred: dict[str, dict[str, int]], forgotten: bool) -> dict[str, dict[str, int]]:
    """DOWN and DRAIN are saved state, silence is found anew (slurm.md 5.2); a lost state forgets all."""
    if forgotten:
        return {}
    kept = {n: {w: t for w, t in words.items() if w != "not responding"} for n, words in barred.items()}
    return {n: words for n, words in kept.items() if words}


def _misplaced(row: Row, barred: dict[str, dict[str, int]]) -> list[str]:
    out = []
    for node in nodes_of(row.node or ""):
        words = [word for word, since in barred.get(node, {}).items() if since < row.t_ns - row.t_err_ns]
        if words:
            out.append(f"job {label(row.key)} started at {at(row.t_ns)} on {node}, which was {' and '.join(words)}")
    return out
