"""Slurm's power saving as the source of scale: slurm.conf that slurmctld saves power with, and pods by its marks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.workload.slurm_conf import cluster_conf_of_files
from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import Action, Apply, CreatePod, DeleteObject, DrainNode, Memory
from slurmtwin_operator.core.observed import (
    ClusterObserved,
    Identity,
    NodeSetFact,
    NodeSetObserved,
    Pod,
    Slurm,
    SlurmNode,
)
from slurmtwin_operator.core.power import wanted_up
from slurmtwin_operator.core.slurm_conf import render
from slurmtwin_operator.core.spec import ClusterSpec, NodeSetSpec
from slurmtwin_operator.core.switches import Switches

SPEC = NodeSetSpec(cluster="c", image="i", replicas=4)


def node(name: str, *flags: str, state: str = "IDLE", features: tuple[str, ...] = ("w",)) -> SlurmNode:
    """A node that slurm.conf knows."""
    return SlurmNode(name, state, flags, features=features, registered_ns=1, dynamic=False)


def actions(*nodes: SlurmNode, pods: tuple[str, ...] = (), answer: Any = "fresh", **switches: Any) -> list[Action]:
    """What is done about a set whose pods are ready, objects beside it left out."""
    there = tuple(
        Pod(f"w-{slot}", f"u{slot}", slot, SPEC.revision, "Running", True, kube_node="k0", protected=True)
        for slot in pods
    )
    o = NodeSetObserved(
        Identity("ns", "w", "u"), SPEC, Switches(scale_source="power", **switches), pods=there,
        slurm=Slurm(answer, 5, nodes), power=wanted_up(nodes, "w"),
    )  # fmt: skip
    return [a for a in plan(o, Memory(), 10).actions if not isinstance(a, Apply) or a.kind == "StatefulSet"]


def test_slots_are_those_of_the_set_that_are_not_powered_down() -> None:
    """By feature and name; marks of power saving alone decide, not DOWN or DRAIN."""
    nodes = (
        node("w-0"), node("w-1", "POWERED_DOWN"), node("w-2", "POWERING_DOWN"), node("w-3", "POWERING_UP"),
        node("w-4", "DRAIN", state="DOWN"), node("x-5"), node("w-6", features=("x",)),
    )  # fmt: skip
    assert wanted_up(nodes, "w") == ("0", "3", "4")


def test_a_node_that_is_powered_up_gets_its_pod_by_name() -> None:
    """And no other: names matter, gaps stay."""
    made = actions(node("w-0", "POWERED_DOWN"), node("w-3", "POWERING_UP"))
    assert [a.name for a in made if isinstance(a, CreatePod)] == ["w-3"]


def test_a_node_that_is_powered_down_loses_its_pod_without_a_drain() -> None:
    """A drained node would never be powered up again; Slurm has seen to it that no job is there."""
    made = actions(node("w-0"), node("w-1", "POWERING_DOWN"), pods=("0", "1"))
    assert [a for a in made if isinstance(a, DrainNode)] == []
    assert [(a.name, a.only_if) for a in made if isinstance(a, DeleteObject)] == [("w-1", None)]


@pytest.mark.parametrize("answer", ["away", "absent"])
def test_while_nobody_says_whom_slurm_wants_up_nothing_changes(answer: Any) -> None:
    """Fails closed, also where pods go without a drain."""
    made = actions(pods=("0", "1"), answer=answer, drain_before_delete=False)
    assert [a for a in made if isinstance(a, CreatePod | DeleteObject)] == []


def test_a_stateful_set_reaches_up_to_the_highest() -> None:
    """It has no gaps (Soperator's are Kruise's, with reserved ordinals)."""
    (made,) = actions(node("w-0", "POWERED_DOWN"), node("w-2"), workers="statefulset", pdb="none")
    assert isinstance(made, Apply)
    assert json.loads(made.manifest)["spec"]["replicas"] == 3
    (none,) = actions(node("w-0", "POWERED_DOWN"), workers="statefulset", pdb="none")
    assert isinstance(none, Apply)
    assert json.loads(none.manifest)["spec"]["replicas"] == 0


def test_slurmd_registers_as_booted_and_sets_no_node_down() -> None:
    """slurmctld waits for a boot after the power-up (-b); a node set DOWN by a hook is not powered up."""
    (made,) = [a for a in actions(node("w-0", "POWERING_UP")) if isinstance(a, CreatePod)]
    container = json.loads(made.manifest)["spec"]["containers"][0]
    assert container["args"] == ["slurmd", "-b", "-N", "$(POD_NAME)", "--conf-server", "c-ctld:6817"]
    assert "lifecycle" not in container


def conf(**options: str) -> str:
    """slurm.conf of a Cluster of two such sets."""
    facts = (NodeSetFact("w", nodes=4, cpu="2", memory="3Gi", features=("gpu",)), NodeSetFact("x", nodes=1, cpu="500m"))
    spec = ClusterSpec(image="i", conf=options, switches=Switches(scale_source="power"))
    return render(ClusterObserved(Identity("ns", "c"), spec, node_sets=facts))


def test_slurm_conf_knows_every_node_there_may_be() -> None:
    """CLOUD nodes, programs that say nothing, Soperator's times; a user's word replaces a time, not a program."""
    text = conf(SuspendTime="60")
    assert "NodeName=w-[0-3] Feature=w,gpu CPUs=2 RealMemory=3072 State=CLOUD\nNodeSet=w Feature=w\n" in text
    assert "NodeName=x-0 Feature=x CPUs=1 RealMemory=1024 State=CLOUD\n" in text
    assert "SuspendTime=60\n" in text
    assert "SuspendTime=600" not in text
    assert text.index("ResumeProgram=/bin/true") > text.index("SuspendTime=60")


def test_the_twin_reads_it_as_a_cluster_that_saves_power(tmp_path: Path) -> None:
    """The same text, by the twin's own reader: four and one CLOUD nodes, idle ones powered down after a minute."""
    path = tmp_path / "slurm.conf"
    path.write_text(conf(SuspendTime="60"), encoding="utf-8")
    read, _ = cluster_conf_of_files(path)
    assert [(found.name, found.state) for found in read.nodes][::4] == [("w-0", "CLOUD"), ("x-0", "CLOUD")]
    assert read.timers.suspend_time_ns == 60_000_000_000
