"""Single passes that the stories do not reach."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import (
    Action,
    Apply,
    CommentNode,
    DeleteObject,
    DrainNode,
    LockNode,
    Memory,
    Reserve,
    ResumeNode,
)
from slurmtwin_operator.core.observed import PREFIX, Identity, KubeNode, NodeSetObserved, Pod, Slurm, SlurmNode
from slurmtwin_operator.core.spec import NodeSetSpec
from slurmtwin_operator.core.switches import Switches

MACHINE = KubeNode("k0", "m1")
SPEC = NodeSetSpec(cluster="c", image="i", replicas=1)


def actions(
    pod: dict[str, Any],
    node: dict[str, Any] | None,
    spec: NodeSetSpec = SPEC,
    machine: KubeNode = MACHINE,
    **switches: Any,
) -> list[Action]:
    """What is done about one ready pod on machine k0, objects left out."""
    one = Pod("w-0", "u0", "0", **{"revision": spec.revision, "phase": "Running", "ready": True, "kube_node": "k0",
                                   "protected": True, **pod})  # fmt: skip
    nodes = (
        () if node is None else (SlurmNode("w-0", **{"state": "IDLE", "features": ("w",), "registered_ns": 1, **node}),)
    )
    o = NodeSetObserved(Identity("ns", "w", "u"), spec, Switches(**switches), pods=(one,),
                        kube_nodes=(machine,), slurm=Slurm(nodes=nodes))  # fmt: skip
    return [a for a in plan(o, Memory(), 10).actions if not isinstance(a, Apply)]


DOWN = {"state": "DOWN", "reason": f"{PREFIX}pod is terminating"}


def test_a_cordoned_pod_is_drained() -> None:
    """The annotation of a pod drains its Slurm node."""
    assert actions({"cordoned": True}, {}) == [DrainNode("w-0", f"{PREFIX}cordon of the pod")]


def test_moved_leaves_down_on_the_same_machine() -> None:
    """down_return moved: the drain ends, DOWN stays; on another machine both end and the comment follows."""
    same = {**DOWN, "flags": ("DRAIN",), "comment": "k0"}
    bare = {"down_return": "moved", "pdb": "none"}
    assert actions({}, same, **bare) == [ResumeNode("w-0", undrain=True)]
    other = actions({}, {**same, "comment": "k9"}, **bare, recheck=False)
    assert other == [ResumeNode("w-0"), CommentNode("w-0", "k0")]


def test_moved_leaves_down_where_no_comment_says_from_where() -> None:
    """A pod that went before its node had one: the node stays DOWN and gets its comment (slurm-operator f2ed3fc5,
    slurmcontrol.go UpdateNodeWithPodInfo(): IDLE only `if podInfoOld.Node != ""`).
    """
    assert actions({}, DOWN, down_return="moved", pdb="none") == [CommentNode("w-0", "k0")]


@pytest.mark.parametrize(("comment", "orphans"), [("k0", []), ("k9", ["w-1"]), ("", [])])
def test_only_a_record_whose_comment_names_a_machine_that_is_gone_is_pruned(comment: str, orphans: list[str]) -> None:
    """prune node-not-found: without a comment nobody knows its machine (nodeset_sync.go, "Skipping defunct Slurm node
    deletion because PodInfo does not include a Kubernetes node").
    """
    flags = ("NOT_RESPONDING",)
    one = Pod("w-0", "u0", "0", revision=SPEC.revision, phase="Running", ready=True, kube_node="k0", protected=True)
    nodes = (
        SlurmNode("w-0", "IDLE", features=("w",), registered_ns=1),
        SlurmNode("w-1", "DOWN", flags, comment=comment, features=("w",)),
    )
    o = NodeSetObserved(Identity("ns", "w", "u"), SPEC, Switches(prune="node-not-found"), pods=(one,),
                        kube_nodes=(MACHINE,), slurm=Slurm(nodes=nodes))  # fmt: skip
    assert sorted(dict(plan(o, Memory(), 10).memory.orphans)) == orphans


def test_foreign_down_stays() -> None:
    """A node that somebody else set DOWN is left alone."""
    assert actions({}, {"state": "DOWN", "reason": "bad disk"}) == []


def test_a_drain_is_kept_until_slurmd_is_back() -> None:
    """Nothing is resumed before the pod's own slurmd has registered."""
    assert actions({"created_ns": 5}, {**DOWN, "registered_ns": 1}) == []


def test_an_idle_machine_has_no_lock() -> None:
    """No job, no lock: nothing to do; a job asks for one."""
    assert actions({}, {}, lock="taint") == []
    assert actions({}, {"lock_asked": True}, lock="taint") == [LockNode("k0", "pending")]


def test_the_lock_waits_for_other_pods() -> None:
    """pending, and other pods still there: nothing yet."""
    held = KubeNode("k0", "m1", locked="pending", foreign_pods=1)
    assert actions({}, {"lock_asked": True}, machine=held, lock="taint") == []


def test_a_bad_machine_stays_drained_until_it_is_another() -> None:
    """health replace: the condition is gone, the machine is the same: the drain stays; on another machine it ends."""
    held = {"flags": ("DRAIN",), "reason": f"{PREFIX}health K8SNodeDegraded of m1"}
    assert actions({}, held, health="replace", pdb="none") == []
    other = KubeNode("k0", "m2")
    assert [type(a) for a in actions({}, held, machine=other, health="replace", pdb="none")] == [ResumeNode]


def test_no_reservation_without_nodes() -> None:
    """A scheduled update reserves the nodes that Slurm knows; none, no reservation."""
    spec = NodeSetSpec(cluster="c", image="i", update={"type": "scheduled", "start_s": 100})
    assert actions({"revision": "old"}, None, spec) == []
    assert [a for a in actions({"revision": "old"}, {}, spec) if isinstance(a, Reserve)] == [
        Reserve("slurmtwin-maint-w", True, ("w-0",), 100, 1800)
    ]


def test_a_copy_of_a_spec_is_computed_anew() -> None:
    """model_copy with another image has another revision, digest and hash."""
    other = SPEC.model_copy(update={"image": "j"})
    assert SPEC.digest != other.digest
    assert SPEC.revision != other.revision
    assert hash(SPEC) != hash(other)


def test_a_dead_pod_is_deleted_without_a_guard() -> None:
    """It holds no job whatever Slurm says, and Slurm may be away."""
    assert actions({"phase": "Failed", "ready": False}, {})[0] == DeleteObject("Pod", "w-0", "u0")
