"""SWF 2.2 (slurm.md 10) and the quirks of archives (peers.md 10, item 9): every row is a job or accounted for."""

from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND, UNLIMITED
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.workload.swf import SwfOptions, read_swf, write_swf
from slurmtwin.workload.synthetic import synthetic
from slurmtwin.workload.trace_file import JobStream

Load = Callable[..., tuple[list[JobRequest], JobStream]]


def row(**fields: Any) -> str:
    """One SWF row: job 1, submit 0, 10 s on 1 processor, limit 60 s, unless said otherwise."""
    names = ("id", "submit", "wait", "run", "alloc", "cpu", "used", "procs", "limit", "memory", "status", "user",
             "group", "exe", "queue", "partition", "before", "think")  # fmt: skip
    values = dict.fromkeys(names, -1) | {"id": 1, "submit": 0, "run": 10, "procs": 1, "limit": 60, "status": 1}
    return " ".join(str({**values, **fields}[name]) for name in names)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """load(rows..., lenient=, options=): the jobs and the stream of a file with these lines."""

    def load(
        *rows: str, lenient: bool = False, options: SwfOptions | None = None
    ) -> tuple[list[JobRequest], JobStream]:
        path = tmp_path / "t.swf"
        path.write_text("\n".join(rows) + "\n", encoding="utf-8")
        stream = read_swf(path, lenient, options)
        return list(stream), stream

    return load


def reasons(stream: JobStream) -> list[str]:
    """Why rows were dropped or altered."""
    return [*stream.account.dropped, *stream.account.altered]


def test_a_full_row_becomes_a_request_in_nanoseconds_and_mebibytes(load: Load) -> None:
    """Fields 1, 2, 4, 8, 9, 10 (KiB per processor), 12."""
    jobs, stream = load("; MaxJobs: 1", row(id=7, submit=3, run=10, procs=4, limit=60, memory=2048, user=5))
    expected = JobRequest(
        job_id=7, submit_ns=3 * SECOND, run_ns=10 * SECOND, limit_ns=60 * SECOND, ntasks=4, mem_per_cpu_mib=2,
        user="user5",
    )  # fmt: skip
    assert jobs == [expected]
    assert reasons(stream) == []


@pytest.mark.parametrize(
    ("fields", "name", "expected", "reason"),
    [
        ({"procs": -1, "alloc": 3}, "ntasks", 3, "requested processors unknown"),
        ({"limit": -1}, "limit_ns", None, "requested time unknown"),
        ({"run": 90}, "run_ns", 90 * SECOND, "ran beyond its requested time"),
        ({"status": 0}, "exit_code", 1, None),
        ({"run": 0}, "run_ns", 0, None),
        ({"status": 5, "run": -1, "alloc": -1, "wait": 40}, "cancel_ns", 40 * SECOND, "cancelled before it started"),
        ({"before": 1, "think": 5}, "after_job", 0, "preceding job and think time are not used"),
        ({"run": "12.6"}, "run_ns", 13 * SECOND, None),
        ({"limit": "6e1"}, "limit_ns", 60 * SECOND, None),
    ],
)
def test_unknown_values_are_filled_in_and_counted(
    load: Load, fields: dict[str, Any], name: str, expected: object, reason: str | None
) -> None:
    """-1 is unknown: what stands for it is the rule of slurm.md 10, and the account says how often."""
    jobs, stream = load(row(**fields))
    assert getattr(jobs[0], name) == expected
    assert (reason is None and reasons(stream) == []) or any(reason in r for r in reasons(stream) if reason)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"procs": -1, "alloc": -1}, "neither requested nor allocated"),
        ({"run": -1}, "run time unknown"),
        ({"status": 2}, "partial execution"),
        ({"status": 3}, "partial execution"),
        ({"status": 4}, "partial execution"),
    ],
)
def test_rows_that_are_no_job_are_dropped_and_counted_with_their_place(
    load: Load, fields: dict[str, Any], reason: str
) -> None:
    """The account keeps the reason, the number and the first lines."""
    jobs, stream = load(row(), row(id=2, **fields), row(id=3))
    assert [job.job_id for job in jobs] == [1, 3]
    (dropped,) = stream.account.dropped.items()
    assert reason in dropped[0]
    assert dropped[1].count == 1
    assert str(dropped[1].places[0]).endswith("t.swf:2")


