"""All sources of a run to one event table, in time order, receipts tied to the stamps they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from slurmtwin.contract.events import Event, Kind
from slurmtwin_e2e.collect.run_events import detail, rounded
from slurmtwin_e2e.kind.collect.clocks import Offset
from slurmtwin_e2e.kind.faults.schedule import Step

SAYS: Final = {"proven": "proof", "signalled": "signal"}
"""Step of a fault -> the detail that has its text."""


def fault_rows(steps: Sequence[Step], faults: Sequence[dict[str, Any]], zero_ns: int) -> list[Event]:
    """Rows of the faults' steps: the call's own time, its duration as the error."""
    kinds = {
        "injected": Kind.FAULT_INJECTED, "proven": Kind.FAULT_PROVEN, "cleared": Kind.FAULT_CLEARED,
        "signalled": Kind.FAULT_SIGNALLED,
    }  # fmt: skip
    out = []
    for step in steps:
        if step.what not in kinds:
            continue
        middle, half = (step.before_ns + step.after_ns) // 2 - zero_ns, (step.after_ns - step.before_ns) // 2 + 1
        if step.what == "proven":  # the effect was there when the proof was complete, and not before the call
            middle, half = step.after_ns - zero_ns, (step.after_ns - step.before_ns) // 2 + 1
        called = step.what in ("injected", "cleared")
        late = step.before_ns - step.planned_ns
        text = detail(fault=faults[step.number], **{SAYS[step.what]: step.text or None} if step.what in SAYS else {})
        out.append(
            Event(middle, kinds[step.what], "fault", None, step.node, late if called else None,
                  "ns" if called else None, text, t_err_ns=half)
        )  # fmt: skip
    return out


def clock_rows(offsets: Sequence[Offset], t_ns: int) -> list[Event]:
    """One row per measured clock."""
    return [
        Event(t_ns, Kind.CLOCK_MEASURED, "collector", None, o.source, o.value_ns, "ns", t_err_ns=o.error_ns)
        for o in offsets
    ]


def merge(rows: Sequence[Event], tied: Sequence[tuple[Event, Event | None]], zero_ns: int) -> list[Event]:
    """The whole table. `tied` has unix times: (receipt, the object's own row or None); `rows` are relative to zero."""
    entries: list[tuple[Event, int | None]] = [(row, None) for row in rows]
    for seen, own in tied:
        entries.append((seen._replace(t_ns=seen.t_ns - zero_ns), None))
        if own is not None:
            entries[-1] = (entries[-1][0], len(entries))
            entries.append((own._replace(t_ns=own.t_ns - zero_ns), None))
    order = sorted(range(len(entries)), key=lambda number: entries[number][0].t_ns)
    place = {number: seq for seq, number in enumerate(order)}
    out = []
    for number in order:
        row, origin = entries[number]
        out.append(rounded(row._replace(cause_seq=place[origin]) if origin is not None else row))
    return out
