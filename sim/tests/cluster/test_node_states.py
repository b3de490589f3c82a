"""Claims about node states, counts and scontrol update (slurm.md 4.1), worked by hand and generated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.node_counts import NodeCounts
from slurmtwin.models.slurmctld.states import JobState, NodeBase, NodeFlag

pytestmark = pytest.mark.property


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 255)), max_size=60))
def test_counts_as_bit_planes_equal_counts_one_by_one(changes: list[tuple[bool, int]]) -> None:
    """add, take, of, some and what take returns, against a plain list."""
    counts, plain = NodeCounts(), [0] * 8
    for more, nodes in changes:
        if more:
            counts.add(nodes)
            plain = [n + (nodes >> i & 1) for i, n in enumerate(plain)]
        else:
            before = list(plain)
            gone = counts.take(nodes)
            plain = [n - (nodes >> i & 1 if n else 0) for i, n in enumerate(plain)]
            assert gone == sum(1 << i for i in range(8) if before[i] and not plain[i] and nodes >> i & 1)
        assert [counts.of(i) for i in range(8)] == plain
        assert counts.some == sum(1 << i for i, n in enumerate(plain) if n)


def complete(r: Any, job: Any) -> None:
    """The job ends, its nodes COMPLETING."""
    job.state, job.completing = JobState.COMPLETED, True
    r.ctld.nodes_lifecycle.job_completing(job.alloc.nodes)


def test_a_node_goes_from_idle_over_allocated_and_completing_to_idle(rig: Callable[..., Any]) -> None:
    """slurm.md 4.1 "Schedulable": COMPLETING nodes are not idle, but stay in avail."""
    r = rig()
    r.until(10)
    job = r.run_job(1, 0b11)
    assert (r.state(), r.ctld.nodes.idle) == ("ALLOCATED", 0b1100)
    complete(r, job)
    assert (r.state(), r.ctld.nodes.idle, r.ctld.nodes.completing) == ("COMPLETING", 0b1100, 0b11)
    r.ctld.nodes_lifecycle.job_gone(job, 0b01)
    assert (r.state("n1"), r.state("n2"), r.ctld.nodes.completing) == ("IDLE", "COMPLETING", 0b10)
    r.ctld.nodes_lifecycle.job_gone(job, 0b10)
    assert r.ctld.nodes.idle == r.ctld.nodes.avail == 0b1111


def test_a_shared_node_is_idle_only_when_its_last_job_is_gone(rig: Callable[..., Any]) -> None:
    """slurm.md 4.1 "Base (low 4 bits)": ALLOCATED while run_job_cnt is not 0."""
    r = rig()
    r.until(10)
    first, second = r.run_job(1, 0b1), r.run_job(2, 0b1)
    complete(r, first)
    r.ctld.nodes_lifecycle.job_gone(first, 0b1)
    assert (r.state(), r.ctld.nodes.idle & 1) == ("ALLOCATED", 0)
    complete(r, second)
    r.ctld.nodes_lifecycle.job_gone(second, 0b1)
    assert r.ctld.nodes.idle & 1


@pytest.mark.parametrize("state", ["DOWN", "FUTURE"])
def test_an_admins_down_kills_the_jobs_at_once(rig: Callable[..., Any], state: str) -> None:
    """slurm.md 4.1 "scontrol update state=": DOWN and FUTURE."""
    r = rig()
    r.until(10)
    if state == "DOWN":
        r.run_job(1, 0b1)
    assert r.ctld.nodes_lifecycle.update(r.node(), state, "broken") is None
    assert ("node_failed", "n1", "broken") in r.told
    assert not r.ctld.nodes.avail & 1
    assert not r.ctld.nodes.up & 1
    assert r.ctld.nodes.idle & 1


@pytest.mark.parametrize("state", ["DRAIN", "FAIL"])
def test_drain_and_fail_let_jobs_finish(rig: Callable[..., Any], state: str) -> None:
    """slurm.md 4.1 "scontrol update state=" and slurm.md 4.1 "Displayed names": DRAINING until the job is gone."""
    r = rig()
    r.until(10)
    job = r.run_job(1, 0b1)
    r.ctld.nodes_lifecycle.update(r.node(), state, "later")
    shown = {"DRAIN": ("DRAINING", "DRAINED"), "FAIL": ("FAILING", "FAIL")}[state]
    assert (r.state(), r.told) == (shown[0], [])
    complete(r, job)
    assert r.state() == shown[0]
    r.ctld.nodes_lifecycle.job_gone(job, 0b1)
    assert r.state() == shown[1]
    assert not r.ctld.nodes.avail & 1


def test_resume_of_a_down_node_waits_for_its_registration(rig: Callable[..., Any]) -> None:
    """slurm.md 4.1 "RESUME of a DOWN/FUTURE/DRAIN node, or UNDRAIN": IDLE*, then IDLE at the next look."""
    r = rig()
    r.until(10)
    r.ctld.nodes_lifecycle.update(r.node(), "DOWN", "test")
    r.ctld.nodes_lifecycle.update(r.node(), "RESUME", "")
    assert (r.state(), r.ctld.nodes.avail & 1) == ("IDLE*", 0)
    r.until(11)
    assert (r.state(), r.ctld.nodes.avail & 1, r.node().reason) == ("IDLE", 1, "")
    assert r.times(Kind.NODE_RESUMED) == [10.0]


def test_resume_of_a_dead_node_ends_in_down_again(rig: Callable[..., Any]) -> None:
    """slurm.md 4.1 "RESUME of a DOWN/FUTURE/DRAIN node, or UNDRAIN": last_response=now starts the time-out anew."""
    r = rig("22.05")
    r.until(10.5)
    r.cluster.slurmds.stop(1)
    r.ctld.nodes_lifecycle.update(r.node(), "DOWN", "test")
    r.ctld.nodes_lifecycle.update(r.node(), "RESUME", "")
    r.until(2000)
    assert r.times(Kind.NODE_DOWN) == [10.5, pytest.approx(411.0)]  # ticks 11, 111 .. 311, 411


@pytest.mark.parametrize(
    ("state", "version", "error"),
    [
        ("RESUME", "22.05", "Invalid node state specified"),
        ("RESUME", "26.05", "Invalid node state transition specified"),
        ("POWER_DOWN", "26.05", "Invalid node state transition specified"),
        ("SLEEPY", "26.05", "Invalid node state specified"),
    ],
)
def test_a_state_that_cannot_follow_is_refused(rig: Callable[..., Any], state: str, version: str, error: str) -> None:
    """slurm.md 4.1 "scontrol update state=": RESUME of a node in service, power words without power saving."""
    r = rig(version)
    r.until(10)
    assert r.ctld.nodes_lifecycle.update(r.node(), state, "") == error


def test_an_allocation_makes_the_node_forget_its_reason(rig: Callable[..., Any]) -> None:
    """slurm.md 4.1 "scontrol update state=": a reason without a state lives until the next job (make_node_alloc())."""
    r = rig()
    r.until(10)
    r.ctld.nodes_lifecycle.update(r.node(), "NORESP", "odd")
    r.ctld.nodes_lifecycle.did_respond(r.node())
    r.node().reason = ""
    r.ctld.nodes_lifecycle.set_reason(r.node(), "fan")
    r.run_job(1, 0b1)
    assert r.node().reason == ""


@pytest.mark.parametrize(("version", "reason"), [("22.05", "disk"), ("26.05", "disk : Not responding")])
def test_later_versions_append_their_reason_to_the_admins(rig: Callable[..., Any], version: str, reason: str) -> None:
    """slurm.md 4.2 "DOWN test (runs first)": node_mgr.c set_node_reason() since 23.02."""
    r = rig(version)
    r.until(10)
    r.ctld.nodes_lifecycle.set_reason(r.node(), "disk")
    r.ctld.nodes_lifecycle.set_down(r.node(), "Not responding")
    assert r.node().reason == reason


def test_down_nodes_never_hold_a_job_in_completing(rig: Callable[..., Any]) -> None:
    """slurm.md 4.5 "Killing on a DOWN node"."""
    r = rig()
    r.until(10)
    job = r.run_job(1, 0b11)
    r.node().base = NodeBase.DOWN
    r.ctld.nodes_lifecycle.settle(r.node())
    assert r.ctld.nodes_lifecycle.job_completing(job.alloc.nodes) == 0b10


def test_a_failed_rpc_takes_the_node_out_of_scheduling_at_once(rig: Callable[..., Any]) -> None:
    """slurm.md 4.2 "Crash to "*"": a launch or kill RPC that fails sets NO_RESPOND; jobs are untouched."""
    r = rig()
    r.until(40)
    r.run_job(1, 0b1)
    r.until(50)
    r.cluster.slurmds.stop(1)
    lost: list[float] = []
    r.cluster.slurmds.call(r.node(), lambda: None, lambda: lost.append(r.env.now_ns / 1e9))
    r.until(61)
    assert lost == [pytest.approx(60.275)]
    assert r.node().flags & NodeFlag.NO_RESPOND
    assert r.state() == "ALLOCATED*"
    assert not r.ctld.nodes.avail & 1


def test_an_answer_after_the_rpc_was_sent_beats_its_failure(rig: Callable[..., Any]) -> None:
    """slurm.md 4.2 "Failed ping": node_not_resp() keeps a node that has answered since the message was sent."""
    r = rig("22.05")
    r.until(50)
    r.ctld.nodes_lifecycle.did_respond(r.node())
    r.ctld.nodes_lifecycle.not_responding(r.node(), r.ctld.now_s() - 5)
    assert r.state() == "IDLE"
