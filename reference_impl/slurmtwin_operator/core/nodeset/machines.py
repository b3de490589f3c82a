"""What is done to Kubernetes nodes: mirrored cordons, the lock, replacement of bad or lost machines."""

from __future__ import annotations

from slurmtwin_operator.core.actions import CordonNode, DeleteNode, LockNode, Why
from slurmtwin_operator.core.nodeset.scale import removable
from slurmtwin_operator.core.nodeset.survey import SECOND, Member, Pass
from slurmtwin_operator.core.observed import KubeNode
from slurmtwin_operator.core.switches import Switches


def sync_machines(p: Pass) -> None:
    """Every Kubernetes node of the set once, in the order of names."""
    sw = p.sw
    if not touches_machines(sw):
        return
    hosted: dict[str, list[Member]] = {}
    for m in p.members:
        if m.pod.kube_node:
            hosted.setdefault(m.pod.kube_node, []).append(m)
    for node in sorted(p.o.kube_nodes, key=lambda n: n.name):
        members = hosted.get(node.name, [])
        if sw.sync == "both" and p.usable:
            _mirror(node, members, p)
        if sw.lock == "taint" and p.usable:
            _lock(node, members, p)
        _replace(node, members, p)


def touches_machines(switches: Switches) -> bool:
    """Does the design do anything to Kubernetes nodes?"""
    return (
        switches.sync == "both" or switches.lock != "none" or switches.health == "replace"
        or bool(switches.lost_node_after_s)
    )  # fmt: skip


def _mirror(node: KubeNode, members: list[Member], p: Pass) -> None:
    """Cordon a machine whose Slurm node somebody drained; uncordon it when that is over and the cordon is ours."""
    drained = any(m.slurm is not None and m.slurm.drained and not m.slurm.ours for m in members)
    if drained and not node.unschedulable:
        p.actions.append(CordonNode(node.name, True))
        p.say(Why.MIRRORED, node.name)
    elif node.mirrored and not drained:
        p.actions.append(CordonNode(node.name, False))


def _lock(node: KubeNode, members: list[Member], p: Pass) -> None:
    """none -> pending (taint) -> locked (other pods are gone) while a prolog or a job needs the machine."""
    needed = any(m.slurm is not None and (m.slurm.lock_asked or m.slurm.busy) for m in members)
    if needed and not node.locked:
        p.actions.append(LockNode(node.name, "pending"))
        p.unsettled = True
    elif needed and node.locked == "pending":
        p.unsettled = True
        if not node.foreign_pods:
            p.actions.append(LockNode(node.name, "locked"))
            p.say(Why.LOCKED, node.name)
    elif not needed and node.locked:
        p.actions.append(LockNode(node.name, ""))
        p.say(Why.UNLOCKED, node.name)


def _replace(node: KubeNode, members: list[Member], p: Pass) -> None:
    """Delete a machine that is lost for long, or that is bad and holds no job any more."""
    sw = p.sw
    lost = bool(sw.lost_node_after_s) and not node.ready
    if lost and p.now - node.not_ready_since_ns >= sw.lost_node_after_s * SECOND:
        p.actions.append(DeleteNode(node.name, node.instance))
        p.say(Why.NODE_LOST, node.name)
    elif sw.health == "replace" and members and any(c in node.conditions for c in sw.health_conditions):
        p.unsettled = True
        if all(removable(m, p) for m in members):
            p.actions.append(DeleteNode(node.name, node.instance))
            p.say(Why.NODE_REPLACED, node.name)
