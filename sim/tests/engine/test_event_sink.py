"""The sink hashes what the world decided, whatever the file form, and never leaves half a file."""

import gzip
import json
from pathlib import Path

import jsonschema
import pyarrow.parquet as pq
import pytest

from slurmtwin.contract.events import COLUMNS, Event, Kind, arrow_schema, json_schema
from slurmtwin.engine.event_sink import BLOCK_ROWS, EventSink, detail_text


def fill(sink: EventSink, rows: int) -> str:
    for i in range(rows):
        sink.emit(i, Kind.JOB_STARTED, "slurmctld", i % 7, "n[1-2]", 4, "cpu", detail_text(by="main", a="ü\t\n"))
    sink.close()
    return sink.event_hash


@pytest.mark.parametrize("rows", [0, 1, BLOCK_ROWS, BLOCK_ROWS + 1])
def test_hash_and_rows_do_not_depend_on_the_file_form(tmp_path: Path, rows: int) -> None:
    """Parquet, JSON Lines and nothing at all give one hash; both files hold the same rows."""
    parquet, lines = tmp_path / "events.parquet", tmp_path / "events.jsonl.gz"
    hashes = {fill(EventSink("r", "twin", target), rows) for target in (parquet, lines, None)}
    assert len(hashes) == 1
    table = pq.read_table(parquet)
    assert table.schema.equals(arrow_schema(), check_metadata=False)
    with gzip.open(lines, "rt", encoding="utf-8") as stream:
        assert [json.loads(line) for line in stream] == table.to_pylist()


def test_every_row_satisfies_the_generated_json_schema(tmp_path: Path) -> None:
    """A second implementation of JSON Schema accepts what the sink writes."""
    target = tmp_path / "events.jsonl"
    fill(EventSink("r", "twin", target), 3)
    for line in target.read_text(encoding="utf-8").splitlines():
        jsonschema.validate(json.loads(line), json_schema())
        assert list(json.loads(line)) == [c.name for c in COLUMNS]


def test_rows_of_another_world_hash_as_if_they_had_been_emitted() -> None:
    """add() takes a ready row, also between rows that were emitted."""
    emitted, added = EventSink("r", "twin", keep=True), EventSink("r", "twin", keep=True)
    for sink in (emitted, added):
        sink.emit(1, Kind.JOB_STARTED, "slurmctld", 1)
    emitted.emit(2, Kind.JOB_ENDED, "slurmctld", 1)
    added.add(Event(2, Kind.JOB_ENDED, "slurmctld", 1))
    assert (emitted.event_hash, emitted.kept, emitted.count) == (added.event_hash, added.kept, added.count)


@pytest.mark.parametrize("changed", ["t_ns", "kind", "node", "detail"])
def test_any_changed_column_changes_the_hash(changed: str) -> None:
    """The hash sees each column that a world decides."""
    row = {"t_ns": 1, "kind": Kind.JOB_ENDED, "actor": "slurmctld", "job_id": 1, "node": "n1", "detail": None}
    other = {"t_ns": 2, "kind": Kind.JOB_STARTED, "node": "n2", "detail": "{}"}
    first, second = EventSink("r", "twin"), EventSink("r", "twin")
    first.emit(**row)  # type: ignore[arg-type]
    second.emit(**{**row, changed: other[changed]})  # type: ignore[arg-type]
    assert first.event_hash != second.event_hash


def test_an_unfinished_file_never_bears_its_name(tmp_path: Path) -> None:
    """Before close() the target does not exist; abandon() leaves nothing behind."""
    target = tmp_path / "events.parquet"
    sink = EventSink("r", "twin", target)
    for i in range(BLOCK_ROWS + 1):
        sink.emit(i, Kind.JOB_STARTED, "slurmctld", i)
    assert not target.exists()
    sink.abandon()
    assert list(tmp_path.iterdir()) == []
