"""Submit, start, end: when slurmctld does what, worked by hand (slurm.md 1.1, 4.6)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.host_costs import HostCosts

VERSIONS = ["22.05", "24.11", "26.05"]


@pytest.mark.parametrize("version", VERSIONS)
def test_sbatch_never_starts_the_job_inside_the_submit_rpc(run_twin: Any, a_job: Any, version: str) -> None:
    """slurm.md 1.1 "sbatch itself": the next look of the loop starts it.

    slurm.md 1.1 "Start latency on an idle cluster".
    """
    story = run_twin([a_job(1, submit=0.5)], version=version)
    assert story.starts(1) == [1.0]


def test_salloc_starts_inside_the_submit_rpc_on_an_idle_cluster(run_twin: Any, a_job: Any) -> None:
    """slurm.md 1.1 "salloc / srun": the job of top priority is tried at once."""
    story = run_twin([a_job(1, submit=0.5, interactive=True)])
    assert story.starts(1) == [0.5]
    assert story.of(1, Kind.JOB_STARTED)[0][1]["by"] == "submit"


def test_queued_passes_are_three_seconds_apart(run_twin: Any, a_job: Any) -> None:
    """slurm.md 1.1 "Queued request": a job submitted just after a pass waits for batch_sched_delay."""
    story = run_twin([a_job(1, submit=0.5), a_job(2, submit=1.2)])
    assert story.starts(1) == [1.0]
    assert story.starts(2) == [4.0]


def test_the_first_pass_still_has_the_compiled_in_delay(run_twin: Any, a_job: Any) -> None:
    """The first pass reads SchedulerParameters: until then batch_sched_delay is 3 s (job_scheduler.c _schedule()).

    The nodes' registration asks for a pass: it comes 3 s after slurmctld's start, at -5, and the job's 50 s later.
    """
    options = "batch_sched_delay=50,sched_interval=600,bf_interval=600"
    story = run_twin([a_job(1)], conf={"SchedulerParameters": options})
    assert story.starts(1) == [45.0]


def test_without_epilog_the_end_of_a_job_only_queues_a_pass(run_twin: Any, a_job: Any) -> None:
    """slurm.md 1.1 "Job with no Epilog and no live step": the next look, 3 s after the last pass at the earliest."""
    jobs = [a_job(1, submit=0.5, run=9.5, nodes=2), a_job(2, submit=0.6, nodes=2)]
    story = run_twin(jobs)
    assert story.times(1, Kind.JOB_COMPLETED) == [10.5]
    assert story.starts(2) == [11.0]


def test_with_an_epilog_the_last_message_starts_a_pass_at_once(run_twin: Any, a_job: Any) -> None:
    """slurm.md 1.1 "Immediate pass": MESSAGE_EPILOG_COMPLETE calls schedule() itself."""
    jobs = [a_job(1, submit=0.5, run=9.5, nodes=2), a_job(2, submit=0.6, nodes=2)]
    story = run_twin(jobs, conf={"Epilog": "/bin/true"})
    assert story.starts(2) == [10.5]


def test_defer_turns_the_immediate_pass_into_a_queued_one(run_twin: Any, a_job: Any) -> None:
    """slurm.md 1.1 "defer / defer_batch": completions only queue a pass, and salloc is not tried at submit."""
    jobs = [a_job(1, run=9.5, nodes=2), a_job(2, submit=0.6, nodes=2), a_job(3, submit=40.5, interactive=True)]
    story = run_twin(jobs, conf={"Epilog": "/bin/true", "SchedulerParameters": "defer"})
    assert story.starts(2) == [11.0]
    assert story.starts(3) == [41.0]


@pytest.mark.parametrize(("over", "end"), [("0", 82.0), ("1", 142.0)])
def test_a_job_past_its_limit_is_ended_by_the_next_30_s_scan(run_twin: Any, a_job: Any, over: str, end: float) -> None:
    """slurm.md 4.6 "Time limit": start 1 s + 60 s limit (+ OverTimeLimit), found by the scan at 82 (142) s.

    slurm.md 0 "PERIODIC_TIMEOUT".
    """
    story = run_twin([a_job(1, submit=0.5, run=None, minutes=1)], conf={"OverTimeLimit": over})
    assert story.ends(1) == [(end, "TIMEOUT")]


def test_a_script_that_ends_between_its_limit_and_the_scan_is_a_timeout_all_the_same(run_twin: Any, a_job: Any) -> None:
    """job_mgr.c _job_complete(): a clean exit after the end time counts as TIMEOUT."""
    story = run_twin([a_job(1, submit=0.5, run=70, minutes=1), a_job(2, submit=0.5, run=60, minutes=1)])
    assert story.ends(1) == [(71.0, "TIMEOUT")]
    assert story.ends(2) == [(61.0, "COMPLETED")]


def test_limits_are_whole_minutes_rounded_up(run_twin: Any, a_job: Any) -> None:
    """--time=0:30 is one minute for slurmctld (common/parse_time.c time_str2mins())."""
    story = run_twin([replace(a_job(1, run=None), limit_ns=30_000_000_000)])
    assert story.ends(1) == [(82.0, "TIMEOUT")]


def test_a_failing_script_is_failed_with_its_exit_code(run_twin: Any, a_job: Any) -> None:
    """job_mgr.c _job_complete(): a non-zero exit is FAILED."""
    story = run_twin([a_job(1, exit_code=3)])
    assert story.of(1, Kind.JOB_ENDED) == [(11.0, {"state": "FAILED", "exit_code": 3})]


def test_scancel_of_a_running_job_kills_and_passes_at_once(run_twin: Any, a_job: Any) -> None:
    """A live step makes slurmd report by message: the waiting job starts as soon as the killed one is gone."""
    costs = HostCosts(epilog_ns=10_000_000, kill_ns=50_000_000)
    jobs = [a_job(1, run=None, nodes=2, cancel_ns=20_200_000_000), a_job(2, submit=1.5, nodes=2)]
    story = run_twin(jobs, costs=costs)
    assert story.ends(1) == [(20.2, "CANCELLED")]
    assert story.starts(2) == [20.26]


def test_scancel_of_a_pending_job_ends_it_without_a_run(run_twin: Any, a_job: Any) -> None:
    """job_mgr.c job_signal(): a pending job is CANCELLED at once."""
    jobs = [a_job(1, nodes=2), a_job(2, submit=1.5, nodes=2, cancel_ns=5_000_000_000)]
    story = run_twin(jobs)
    assert story.ends(2) == [(5.0, "CANCELLED")]
    assert story.starts(2) == []


@pytest.mark.parametrize(("age", "purged"), [("300", 352.0), ("20", 32.0), ("0", 22.0)])
def test_finished_jobs_leave_memory_min_job_age_after_their_end(
    run_twin: Any, a_job: Any, age: str, purged: float
) -> None:
    """slurm.md 4.6 "MinJobAge": end at 11 s, purge pass each 60 s (max(10, MinJobAge) s when that is
    shorter); less than 2 s is read as 2 s (read_config.c).

    slurm.md 0 "PURGE_JOB_INTERVAL".
    """
    story = run_twin([a_job(1), a_job(2, submit=800.5)], conf={"MinJobAge": age})
    assert story.times(1, Kind.JOB_PURGED) == [purged]


def test_more_jobs_than_max_job_count_are_refused(run_twin: Any, a_job: Any) -> None:
    """man slurm.conf MaxJobCount: every task of an array counts, finished ones until they are purged."""
    jobs = [a_job(1, array="0-7"), a_job(2, submit=1.5), a_job(3, submit=1.6), a_job(4, submit=1.7)]
    story = run_twin(jobs, conf={"MaxJobCount": "10"})
    assert len(story.times(3, Kind.JOB_SUBMITTED)) == 1
    assert len(story.times(4, Kind.JOB_REJECTED)) == 1


def test_a_job_that_no_node_could_ever_run_is_refused_at_submit(run_twin: Any, a_job: Any) -> None:
    """job_mgr.c job_allocate(): the test on an empty partition finds a fundamental flaw."""
    story = run_twin([a_job(1, cpus_per_task=2)])
    assert len(story.times(1, Kind.JOB_REJECTED)) == 1


@pytest.mark.parametrize(("version", "refused"), [("22.05", 1), ("24.11", 1), ("26.05", 0)])
def test_a_job_larger_than_its_partition_waits_in_26_05(run_twin: Any, a_job: Any, version: str, refused: int) -> None:
    """26.05 job_mgr.c _select_nodes_base(): a job over the partition's node count is not tested on its nodes."""
    story = run_twin([a_job(1, nodes=3), a_job(2, submit=2.5)], version=version)
    assert len(story.times(1, Kind.JOB_REJECTED)) == refused
    assert len(story.times(2, Kind.JOB_STARTED)) == 1


