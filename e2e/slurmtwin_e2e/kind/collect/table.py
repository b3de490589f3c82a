"""All sources of a run to one event table, in time order, receipts tied to the stamps they belong to."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from slurmtwin.contract.events import Event, Kind
from slurmtwin_e2e.collect.run_events import detail, rounded
from slurmtwin_e2e.kind.collect.clocks import Offset
from slurmtwin_e2e.kind.faults.schedule import Step

STEPS: Final = {
    "injected": (Kind.FAULT_INJECTED, None), "proven": (Kind.FAULT_PROVEN, "proof"),
    "cleared": (Kind.FAULT_CLEARED, None), "signalled": (Kind.FAULT_SIGNALLED, "signal"),
}  # fmt: skip
"""Step of a fault -> its row, and the detail that has its text; one without was planned, and may be late."""


def fault_rows(steps: Sequence[Step], faults: Sequence[dict[str, Any]], zero_ns: int) -> list[Event]:
    """Rows of the faults' steps: the call's own time, its duration as the error."""
    out = []
    for step in steps:
        if step.what not in STEPS:
            continue
        kind, says = STEPS[step.what]
        middle, half = (step.before_ns + step.after_ns) // 2 - zero_ns, (step.after_ns - step.before_ns) // 2 + 1
        if step.what == "proven":  # the effect was there when the proof was complete, and not before the call
            middle, half = step.after_ns - zero_ns, (step.after_ns - step.before_ns) // 2 + 1
        late, unit = (step.before_ns - step.planned_ns, "ns") if says is None else (None, None)
        text = detail(fault=faults[step.number], **{says: step.text} if says else {})
        out.append(Event(middle, kind, "fault", None, step.node, late, unit, text, t_err_ns=half))
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
