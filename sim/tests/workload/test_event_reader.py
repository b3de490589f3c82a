"""Event traces of the UB simulator and their table forms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurmtwin.contract.clock import DAY, MINUTE, SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.workload.event_trace import read_events
from slurmtwin.workload.trace_file import JobStream

Load = Callable[..., tuple[list[JobRequest], JobStream]]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """load(lines..., lenient=): the jobs and the stream of a file with these lines."""

    def load(*lines: str, lenient: bool = False) -> tuple[list[JobRequest], JobStream]:
        path = tmp_path / "t.events"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        stream = read_events(path, lenient)
        return list(stream), stream

    return load


def event(options: str, dt: str = "1") -> str:
    """One event line."""
    return f"-dt {dt} -e submit_batch_job | {options} pseudo.job"


def test_an_event_becomes_the_request_that_its_sbatch_line_says(load: Load) -> None:
    """Short and long options; the number is that of the job's name."""
    jobs, stream = load(event(
        "-sim-walltime   60.50 --uid=u1 -J jobid_7 -N 2 -n 32 -t 3-00:00:00 -A Acct -q high -p main --mem=500G "
        "--constraint=fast --gres=gpu:2 --exclusive", "10.25",
    ))  # fmt: skip
    assert jobs == [JobRequest(
        job_id=7, submit_ns=10_250_000_000, run_ns=60_500_000_000, limit_ns=3 * DAY, nodes_min=2, nodes_max=2,
        ntasks=32, mem_per_node_mib=512_000, constraint="fast", gres="gpu:2", exclusive="node", partition="main",
        account="acct", qos="high", user="u1",
    )]  # fmt: skip
    assert stream.account.altered == {}


@pytest.mark.parametrize(
    ("options", "run_ns", "reason"),
    [
        ("-sim-walltime 0", 0, "wall time 0: ends at once"),
        ("-sim-walltime -1", None, "no wall time or -1: runs until its time limit"),
        ("", None, "no wall time or -1: runs until its time limit"),
        ("-sim-walltime 90 -t 1", 90 * SECOND, "runs beyond its time limit: Slurm will end it there"),
    ],
)
def test_the_wall_time_has_its_special_values(load: Load, options: str, run_ns: int | None, reason: str) -> None:
    """0: at once; -1 or none: until the limit; each is counted."""
    jobs, stream = load(event(f"-J jobid_1 {options}"))
    assert jobs[0].run_ns == run_ns
    assert stream.account.altered[reason].count == 1


def test_cancel_begin_and_missing_numbers(load: Load) -> None:
    """-cancel-in and --begin count from the submission; a job without a number gets the next one."""
    jobs, stream = load(
        event("-jid 5 -sim-walltime 1 -cancel-in 30 --begin=now+2minutes"), event("-J run -sim-walltime 1", "2")
    )
    assert (jobs[0].job_id, jobs[0].cancel_ns, jobs[0].begin_ns) == (5, 31 * SECOND, 121 * SECOND)
    assert (jobs[1].job_id, jobs[1].name) == (6, "run")
    assert any("next free" in reason for reason in stream.account.altered)


@pytest.mark.parametrize(
    "line",
    [
        "-dt x -e submit_batch_job | -J jobid_1 a",
        "-dt 1 -e submit_batch_job -J jobid_1 a",
        "-dt -4 -e submit_batch_job | -J jobid_2 a",
        event("-J jobid_2 --memm=5"),
        event("-J jobid_2 -n many"),
        event("-J jobid_2 -t soon"),
        event("-J jobid_2 --burst-buffer=x"),
        event("-J 'open"),
        event("-J jobid_1"),
        event("-J jobid_2 -sim-walltime -7"),
        event("-J jobid_2 --mem=1e99T"),
        event("-J jobid_2 -Z 5"),
        "-dt 1 -e submit_batch_job | -J jobid_2 -n",
        "\x00\x01",
    ],
)
def test_a_broken_line_is_an_error_at_its_line_or_counted(load: Load, line: str) -> None:
    """Also options that would change scheduling and have no model."""
    good = event("-J jobid_1 -sim-walltime 1", "0")
    with pytest.raises(InputError, match=r"t\.events:2: "):
        load(good, line)
    if "\0" not in line:
        jobs, stream = load(good, line, lenient=True)
        assert len(jobs) == 1
        assert stream.account.dropped_rows == 1


def test_other_events_are_counted(load: Load) -> None:
    """Only job submissions are replayed; the account names the others."""
    _, stream = load("-dt 1 -e cancel_job | 5", event("-J jobid_1 -sim-walltime 1"))
    assert stream.account.dropped["event cancel_job is not modelled"].count == 1


HEADER = "dt;job_id;wall_time;user;wall_limit;n_tasks;ntasks_per_node;account;partition;qos;constraint;mem;gres"


def test_the_table_form_has_limits_in_minutes(load: Load) -> None:
    """The CSV beside UB's event files."""
    jobs, _ = load(HEADER, "60;1003;155;u4;16;24;12;a2;normal;high;big;500000;gpu:1")
    assert jobs == [JobRequest(
        job_id=1003, submit_ns=60 * SECOND, run_ns=155 * SECOND, limit_ns=16 * MINUTE, ntasks=24, ntasks_per_node=12,
        mem_per_node_mib=500_000, gres="gpu:1", constraint="big", partition="normal", user="u4", account="a2",
        qos="high",
    )]  # fmt: skip


def test_the_swf_like_table_gives_the_same_jobs(load: Load) -> None:
    """18 columns in the order of SWF; constraint and GRES are not in it."""
    table, _ = load(HEADER, "60;1003;155;u4;16;24;;a2;normal;high;;500000;")
    swf, stream = load("1003;60;-1;155;24;-1;500000;-1;960;-1;-1;u4;a2;-1;normal;high;;-1;")
    assert swf == table
    assert "no constraint" in stream.account.notes[0]


@pytest.mark.parametrize("header", ["dt;when", "dt;job_id", "dt;dt;wall_time"])
def test_an_unknown_table_is_an_error(load: Load, header: str) -> None:
    """Unknown or missing columns."""
    with pytest.raises(InputError, match=r"t\.events:1"):
        load(header, "1;2")
