"""Events as Arrow columns in a Parquet file: blocks of rows become columns at once, and their hash text with them.

Nothing here looks at a single row: a million events cost a second. The text equals contract.events.hash_line of
each row (a test compares them). pyarrow is imported at the first block: it is an extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.events import Event, arrow_schema

if TYPE_CHECKING:
    from slurmtwin.engine.event_sink import Row

GROUP_ROWS: Final = 65_536
"""Rows of the file's row groups, at least."""
FILLED: Final = Event._fields[:11]
"""The columns that a row of the sink may give: the first nine, or all; the others are the same in every row."""
_CONSTANT: Final = ("0", "None", "None\n")
"""t_err_ns, pod_uid and cluster as hash_line writes them, where a row does not give them."""


class ParquetEvents:
    """One events.parquet under way."""

    def __init__(self, run_id: str, world: str, path: Path) -> None:
        self._run_id = run_id
        self._world = world
        self._path = path
        self._writer: Any = None
        self._group: list[Any] = []
        self._rows = 0

    def add(self, rows: Sequence[Row], first: int) -> memoryview:
        """Take a block whose first row has seq `first`; returns the block's text for the event hash."""
        import pyarrow as pa
        import pyarrow.compute as pc

        schema = arrow_schema()
        columns = {
            name: pa.array(values, schema.field(name).type)
            for name, values in zip(FILLED[: len(rows[0])], zip(*rows, strict=True), strict=True)
        }
        self.add_columns(columns, len(rows), first)
        texts = [column.cast(pa.string()) for column in columns.values()]
        lines = pc.binary_join_element_wise(
            *texts, *_CONSTANT[len(texts) - 9 :], "\t", null_handling="replace", null_replacement="None"
        )  # fmt: skip
        ends, text = memoryview(lines.buffers()[1]).cast("i"), memoryview(lines.buffers()[2])
        return text[: ends[len(rows)]]

    def add_columns(self, columns: dict[str, Any], count: int, first: int) -> None:
        """Take `count` rows, the first of seq `first`, as Arrow arrays of the columns of FILLED."""
        import pyarrow as pa

        table = pa.Table.from_arrays(self._all_columns(columns, count, first), schema=arrow_schema())
        self._group.append(table)
        self._rows += count
        if self._rows >= GROUP_ROWS:
            self._write()

    def _all_columns(self, columns: dict[str, Any], count: int, first: int) -> list[Any]:
        import pyarrow as pa

        same = {"run_id": self._run_id, "world": self._world, "t_err_ns": 0}
        out: list[Any] = []
        for field in arrow_schema():
            if field.name in columns:
                out.append(columns[field.name])
            elif field.name == "seq":
                out.append(pa.array(range(first, first + count), field.type))
            elif field.name in same:
                out.append(pa.repeat(pa.scalar(same[field.name], field.type), count))
            else:
                out.append(pa.nulls(count, field.type))
        return out

    def _write(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if self._writer is None:
            self._writer = pq.ParquetWriter(str(self._path), arrow_schema(), compression="zstd")
        if self._group:
            self._writer.write_table(pa.concat_tables(self._group).combine_chunks())
            self._group = []
            self._rows = 0

    def abandon(self) -> None:
        """Close the unfinished file, if there is one."""
        if self._writer is not None:
            self._writer.close()

    def close(self) -> None:
        """Write what is left, and the file's footer; a file without rows is a file too."""
        self._write()
        self._writer.close()
