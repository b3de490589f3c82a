"""A run folder from disk: the event table cast to its Arrow schema, the manifest, the workload.

Whatever is broken in a file is an InputError with its place, never a traceback of a library.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import MS, US
from slurmtwin.contract.cluster_facts import ClusterFacts
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.events import COLUMNS, Kind, arrow_schema
from slurmtwin.contract.manifest import read_manifest
from slurmtwin_reports.history import History, Row, facts_in

EVENT_FILES: Final = ("events.parquet", "events.jsonl.gz", "events.jsonl")
_KINDS: Final = frozenset(k.value for k in Kind)
_REQUIRED: Final = frozenset(c.name for c in COLUMNS if not c.nullable)
_NAMES: Final = frozenset(c.name for c in COLUMNS)
_BLOCK: Final = 4_096
"""Lines that are read in one go."""


LOG_ERROR_NS: Final = 750_000
"""Error of a row of slurmctld's log in pods (slurmtwin_e2e.collect.run_events.log_error_ns()): half a millisecond of
cutting and a quarter for the line to be written, about the middle."""
_ROUNDED_NS: Final = US
"""Rows of recordings are rounded to this."""
MOST_KEPT: Final = 65_536
"""Rows of a table that are built once; of a longer one they are built again, so that it costs no memory."""


class TableRows:
    """The rows of an Arrow table: of a long one built batch by batch each time they are walked."""

    def __init__(self, table: Any) -> None:
        self.table = table
        self._kept: list[Row] | None = None

    def __len__(self) -> int:
        return int(self.table.num_rows)

    def __iter__(self) -> Iterator[Row]:
        if self._kept is None and len(self) <= MOST_KEPT:
            self._kept = list(self._built())
        return self._built() if self._kept is None else iter(self._kept)

    def _built(self) -> Iterator[Row]:
        for batch in self.table.select(list(Row._fields)).to_batches(max_chunksize=MOST_KEPT):
            yield from map(Row._make, zip(*(column.to_pylist() for column in batch.columns), strict=True))


def load_run(folder: Path | str, facts: ClusterFacts | None = None) -> History:
    """Read a run folder. `facts` replaces those of the manifest. Raises InputError when a file is missing or broken."""
    folder = Path(folder)
    manifest = read_manifest(folder)
    table = load_table(folder)
    if manifest.world == "kind":
        table = in_their_middle(table, manifest.parameters["epoch_ns"])
    return History(manifest, TableRows(table), load_jobs(folder), facts or facts_in(manifest), str(folder))


def in_their_middle(table: Any, epoch_ns: int) -> Any:
    """The table with each row of slurmctld's log in the middle of its millisecond, where it has the begin.

    log.c cuts its stamps. Recordings have them as they were cut, but rows of slurmd and of silent nodes, which have
    the middle already (slurmtwin_e2e.kind.collect.evidence). Rows that pass others take their places, and their seq.
    """
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc

    begins = table.column("t_ns")
    behind_ns = pc.add(begins, epoch_ns + _ROUNDED_NS)
    behind_ns = pc.subtract(behind_ns, pc.multiply(pc.divide(behind_ns, MS), MS))
    cut = pc.and_(pc.equal(table.column("t_err_ns"), LOG_ERROR_NS), pc.less_equal(behind_ns, 2 * _ROUNDED_NS))
    times = pc.if_else(cut, pc.add(begins, MS // 2), begins)
    order = np.argsort(times.to_numpy(), kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    seq = pa.array(place)
    for name, column in (("t_ns", times), ("seq", seq), ("cause_seq", pc.take(seq, table.column("cause_seq")))):
        table = table.set_column(table.column_names.index(name), table.schema.field(name), column)
    return table.take(pa.array(order))


def load_frame(folder: Path | str) -> Any:
    """The event table as a pandas frame with Arrow-backed columns (nullable int64 and string)."""
    return frame_of(load_table(Path(folder)))


def frame_of(table: Any) -> Any:
    """The pandas frame of an event table."""
    import pandas as pd

    return table.to_pandas(types_mapper=pd.ArrowDtype)


def load_table(folder: Path) -> Any:
    """The event table of a run folder as a pyarrow Table in contract.events' schema, closed kinds and seq checked."""
    for name in EVENT_FILES:
        path = folder / name
        if path.exists():
            table = _read_parquet(path) if path.suffix == ".parquet" else _read_lines(path)
            _validate(table, path)
            return table
    raise InputError(f"no event table: none of {', '.join(EVENT_FILES)} is here", Where(str(folder)))


