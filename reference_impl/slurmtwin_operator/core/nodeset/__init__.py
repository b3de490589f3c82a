"""One pass over a NodeSet: scale, update, drains, machines, records, in the order that is safe to be cut anywhere.

Order of actions: objects, drains and resumes, labels, deletes, creates, records. A drain comes before the delete that
rests on it by at least one observation, so a crash between any two actions leaves nothing that the next pass cannot
see and finish (style 5.4, guard 5).
"""

from __future__ import annotations

from typing import Final

from slurmtwin_operator.core.actions import Memory, Plan, Reason, SetFinalizer, Why
from slurmtwin_operator.core.conditions import settle
from slurmtwin_operator.core.manifests import node_set_objects, refusal, sync_objects, worker_set
from slurmtwin_operator.core.nodeset import drains, machines, records, scale, update
from slurmtwin_operator.core.nodeset.standing import Standing
from slurmtwin_operator.core.nodeset.survey import SECOND, Pass
from slurmtwin_operator.core.observed import Condition, NodeSetObserved

__all__ = ["LATE_NS", "SOON_NS", "Standing", "plan_node_set"]
SOON_NS: Final = 5 * SECOND
"""Next look while something is under way."""
LATE_NS: Final = 300 * SECOND
"""Next look when nothing is; changes are noticed by watches and by the shell's poll of Slurm."""


def plan_node_set(o: NodeSetObserved, memory: Memory, now: int, standing: Standing | None = None) -> Plan:
    """The decision of one pass over a NodeSet. standing: what earlier passes left; the plan is the same without."""
    if o.me.generation < memory.generation:
        return Plan((), memory, SOON_NS, reasons=(Reason(Why.STALE, o.me.name),))
    refused = refusal(o)
    if refused and not o.me.deleting:
        conditions = settle(o.conditions, now, (Condition("Available", "False", "Refused", refused),))
        return Plan((), memory, LATE_NS, (), conditions, (Reason(Why.REFUSED, refused),))
    p = Pass(o, memory, now, standing.watched(o, memory) if standing is not None else None)
    if not o.me.finalizer and not o.me.deleting:
        p.actions.append(SetFinalizer(True))
    if p.sw.workers == "external":
        return _finish(p)
    sync_objects(p.actions, p.reasons, node_set_objects(o), o.applied)
    if o.stops_pass:
        p.say(Why.WAITS_FOR_SLURM, o.me.name)
        p.unsettled = True
        return _finish(p)
    if o.me.deleting and p.sw.deletion == "at-once":
        p.actions.append(SetFinalizer(False))
        return _finish(p)
    return _finish(p, _pods(p))


def _pods(p: Pass) -> tuple[tuple[str, int], ...]:
    """Decide about pods and their Slurm nodes; returns the creations to remember."""
    asked = p.memory.created
    names = {pod.name for pod in p.o.pods} if asked else frozenset[str]()
    unseen = tuple(entry for entry in asked if entry[0] not in names)
    if unseen and p.sw.unseen_creation == "wait":
        p.say(Why.WAITS_FOR_CREATION, unseen[0][0])
        return unseen
    owned = p.sw.workers == "pods"
    if owned:
        scale.remove_dead(p)
        scale.condemn(p)
        update.choose(p)
    else:
        sync_objects(p.actions, p.reasons, (worker_set(p.o, scale.set_size(p.o)),), p.o.applied)
    drains.sync_drains(p)
    drains.link_records(p)
    drains.protect(p)
    made: list[str] = []
    if owned:
        scale.remove_unregistered(p)
        scale.remove_chosen(p)
        made = scale.create_missing(p)
    machines.sync_machines(p)
    clean = records.prune(p)
    if p.o.me.deleting and clean and not p.o.pods:
        p.actions.append(SetFinalizer(False))
        p.say(Why.DELETING, p.o.me.name)
    return tuple((name, p.now) for name in made) if p.sw.unseen_creation == "wait" else ()


def _finish(p: Pass, created: tuple[tuple[str, int], ...] = ()) -> Plan:
    me = p.o.me
    status = records.status_of(p)
    memory = Memory(
        generation=me.generation, deleted=tuple(sorted(p.deleted.items())),
        drained=tuple(sorted(p.drained.items())), created=created, orphans=tuple(sorted(p.orphans.items())),
    )  # fmt: skip
    conditions = records.conditions_of(p, status)
    requeue = SOON_NS if p.unsettled else LATE_NS
    return Plan(tuple(p.actions), memory, requeue, status, conditions, tuple(p.reasons))