@pytest.mark.parametrize(
    "line",
    [
        "1 2 3",
        row(submit="soon"),
        row(submit=-5),
        row(run="nan"),
        row(run="1e400"),
        row(limit=10**15),
        row(procs=10**12),
        row(id=1),
        row(id=-4),
        row(memory=2**40),
        "\x01\x02garbage \x7f",
        "1;0;-1;15;12;-1;-1;-1;420;-1;-1;u;a;-1;p;q;;-1;",
        "9" * 5000,
    ],
)
def test_a_broken_row_is_an_error_at_its_line_or_counted_when_lenient(load: Load, line: str) -> None:
    """Nothing but InputError leaves the reader; lenient keeps the rows around it."""
    with pytest.raises(InputError, match=r"t\.swf:2: "):
        load(row(), line, row(id=3))
    jobs, stream = load(row(), line, row(id=3), lenient=True)
    assert [job.job_id for job in jobs] == [1, 3]
    assert stream.account.dropped_rows == 1
    assert stream.account.rows == 3


def test_epoch_submit_times_count_from_the_first(load: Load) -> None:
    """Seconds since 1970 are found out and said."""
    jobs, stream = load(row(submit=1_356_996_147), row(id=2, submit=1_356_996_150))
    assert [job.submit_ns for job in jobs] == [0, 3 * SECOND]
    assert any("since 1970" in note for note in stream.account.notes)


def test_an_epoch_row_from_before_the_first_is_submitted_at_time_0(load: Load) -> None:
    """No submit time is negative; the account says so."""
    jobs, stream = load(row(submit=1_356_996_147), row(id=2, submit=1_356_996_140))
    assert [job.submit_ns for job in jobs] == [0, 0]
    assert "submitted before the first row: at time 0" in stream.account.altered


def test_job_numbers_that_start_at_0_are_moved_by_one(load: Load) -> None:
    """SWF numbers from 1; MetaCentrum from 0."""
    jobs, stream = load(row(id=0), row(id=1))
    assert [job.job_id for job in jobs] == [1, 2]
    assert any("job numbers start at 0" in note for note in stream.account.notes)


def test_rows_out_of_order_are_sorted_within_a_window(load: Load) -> None:
    """Nearly sorted traces come out in submit order, with a note."""
    jobs, stream = load(row(submit=9), row(id=2, submit=5), row(id=3, submit=7))
    assert [job.job_id for job in jobs] == [2, 3, 1]
    assert any("not in submit order" in note for note in stream.account.notes)


def test_rows_of_one_instant_come_out_by_number(load: Load) -> None:
    """Equal submit times are ordered by job number."""
    jobs, _ = load(row(id=5), row(id=2), row(id=9), row(id=3))
    assert [job.job_id for job in jobs] == [2, 3, 5, 9]


def test_a_header_that_contradicts_the_rows_is_noted(load: Load) -> None:
    """lublin_256: MaxNodes 64 in a file of 256-processor jobs."""
    _, stream = load("; MaxNodes: 64", "; MaxJobs: 9", row(procs=256))
    notes = " ".join(stream.account.notes)
    assert "at most 64 processors, a job asks for 256" in notes
    assert "maxjobs=9, the file has 1 rows" in notes


def test_feedback_uses_the_preceding_job_when_it_is_in_the_file(load: Load) -> None:
    """Fields 17 and 18 close the loop on demand."""
    jobs, stream = load(row(), row(id=2, before=1, think=30), row(id=3, before=9), options=SwfOptions(feedback=True))
    assert [(job.after_job, job.think_ns) for job in jobs] == [(0, 0), (1, 30 * SECOND), (0, 0)]
    assert any("not in the file" in r for r in reasons(stream))


def test_a_processor_may_stand_for_a_node(load: Load) -> None:
    """On machines that allot whole nodes the option says so."""
    jobs, _ = load(row(procs=5), options=SwfOptions(processors="nodes"))
    assert (jobs[0].nodes_min, jobs[0].nodes_max, jobs[0].ntasks) == (5, 5, None)


METACENTRUM = " {{1241}} q_1d {request}"


