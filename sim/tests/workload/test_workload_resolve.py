"""A scenario's jobs: listed, from a file, generated, and merged in submit order with unique numbers."""

from __future__ import annotations

import hashlib
import io
import random
from itertools import islice, pairwise
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import HOUR, MINUTE, SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.workload.job_lines import read_job_lines, write_jobs
from slurmtwin.workload.resolve import GENERATED_FROM, detect_format, open_trace, resolve, resolve_jobs
from slurmtwin.workload.synthetic import LIMITS_S, synthetic

SLURM = {"nodes": [{"NodeName": "n1"}], "partitions": [{"PartitionName": "p", "Nodes": "ALL"}]}
SWF = "1 5 -1 10 1 -1 -1 1 60 -1 1 -1 -1 -1 -1 -1 -1 -1\n2 9 -1 10 1 -1 -1 1 60 -1 1 -1 -1 -1 -1 -1 -1 -1\n"


def scenario(**workload: Any) -> Scenario:
    """A scenario with that workload."""
    document = {"schema": "slurmtwin/scenario/1", "name": "s", "slurm": SLURM, "workload": workload}
    return Scenario.model_validate(document)


def rows(jobs: Any) -> list[tuple[int, int]]:
    """(number, submit second) of each job."""
    return [(job.job_id, job.submit_ns // SECOND) for job in jobs]


def test_listed_jobs_are_expanded_and_numbered_around_the_fixed_ones() -> None:
    """`count` and `every`; lines without id take the lowest free numbers in the order of the file."""
    got = resolve(scenario(jobs=[{"count": 3, "every": "5s"}, {"id": 2, "submit": "7s", "count": 2}, {"submit": "1s"}]))
    assert rows(got) == [(1, 0), (6, 1), (4, 5), (2, 7), (3, 7), (5, 10)]


def test_a_listed_job_says_what_its_line_says() -> None:
    """sbatch's words in, nanoseconds and mebibytes out."""
    line = {"run": "until-ended", "time": "1:00:00", "nodes": "2-3", "mem": "4G", "array": "0-3%2"}
    (job,) = resolve(scenario(jobs=[line]))
    assert job == JobRequest(
        job_id=1, submit_ns=0, run_ns=None, limit_ns=HOUR, nodes_min=2, nodes_max=3, mem_per_node_mib=4096,
        array="0-3%2",
    )  # fmt: skip


@pytest.mark.parametrize(
    "line", [{"time": "soon"}, {"nodes": "3-2"}, {"nodes": "x"}, {"mem": "lots"}, {"array": "a"}, {"submit": "-5s"}]
)
def test_a_wrong_listed_job_is_an_error_that_names_it(line: dict[str, str]) -> None:
    """workload.jobs.1 is the second line."""
    with pytest.raises(InputError, match=r"s: workload\.jobs\.1: "):
        list(resolve_jobs(scenario(jobs=[{}, line])))


def test_two_lines_that_claim_a_number_are_an_error() -> None:
    """Ranges of counted lines count too."""
    with pytest.raises(InputError, match="taken by another line"):
        list(resolve(scenario(jobs=[{"id": 1, "count": 5}, {"id": 3}])))


def test_a_million_listed_jobs_are_produced_lazily() -> None:
    """The first ones come at once."""
    got = resolve_jobs(scenario(jobs=[{"count": 1_000_000, "every": "1s"}]))
    assert rows(islice(got, 3)) == [(1, 0), (2, 1), (3, 2)]


def test_file_and_listed_jobs_are_merged_by_time(tmp_path: Path) -> None:
    """The file's name is relative to the scenario; first_jobs cuts it."""
    (tmp_path / "t.swf").write_text(SWF, encoding="utf-8")
    got = resolve(scenario(jobs=[{"id": 50, "submit": "7s"}], file={"path": "t.swf", "format": "swf"}), tmp_path)
    assert rows(got) == [(1, 5), (50, 7), (2, 9)]
    assert got.account.rows == 2
    cut = resolve(scenario(file={"path": "t.swf", "format": "swf", "first_jobs": 1}), tmp_path)
    assert rows(cut) == [(1, 5)]


def test_a_number_that_file_and_list_share_is_an_error(tmp_path: Path) -> None:
    """Dependencies would be ambiguous."""
    (tmp_path / "t.swf").write_text(SWF, encoding="utf-8")
    with pytest.raises(InputError, match="number of a listed"):
        list(resolve(scenario(jobs=[{"id": 2}], file={"path": "t.swf", "format": "swf"}), tmp_path))


LUBLIN = {"model": "lublin", "jobs": 400, "load": 0.8, "nodes": 64}
BURST = {"model": "burst", "jobs": 100, "cpus": [1, 2, 4]}
FEEDBACK = {"model": "feedback", "users": 3, "sessions": 2, "jobs_per_session": 3}


@pytest.mark.parametrize("spec", [LUBLIN, BURST, FEEDBACK])
def test_generated_jobs_depend_on_the_seeds_alone(spec: dict[str, Any]) -> None:
    """Equal seeds, equal jobs; the run's seed and the workload's both move them; order and numbers hold."""
    base = list(resolve(scenario(generate=spec)))
    assert list(resolve(scenario(generate=spec))) == base
    assert list(resolve(scenario(generate=spec), seed=1)) != base
    assert list(resolve(scenario(generate={**spec, "seed": 2}))) != base
    assert all((a.submit_ns, a.job_id) < (b.submit_ns, b.job_id) for a, b in pairwise(base))
    assert [job.job_id for job in base] == list(range(1, len(base) + 1))
    assert all(job.limit_ns is not None and job.run_ns is not None and job.limit_ns >= job.run_ns for job in base)


def test_lublin_gives_the_load_asked_for() -> None:
    """Work over capacity and the span of submissions, within a tenth (the span ends before its nominal end)."""
    jobs = list(resolve(scenario(generate={**LUBLIN, "jobs": 5000})))
    work = sum((job.nodes_min or 0) * (job.run_ns or 0) for job in jobs)
    assert 0.72 < work / (64 * jobs[-1].submit_ns) < 0.88
    assert {job.nodes_min for job in jobs} >= {1, 2, 4, 8, 16}
    runs = sorted(job.run_ns or 0 for job in jobs)
    assert 19 * MINUTE <= runs[2500] <= 21 * MINUTE


def test_lublin_has_quiet_nights_and_weekends() -> None:
    """Fewer arrivals before dawn than in the afternoon, fewer on the last two days of a week."""
    jobs = list(resolve(scenario(generate={**LUBLIN, "jobs": 20_000, "load": 0.5})))
    hours = [job.submit_ns // HOUR for job in jobs]
    weeks = max(hours) // 168
    whole = [h for h in hours if h < weeks * 168]
    night, day = (sum(h % 24 in span for h in whole) for span in (range(2, 6), range(12, 16)))
    weekend = sum(h // 24 % 7 >= 5 for h in whole)
    assert night * 3 < day
    assert weekend / 2 < 0.8 * (len(whole) - weekend) / 5


def test_feedback_users_wait_for_their_jobs() -> None:
    """Every job but a user's first follows another job of that user, after a pause."""
    jobs = list(resolve(scenario(generate=FEEDBACK)))
    user = {job.job_id: job.user for job in jobs}
    first = [job for job in jobs if not job.after_job]
    assert len(jobs) == 18
    assert len(first) == 3
    assert all(user[job.after_job] == job.user and job.think_ns > 0 for job in jobs if job.after_job)


def test_generated_jobs_are_numbered_behind_the_others(tmp_path: Path) -> None:
    """Behind listed ones; from a high number where a file's are not known ahead."""
    behind = list(resolve(scenario(jobs=[{"id": 7}], generate=BURST)))
    assert min(job.job_id for job in behind if job.job_id != 7) == 8
    (tmp_path / "t.swf").write_text(SWF, encoding="utf-8")
    mixed = list(resolve(scenario(file={"path": "t.swf", "format": "swf"}, generate=BURST), tmp_path))
    assert {job.job_id for job in mixed} == {1, 2, *range(GENERATED_FROM, GENERATED_FROM + 100)}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("; Version: 2.2\n" + SWF, "swf"),
        ("JobID|Submit|Elapsed\n", "sacct"),
        ("-dt 1 -e submit_batch_job | x\n", "events"),
        ("dt;job_id;wall_time\n", "events"),
        ('{"job_id":1}\n', "jobs"),
    ],
)
def test_a_trace_shows_its_format(tmp_path: Path, text: str, expected: str) -> None:
    """By its first line; anything else is an error."""
    path = tmp_path / "trace"
    path.write_text(text, encoding="utf-8")
    assert detect_format(path) == expected
    path.write_text("hello world\n", encoding="utf-8")
    with pytest.raises(InputError, match="trace:1"):
        open_trace(path)


def test_job_lines_round_trip(tmp_path: Path) -> None:
    """Every field survives."""
    jobs = [
        JobRequest(job_id=2, submit_ns=5, run_ns=None, limit_ns=-1, nice=-3, hold=True, requeue=False, array="1-3"),
        JobRequest(job_id=3, submit_ns=6, gres="gpu:ü:1", dependency="afterok:2", after_job=2, think_ns=9),
    ]
    out = io.StringIO()
    assert write_jobs(jobs, out) == 2
    (tmp_path / "jobs.jsonl").write_text(out.getvalue(), encoding="utf-8")
    assert list(read_job_lines(tmp_path / "jobs.jsonl")) == jobs


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"job_id":1}', '{"job_id":1,"submit_ns":1.5}', '{"job_id":true,"submit_ns":1}', "NaN", "\xff",
     '{"job_id":1,"submit_ns":-1}', '{"job_id":1,"submit_ns":0,"color":1}', '{"job_id":1,"submit_ns":0,"ntasks":"2"}',
     '{"job_id":1,"submit_ns":' + "9" * 400 + "}", "[" * 5000],
)  # fmt: skip
def test_a_broken_job_line_is_an_error_or_counted(tmp_path: Path, line: str) -> None:
    """Wrong JSON, keys, types and sizes."""
    path = tmp_path / "jobs.jsonl"
    path.write_text('{"job_id":9,"submit_ns":0}\n' + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"jobs\.jsonl:2: "):
        list(read_job_lines(path))
    stream = read_job_lines(path, lenient=True)
    assert [job.job_id for job in stream] == [9]
    assert stream.account.dropped_rows == 1


