"""Where events go: counted and hashed as they come, streamed to a file in blocks, kept only if asked.

The sink is an observer: it never changes a run (after trio's Instrument). The hash covers what the world
decided, in order, independent of block size and file format (contract.events.hash_line).
"""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path
from typing import IO, Any, Final

from slurmtwin.contract.events import COLUMNS, EVENT_SCHEMA, Event, Kind, arrow_schema, hash_line

BLOCK_ROWS: Final = 16_384


class EventSink:
    """Counts, hashes and forwards events. `write_to` names a file: .parquet, .jsonl or .jsonl.gz.

    `keep` holds all events in memory as well, for tests and short runs.
    """

    def __init__(self, run_id: str, world: str, write_to: Path | None = None, keep: bool = False) -> None:
        self.run_id = run_id
        self.world = world
        self.count = 0
        self.kept: list[Event] | None = [] if keep else None
        self._hash = hashlib.blake2b(digest_size=16)
        self._block: list[Event] = []
        self._target = write_to
        self._part = write_to.with_name(f".{write_to.name}.part") if write_to else None
        self._parquet: Any = None
        self._text: IO[str] | None = None

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
    ) -> int:
        """Add one row; returns its seq. `detail` is a JSON object text with sorted keys (see `detail_text`)."""
        block = self._block
        block.append(Event(t_ns, kind, actor, job_id, node, value, unit, detail, cause_seq))
        seq = self.count
        self.count = seq + 1
        if len(block) >= BLOCK_ROWS:
            self._flush()
        return seq

    def add(self, event: Event) -> int:
        """Add one ready row; returns its seq."""
        self._block.append(event)
        seq = self.count
        self.count = seq + 1
        if len(self._block) >= BLOCK_ROWS:
            self._flush()
        return seq

    def _flush(self) -> None:
        block = self._block
        if not block:
            return
        self._hash.update("".join(map(hash_line, block)).encode())
        first = self.count - len(block)
        if self._target is not None:
            self._write(block, first)
        if self.kept is not None:
            self.kept.extend(block)
        self._block = []

    def _write(self, block: list[Event], first: int) -> None:
        assert self._target is not None
        if self._target.suffix == ".parquet":
            self._write_parquet(block, first)
            return
        assert self._part is not None
        if self._text is None:
            opener: Any = gzip.open if self._target.suffix == ".gz" else open
            self._text = opener(self._part, "wt", encoding="utf-8")
        for place, event in enumerate(block, first):
            self._text.write(row_json(self.run_id, self.world, place, event) + "\n")

    def _write_parquet(self, block: list[Event], first: int) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = arrow_schema()
        if self._parquet is None:
            self._parquet = pq.ParquetWriter(str(self._part), schema, compression="zstd")
        columns: dict[str, Any] = {
            "run_id": [self.run_id] * len(block),
            "world": [self.world] * len(block),
            "seq": range(first, first + len(block)),
        }
        values = zip(*block, strict=True) if block else [()] * len(Event._fields)
        columns.update(zip(Event._fields, values, strict=True))
        arrays = [pa.array(columns[f.name], type=f.type) for f in schema]
        table = pa.Table.from_arrays(arrays, schema=schema)
        self._parquet.write_table(table)

    def close(self) -> None:
        """Flush, and give the file its name. Without this the target does not exist."""
        self._flush()
        if self._target is None:
            return
        if self._parquet is None and self._text is None:
            self._write([], 0)
        if self._parquet is not None:
            self._parquet.close()
        if self._text is not None:
            self._text.close()
        assert self._part is not None
        self._part.replace(self._target)

    def abandon(self) -> None:
        """Throw away an unfinished file."""
        if self._parquet is not None:
            self._parquet.close()
        if self._text is not None:
            self._text.close()
        if self._part is not None:
            self._part.unlink(missing_ok=True)

    @property
    def event_hash(self) -> str:
        """Hex hash over all rows so far."""
        self._flush()
        return self._hash.hexdigest()


def detail_text(**values: Any) -> str:
    """The canonical JSON text of a detail column: sorted keys, no spaces."""
    return json.dumps(values, sort_keys=True, separators=(",", ":"))


def row_json(run_id: str, world: str, seq: int, event: Event) -> str:
    """One line of an events.jsonl file, all columns in the table's order."""
    row: dict[str, Any] = {"run_id": run_id, "world": world, "seq": seq}
    values = event._asdict()
    for column in COLUMNS[3:]:
        row[column.name] = values[column.name]
    row["kind"] = event.kind.value
    return json.dumps(row, separators=(",", ":"))


__all__ = ["BLOCK_ROWS", "EVENT_SCHEMA", "EventSink", "detail_text", "row_json"]