@pytest.mark.parametrize(
    ("request_text", "procs", "expected"),
    [
        ("1:ppn=4", 4, (1, 4, "", 1024)),
        ("2:ppn=4:x86_64:^host.a-b#excl", 8, (2, 4, "node", 1024)),
        ("3", 3, (3, 1, "", 1024)),
        ("1:ppn=1+2:ppn=2", 5, (None, None, "", 1024)),
        ("1:ppn=1.5:brno", 1, (None, None, "", 1024)),
    ],
)
def test_metacentrum_s_dialect_is_found_and_said(
    load: Load, request_text: str, procs: int, expected: tuple[object, ...]
) -> None:
    """21 columns: nodes and tasks per node from the PBS request, memory in bytes per node, fields 17/18 unused."""
    line = row(procs=procs, memory=2**30, before=1, think=1) + METACENTRUM.format(request=request_text)
    jobs, stream = load(line)
    job = jobs[0]
    assert (job.nodes_min, job.ntasks_per_node, job.exclusive, job.mem_per_node_mib) == expected
    assert job.ntasks == procs
    assert job.after_job == 0
    notes = " ".join(stream.account.notes)
    assert "MetaCentrum" in notes
    assert "bytes per node" in notes


def test_an_amount_that_cannot_be_kib_is_an_error_until_the_unit_is_stated(load: Load) -> None:
    """Field 10 in bytes is not guessed silently."""
    with pytest.raises(InputError, match="state the unit"):
        load(row(memory=68_719_476_736))
    jobs, _ = load(row(procs=64, memory=68_719_476_736), options=SwfOptions(memory="bytes-per-job"))
    assert jobs[0].mem_per_cpu_mib == 1024
    jobs, _ = load(row(memory=68_719_476_736), options=SwfOptions(memory="ignore"))
    assert jobs[0].mem_per_cpu_mib is None


@pytest.mark.parametrize("cut", [20, 60, 200])
def test_a_gzip_file_cut_short_is_an_error_with_its_place(tmp_path: Path, cut: int) -> None:
    """Truncated and broken archives never give a traceback."""
    data = gzip.compress("\n".join(row(id=i) for i in range(1, 200)).encode())
    path = tmp_path / "t.swf.gz"
    path.write_bytes(data)
    assert len(list(read_swf(path))) == 199
    path.write_bytes(data[:-cut])
    with pytest.raises(InputError, match=r"t\.swf\.gz"):
        list(read_swf(path))


def test_files_that_cannot_be_read_are_errors(tmp_path: Path) -> None:
    """Missing file, folder, binary."""
    (tmp_path / "b.swf").write_bytes(b"1 2\n\0\1\2")
    for path in (tmp_path / "none.swf", tmp_path, tmp_path / "b.swf"):
        with pytest.raises(InputError):
            list(read_swf(path))


def test_a_stream_can_be_read_again_with_the_same_account(load: Load) -> None:
    """Iterating twice gives the same jobs and counts."""
    jobs, stream = load(row(), row(id=2, run=-1))
    first = stream.account.as_dict()
    assert list(stream) == jobs
    assert stream.account.as_dict() == first


def test_writing_and_reading_gives_the_same_jobs(tmp_path: Path) -> None:
    """What SWF can say survives a round trip."""
    jobs = [*synthetic("w200").requests()]
    jobs.append(JobRequest(
        job_id=201, submit_ns=jobs[-1].submit_ns, run_ns=SECOND, ntasks=2, exit_code=1, mem_per_cpu_mib=3, user="user9"
    ))  # fmt: skip
    path = tmp_path / "t.swf"
    with path.open("w", encoding="utf-8") as stream:
        assert write_swf(jobs, stream, {"MaxProcs": "1000"}) == 201
    assert list(read_swf(path)) == jobs


def test_a_job_that_swf_cannot_say_is_refused() -> None:
    """No processors or no run time; UNLIMITED becomes unknown."""
    for job in (JobRequest(job_id=1, submit_ns=0, run_ns=None, ntasks=1), JobRequest(job_id=1, submit_ns=0)):
        with pytest.raises(InputError):
            write_swf([job], io.StringIO())
    out = io.StringIO()
    write_swf([JobRequest(job_id=1, submit_ns=0, nodes_min=2, limit_ns=UNLIMITED)], out)
    assert out.getvalue().splitlines()[-1].split()[7:9] == ["2", "-1"]