def test_the_synthetic_workload_is_pinned() -> None:
    """w5000 of the peer comparison: its work, its last submission, its first rows."""
    jobs = synthetic("w5000")
    assert len(jobs) == 5000
    assert sum(s * r for s, r in zip(jobs.size, jobs.run_s, strict=True)) == pytest.approx(0.90 * 1000 * jobs.span_s)
    assert list(zip(jobs.submit_s, jobs.size, jobs.run_s, jobs.limit_s, jobs.user, strict=True))[:2] == [
        (77, 2, 2808, 7200, 4), (109, 8, 2579, 3600, 6),
    ]  # fmt: skip
    assert max(jobs.limit_s) <= max(*LIMITS_S, max(jobs.run_s))


@pytest.mark.parametrize(
    ("name", "digest"),
    [
        ("w5000", "512472922e5903e1e7a89b734a2e5917154c0e94f2402b6b307a52545b8cd0c0"),
        ("o5000", "1707a1916bc742b63623ffc87c3fb74d2d24362c03aca961e7e9177d609e3ee2"),
    ],
)
def test_every_job_of_the_peer_comparison_is_the_same(name: str, digest: str) -> None:
    """SHA-256 of the generator's own file: submit, size, run, limit and user of each job."""
    jobs = synthetic(name)
    rows = zip(jobs.submit_s, jobs.size, jobs.run_s, jobs.limit_s, jobs.user, strict=True)
    text = "".join(" ".join(map(str, row)) + "\n" for row in rows)
    assert hashlib.sha256(text.encode()).hexdigest() == digest


@pytest.mark.parametrize("name", ["w", "x5000", "w0", "5000", "w999999999"])
def test_an_unknown_synthetic_workload_is_an_error(name: str) -> None:
    """Names are w or o and a number."""
    with pytest.raises(InputError):
        synthetic(name)


def test_the_synthetic_workload_leaves_the_global_generator_alone() -> None:
    """Its draws come from its own generator."""
    random.seed(3)
    expected = random.random()
    random.seed(3)
    synthetic("o100")
    assert random.random() == expected
