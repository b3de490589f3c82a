"""Claims about nodes that come and go (slurm.md 4.7)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slurmtwin.contract.events import Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.models.slurmctld.dynamic_nodes import (
    create_nodes,
    delete_nodes,
    map_future,
    parse_options,
    register_dynamic,
)
from slurmtwin.models.slurmctld.selection.demand import of_job
from slurmtwin.models.slurmctld.states import NodeBase
from slurmtwin.models.slurmctld.tables import Job

ROOM = {"SelectType": "select/cons_tres", "MaxNodeCount": 6}


def test_a_created_node_is_appended_and_joins_partitions_of_all_nodes(rig: Callable[..., Any]) -> None:
    """slurm.md 4.7 "slurmd -Z [--conf ...]": no bitmap of the others moves."""
    r = rig(**ROOM)
    r.until(10)
    assert create_nodes(r.cluster, r.ctld, "m[1-2]", "CPUs=8 RealMemory=2000 State=CLOUD Gres=gpu:2") is None
    assert [n.index for n in r.ctld.nodes.nodes if n.name.startswith("m")] == [4, 5]
    assert r.ctld.partitions["p"].nodes == 0b111111
    assert r.node("m1").conf.gres[0].count == 2
    assert [e.node for e in r.events(Kind.NODE_CREATED)] == ["m[1-2]"]
    assert create_nodes(r.cluster, r.ctld, "m3", "") == "MaxNodeCount reached"


def test_creating_nodes_needs_cons_tres(rig: Callable[..., Any]) -> None:
    """slurm.md 4.7 "slurmd -Z [--conf ...]"."""
    r = rig(SelectType="select/linear", MaxNodeCount=6)
    r.until(10)
    assert create_nodes(r.cluster, r.ctld, "m1", "") is not None


def test_a_dynamic_slurmd_is_a_new_node_at_first_and_a_known_one_later(rig: Callable[..., Any]) -> None:
    """slurm.md 4.7 "slurmd -Z [--conf ...]": later starts with the same name just register."""
    r = rig(**ROOM)
    r.until(10)
    conf = parse_options("z1", "CPUs=4 RealMemory=1000")
    assert register_dynamic(r.cluster, r.ctld, conf) is None
    r.cluster.slurmds.start(r.node("z1").bit)
    r.until(11)
    assert r.state("z1") == "IDLE"
    assert r.ctld.nodes.avail == 0b11111
    assert register_dynamic(r.cluster, r.ctld, conf) is None
    assert len(r.ctld.nodes) == 5


@pytest.mark.parametrize(("version", "refused"), [("22.05", False), ("26.05", True)])
def test_static_nodes_can_be_deleted_in_old_versions_only(rig: Callable[..., Any], version: str, refused: bool) -> None:
    """slurm.md 4.7 "scontrol delete node"."""
    r = rig(version, **ROOM)
    r.until(10)
    assert (delete_nodes(r.cluster, r.ctld, "n4") is not None) is refused
    assert (r.ctld.partitions["p"].nodes == 0b0111) is not refused


def test_a_job_keeps_asking_for_a_node_that_was_deleted(rig: Callable[..., Any]) -> None:
    """node_mgr.c delete_nodes() leaves req_node_bitmap alone: the job waits until the node is there again."""
    r = rig("22.05", **ROOM)
    r.until(10)
    assert delete_nodes(r.cluster, r.ctld, "n4") is None
    assert r.ctld.nodes.asked(["n1", "n4"]) == 0b1001
    assert not r.ctld.nodes.avail & 0b1000
    with pytest.raises(KeyError, match="n9"):
        r.ctld.nodes.asked(["n9"])
    assert create_nodes(r.cluster, r.ctld, "n4", "CPUs=4 RealMemory=1000") is None
    assert r.ctld.nodes.asked(["n4"]) == r.node("n4").bit


@pytest.mark.parametrize("asked", [{"nodelist": "n4"}, {"exclude": "n4"}])
def test_what_a_waiting_job_asks_for_outlives_the_node(rig: Callable[..., Any], asked: dict[str, str]) -> None:
    """Required or excluded, the node's bit stays in the job's demand when a pass works it out again."""
    r = rig("22.05", **ROOM)
    r.until(10)
    job = Job(JobRequest(job_id=1, submit_ns=0, **asked), 1, r.ctld.now_s())
    before = of_job(job, r.conf, r.ctld.nodes)
    assert before.required | before.excluded == r.node("n4").bit
    assert delete_nodes(r.cluster, r.ctld, "n4") is None
    assert of_job(job, r.conf, r.ctld.nodes) == before


def test_a_busy_node_is_not_deleted(rig: Callable[..., Any]) -> None:
    """slurm.md 4.7 "scontrol delete node": refused while ALLOCATED, COMPLETING."""
    r = rig("22.05", **ROOM)
    r.until(10)
    r.run_job(1, 0b1)
    assert delete_nodes(r.cluster, r.ctld, "n1") is not None
    assert "n1" in r.ctld.nodes.by_name


def test_dynamic_nodes_come_back_with_the_saved_state(rig: Callable[..., Any]) -> None:
    """slurm.md 4.7 "Restart of slurmctld": restored from node_state."""
    r = rig(**ROOM)
    r.until(10)
    create_nodes(r.cluster, r.ctld, "m1", "CPUs=4 RealMemory=1000")
    r.cluster.slurmds.start(r.node("m1").bit)
    r.until(20)
    r.cluster.controller().stop()
    r.cluster.controller().start()
    r.until(30)
    assert r.state("m1") == "IDLE"
    assert r.ctld.partitions["p"].nodes == 0b11111


def test_dynamic_nodes_are_lost_with_the_state(rig: Callable[..., Any]) -> None:
    """slurm.md 4.7 "Restart of slurmctld": lost if node_state is lost."""
    r = rig(**ROOM)
    r.until(10)
    create_nodes(r.cluster, r.ctld, "m1", "CPUs=4 RealMemory=1000")
    r.cluster.controller().stop()
    r.cluster.volume.lose()
    r.cluster.controller().start()
    r.until(30)
    assert "m1" not in r.ctld.nodes.by_name
    assert r.ctld.nodes.avail == 0b1111


def test_a_future_slurmd_takes_the_first_future_node_of_its_shape(rig: Callable[..., Any]) -> None:
    """slurm.md 4.7 "slurmd -F[feature]"; slurm.md 4.7 "FUTURE nodes": never pinged until their state changes."""
    r = rig()
    r.until(10)
    for name in ("n2", "n3"):
        r.ctld.nodes_lifecycle.update(r.node(name), "FUTURE", "")
    assert r.node("n2").base is NodeBase.FUTURE
    r.cluster.slurmds.stop(0b110)
    r.until(3000)
    assert r.times(Kind.NODE_NOT_RESPONDING) == []
    assert map_future(r.ctld, replace(r.conf.nodes[0], cpus=99)) is None
    node = map_future(r.ctld, r.conf.nodes[0])
    assert node is not None
    assert node.name == "n2"
    r.cluster.slurmds.start(node.bit)
    r.until(3001)
    assert r.state("n2") == "IDLE"
