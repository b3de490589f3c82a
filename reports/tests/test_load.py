"""Run folders from disk: what was written is read, and what is broken is an InputError with its place."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmtwin.contract.clock import MS, SECOND, US
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import COLUMNS, Event, Kind
from slurmtwin.contract.manifest import Manifest
from slurmtwin_reports.history import SHORT_DETAIL, history_of, rows_of_events
from slurmtwin_reports.load import load_frame, load_run
from slurmtwin_reports.testing import a_history, in_order, job_story, queue_run, write_run

SMALL = in_order(job_story(1, 0, 1, 5), job_story(2, 1, 2, 9, "n[1-2]", 2))


@pytest.mark.parametrize("name", ["events.parquet", "events.jsonl.gz", "events.jsonl"])
def test_a_run_folder_gives_back_its_rows(tmp_path: Path, name: str) -> None:
    """Rows, workload, facts and manifest survive the way to disk in every format."""
    history = queue_run(30)
    back = load_run(write_run(tmp_path / "run", history, name))
    assert list(back.rows()) == list(history.rows())
    assert back.jobs == history.jobs
    assert back.facts == history.facts
    assert (back.scenario, back.world, back.version) == ("tiny", "twin", "26.05")


def test_the_frame_has_the_schema_of_the_contract(tmp_path: Path) -> None:
    """load_frame gives the contract's columns with nullable integers."""
    frame = load_frame(write_run(tmp_path / "run", a_history(SMALL)))
    assert list(frame.columns) == [c.name for c in COLUMNS]
    assert len(frame) == len(SMALL)
    assert str(frame["job_id"].dtype) == "int64[pyarrow]"
    assert int(frame["job_id"].isna().sum()) == 2


def broken(folder: Path, text: str) -> Path:
    write_run(folder, a_history(SMALL), "events.jsonl")
    (folder / "events.jsonl").write_text(text, encoding="utf-8")
    return folder


LINE = {"run_id": "r", "world": "twin", "seq": 0, "t_ns": 0, "t_err_ns": 0, "kind": "run.started", "actor": "run"}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("{", r"events\.jsonl:1: not JSON"),
        ("[1]", r"events\.jsonl:1: a line that is not a JSON object"),
        (json.dumps({**LINE, "extra": 1}), r"events\.jsonl:1: unknown column extra"),
        (json.dumps({k: v for k, v in LINE.items() if k != "kind"}), r"events\.jsonl:1: column kind is missing"),
        (json.dumps({**LINE, "kind": "job.exploded"}), "unknown event kind 'job.exploded'"),
        (json.dumps({**LINE, "t_ns": "soon"}), r"events\.jsonl: column t_ns"),
        (json.dumps({**LINE, "t_ns": 2**70}), r"events\.jsonl: column t_ns"),
        (json.dumps({**LINE, "t_err_ns": -1}), "a negative t_err_ns"),
        (json.dumps(LINE) + "\n" + json.dumps({**LINE, "world": "kind"}), "rows of more than one world"),
        ("[" * 100_000, r"events\.jsonl:1"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, what: str) -> None:
    """Each way to break a line ends in an InputError that says which and where."""
    with pytest.raises(InputError, match=what):
        load_run(broken(tmp_path / "run", line))


