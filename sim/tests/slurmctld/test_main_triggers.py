"""When the main scheduler runs (slurm.md 1.1): 26.05, whose loop looks at every whole second, unless said otherwise."""

from __future__ import annotations

import numpy as np
import pytest
from mini_cluster import MiniCluster

from slurmtwin.contract.clock import MS
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.coarse_clock import CoarseClock
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.models.slurmctld.states import JobState, Reason

BUILTIN = "SchedulerType=sched/builtin\n"


def passes(c: MiniCluster) -> list[float]:
    """When passes that looked at a job ran, seconds."""
    c.sink._flush()
    assert c.sink.kept is not None
    return [e.t_ns / 1e9 for e in c.sink.kept if e.kind is Kind.SCHED_MAIN_PASS]


def test_a_submitted_job_waits_for_the_loop() -> None:
    """Submitted at 10.2 s after a quiet time: the look at 11 s starts it.

    slurm.md 1.1 "Queued request"
    slurm.md 1.1 "sbatch itself"
    slurm.md 1.1 "Start latency on an idle cluster"
    """
    c = MiniCluster()
    c.at(10.2, lambda: c.submit(1))
    c.run(60)
    assert c.start_s(1) == 11


def test_the_loop_asks_at_most_every_three_seconds() -> None:
    """The look at 11 s scheduled; a job of 11.5 s has to wait for 14 s.

    slurm.md 1.1 "Queued request"
    slurm.md 1.1 "Events that only queue"
    """
    c = MiniCluster()
    c.at(10.2, lambda: c.submit(1))
    c.at(11.5, lambda: c.submit(2))
    c.run(60)
    assert c.start_s(2) == 14


@pytest.mark.parametrize(("late", "second_s"), [(False, 13.005), (True, 14.001)])
def test_what_is_just_due_waits_until_the_clock_shows_it_or_a_second(
    monkeypatch: pytest.MonkeyPatch, late: bool, second_s: float
) -> None:
    """time(NULL) is 5 ms behind, the loop wakes 1 ms behind a second (docs/surprises.md).

    The job of 10.2 s has waited: a pass as the loop wakes, when time(NULL) shows 10 yet. Three seconds later is 13.
    """
    clock = CoarseClock(np.random.default_rng(1), lag_ns=5 * MS)
    monkeypatch.setattr(clock, "late", lambda: late)
    c = MiniCluster(costs=HostCosts(loop_lag_ns=MS))
    c.scheduler.clock = clock
    c.at(10.2, lambda: c.submit(1))
    c.at(11.5, lambda: c.submit(2))
    c.run(60)
    assert passes(c) == [11.001, second_s]


def test_batch_sched_delay_is_known_after_the_first_pass_only() -> None:
    """batch_sched_delay=20: the first pass comes after 3 s all the same, the second 20 s after it.

    slurm.md 1.1 "Queued request"
    """
    c = MiniCluster("SchedulerParameters=batch_sched_delay=20")
    c.submit(1)
    c.at(5, lambda: c.submit(2))
    c.run(100)
    assert (c.start_s(1), c.start_s(2)) == (3, 23)


def test_a_full_pass_comes_every_minute() -> None:
    """Of 150 one-node jobs on 200 nodes 101 start in the first pass; the full pass at 60 s takes the rest.

    slurm.md 1.1 "Periodic full pass"
    """
    c = MiniCluster(BUILTIN, nodes=200)
    for number in range(1, 151):
        c.submit(number, limit_s=600, run_s=600)
    c.run(59)
    assert len(c.started) == 101
    c.run(61)
    assert len(c.started) == 150


@pytest.mark.parametrize(("interval", "second"), [(20, 80), (90, 150)])
def test_sched_interval_counts_from_the_first_pass(interval: int, second: int) -> None:
    """Nothing reads it before: the first full pass comes after the compiled-in 60 s.

    slurm.md 1.1 "Periodic full pass"
    """
    c = MiniCluster(BUILTIN + f"SchedulerParameters=sched_interval={interval},default_queue_depth=0", nodes=1)
    c.at(59.5, lambda: c.submit(1, run_s=None, limit_s=6000))
    c.at(60.5, lambda: c.submit(2, nodes=1, limit_s=6000))
    c.run(200)
    assert 60 in passes(c)
    assert second in passes(c)


def test_sched_interval_minus_one_stops_the_main_scheduler_altogether() -> None:
    """The pass returns before it looks at a job: only backfill starts jobs.

    slurm.md 1.1 "Periodic full pass"
    """
    c = MiniCluster("SchedulerParameters=sched_interval=-1")
    c.submit(1)
    c.run(100)
    assert c.started[0][0] == 30 * 10**9
    assert c.started[0][4] == "backfill"


