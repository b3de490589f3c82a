"""A block of events as the sink wants it: text for the hash, Arrow columns for the file, or Event by Event.

The text is that of contract.events.hash_line(), byte by byte; a test compares the hashes of whole runs.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import numpy as np

from slurmtwin.contract.events import Event
from slurmtwin.models.slurmctld.compiled.forms import FORMS
from slurmtwin.models.slurmctld.compiled.jit import kept
from slurmtwin.models.slurmctld.compiled.layout import (
    ROW_FORM,
    ROW_JOB,
    ROW_NUMBER,
    ROW_TEXT,
    ROW_TIME,
    ROW_VALUE,
    Array,
    Bytes,
)

HAS_JOB, HAS_NODE, HAS_VALUE, HAS_NUMBER = 1, 2, 4, 8
_PIECES: Final = 5
"""Texts of a form: kind and actor; unit; detail before and behind its number; what follows."""
_LONGEST_LINE: Final = 260
"""Without the node."""
_NONE: Final = np.frombuffer(b"None", np.uint8)


@lru_cache(maxsize=1)
def _pieces() -> tuple[Any, Any, Any]:
    """(texts of all forms, where they end, flags)."""
    texts: list[bytes] = []
    flags: list[int] = []
    for form in FORMS:
        detail = "None" if form.before is None else form.before
        texts += [
            f"\t{form.kind.value}\t{form.actor}\t".encode(), f"\t{form.unit}\t".encode(), detail.encode(),
            form.after.encode(), b"\tNone\t0\tNone\tNone\n",
        ]  # fmt: skip
        flags.append(
            HAS_JOB * form.job + HAS_NODE * form.node + HAS_VALUE * bool(form.unit) + HAS_NUMBER * form.numbered
        )
    ends = np.cumsum([0] + [len(text) for text in texts])
    return np.frombuffer(b"".join(texts), np.uint8), ends, np.array(flags)


@kept
def _copy(source: Bytes, begin: int, end: int, out: Bytes, at: int) -> int:
    for i in range(begin, end):
        out[at] = source[i]
        at += 1
    return at


@kept
def _number(number: int, out: Bytes, at: int) -> int:
    if number < 0:
        out[at] = 45
        at += 1
        number = -number
    left = number // 10
    at += 1
    end = at
    while left:
        left //= 10
        end += 1
    for place in range(end - 1, at - 2, -1):
        out[place] = 48 + number % 10
        number //= 10
    return end


@kept
def _write_lines(
    rows: Array, count: int, text: Bytes, pieces: Bytes, ends: Array, flags: Array, none: Bytes, out: Bytes,
    detail: Bytes, detail_ends: Array,
) -> int:  # fmt: skip
    """The lines of all events into `out`, their details into `detail`; how long the lines are."""
    at = told = node = 0
    for row in range(count):
        form = rows[row, ROW_FORM]
        has, piece = flags[form], form * _PIECES
        at = _number(rows[row, ROW_TIME], out, at)
        at = _copy(pieces, ends[piece], ends[piece + 1], out, at)
        at = _number(rows[row, ROW_JOB], out, at) if has & HAS_JOB else _copy(none, 0, 4, out, at)
        out[at] = 9
        at = _copy(text, node, rows[row, ROW_TEXT], out, at + 1) if has & HAS_NODE else _copy(none, 0, 4, out, at + 1)
        node = rows[row, ROW_TEXT]
        out[at] = 9
        at = _number(rows[row, ROW_VALUE], out, at + 1) if has & HAS_VALUE else _copy(none, 0, 4, out, at + 1)
        at = _copy(pieces, ends[piece + 1], ends[piece + 2], out, at)
        begin = at
        at = _copy(pieces, ends[piece + 2], ends[piece + 3], out, at)
        if has & HAS_NUMBER:
            at = _number(rows[row, ROW_NUMBER], out, at)
        at = _copy(pieces, ends[piece + 3], ends[piece + 4], out, at)
        told = _copy(out, begin, at, detail, told)
        detail_ends[row + 1] = told
        at = _copy(pieces, ends[piece + 4], ends[piece + 5], out, at)
    return at


class Block:
    """Events taken out of a compiled run (engine/event_sink.py takes it)."""

    def __init__(self, rows: Any, text: Any) -> None:
        """rows: as layout.ROW_FIELDS says; text: their nodes, one after the other. Both are only read."""
        self.count = len(rows)
        self._rows = rows
        self._nodes = text
        pieces, ends, flags = _pieces()
        size = _LONGEST_LINE * self.count + len(text)
        out = np.empty(size, np.uint8)
        self._details = np.empty(size, np.uint8)
        self._detail_ends = np.zeros(self.count + 1, np.int32)
        length = _write_lines(
            rows, self.count, text, pieces, ends, flags, _NONE, out, self._details, self._detail_ends
        )  # fmt: skip
        self.text: memoryview = out[:length].data

    def columns(self) -> dict[str, Any]:
        """Arrow arrays by column name, of the columns that differ from event to event."""
        import pyarrow as pa

        forms = np.ascontiguousarray(self._rows[:, ROW_FORM])
        flags = _pieces()[2][forms]
        codes = pa.array(forms.astype(np.int32))
        ends = np.zeros(self.count + 1, np.int32)
        ends[1:] = self._rows[:, ROW_TEXT]
        told = self._details[: self._detail_ends[-1]]
        numbers = {name: np.ascontiguousarray(self._rows[:, place]) for name, place in _NUMBERS.items()}
        without_detail = np.array([form.before is None for form in FORMS])[forms]
        return {
            "t_ns": pa.array(numbers["t_ns"]),
            "kind": pa.array([form.kind.value for form in FORMS]).take(codes),
            "actor": pa.array([form.actor for form in FORMS]).take(codes),
            "job_id": pa.array(numbers["job_id"], mask=flags & HAS_JOB == 0),
            "node": _strings(ends, self._nodes, flags & HAS_NODE == 0),
            "value": pa.array(numbers["value"], mask=flags & HAS_VALUE == 0),
            "unit": pa.array([form.unit for form in FORMS]).take(codes),
            "detail": _strings(self._detail_ends, told, without_detail),
            "cause_seq": pa.nulls(self.count, pa.int64()),
        }

    def events(self) -> list[Event]:
        """One Event each."""
        columns = self.columns()
        kinds = [form.kind for form in FORMS]
        columns["kind"] = [kinds[form] for form in self._rows[:, ROW_FORM].tolist()]
        values = [c if isinstance(c, list) else c.to_pylist() for c in columns.values()]
        return [Event(*row) for row in zip(*values, strict=True)]


_NUMBERS: Final = {"t_ns": ROW_TIME, "job_id": ROW_JOB, "value": ROW_VALUE}


def _strings(ends: Any, text: Any, null: Any) -> Any:
    """A string array out of its buffers."""
    import pyarrow as pa

    valid = pa.py_buffer(np.packbits(~null, bitorder="little").tobytes())
    buffers = [valid, pa.py_buffer(ends.tobytes()), pa.py_buffer(text.tobytes())]
    return pa.StringArray.from_buffers(len(ends) - 1, buffers[1], buffers[2], buffers[0], int(null.sum()))
