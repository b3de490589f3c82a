"""sacct -P dumps (slurm.md 10): any field order, units, duplicates, arrays, hetjobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import HOUR, MINUTE, SECOND, UNLIMITED
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.workload.sacct import read_sacct
from slurmtwin.workload.trace_file import JobStream

COLUMNS = (
    "JobIDRaw|JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|ReqCPUS|ReqNodes|ReqMem|ReqTRES|"
    "TimelimitRaw|State|ExitCode|Constraints|SubmitLine"
)
T0 = "2024-03-01T10:00:0{}"
Load = Callable[..., tuple[list[JobRequest], JobStream]]


def row(**fields: Any) -> str:
    """One row: job 100, 2 CPUs on 1 node for 60 s, submitted at second 0, started at second 5."""
    values = {
        "JobIDRaw": "100", "User": "u", "Account": "a", "Partition": "p", "QOS": "normal", "Submit": T0.format(0),
        "Start": T0.format(5), "End": "2024-03-01T10:01:05", "ElapsedRaw": "60", "ReqCPUS": "2", "ReqNodes": "1",
        "ReqMem": "4G", "TimelimitRaw": "10", "State": "COMPLETED", "ExitCode": "0:0",
    } | {k: str(v) for k, v in fields.items()}  # fmt: skip
    values.setdefault("JobID", values["JobIDRaw"])
    return "|".join(values.get(name, "") for name in COLUMNS.split("|"))


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """load(lines..., header=, lenient=): the jobs and the stream of a dump with these lines."""

    def load(*lines: str, header: str = COLUMNS, lenient: bool = False) -> tuple[list[JobRequest], JobStream]:
        path = tmp_path / "dump.txt"
        path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
        stream = read_sacct(path, lenient)
        return list(stream), stream

    return load


def test_a_row_becomes_a_request_counted_from_the_first_submit(load: Load) -> None:
    """Rows need not be in order: time zero is the earliest Submit of the file."""
    jobs, _ = load(row(JobIDRaw=101, Submit=T0.format(3)), row())
    assert jobs[0] == JobRequest(
        job_id=100, submit_ns=0, run_ns=MINUTE, limit_ns=10 * MINUTE, nodes_min=1, nodes_max=1, ntasks=2,
        mem_per_node_mib=4096, partition="p", user="u", account="a", qos="normal",
    )  # fmt: skip
    assert (jobs[1].job_id, jobs[1].submit_ns) == (101, 3 * SECOND)


def test_the_order_and_case_of_columns_do_not_matter(load: Load) -> None:
    """The header says what stands where; -p's last bar is no column; epoch times are read too."""
    jobs, _ = load("2|1709287200|1:00:00|7|", header="reqcpus|submit|Elapsed|jobid|")
    assert jobs == [JobRequest(job_id=7, submit_ns=0, run_ns=HOUR, ntasks=2)]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"ReqMem": "4000Mn", "ReqNodes": 2}, {"mem_per_node_mib": 4000}),
        ({"ReqMem": "2Gc"}, {"mem_per_cpu_mib": 2048}),
        ({"ReqMem": "8G", "ReqNodes": 2, "ReqCPUS": 4}, {"mem_per_cpu_mib": 2048, "mem_per_node_mib": None}),
        ({"ReqMem": "0"}, {"mem_per_node_mib": None}),
        ({"ReqMem": "", "ReqTRES": "cpu=2,mem=3G,node=1"}, {"mem_per_node_mib": 3072}),
        ({"ReqTRES": "cpu=2,gres/gpu=4,gres/gpu:a100=4", "ReqNodes": 2}, {"gres": "gpu:a100:2"}),
        ({"TimelimitRaw": "UNLIMITED"}, {"limit_ns": UNLIMITED}),
        ({"TimelimitRaw": "Partition_Limit"}, {"limit_ns": None}),
        ({"State": "FAILED", "ExitCode": "3:0"}, {"exit_code": 3}),
        ({"State": "TIMEOUT"}, {"run_ns": None}),
        ({"State": "CANCELLED by 1000"}, {"run_ns": MINUTE, "cancel_ns": None}),
        ({"State": "CANCELLED by 1", "Start": "None", "End": T0.format(7), "ElapsedRaw": 0}, {"cancel_ns": 7 * SECOND}),
        ({"Eligible": T0.format(4)}, {"begin_ns": 4 * SECOND}),
        ({"Eligible": T0.format(0)}, {"begin_ns": None}),
        ({"SubmitLine": "sbatch --exclusive -c 2 --mem-per-cpu=1G x.sh"},
         {"exclusive": "node", "cpus_per_task": 2, "ntasks": 1, "mem_per_cpu_mib": 1024, "mem_per_node_mib": None}),
        ({"SubmitLine": "salloc -N1"}, {"interactive": True}),
        ({"SubmitLine": "sbatch 'open"}, {"interactive": False}),
        ({"JobID": "100+1", "JobIDRaw": 101}, {"het_group": 100, "job_id": 101}),
        ({"JobID": "90_3"}, {"job_id": 100}),
        ({"Constraints": "fast"}, {"constraint": "fast"}),
    ],
)  # fmt: skip
def test_a_column_has_its_unit_and_meaning(load: Load, fields: dict[str, Any], expected: dict[str, Any]) -> None:
    """Memory per node, per core and in total; TRES per node; states; SubmitLine."""
    jobs, _ = load(row(**fields))
    assert {name: getattr(jobs[0], name) for name in expected} == expected


