"""Slurm node records without a pod, and the status that users read."""

from __future__ import annotations

from typing import Any

from slurmtwin_operator.core.actions import DeleteSlurmNode, Guard, Why
from slurmtwin_operator.core.conditions import settle
from slurmtwin_operator.core.nodeset.scale import wanted_number
from slurmtwin_operator.core.nodeset.survey import ORPHAN_NS, Pass
from slurmtwin_operator.core.observed import Condition, NodeSetObserved, SlurmNode


def prune(p: Pass) -> bool:
    """Delete records of pods that are gone for good; True when none of ours is left over."""
    if p.sw.prune == "never" or not p.usable:
        return True
    left = unpodded(p.o) if p.unpodded is None else p.unpodded
    if not left:
        return True
    machines = {node.name for node in p.o.kube_nodes}
    before = dict(p.memory.orphans)
    wait = 0 if p.o.me.deleting else ORPHAN_NS
    for node in sorted(left, key=lambda n: n.name):
        if not _defunct(node, machines, p):
            continue
        since = p.orphans[node.name] = before.get(node.name, p.now)
        p.unsettled = True
        if p.now - since >= wait:
            p.actions.append(
                DeleteSlurmNode(node.name, Guard(node.name, reason=node.reason, no_pod=True) if p.sw.recheck else None)
            )
            p.say(Why.PRUNED, node.name)
    return False


def unpodded(o: NodeSetObserved) -> tuple[SlurmNode, ...]:
    """Records of this set's nodes that have no pod."""
    pods = {pod.name for pod in o.pods}
    return tuple(n for n in o.slurm.nodes if n.name not in pods and may_be_pruned(n, o.me.name))


def may_be_pruned(node: SlurmNode, node_set: str) -> bool:
    """A record that came by registration, for this set."""
    return node.dynamic and node_set in node.features


def _defunct(node: SlurmNode, machines: set[str], p: Pass) -> bool:
    """No pod will come back for it, no job is on it, and no foreign drain would be forgotten with it."""
    if node.busy or (node.drained and not node.ours):
        return False
    silent = "NOT_RESPONDING" in node.flags
    if p.sw.prune == "node-not-found":
        return node.state == "DOWN" and silent and node.comment not in ("", *machines)
    return node.state == "DOWN" or silent or node.drained


def status_of(p: Pass) -> tuple[tuple[str, Any], ...]:
    """Numbers for `kubectl get` and the scale subresource."""
    rest = p.rest
    total, updated, ready, available = rest.total, rest.total, rest.ready, rest.available
    states = {"IDLE": 0, "ALLOCATED": 0, "MIXED": 0, "DOWN": 0} | rest.states
    drained = 0
    for m in p.members:
        if m.pod.deleting:
            continue
        total += 1
        ready += m.pod.ready
        available += m.available
        updated += not m.old
        if m.slurm is not None:
            states[m.slurm.state] = states.get(m.slurm.state, 0) + 1
            drained += m.slurm.drained
    wanted = wanted_number(p.o)
    me, spec = p.o.me, p.o.spec
    return (
        ("replicas", total), ("desired", wanted), ("ready", ready), ("available", available), ("updated", updated),
        ("unavailable", max(0, wanted - available)), ("slurmIdle", states["IDLE"]),
        ("slurmAllocated", states["ALLOCATED"] + states["MIXED"]), ("slurmDown", states["DOWN"]),
        ("slurmDrain", drained), ("revision", spec.revision),
        ("selector", f"slurmtwin.dev/nodeset={me.name}"), ("observedGeneration", me.generation),
    )  # fmt: skip


def conditions_of(p: Pass, status: tuple[tuple[str, Any], ...]) -> tuple[Condition, ...]:
    """Available, Progressing, SlurmReachable."""
    facts = dict(status)
    enough = facts["available"] >= facts["desired"]
    answer = p.o.slurm.answer
    return settle(p.o.conditions, p.now, (
        Condition("Available", "True" if enough else "False", "Enough" if enough else "Missing",
                  f"{facts['available']} of {facts['desired']} nodes in service"),
        Condition("Progressing", "True" if p.unsettled else "False", "Working" if p.unsettled else "Settled"),
        Condition("SlurmReachable", "True" if p.usable else "False", {"fresh": "Answers", "away": "NoAnswer"}.get(
            answer, "NoRestApi")),
    ))  # fmt: skip