def test_a_begin_time_is_found_by_the_first_pass_after_it(run_twin: Any, a_job: Any) -> None:
    """slurm.md 1.1 "Periodic full pass": nothing else wakes the scheduler for --begin=now+70."""
    story = run_twin([a_job(1, begin_ns=70_000_000_000)])
    assert story.starts(1) == [112.0]


def test_a_deadline_that_cannot_be_kept_ends_the_job(run_twin: Any, a_job: Any) -> None:
    """job_scheduler.c deadline_ok(): behind a long job the deadline passes; the state is DEADLINE."""
    jobs = [a_job(1, run=500, minutes=10, nodes=2), a_job(2, submit=1.5, nodes=2, deadline_ns=400_000_000_000)]
    story = run_twin(jobs)
    assert [state for _, state in story.ends(2)] == ["DEADLINE"]
    assert story.starts(2) == []


def test_a_warning_signal_comes_up_to_a_scan_earlier_than_asked(run_twin: Any, a_job: Any) -> None:
    """--signal=USR1@60: sent by the scan at which warn time + 30 s reaches the end (send_job_warn_signal())."""
    story = run_twin([a_job(1, run=None, minutes=5, signal="USR1@60")])
    assert story.times(1, Kind.JOB_SIGNALED) == [232.0]
    assert story.ends(1) == [(322.0, "TIMEOUT")]


def test_a_warning_to_the_batch_shell_ends_a_script_that_traps_nothing(run_twin: Any, a_job: Any) -> None:
    """--signal=B:USR1@60 reaches the shell: the job fails by the signal."""
    story = run_twin([a_job(1, run=None, minutes=5, signal="B:USR1@60")])
    assert story.of(1, Kind.JOB_ENDED) == [(232.0, {"state": "FAILED", "exit_code": 0, "signal": 10})]
