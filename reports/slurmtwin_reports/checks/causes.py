"""Causes point back: a row's cause did not surely happen after it (style.md 4).

A row of certain time names an earlier row. Where times are known to an interval the table's order proves nothing (a
stamp cut to whole seconds may sort behind its own receipt): there the intervals must allow the cause to be first.
"""

from __future__ import annotations

from array import array
from typing import Final

from slurmtwin_reports.history import History, Row, at
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "causes-point-back"


def check(history: History) -> Verdict:
    """Broken when a cause is no row, or surely lies later in time; unknown for an empty table."""
    findings: list[str] = []
    earliest = array("q")
    ahead: dict[int, list[Row]] = {}
    named = 0
    for row in history.rows():
        cause = row.cause_seq
        if cause is not None:
            named += 1
            if cause > row.seq:
                ahead.setdefault(cause, []).append(row)
            elif not 0 <= cause < len(earliest):
                findings.append(_no_cause(row, cause))
            elif earliest[cause] > row.t_ns + row.t_err_ns:
                findings.append(_before(row, cause))
        earliest.append(row.t_ns - row.t_err_ns)
        for effect in ahead.pop(row.seq, ()):
            if not (effect.t_err_ns or row.t_err_ns):
                findings.append(_no_cause(effect, row.seq))
            elif earliest[row.seq] > effect.t_ns + effect.t_err_ns:
                findings.append(_before(effect, row.seq))
    findings += [_no_cause(effect, cause) for cause, effects in ahead.items() for effect in effects]
    if findings:
        return broken(NAME, findings)
    if not earliest:
        return unknown(NAME, "the table has no rows")
    return holds(NAME, f"{named} causes" if named else "no row names a cause")


def _no_cause(row: Row, cause: int) -> str:
    return f"row {row.seq} ({row.kind}) names row {cause} as its cause"


def _before(row: Row, cause: int) -> str:
    return f"row {row.seq} ({row.kind}) at {at(row.t_ns)} is before its cause, row {cause}"
