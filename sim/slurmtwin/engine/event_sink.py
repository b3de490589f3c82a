"""Where events go: counted and hashed as they come, streamed to a file in blocks, kept only if asked.

The sink is an observer: it never changes a run (after trio's Instrument). The hash covers what the world
decided, in order, independent of block size and file format (contract.events.hash_line).
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final, Protocol

from slurmtwin.contract.events import COLUMNS, EVENT_SCHEMA, Event, Kind, hash_line
from slurmtwin.engine.parquet_events import ParquetEvents

BLOCK_ROWS: Final = 8192
"""Rows that are hashed, turned into columns and forgotten together."""

Row = tuple[Any, ...]
"""The first columns of Event: NARROW of them, or two more (t_err_ns, pod_uid) in a row of a pod."""
NARROW: Final = 9


class Block(Protocol):
    """Rows of a compiled run (models/slurmctld/compiled/table.py)."""

    count: int
    text: memoryview
    """contract.events.hash_line() of each row, one after the other."""

    def columns(self) -> dict[str, Any]:
        """Arrow arrays of the columns that a row of the sink gives."""
        ...

    def events(self) -> list[Event]:
        """The rows one by one."""
        ...


_DETAIL: Final = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
_QUOTED: Final = json.encoder.encode_basestring_ascii


class EventSink:
    """Counts, hashes and forwards events. `write_to` names a file: .parquet, .jsonl or .jsonl.gz.

    `keep` holds all events in memory as well, for tests and short runs.
    """

    def __init__(self, run_id: str, world: str, write_to: Path | None = None, keep: bool = False) -> None:
        self.run_id = run_id
        self.world = world
        self.kept: list[Event] | None = [] if keep else None
        self._hash = hashlib.blake2b(digest_size=16)
        self._block: list[Row] = []
        self._wide = False
        """The block holds rows of pods."""
        self._flushed = 0
        self._target = write_to
        self._part = write_to.with_name(f".{write_to.name}.part") if write_to else None
        self._parquet: ParquetEvents | None = None
        if self._part is not None and write_to is not None and write_to.suffix == ".parquet":
            self._parquet = ParquetEvents(run_id, world, self._part)
        self._text: IO[str] | None = None

    @property
    def count(self) -> int:
        """Rows so far."""
        return self._flushed + len(self._block)

    def emit(
        self,
        t_ns: int,
        kind: Kind,
        actor: str,
        job_id: int | None = None,
        node: str | None = None,
        value: int | None = None,
        unit: str | None = None,
        detail: str | None = None,
        cause_seq: int | None = None,
    ) -> None:
        """Add one row. `detail` is a JSON object text with sorted keys (see `detail_text`)."""
        block = self._block
        block.append((t_ns, kind, actor, job_id, node, value, unit, detail, cause_seq))
        if len(block) >= BLOCK_ROWS:
            self._flush()

    def emit_pod(
        self, t_ns: int, kind: Kind, actor: str, pod_uid: str | None, node: str | None = None, value: int | None = None,
        unit: str | None = None, detail: str | None = None, cause_seq: int | None = None,
    ) -> int:  # fmt: skip
        """Add one row about a pod or a Kubernetes object; returns its seq."""
        block = self._block
        seq = self._flushed + len(block)
        self._wide = True
        block.append((t_ns, kind, actor, None, node, value, unit, detail, cause_seq, 0, pod_uid))
        if len(block) >= BLOCK_ROWS:
            self._flush()
        return seq

    def add(self, event: Event) -> None:
        """Add one ready row, as another world made it; not for a Parquet file, whose blocks hold the twin's rows."""
        assert self._parquet is None
        self._flush()
        self._take([event])
        self._flushed += 1

    def add_block(self, block: Block) -> None:
        """Add many rows at once, which are columns already."""
        self._flush()
        self._hash.update(block.text)
        if self._parquet is not None:
            self._parquet.add_columns(block.columns(), block.count, self._flushed)
        elif self._target is not None:
            self._write_lines(block.events())
        if self.kept is not None:
            self.kept += block.events()
        self._flushed += block.count

    def _flush(self) -> None:
        block = self._block
        if not block:
            return
        if self._parquet is not None:
            if self._wide:
                block[:] = [row if len(row) > NARROW else (*row, 0, None) for row in block]
            self._hash.update(self._parquet.add(block, self._flushed))
            if self.kept is not None:
                self.kept += [Event(*row) for row in block]
        elif self.kept is None and self._target is None:
            self._hash.update("".join(map(_line, block)).encode())
        else:
            self._take([Event(*row) for row in block])
        self._flushed += len(block)
        self._wide = False
        block.clear()

    def _take(self, events: list[Event]) -> None:
        """Hash, write and keep rows one by one."""
        self._hash.update("".join(map(hash_line, events)).encode())
        if self._target is not None:
            self._write_lines(events)
        if self.kept is not None:
            self.kept += events

    def _write_lines(self, events: list[Event]) -> None:
        assert self._part is not None
        if self._text is None:
            opener: Any = gzip.open if self._part.suffixes[-2:] == [".gz", ".part"] else open
            self._text = opener(self._part, "wt", encoding="utf-8")
        for place, event in enumerate(events, self._flushed):
            self._text.write(row_json(self.run_id, self.world, place, event) + "\n")

    def close(self) -> None:
        """Flush, and give the file its name. Without this the target does not exist."""
        self._flush()
        if self._target is None:
            return
        if self._parquet is not None:
            self._parquet.close()
        else:
            self._write_lines([])
            assert self._text is not None
            self._text.close()
        assert self._part is not None
        self._part.replace(self._target)

    def abandon(self) -> None:
        """Throw away an unfinished file."""
        if self._parquet is not None:
            self._parquet.abandon()
        if self._text is not None:
            self._text.close()
        if self._part is not None:
            self._part.unlink(missing_ok=True)

    @property
    def event_hash(self) -> str:
        """Hex hash over all rows so far."""
        self._flush()
        return self._hash.hexdigest()


def _line(row: tuple[Any, ...]) -> str:
    """hash_line() of a row as the sink has it."""
    more = f"{row[9]}\t{row[10]}" if len(row) > NARROW else "0\tNone"
    return (
        f"{row[0]}\t{row[1]._value_}\t{row[2]}\t{row[3]}\t{row[4]}\t{row[5]}\t{row[6]}\t{row[7]}\t{row[8]}"
        f"\t{more}\tNone\n"
    )


def detail_text(**values: Any) -> str:
    """The canonical JSON text of a detail column: sorted keys, no spaces."""
    return text_of(values)


def text_of(values: Mapping[str, Any]) -> str:
    """detail_text() of a mapping."""
    parts = []
    for name in sorted(values):
        value = values[name]
        if type(value) is str:
            parts.append(f'"{name}":{_QUOTED(value)}')
        elif type(value) is int:
            parts.append(f'"{name}":{value}')
        else:
            return _DETAIL(dict(values))
    return "{" + ",".join(parts) + "}"


def row_json(run_id: str, world: str, seq: int, event: Event) -> str:
    """One line of an events.jsonl file, all columns in the table's order."""
    row: dict[str, Any] = {"run_id": run_id, "world": world, "seq": seq}
    values = event._asdict()
    for column in COLUMNS[3:]:
        row[column.name] = values[column.name]
    row["kind"] = event.kind.value
    return json.dumps(row, separators=(",", ":"))


__all__ = ["BLOCK_ROWS", "EVENT_SCHEMA", "EventSink", "detail_text", "row_json", "text_of"]