def load_jobs(folder: Path) -> dict[int, dict[str, Any]]:
    """RUN/jobs.jsonl by job number; empty when the run has none. Raises InputError with file:line."""
    path = folder / "jobs.jsonl"
    jobs: dict[int, dict[str, Any]] = {}
    if not path.exists():
        return jobs
    lines = (line for first, documents in json_blocks(path) for line in enumerate(documents, first))
    for number, document in lines:
        job_id = document.get("job_id")
        if not isinstance(job_id, int) or isinstance(job_id, bool):
            raise InputError("a job without the number job_id", Where(str(path), number))
        if job_id in jobs:
            raise InputError(f"job {job_id} is there twice", Where(str(path), number))
        jobs[job_id] = document
    return jobs


def _read_parquet(path: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path)
        names = table.column_names
    except (pa.ArrowException, OSError, ValueError, KeyError) as error:
        raise InputError(f"not a readable Parquet file: {_first_line(error)}", Where(str(path))) from error
    if sorted(names) != sorted(_NAMES):
        odd = sorted(set(names) ^ _NAMES)
        raise InputError(f"columns differ from the event schema: {', '.join(odd)}", Where(str(path)))
    schema = arrow_schema()
    try:
        table = table.select(schema.names).cast(schema, safe=True)
        table.validate(full=True)  # text that is not UTF-8 shows only here
        return table
    except (pa.ArrowException, ValueError) as error:
        raise InputError(f"a column of another type: {_first_line(error)}", Where(str(path))) from error


def _read_lines(path: Path) -> Any:
    import pyarrow as pa

    schema = arrow_schema()
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for number, documents in json_blocks(path):
        for name, values in columns.items():
            values += [document.get(name) for document in documents]
        if not set().union(*documents) <= _NAMES or any(None in columns[name][number - 1 :] for name in _REQUIRED):
            _say_which(documents, path, number)
    arrays = []
    for column in schema:
        try:
            arrays.append(pa.array(columns[column.name], type=column.type))
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"column {column.name}: {_first_line(error)}", Where(str(path))) from error
    return pa.Table.from_arrays(arrays, schema=schema)


def _say_which(documents: list[dict[str, Any]], path: Path, first: int) -> None:
    """Raise InputError for the first of these rows that has a column too many or too few."""
    for number, document in enumerate(documents, first):
        odd = sorted(set(document) - _NAMES)
        missing = sorted(name for name in _REQUIRED if document.get(name) is None)
        if odd or missing:
            what = f"unknown column {odd[0]}" if odd else f"column {missing[0]} is missing"
            raise InputError(what, Where(str(path), number))


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def json_blocks(path: Path) -> Iterator[tuple[int, list[dict[str, Any]]]]:
    """(number of the first line, objects of that and the next lines). Raises InputError where a line is not one."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    number = 0
    lines: list[str] = []
    try:
        with opener(path, "rt", encoding="utf-8") as stream:
            for number, line in enumerate(stream, 1):
                lines.append(line)
                if len(lines) == _BLOCK:
                    yield number + 1 - len(lines), _objects(lines, path, number + 1 - len(lines))
                    lines = []
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise InputError(f"cannot be read to its end: {error}", Where(str(path), number)) from error
    if lines:
        yield number + 1 - len(lines), _objects(lines, path, number + 1 - len(lines))


def _objects(lines: list[str], path: Path, first: int) -> list[dict[str, Any]]:
    """The objects of lines, read in one go; one by one where that fails, to say which line is wrong."""
    try:
        found = json.loads(f"[{','.join(lines)}]")
    except (ValueError, RecursionError):
        found = []
    if len(found) == len(lines) and all(isinstance(one, dict) for one in found):
        return list(found)
    return [_object(line, path, number) for number, line in enumerate(lines, first)]


def _object(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise InputError(f"not JSON: {error}", Where(str(path), number)) from error
    if not isinstance(document, dict):
        raise InputError("a line that is not a JSON object", Where(str(path), number))
    return document


def _validate(table: Any, path: Path) -> None:
    """Kinds are closed; seq counts from 0 without a gap; one run and one world."""
    import pyarrow.compute as pc

    for name in sorted(_REQUIRED):
        if table[name].null_count:
            raise InputError(f"column {name} has rows without a value", Where(str(path)))
    odd = sorted(set(pc.unique(table["kind"]).to_pylist()) - _KINDS)
    if odd:
        raise InputError(f"unknown event kind {odd[0]!r}", Where(str(path)))
    for name in ("run_id", "world"):
        values = pc.unique(table[name]).to_pylist()
        if len(values) > 1:
            raise InputError(f"rows of more than one {name}: {values[0]!r}, {values[1]!r}", Where(str(path)))
    for name in ("cause_seq", "t_err_ns"):
        lowest = pc.min(table[name]).as_py()
        if lowest is not None and lowest < 0:
            raise InputError(f"a negative {name}", Where(str(path)))
