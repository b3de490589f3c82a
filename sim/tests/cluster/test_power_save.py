"""Claims about power saving (slurm.md 9), worked by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.models.slurmctld.power_save import RateLimit
from slurmtwin.models.slurmctld.states import JobState, NodeBase

POWER = {"SuspendProgram": "/s", "ResumeProgram": "/r", "SuspendTime": 60, "SuspendTimeout": 30, "ResumeTimeout": 60}


def test_an_idle_node_powers_down_after_suspend_time_and_is_off_after_suspend_timeout(rig: Callable[..., Any]) -> None:
    """slurm.md 9 "Suspend": idle for > 60 s: registered in second 0, so in the first work after second 60."""
    r = rig(**POWER)
    r.until(60)
    assert r.times(Kind.NODE_POWERING_DOWN) == []
    r.until(200)
    down = r.times(Kind.NODE_POWERING_DOWN)
    off = r.times(Kind.NODE_POWERED_DOWN)
    assert len(down) == 1
    assert 61 <= down[0] <= 72
    assert 31 <= off[0] - down[0] <= 42
    assert r.state() == "IDLE~"
    assert r.ctld.nodes.avail == 0b1111
    assert r.ctld.nodes.power_down == 0b1111


def test_a_job_wakes_its_nodes(rig: Callable[..., Any]) -> None:
    """slurm.md 9 "Resume": CONFIGURING, POWERING_UP at the next work, up when registered; the others stay off."""
    r = rig(**POWER)
    r.until(200)
    job = r.run_job(1, 0b11, with_steps=False)
    job.configuring = True
    r.until(203)
    assert r.times(Kind.NODE_POWERING_UP)[0] <= 202
    r.until(205)
    assert [r.state("n1"), r.state("n2"), r.state("n3")] == ["ALLOCATED", "ALLOCATED", "IDLE~"]
    assert r.ctld.nodes.booting == 0
    assert r.ctld.nodes.power_down == 0b1100


def test_a_node_that_does_not_come_up_is_down_and_its_job_requeued(rig: Callable[..., Any]) -> None:
    """slurm.md 9 "Resume": not registered within ResumeTimeout: DOWN "ResumeTimeout reached", and told at once."""
    r = rig(costs=HostCosts(node_down_ns=60 * SECOND), **POWER)
    r.until(200)
    r.cluster.slurmds.resume = lambda nodes: None
    job = r.run_job(1, 0b1, with_steps=False)
    job.configuring = True
    r.until(400)
    assert r.node().base is NodeBase.DOWN
    assert r.node().reason == "ResumeTimeout reached"
    assert ("node_failed", "n1", "ResumeTimeout reached") in r.told
    up, down = r.times(Kind.NODE_POWERING_UP)[0], r.times(Kind.NODE_DOWN)[0]
    assert 61 <= down - up <= 72


def test_excepted_nodes_stay_up(rig: Callable[..., Any]) -> None:
    """slurm.md 9 "Suspend": SuspendExcNodes."""
    r = rig(**POWER, SuspendExcNodes="n[1-3]")
    r.until(200)
    assert r.ctld.nodes.power_down == 0b1000


def test_power_down_by_command_and_up_again(rig: Callable[..., Any]) -> None:
    """slurm.md 9 "Cadence": a request is worked on at the thread's next look."""
    r = rig(**{**POWER, "SuspendTime": 100_000})
    r.until(100)
    assert r.ctld.nodes_lifecycle.update(r.node(), "POWER_DOWN", "") is None
    assert not r.ctld.nodes.avail & 1
    r.until(102)
    assert r.state() == "IDLE%"
    r.until(160)
    assert r.state() == "IDLE~"
    r.ctld.nodes_lifecycle.update(r.node(), "POWER_UP", "")
    r.until(165)
    assert r.state() == "IDLE"


def test_a_busy_node_is_not_suspended(rig: Callable[..., Any]) -> None:
    """slurm.md 9 "Suspend": its idle time counts from the end of its last job."""
    r = rig(**POWER)
    r.until(10)
    job = r.run_job(1, 0b1)
    r.until(150)
    assert not r.ctld.nodes.power_down & 1
    job.state, job.completing = JobState.COMPLETED, True
    del r.ctld.running[1]
    r.ctld.nodes_lifecycle.job_completing(0b1)
    r.ctld.nodes_lifecycle.job_gone(job, 0b1)
    r.until(205)
    assert not r.ctld.nodes.power_down & 1
    r.until(225)
    assert r.ctld.nodes.power_down & 1


@pytest.mark.parametrize(("tokens", "first", "later"), [(False, 60, 10), (True, 10, 10)])
def test_suspend_rate_limits_nodes_per_minute(tokens: bool, first: int, later: int) -> None:
    """slurm.md 9 "Rate limiter": 22.05 starts with a minute's worth and decays; later versions hold 10 s' worth."""
    limit = RateLimit(60, 10, tokens)
    taken = []
    for second in (0, 10):
        limit.begin(second * SECOND, 10)
        taken.append(sum(limit.take() for _ in range(200)))
    assert taken == [first, later]
