"""Rows are in order: seq counts from 0 without a gap, time never goes back (DESIGN 2: order is (t_ns, seq))."""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.history import History, at
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "rows-in-order"


def check(history: History) -> Verdict:
    """Broken at a gap of seq or a step back in time; unknown for an empty table."""
    findings: list[str] = []
    count, before = 0, None
    for row in history.rows():
        if row.seq != count:
            findings.append(f"row {count} carries seq {row.seq}")
        if before is not None and row.t_ns < before:
            findings.append(f"row {row.seq} ({row.kind}) at {at(row.t_ns)} follows one at {at(before)}")
        before = row.t_ns
        count += 1
    if findings:
        return broken(NAME, findings)
    return holds(NAME, f"{count} rows") if count else unknown(NAME, "the table has no rows")
