"""Claims about an outage of slurmdbd (slurm.md 6)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmdbd.slurmdbd import queue_limit

DBD = {"AccountingStorageType": "accounting_storage/slurmdbd"}


def run_jobs(r: Any, first: int, count: int) -> None:
    """So many jobs start and end, one after the other."""
    for number in range(first, first + count):
        job = r.run_job(number, 0b1, with_steps=False)
        job.state, job.completing = JobState.COMPLETED, True
        del r.ctld.running[number]
        r.ctld.nodes_lifecycle.job_completing(0b1)
        r.ctld.nodes_lifecycle.job_gone(job, 0b1)


def test_scheduling_goes_on_and_records_wait(rig: Callable[..., Any]) -> None:
    """slurm.md 6 "Scheduling", slurm.md 6 "Queue": sent at the next attempt to connect, 10 s apart."""
    r = rig(**DBD)
    r.until(100)
    r.cluster.slurmdbd.stop()
    run_jobs(r, 1, 5)
    assert r.cluster.slurmdbd.queued == 10
    r.until(123)
    r.cluster.slurmdbd.start()
    r.until(129.9)
    assert r.cluster.slurmdbd.queued == 10
    r.until(130)
    assert r.cluster.slurmdbd.queued == 0


@pytest.mark.parametrize(("given", "nodes", "limit"), [(0, 4, 20_016), (0, 100, 20_400), (500, 100, 500)])
def test_the_queue_is_as_long_as_max_dbd_msgs_or_its_formula(given: int, nodes: int, limit: int) -> None:
    """slurm.md 6 "Size": max(10000, 2*MaxJobCount + 4*nodes) with MaxJobCount 10000."""
    assert queue_limit(given, 10_000, nodes) == limit


def test_a_full_queue_drops_job_starts_first(rig: Callable[..., Any]) -> None:
    """slurm.md 6 "Full, max_dbd_msg_action=discard (default)"."""
    r = rig(**DBD)
    r.until(100)
    r.cluster.slurmdbd.stop()
    r.cluster.slurmdbd.limit = 10
    run_jobs(r, 1, 6)
    assert r.times(Kind.SLURMDBD_QUEUE_FULL) == [100.0]
    assert (r.cluster.slurmdbd.starts, r.cluster.slurmdbd.others, r.cluster.slurmdbd.dropped) == (1, 6, 5)


def test_exit_action_ends_slurmctld_with_its_state_saved(rig: Callable[..., Any]) -> None:
    """slurm.md 6 "=exit"."""
    r = rig(**DBD)
    r.until(100)
    r.cluster.slurmdbd.exits_when_full = True
    r.cluster.slurmdbd.stop()
    r.cluster.slurmdbd.limit = 3
    run_jobs(r, 1, 2)
    r.until(101)
    assert r.cluster.ctld is None
    assert r.times(Kind.SLURMCTLD_STOPPED) == [100.0]


def test_a_killed_slurmctld_loses_the_queue(rig: Callable[..., Any]) -> None:
    """slurm.md 5.3 "SIGKILL, slurmdbd queue"."""
    r = rig(**DBD)
    r.until(100)
    r.cluster.slurmdbd.stop()
    run_jobs(r, 1, 5)
    r.cluster.controller().kill()
    assert (r.cluster.slurmdbd.queued, r.cluster.slurmdbd.dropped) == (0, 10)


def test_a_restarted_slurmctld_queues_while_slurmdbd_stays_away(rig: Callable[..., Any]) -> None:
    """slurm.md 6 "Queue"; slurm.md 5.2 "Needs slurmdbd?": it starts from its cache."""
    r = rig(**DBD)
    r.until(100)
    r.cluster.slurmdbd.stop()
    r.cluster.controller().stop()
    r.cluster.controller().start()
    r.until(110)
    run_jobs(r, 1, 1)
    assert r.cluster.slurmdbd.queued == 2
    assert r.env.now_ns == 110 * SECOND