def test_the_runs_of_a_requeued_job_become_one_job(load: Load) -> None:
    """-D shows each run: submitted at the first, runs as the last did; the others are counted."""
    jobs, stream = load(
        row(State="NODE_FAIL", ElapsedRaw=7), row(JobIDRaw="100.batch", JobID="100.batch"),
        row(Submit=T0.format(9), ElapsedRaw=30),
    )  # fmt: skip
    assert [(j.submit_ns, j.run_ns) for j in jobs] == [(0, 30 * SECOND)]
    assert stream.account.dropped["earlier run of a requeued job: the last one counts"].count == 1
    assert stream.account.dropped["step of a job: the job's own row counts"].count == 1


def test_a_dependency_is_kept_when_its_jobs_are_in_the_dump(load: Load) -> None:
    """Otherwise the eligible time stands for it; both would count twice."""
    jobs, _ = load(
        row(), row(JobIDRaw=101, Submit=T0.format(1), Eligible=T0.format(8), SubmitLine="sbatch -d afterok:100 x"),
        row(JobIDRaw=102, Submit=T0.format(2), Eligible=T0.format(8), SubmitLine="sbatch -d afterok:55 x"),
    )  # fmt: skip
    assert [(j.dependency, j.begin_ns) for j in jobs] == [("", None), ("afterok:100", None), ("", 8 * SECOND)]


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"State": "PENDING", "Start": "Unknown", "End": "Unknown", "ElapsedRaw": 0}, "never started (PENDING)"),
        ({"JobID": "100.extern", "JobIDRaw": "100.extern"}, "step of a job"),
    ],
)
def test_rows_without_a_run_are_counted(load: Load, fields: dict[str, Any], reason: str) -> None:
    """Pending jobs and steps are no jobs to replay."""
    jobs, stream = load(row(**fields))
    assert jobs == []
    assert any(reason in r for r in stream.account.dropped)


@pytest.mark.parametrize(
    "fields",
    [
        {"JobIDRaw": "abc"}, {"Submit": "yesterday"}, {"Submit": "Unknown"}, {"ElapsedRaw": "1e9"}, {"ReqMem": "lots"},
        {"ReqCPUS": "", "ReqTRES": ""}, {"TimelimitRaw": "9" * 30}, {"State": "DANCING"}, {"ExitCode": "x:0"},
        {"Start": "2024-13-01T00:00:00"}, {"User": "a|b"}, {"ReqTRES": "gres/gpu=many"}, {"JobIDRaw": "0"},
    ],
)  # fmt: skip
def test_a_broken_row_is_an_error_at_its_line_or_counted(load: Load, fields: dict[str, Any]) -> None:
    """Strict by default, counted when lenient."""
    with pytest.raises(InputError, match=r"dump\.txt:3: "):
        load(row(), row(**{"JobIDRaw": 101, **fields}))
    jobs, stream = load(row(), row(**{"JobIDRaw": 101, **fields}), lenient=True)
    assert [j.job_id for j in jobs] == [100]
    assert stream.account.dropped_rows == 1


@pytest.mark.parametrize(
    "header", ["", "JobID|State", "Submit|State|Elapsed", "JobID|Submit", "JobID|Submit|Elapsed|Elapsed"]
)
def test_a_dump_without_the_needed_columns_is_an_error(load: Load, header: str) -> None:
    """The message says how to take one."""
    with pytest.raises(InputError, match="sacct"):
        load(header=header or "\n")


def test_the_same_job_at_two_places_is_an_error(load: Load) -> None:
    """Only neighbouring rows are runs of one job."""
    with pytest.raises(InputError, match="stands twice"):
        load(row(), row(JobIDRaw=101), row())
