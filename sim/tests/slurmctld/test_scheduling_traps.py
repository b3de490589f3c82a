"""The traps that other simulators fell into (peers.md 10), as far as they concern scheduling."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest
from mini_cluster import EPOCH_S, MiniCluster

from slurmtwin.contract.events import Kind


def test_1_backfill_uses_the_requested_time() -> None:
    """CQSim used the actual one: job 3 runs 10 s, asks for 2 h, and so has to wait for job 2."""
    c = MiniCluster()
    c.submit(1, nodes=3, limit_s=600, run_s=600)
    c.submit(2, nodes=4, limit_s=600, run_s=600)
    c.submit(3, nodes=1, limit_s=7200, run_s=10)
    c.run()
    assert c.order() == [1, 2, 3]


def test_2_the_reservation_of_the_head_binds_nodes() -> None:
    """AccaSim's did not: node 3 is promised to job 2 from 600 s on, whatever else is free by then."""
    c = MiniCluster(passes=False)
    c.submit(1, nodes=3, limit_s=600)
    c.scheduler.run_pass()
    c.submit(2, nodes=4, limit_s=600)
    c.submit(3, nodes=1, limit_s=1200)
    assert c.scheduler.backfill.run_cycle() == 0


def test_3_running_jobs_leave_in_the_order_of_start_plus_limit() -> None:
    """RAPS took the order of starts: job 2, started later, is expected to end first."""
    c = MiniCluster(nodes=2)
    c.submit(1, nodes=1, limit_s=3600, run_s=3600)
    c.at(100, lambda: c.submit(2, nodes=1, limit_s=600, run_s=600))
    c.at(200, lambda: c.submit(3, nodes=1, limit_s=60, run_s=60))
    c.run(250)
    assert c.ctld.jobs[3].planned_start_s - EPOCH_S == 100 + 600


def test_4_spare_nodes_may_be_used_beyond_the_heads_start() -> None:
    """RLScheduler and RAPS forgot: job 2 needs 3 of 4 nodes at 600 s, so a long one-node job may start now."""
    c = MiniCluster(nodes=5, passes=False)
    c.submit(1, nodes=3, limit_s=600)
    c.scheduler.run_pass()
    c.submit(2, nodes=4, limit_s=600)
    c.submit(3, nodes=1, limit_s=7200)
    c.submit(4, nodes=1, limit_s=7200)
    assert c.scheduler.backfill.run_cycle() == 1


PROGRAM = """
import sys
sys.path.insert(0, {here!r})
from mini_cluster import MiniCluster
c = MiniCluster(nodes=7)
for n in range(1, 80):
    c.at(n * 11 % 300, lambda n=n: c.submit(n, nodes=n % 5 + 1, limit_s=60 * (n % 9 + 1), run_s=n * 37 % 400 + 1,
                                            user=f"u{{n % 6}}"))
c.run()
print(c.sink.event_hash)
"""


def test_5_no_hash_order_reaches_a_result() -> None:
    """FastSim's order depended on it: three hash seeds give one event hash."""
    program = PROGRAM.format(here=str(Path(__file__).parent))
    hashes = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "4711")
    }
    assert len(hashes) == 1


def test_6_all_ends_and_all_submits_of_an_instant_come_before_one_pass() -> None:
    """ElastiSim calls twice: here three ends and two submits at 103 s make exactly one pass, which sees them all."""
    c = MiniCluster("SchedulerType=sched/builtin", nodes=3)
    for number in (1, 2, 3):
        c.submit(number, run_s=100)
    for number in (4, 5):
        c.at(103, lambda n=number: c.submit(n, run_s=50))
    c.run(103.5)
    c.sink._flush()
    assert c.sink.kept is not None
    at_103 = [e for e in c.sink.kept if e.t_ns == 103 * 10**9 and e.kind is Kind.SCHED_MAIN_PASS]
    assert len(at_103) == 1
    assert at_103[0].value == 2
    assert (c.start_s(4), c.start_s(5)) == (103, 103)


def test_7_memory_does_not_grow_with_time() -> None:
    """RAPS kept a record per tick: two months with one job pending for its begin time keep nothing."""
    c = MiniCluster(keep=False)
    c.submit(1, run_s=10)
    c.submit(2, begin_s=EPOCH_S + 365 * 86_400, run_s=10)
    c.run(86_400)
    gc.collect()
    tracemalloc.start()
    c.run(60 * 86_400)
    gc.collect()
    grown, _peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 10_000


def test_8_an_idle_day_costs_nothing() -> None:
    """Tick-based peers pay for it: after the last job no event happens for a month."""
    c = MiniCluster()
    c.submit(1, run_s=10)
    c.run(3600)
    before = c.env.event_count
    c.run(30 * 86_400)
    assert c.env.event_count == before


@pytest.mark.parametrize("tie_seed", [1, 2, 3])
def test_ties_may_be_shuffled_without_changing_what_runs(tie_seed: int) -> None:
    """Simultaneous messages in another order: the same jobs start at the same times."""
    from random import Random

    times = []
    for seed in (None, tie_seed):
        c = MiniCluster(nodes=4)
        c.env._tie = Random(seed) if seed else None
        for n in range(1, 30):
            c.at(n // 4 * 60, lambda n=n, c=c: c.submit(n, nodes=n % 3 + 1, limit_s=300, run_s=100 + n))
        c.run()
        times.append({(job, ns) for ns, job, *_ in c.started})
    assert times[0] == times[1]
