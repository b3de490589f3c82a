"""Causes point back: a row's cause_seq names an earlier row that did not happen later (style.md 4)."""

from __future__ import annotations

from array import array
from typing import Final

from slurmtwin_reports.history import History, at
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "causes-point-back"


def check(history: History) -> Verdict:
    """Broken when a cause is not an earlier row or surely lies later in time; unknown for an empty table."""
    findings: list[str] = []
    earliest = array("q")
    named = 0
    for row in history.rows():
        cause = row.cause_seq
        if cause is not None:
            named += 1
            if not 0 <= cause < len(earliest):
                findings.append(f"row {row.seq} ({row.kind}) names row {cause} as its cause")
            elif earliest[cause] > row.t_ns + row.t_err_ns:
                findings.append(f"row {row.seq} ({row.kind}) at {at(row.t_ns)} is before its cause, row {cause}")
        earliest.append(row.t_ns - row.t_err_ns)
    if findings:
        return broken(NAME, findings)
    if not earliest:
        return unknown(NAME, "the table has no rows")
    return holds(NAME, f"{named} causes" if named else "no row names a cause")
