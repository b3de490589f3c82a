"""Claims about registrations and what they make of nodes and jobs (slurm.md 4.3, 4.4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slurmtwin.contract.cluster import GresConf
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.states import JobState, NodeBase, NodeFlag


def test_nodes_are_unknown_until_their_slurmd_registers(rig: Callable[..., Any]) -> None:
    """slurm.md 4.3 "UNKNOWN/FUTURE": then IDLE, all of them in one row of the event table."""
    r = rig(slurmds=0)
    assert r.state() == "UNKNOWN"
    assert r.ctld.nodes.avail == 0
    r.cluster.slurmds.start(0b1111)
    r.until(1)
    assert r.ctld.nodes.avail == r.ctld.nodes.idle == r.ctld.nodes.up == 0b1111
    assert [e.node for e in r.events(Kind.NODE_REGISTERED)] == ["n[1-4]"]


@pytest.mark.parametrize(
    ("less", "reason"),
    [
        ({"cpus": 3}, "Low CPUs"),
        ({"sockets": 2, "cpus": 4}, "Low socket*core*thread count"),
        ({"real_memory_mib": 999}, "Low RealMemory (reported:999 < 100.00% of configured:1000)"),
    ],
)
def test_a_node_with_less_than_configured_is_invalid_and_drained(
    rig: Callable[..., Any], less: dict[str, int], reason: str
) -> None:
    """slurm.md 4.3 "Config too small": INVAL + DRAIN with that reason; a good registration clears INVAL, not DRAIN."""
    r = rig(slurmds=0b1110)
    r.cluster.slurmds.equip(0, replace(r.conf.nodes[0], **less))
    r.cluster.slurmds.start(0b1)
    r.until(1)
    assert r.state() == "INVAL"
    assert r.node().reason == reason
    assert not r.ctld.nodes.avail & 1
    r.cluster.slurmds.equip(0, r.conf.nodes[0])
    r.cluster.slurmds.stop(1)
    r.cluster.slurmds.start(1)
    r.until(2)
    assert r.state() == "DRAINED"
    assert not r.ctld.nodes.avail & 1


def test_fewer_generic_resources_than_configured_are_named_in_the_reason(rig: Callable[..., Any]) -> None:
    """slurm.md 4.3 "Config too small": GRES count."""
    r = rig(slurmds=0b1110)
    node = r.node()
    node.conf = replace(node.conf, gres=(GresConf(name="gpu", type="", count=2),))
    r.cluster.slurmds.equip(0, r.conf.nodes[0])
    r.cluster.slurmds.start(0b1)
    r.until(1)
    assert node.reason == "gres/gpu count reported lower than configured (0 < 2)"


def test_config_overrides_turns_the_check_off(rig: Callable[..., Any]) -> None:
    """slurm.md 4.3 "Config too small": config_overrides in SlurmdParameters."""
    r = rig(slurmds=0b1110, SlurmdParameters="config_overrides")
    r.cluster.slurmds.equip(0, replace(r.conf.nodes[0], cpus=1))
    r.cluster.slurmds.start(0b1)
    r.until(1)
    assert r.state() == "IDLE"


@pytest.mark.parametrize(
    ("policy", "reason", "back"),
    [(0, "Not responding", False), (1, "Not responding", True), (1, "bad disk", False), (2, "bad disk", True)],
)
def test_return_to_service_decides_whether_a_down_node_comes_back(
    rig: Callable[..., Any], policy: int, reason: str, back: bool
) -> None:
    """slurm.md 4.3 "DOWN returns to service if"."""
    r = rig(ReturnToService=policy)
    r.until(10)
    r.cluster.slurmds.stop(1)
    r.ctld.nodes_lifecycle.update(r.node(), "DOWN", reason)
    r.until(20)
    r.cluster.slurmds.start(1)
    r.until(21)
    assert (r.node().base is NodeBase.IDLE) is back
    assert (r.times(Kind.NODE_UP) == [20.0]) is back


@pytest.mark.parametrize(
    ("version", "drained", "down"), [("22.05", True, True), ("26.05", True, False), ("26.05", False, True)]
)
def test_an_unexpected_reboot_sets_the_node_down(
    rig: Callable[..., Any], version: str, drained: bool, down: bool
) -> None:
    """slurm.md 4.3 "Unexpected reboot", slurm.md 12 "S4": its jobs are lost; later versions spare drained nodes."""
    r = rig(version)
    r.until(10)
    job = r.run_job(7, 0b1)
    if drained:
        r.cluster.slurmds.works.clear()
        job.state = JobState.COMPLETED
        r.ctld.running.clear()
        r.ctld.nodes_lifecycle.job_completing(0b1)
        r.ctld.nodes_lifecycle.job_gone(job, 0b1)
        r.ctld.nodes_lifecycle.update(r.node(), "DRAIN", "")
    r.cluster.slurmds.kill_group(1)
    r.until(60)
    r.cluster.slurmds.start(1, boot_s=r.ctld.now_s() - 5)
    r.until(61)
    assert (r.node().base is NodeBase.DOWN) is down
    if down:
        assert r.node().reason == "Node unexpectedly rebooted"
    if not drained:
        assert ("node_failed", "n1", "Node unexpectedly rebooted") in r.told


def test_return_to_service_two_does_not_mind_reboots(rig: Callable[..., Any]) -> None:
    """slurm.md 4.3 "Unexpected reboot": only if ReturnToService != 2."""
    r = rig(ReturnToService=2)
    r.until(10)
    r.cluster.slurmds.kill_group(1)
    r.until(60)
    r.cluster.slurmds.start(1, boot_s=r.ctld.now_s() - 5)
    r.until(61)
    assert r.state() == "IDLE"


# jobs


def test_a_missing_batch_job_older_than_twenty_seconds_is_given_up(rig: Callable[..., Any]) -> None:
    """Container back, start and last sign of life over 20 s ago.

    slurm.md 4.4 "nothing / batch job RUNNING", slurm.md 12 "S1".
    """
    r = rig()
    r.until(10)
    r.run_job(7, 0b11)
    r.until(40)
    r.cluster.slurmds.kill_group(1)
    r.until(45)
    r.cluster.slurmds.start(1)
    r.until(46)
    assert ("missing_on_node", 7, "n1") in r.told
    assert r.times(Kind.NODE_DOWN) == []


def test_a_younger_one_stays_as_a_ghost_until_the_registration_window(rig: Callable[..., Any]) -> None:
    """The next look is the 20th tick, 4 + 19*100 s.

    slurm.md 4.4 "nothing / same but younger than 20 s", slurm.md 12 "S1b".
    """
    r = rig("22.05")
    r.until(10)
    r.run_job(7, 0b1)
    r.until(15)
    r.cluster.slurmds.kill_group(1)
    r.until(20)
    r.cluster.slurmds.start(1)
    r.until(1903)
    assert r.told == [("work_lost", 7)]
    r.until(1905)
    assert ("missing_on_node", 7, "n1") in r.told


def test_only_the_batch_host_misses_a_batch_job(rig: Callable[..., Any]) -> None:
    """slurm.md 4.4 "nothing / batch job RUNNING": "with this node as batch host"."""
    r = rig()
    r.until(10)
    r.run_job(7, 0b11)
    r.until(100)
    r.cluster.slurmds.kill_group(0b10)
    r.cluster.slurmds.start(0b10)
    r.until(101)
    assert r.told == []


def test_a_reported_job_is_seen_and_kept(rig: Callable[..., Any]) -> None:
    """slurm.md 4.4 "step / RUNNING/SUSPENDED on this node": time_last_active is refreshed.

    slurm.md 4.6 "slurmd restart, bare metal".
    """
    r = rig()
    r.until(10)
    job = r.run_job(7, 0b1)
    r.until(100)
    r.cluster.slurmds.stop(1, crashed=True)
    r.cluster.slurmds.start(1)
    r.until(101)
    assert r.told == []
    assert job.last_active_s == r.ctld.now_s() - 1


def test_steps_of_unknown_or_pending_jobs_are_aborted(rig: Callable[..., Any]) -> None:
    """REQUEST_ABORT_JOB to that node.

    slurm.md 4.4 "step / job unknown", slurm.md 4.4 "step / PENDING (requeued or state lost)".
    """
    r = rig()
    r.until(10)
    orphan = r.steps(99, 0b1)
    job = r.run_job(7, 0b1)
    job.state = JobState.PENDING
    del r.ctld.running[7]
    r.cluster.slurmds.stop(1)
    r.cluster.slurmds.start(1)
    r.until(11)
    assert orphan.aborted == [0b1]
    assert r.cluster.slurmds.works[7].aborted == [0b1]


def test_a_job_that_runs_elsewhere_is_aborted_here(rig: Callable[..., Any]) -> None:
    """slurm.md 4.4 "step / RUNNING elsewhere"."""
    r = rig()
    r.until(10)
    r.run_job(7, 0b10)
    steps = r.cluster.slurmds.works[7]
    steps.nodes = 0b1
    r.cluster.slurmds.stop(1)
    r.cluster.slurmds.start(1)
    r.until(11)
    assert steps.aborted == [0b1]


def test_a_forgotten_run_lives_beside_the_new_one_until_its_node_reports_it(rig: Callable[..., Any]) -> None:
    """After a crash the job was started anew on n2 while its first script still runs on n1.

    slurm.md 4.4 "step / RUNNING elsewhere".
    """
    r = rig()
    r.until(10)
    forgotten = r.steps(7, 0b1)
    r.run_job(7, 0b10)
    anew = r.cluster.slurmds.works.pop(7)
    r.cluster.slurmds.works[7] = forgotten
    r.cluster.slurmds.take(anew)
    r.cluster.slurmds.stop(1)
    r.cluster.slurmds.start(1)
    r.until(11)
    assert (forgotten.aborted, anew.aborted) == ([0b1], [])
    r.cluster.slurmds.drop(forgotten)
    assert [w for report in r.cluster.slurmds.reports(0b1) for w in report.works] == []


@pytest.mark.parametrize(("after", "killed"), [(5, False), (30, True)])
def test_a_finished_job_is_killed_again_after_the_message_timeout(
    rig: Callable[..., Any], after: float, killed: bool
) -> None:
    """Kill again; a shorter time is a race. slurm.md 4.4 "step / COMPLETING, or finished for > MessageTimeout"."""
    r = rig()
    r.until(10)
    job = r.run_job(7, 0b1)
    job.state, job.end_s = JobState.COMPLETED, r.ctld.now_s()
    r.ctld.running.clear()
    r.until(10 + after)
    r.cluster.slurmds.stop(1)
    r.cluster.slurmds.start(1)
    r.until(11 + after)
    assert (("kill_on_node", job, r.node()) in r.told) is killed


def test_steps_of_a_completing_job_are_killed_again(rig: Callable[..., Any]) -> None:
    """slurm.md 4.4 "step / COMPLETING, or finished for > MessageTimeout"."""
    r = rig()
    r.until(10)
    job = r.run_job(7, 0b1)
    job.state, job.completing = JobState.COMPLETED, True
    r.ctld.running.clear()
    r.cluster.slurmds.stop(1)
    r.cluster.slurmds.start(1)
    r.until(11)
    assert ("kill_on_node", job, r.node()) in r.told


def test_a_second_registration_finds_the_ghost_old_enough(rig: Callable[..., Any]) -> None:
    """slurm.md 12 "S1b": drain and resume of the node brings the look forward."""
    r = rig()
    r.until(10)
    r.run_job(7, 0b1)
    r.until(15)
    r.cluster.slurmds.kill_group(1)
    r.cluster.slurmds.start(1)
    r.until(60)
    assert r.told == [("work_lost", 7)]
    r.ctld.nodes_lifecycle.update(r.node(), "DRAIN", "look")
    r.ctld.nodes_lifecycle.update(r.node(), "RESUME", "")
    r.until(62)
    assert ("missing_on_node", 7, "n1") in r.told


def test_inval_nodes_are_not_pinged(rig: Callable[..., Any]) -> None:
    """slurm.md 4.2 "Skipped nodes"."""
    r = rig(slurmds=0b1110)
    r.cluster.slurmds.equip(0, replace(r.conf.nodes[0], cpus=1))
    r.cluster.slurmds.start(0b1)
    r.until(1)
    r.cluster.slurmds.stop(1)
    r.until(5000)
    assert not r.node().flags & NodeFlag.NO_RESPOND
    assert r.times(Kind.NODE_DOWN) == []