def test_an_epilog_message_runs_a_pass_at_once() -> None:
    """Job 1 ends at 13.25 s (started at 3 s): job 2 starts in that instant.

    slurm.md 1.1 "Immediate pass"
    """
    c = MiniCluster(BUILTIN, nodes=1)
    c.submit(1, run_s=10.25)
    c.submit(2)
    c.run(60)
    assert c.start_s(2) == 13.25


def test_without_a_message_the_end_only_queues_a_pass() -> None:
    """The same end is seen by the look at 14 s.

    slurm.md 1.1 "Job with no Epilog and no live step"
    """
    c = MiniCluster(BUILTIN, nodes=1)
    c.epilog_message = False
    c.submit(1, run_s=10.25)
    c.submit(2)
    c.run(60)
    assert c.start_s(2) == 14


@pytest.mark.parametrize("word", ["defer", "defer_batch"])
def test_with_defer_a_completion_only_queues(word: str) -> None:
    """slurm.md 1.1 "defer / defer_batch": proc_req.c looks for the word defer, which both contain."""
    c = MiniCluster(BUILTIN + f"SchedulerParameters={word}", nodes=1)
    c.submit(1, run_s=10.25)
    c.submit(2)
    c.run(60)
    assert c.start_s(2) == 14


def test_complete_wait_skips_the_pass() -> None:
    """A job completing for less than CompleteWait=10 s keeps the whole pass from running.

    slurm.md 1.1 "Whole pass skipped"
    """
    c = MiniCluster(BUILTIN + "CompleteWait=10")
    ended = c.job(9)
    ended.state, ended.completing, ended.end_s = JobState.COMPLETED, True, c.ctld.now_s()
    c.ctld.completing[9] = ended
    c.submit(1)
    c.run(59)
    assert c.started == []
    c.run(61)
    assert c.start_s(1) == 60


def test_passes_keep_their_distance() -> None:
    """A pass that costs 1 s: the end of job 1 within it is served when it is over.

    slurm.md 1.1 "Minimum spacing"
    slurm.md 1.1 "Locks"
    """
    c = MiniCluster(BUILTIN, nodes=2, costs=HostCosts(main_pass_ns=10**9))
    c.submit(1, run_s=0.5)
    c.submit(2, nodes=2)
    c.run(60)
    second = c.start_s(2)
    assert second is not None
    assert 4 <= second < 4.001


def test_salloc_starts_inside_the_rpc_only_at_the_top() -> None:
    """Job 1 is alone: it starts. Job 2 waits for nodes. Job 3 would fit but is not of top priority.

    slurm.md 1.1 "salloc / srun"
    """
    c = MiniCluster(passes=False)
    first = c.submit(1, nodes=3)
    assert c.scheduler.try_at_submit(first)
    c.submit(2, nodes=4)
    third = c.submit(3)
    assert not c.scheduler.try_at_submit(third)
    assert third.reason == Reason.PRIORITY
    higher = c.submit(4, priority=5)
    assert c.scheduler.try_at_submit(higher)


def test_with_defer_salloc_waits_too() -> None:
    """slurm.md 1.1 "defer / defer_batch": no attempt at submit for any job."""
    c = MiniCluster("SchedulerParameters=defer", passes=False)
    assert not c.scheduler.try_at_submit(c.submit(1))


def test_defer_batch_lets_salloc_try() -> None:
    """slurm.md 1.1 "defer / defer_batch": defer_batch is for batch jobs alone, and wins over defer (job_mgr.c)."""
    c = MiniCluster("SchedulerParameters=defer_batch,defer", passes=False)
    assert c.scheduler.try_at_submit(c.submit(1))


def test_22_05_looks_in_the_phase_of_its_start() -> None:
    """slurmctld started at 0.4 s: the look comes at a multiple of a second after that, plus its drift.

    slurm.md 1.1 "Queued request"
    """
    c = MiniCluster(version="22.05", start_ns=400_000_000)
    c.at(10.2, lambda: c.submit(1))
    c.run(60)
    start_s = c.start_s(1)
    assert start_s is not None
    assert 10.4 <= start_s < 11.4


def test_the_pass_saves_state_only_when_a_job_started() -> None:
    """slurm.md 1.2 "After the pass"."""
    c = MiniCluster(passes=False, nodes=1)
    saved: list[int] = []
    c.ctld.store.changed = lambda: saved.append(1)  # type: ignore[method-assign]
    c.submit(1)
    c.scheduler.run_pass()
    assert len(saved) == 1
    c.submit(2)
    c.scheduler.run_pass()
    assert len(saved) == 1
