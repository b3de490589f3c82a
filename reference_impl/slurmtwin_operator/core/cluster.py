"""One pass over a Cluster: keys, slurm.conf, accounting, slurmctld in the design's form, REST API, active label."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from slurmtwin_operator.core import control_plane
from slurmtwin_operator.core.actions import (
    Action,
    EnsureSecret,
    Guard,
    LabelPod,
    Memory,
    Plan,
    Reason,
    Reconfigure,
    SetFinalizer,
    Why,
)  # fmt: skip
from slurmtwin_operator.core.conditions import settle
from slurmtwin_operator.core.manifests import JWT_KEY, refused, shared_key, short_hash, sync_objects
from slurmtwin_operator.core.observed import ClusterObserved, Condition
from slurmtwin_operator.core.slurm_conf import departed, kept_partitions, render

SOON_NS: Final = 5_000_000_000
LATE_NS: Final = 300_000_000_000
ACTIVE_LABEL: Final = "slurmtwin.dev/active"
"""Label of the slurmctld pod that the service selects, with primary and backup."""


def plan_cluster(o: ClusterObserved, memory: Memory, now: int) -> Plan:
    """The decision of one pass over a Cluster."""
    if o.me.generation < memory.generation:
        return Plan((), memory, SOON_NS, reasons=(Reason(Why.STALE, o.me.name),))
    memory = replace(memory, generation=o.me.generation)
    if o.me.deleting:
        return _delete(o, memory)
    problem = refused(o.me.name, o.spec.image, False, o.policy)
    if problem:
        conditions = settle(o.conditions, now, (Condition("Available", "False", "Refused", problem),))
        return Plan((), memory, LATE_NS, (), conditions, (Reason(Why.REFUSED, problem),))
    actions: list[Action] = [] if o.me.finalizer else [SetFinalizer(True)]
    reasons: list[Reason] = []
    conf_hash = ""
    kept = kept_partitions(o, memory.dropped)
    memory = replace(memory, dropped=tuple(name for name in departed(o) if name not in kept))
    if o.spec.switches.controller != "external":
        conf = render(o, kept)
        conf_hash = short_hash(conf)
        if not any(a.kind == "Secret" and a.name == f"{o.me.name}-keys" for a in o.applied):
            actions.append(EnsureSecret(f"{o.me.name}-keys", ((JWT_KEY, 32), (shared_key(o.spec.version), 1024))))
        sync_objects(actions, reasons, control_plane.objects(o, conf, conf_hash), o.applied)
        _reconfigure(o, conf_hash, actions, reasons)
        _move_label(o, actions, reasons)
    reasons += [Reason(Why.PARTITION_KEPT, name) for name in kept]
    settled = not actions and o.slurm.answer == "fresh" and not kept
    status, conditions = _status(o, conf_hash, now)
    return Plan(tuple(actions), memory, LATE_NS if settled else SOON_NS, status, conditions, tuple(reasons))


def _delete(o: ClusterObserved, memory: Memory) -> Plan:
    """Wait for the node sets: their jobs need a controller to end; then the garbage collector takes the rest."""
    if o.node_sets or not o.me.finalizer:
        return Plan((), memory, SOON_NS, reasons=(Reason(Why.DELETING, o.me.name),))
    guard = Guard(childless=True) if o.spec.switches.recheck else None
    return Plan((SetFinalizer(False, guard),), memory, SOON_NS, reasons=(Reason(Why.DELETING, o.me.name),))


def _reconfigure(o: ClusterObserved, conf_hash: str, actions: list[Action], reasons: list[Reason]) -> None:
    """In place: once the controller's volume shows the new files, tell it to read them."""
    if o.spec.switches.config_change != "in-place" or o.slurm.answer != "fresh":
        return
    if o.mounted_conf == conf_hash and o.loaded_conf not in ("", conf_hash):
        actions.append(Reconfigure(conf_hash))
        reasons.append(Reason(Why.RECONFIGURED, conf_hash))


def _move_label(o: ClusterObserved, actions: list[Action], reasons: list[Reason]) -> None:
    """Only the active controller carries the service's label; it leaves the old one before it reaches the new one."""
    if o.spec.switches.controller != "primary-backup" or not o.primary:
        return
    pods = sorted(o.controllers, key=lambda c: c.name)
    for pod in pods:
        if pod.active_label and pod.name != o.primary:
            actions.append(LabelPod(pod.name, pod.uid, ACTIVE_LABEL, None))
    for pod in pods:
        if not pod.active_label and pod.name == o.primary:
            actions.append(LabelPod(pod.name, pod.uid, ACTIVE_LABEL, "true"))
            reasons.append(Reason(Why.ACTIVE_MOVED, pod.name))


def _status(
    o: ClusterObserved, conf_hash: str, now: int
) -> tuple[tuple[tuple[str, Any], ...], tuple[Condition, ...]]:  # fmt: skip
    answers = o.slurm.answer == "fresh"
    ready = all(a.ready for a in o.applied)
    status = (
        ("configHash", conf_hash), ("active", o.primary), ("nodeSets", len(o.node_sets)),
        ("slurmNodes", len(o.slurm.nodes)), ("observedGeneration", o.me.generation),
    )  # fmt: skip
    conditions = settle(o.conditions, now, (
        Condition("Available", "True" if answers else "False", "Answers" if answers else "NoAnswer"),
        Condition("Progressing", "False" if ready else "True", "Settled" if ready else "PodsStarting"),
    ))  # fmt: skip
    return status, conditions