@pytest.mark.parametrize(
    ("behind_us", "err_us", "world", "moved_us"),
    [(0, 750, "kind", 500), (-1, 750, "kind", 500), (1, 750, "kind", 500), (500, 750, "kind", 0),
     (0, 2_500, "kind", 0), (0, 750, "slurm", 0)],
)  # fmt: skip
def test_a_stamp_that_the_log_cut_to_milliseconds_stands_for_their_middle(
    tmp_path: Path, behind_us: int, err_us: int, world: str, moved_us: int
) -> None:
    """Rows are kept to the microsecond and count from a run's own zero; who has the middle already stays."""
    epoch_ns = 1_795_883_736_835_680_650
    t_ns = 20 * SECOND - epoch_ns % MS + behind_us * US
    manifest = Manifest(world=world, scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": epoch_ns})
    told = Event(t_ns, Kind.NODE_DOWN, "slurmctld", None, "w-0", t_err_ns=err_us * US)
    write_run(tmp_path / "run", history_of(manifest, [told]))
    (row,) = load_run(tmp_path / "run").rows()
    assert (row.t_ns - t_ns, row.t_err_ns) == (moved_us * US, err_us * US)


def test_rows_that_pass_others_keep_their_causes(tmp_path: Path) -> None:
    """The line of 10.0 ms stands for 10.5, behind a change of 10.2 that it caused and one of 10.4 that another did."""
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 0})
    rows = [
        Event(10 * MS, Kind.NODE_DOWN, "slurmctld", None, "w-0", t_err_ns=750 * US),
        Event(10 * MS + 200 * US, Kind.JOB_REQUEUED, "slurmctld", 1, cause_seq=0, t_err_ns=1),
        Event(10 * MS + 400 * US, Kind.NODE_STATE, "observer", None, "w-0", cause_seq=1, t_err_ns=1),
    ]
    write_run(tmp_path / "run", history_of(manifest, rows))
    found = [(row.seq, row.kind, row.t_ns // US, row.cause_seq) for row in load_run(tmp_path / "run").rows()]
    assert found == [
        (0, "job.requeued", 10_200, 2), (1, "node.state", 10_400, 0), (2, "node.down", 10_500, None),
    ]  # fmt: skip


def test_a_folder_without_events_is_no_run(tmp_path: Path) -> None:
    """No event table: the message names the files that were looked for."""
    folder = write_run(tmp_path / "run", a_history(SMALL))
    (folder / "events.parquet").unlink()
    with pytest.raises(InputError, match=r"events\.parquet, events\.jsonl\.gz"):
        load_run(folder)


def test_a_folder_without_a_manifest_is_no_run(tmp_path: Path) -> None:
    """The manifest is what makes a folder a run."""
    with pytest.raises(InputError, match="not a run folder"):
        load_run(tmp_path)


def test_a_truncated_archive_is_an_input_error(tmp_path: Path) -> None:
    """A gzip file cut in the middle cannot be read to its end."""
    folder = write_run(tmp_path / "run", queue_run(30), "events.jsonl.gz")
    path = folder / "events.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(InputError, match="cannot be read to its end"):
        load_run(folder)


def test_a_parquet_file_with_other_columns_is_an_input_error(tmp_path: Path) -> None:
    """A column too many is an error, not ignored."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = write_run(tmp_path / "run", a_history(SMALL))
    table = pq.read_table(folder / "events.parquet")
    pq.write_table(table.append_column("mood", pa.array(["good"] * len(table))), folder / "events.parquet")
    with pytest.raises(InputError, match="columns differ from the event schema: mood"):
        load_run(folder)


def test_a_parquet_file_with_other_types_is_an_input_error(tmp_path: Path) -> None:
    """A time that is text is an error."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = write_run(tmp_path / "run", a_history(SMALL))
    table = pq.read_table(folder / "events.parquet")
    texts = pa.array(["now"] * len(table))
    pq.write_table(table.set_column(table.column_names.index("t_ns"), "t_ns", texts), folder / "events.parquet")
    with pytest.raises(InputError, match="a column of another type"):
        load_run(folder)


def test_a_parquet_file_with_a_hole_is_an_input_error(tmp_path: Path) -> None:
    """Every row has a time."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder = write_run(tmp_path / "run", a_history(SMALL))
    table = pq.read_table(folder / "events.parquet")
    holes = pa.array([None, *range(len(table) - 1)], type=pa.int64())
    columns = [holes if name == "t_ns" else table[name] for name in table.column_names]
    pq.write_table(pa.Table.from_arrays(columns, names=table.column_names), folder / "events.parquet")
    with pytest.raises(InputError, match=r"column t_ns has rows without a value|a column of another type"):
        load_run(folder)


def test_a_job_that_is_there_twice_is_an_input_error(tmp_path: Path) -> None:
    """jobs.jsonl has one line per job number."""
    folder = write_run(tmp_path / "run", a_history(SMALL, jobs={1: {"job_id": 1}}))
    (folder / "jobs.jsonl").write_text('{"job_id": 1}\n{"job_id": 1}\n', encoding="utf-8")
    with pytest.raises(InputError, match=r"jobs\.jsonl:2: job 1 is there twice"):
        load_run(folder)


@pytest.mark.property
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(0, 10_000), st.integers(0, 255), st.sampled_from(["events.parquet", "events.jsonl.gz"]))
def test_a_flipped_byte_never_gives_a_traceback(tmp_path: Path, place: int, byte: int, name: str) -> None:
    """Any one byte of an event file may be wrong: it loads, or it is an InputError."""
    folder = tmp_path / name
    if not folder.exists():
        write_run(folder, a_history(SMALL), name)
        (tmp_path / f"{name}.copy").write_bytes((folder / name).read_bytes())
    data = bytearray((tmp_path / f"{name}.copy").read_bytes())
    data[place % len(data)] = byte
    (folder / name).write_bytes(bytes(data))
    with contextlib.suppress(InputError):
        list(load_run(folder).rows())


def test_gzip_and_plain_lines_are_the_same_table(tmp_path: Path) -> None:
    """The compressed form is the plain one, compressed."""
    plain = write_run(tmp_path / "a", queue_run(10), "events.jsonl") / "events.jsonl"
    packed = write_run(tmp_path / "b", queue_run(10), "events.jsonl.gz") / "events.jsonl.gz"
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()


def test_who_changes_a_rows_details_changes_no_other_row() -> None:
    """Details of equal text are parsed once."""
    rows = rows_of_events([Event(t_ns, Kind.NODE_STATE, "a", detail='{"state":"IDLE"}') for t_ns in (1, 2)])
    rows[0].details["state"] = "DOWN"
    assert [row.details for row in rows] == [{"state": "IDLE"}] * 2


@pytest.mark.parametrize("size", [1, 10 * SHORT_DETAIL])
@pytest.mark.parametrize(("text", "said"), [("{%s", "is not JSON"), ("[%s]", "is not a JSON object")])
def test_a_detail_that_is_no_object_is_named_with_its_row(text: str, said: str, size: int) -> None:
    detail = text % ('"' + "x" * size + '"')
    for _ in range(2):
        with pytest.raises(InputError, match=f"row 0: detail {said}"):
            _ = rows_of_events([Event(1, Kind.NODE_STATE, "a", detail=detail)])[0].details
