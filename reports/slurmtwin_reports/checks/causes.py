"""Causes point back: a row's cause did not surely happen after it (style.md 4).

A row of certain time names an earlier row. Where times are known to an interval the table's order proves nothing (a
stamp cut to whole seconds may sort behind its own receipt): there the intervals must allow the cause to be first.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass
from typing import Final

from slurmtwin_reports.history import History, Row, at
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "causes-point-back"


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A row whose cause is not read yet."""

    row: Row
    latest_ns: int


def check(history: History) -> Verdict:
    """Broken when a cause is no row, or surely lies later in time; unknown for an empty table."""
    findings: list[str] = []
    earliest = array("q")
    vague = bytearray()
    ahead: dict[int, list[_Waiting]] = {}
    named = 0
    for row in history.rows():
        latest = row.t_ns + row.t_err_ns
        cause = row.cause_seq
        if cause is not None:
            named += 1
            if cause > row.seq:
                ahead.setdefault(cause, []).append(_Waiting(row, latest))
            elif not 0 <= cause < len(earliest):
                findings.append(f"row {row.seq} ({row.kind}) names row {cause} as its cause")
            elif earliest[cause] > latest:
                findings.append(_before(row, cause))
        earliest.append(row.t_ns - row.t_err_ns)
        vague.append(row.t_err_ns > 0)
        for effect in ahead.pop(row.seq, ()):
            if not (vague[effect.row.seq] or vague[row.seq]):
                findings.append(f"row {effect.row.seq} ({effect.row.kind}) names row {row.seq} as its cause")
            elif earliest[row.seq] > effect.latest_ns:
                findings.append(_before(effect.row, row.seq))
    findings += [
        f"row {effect.row.seq} ({effect.row.kind}) names row {cause} as its cause"
        for cause, effects in ahead.items()
        for effect in effects
    ]
    if findings:
        return broken(NAME, findings)
    if not earliest:
        return unknown(NAME, "the table has no rows")
    return holds(NAME, f"{named} causes" if named else "no row names a cause")


def _before(row: Row, cause: int) -> str:
    return f"row {row.seq} ({row.kind}) at {at(row.t_ns)} is before its cause, row {cause}"
