"""How many pods, and which: scale-out fills the lowest free names, scale-in chooses victims by the design's order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from slurmtwin_operator.core.actions import CreatePod, DeleteObject, Guard, Why
from slurmtwin_operator.core.manifests import worker_pod
from slurmtwin_operator.core.nodeset.survey import REGISTER_NS, Member, Pass, slot_key
from slurmtwin_operator.core.observed import NodeSetObserved, SlurmJob
from slurmtwin_operator.core.power import suspended


def wanted_slots(o: NodeSetObserved) -> frozenset[str] | None:
    """The names wanted where names matter (power saving, one per machine); None where only the number does."""
    if o.me.deleting:
        return frozenset()
    if o.spec.scaling == "per-node":
        return frozenset(node.name for node in o.kube_nodes if node.selected)
    if o.switches.scale_source == "power":
        if o.slurm.answer != "fresh":  # nobody says whom Slurm wants up: those that are there stay
            return frozenset(pod.slot for pod in o.pods if not pod.deleting)
        return frozenset(o.power)
    return None


def set_size(o: NodeSetObserved) -> int:
    """Replicas of a StatefulSet: it has no gaps, so it reaches up to the highest ordinal; machines are counted."""
    slots = wanted_slots(o)
    if slots is None:
        return o.spec.replicas
    return max((int(slot) + 1 if slot.isdecimal() else len(slots) for slot in slots), default=0)


def wanted_number(o: NodeSetObserved) -> int:
    """How many nodes there shall be."""
    slots = wanted_slots(o)
    return o.spec.replicas if slots is None else len(slots)


def condemn(p: Pass) -> None:
    """Mark the members that are too many."""
    slots = wanted_slots(p.o)
    if slots is not None:
        victims: Iterable[Member] = (m for m in p.members if not m.gone and m.pod.slot not in slots)
    else:
        live = [m for m in p.members if not m.gone]
        surplus = p.rest.total + len(live) - p.o.spec.replicas
        victims = victims_of(p, live)[:surplus] if surplus > 0 else ()
    for m in victims:
        m.condemned = True
        m.want = "" if is_suspended(m, p) else "scale-in"


def victims_of(p: Pass, live: list[Member]) -> list[Member]:
    """The members, first victim first."""
    ends = last_ends(p.o.slurm.jobs) if "deadline" in p.sw.victim_order else {}
    keys = [_KEYS[name] for name in p.sw.victim_order]

    def rank(m: Member) -> list[Any]:
        return [*[key(m, p, ends) for key in keys], -m.order[0], m.pod.slot]

    return sorted(live, key=rank)


def last_ends(jobs: Iterable[SlurmJob]) -> dict[str, int]:
    """Per node the latest expected end of its jobs; idle nodes are not in it."""
    ends: dict[str, int] = {}
    for job in sorted(jobs, key=lambda job: job.end_ns):  # a later end takes the place of an earlier one
        ends |= dict.fromkeys(job.nodes, max(0, job.end_ns))
    return ends


_KEYS: Final[dict[str, Callable[[Member, Pass, dict[str, int]], Any]]] = {
    "pending": lambda m, p, ends: (bool(m.pod.kube_node), m.pod.phase != "Pending"),
    "not-ready": lambda m, p, ends: m.pod.ready,
    "deletion-cost": lambda m, p, ends: m.pod.deletion_cost,
    "condemned": lambda m, p, ends: (
        not (m.pod.name in p.drained or (m.slurm is not None and m.slurm.drained and m.slurm.ours))
    ),
    "cordoned": lambda m, p, ends: not (m.pod.cordoned or (m.kube is not None and m.kube.unschedulable)),
    "idle": lambda m, p, ends: m.slurm is not None and m.slurm.busy,
    "deadline": lambda m, p, ends: ends.get(m.pod.name, 0),
    "ordinal": lambda m, p, ends: -m.order[0],
    "newest": lambda m, p, ends: -m.pod.created_ns,
}
"""What each key of the switch victim_order sorts by; the lower goes first."""


def is_suspended(m: Member, p: Pass) -> bool:
    """Slurm itself has powered the node down: a drain would keep it from ever being powered up again."""
    return p.sw.scale_source == "power" and m.slurm is not None and suspended(m.slurm)


def removable(m: Member, p: Pass) -> bool:
    """May this pod go now without taking a job with it?"""
    if not p.sw.drain_before_delete or m.dead or (p.usable and is_suspended(m, p)):
        return True
    answer = p.o.slurm.answer
    if answer != "fresh":
        return answer == "absent" and p.sw.rest_missing == "open"
    if m.slurm is None:
        waited = not m.pod.ready or p.now - m.pod.ready_since_ns >= REGISTER_NS
        return p.sw.unknown_node == "drained" or waited
    return m.slurm.drained and not m.slurm.busy


def remove(m: Member, p: Pass) -> None:
    """Delete the pod; where the design re-checks, only if its node is idle when asked again."""
    guarded = p.sw.recheck and p.sw.drain_before_delete and not m.dead and not is_suspended(m, p)
    guard = Guard(m.pod.name, idle=True) if guarded else None
    p.actions.append(DeleteObject("Pod", m.pod.name, m.pod.uid, guard))
    p.remember_delete(m.pod)
    m.gone = True


def remove_dead(p: Pass) -> None:
    """Pods that ended are deleted, so that their name is free; deletes not seen yet are asked for again."""
    for m in p.members:
        if m.dead and not m.gone:
            p.say(Why.REPLACED_DEAD, m.pod.name)
            remove(m, p)
        elif m.gone and not m.pod.deleting:
            p.unsettled = True
            remove(m, p)


def remove_unregistered(p: Pass) -> None:
    """Pods that are ready and that Slurm does not know."""
    if not p.usable:
        return
    for m in p.members:
        if m.slurm is None and m.pod.ready and not m.gone and p.now - m.pod.ready_since_ns >= REGISTER_NS:
            p.say(Why.UNREGISTERED, m.pod.name)
            p.unsettled = True
            if p.sw.unregistered_pod == "delete":
                remove(m, p)


def remove_chosen(p: Pass) -> None:
    """Delete condemned and outdated members that may go; the others are waited for."""
    for m in p.members:
        if (m.condemned or m.updating) and not m.gone:
            p.unsettled = True
            if removable(m, p):
                p.say(Why.SCALE_IN if m.condemned else Why.UPDATE, m.pod.name)
                remove(m, p)
            else:
                p.say(Why.WAITS_FOR_JOBS if p.usable else Why.WAITS_FOR_SLURM, m.pod.name)


def create_missing(p: Pass) -> list[str]:
    """Create what is missing; returns the names asked for. A pod that is going still holds its name."""
    occupied = {m.pod.slot for m in p.members}
    slots = wanted_slots(p.o)
    if slots is None and p.rest.total + len(occupied) >= p.o.spec.replicas:
        return []
    if slots is None:
        missing = _free_ordinals(occupied, p.o.spec.replicas - len(occupied))
    else:
        missing = sorted(slots - occupied, key=slot_key)
    at_most = p.o.spec.replicas if slots is None and p.sw.recheck else -1
    names = []
    for slot in missing:
        name = f"{p.o.me.name}-{slot}"
        node = slot if p.o.spec.scaling == "per-node" else ""
        p.actions.append(CreatePod(name, slot, p.o.spec.revision, node, worker_pod(p.o, slot), at_most))
        p.say(Why.CREATED, name)
        p.unsettled = True
        names.append(name)
    return names


def _free_ordinals(occupied: set[str], number: int) -> list[str]:
    """The lowest ordinals not in use."""
    free: list[str] = []
    ordinal = 0
    while len(free) < number:
        if str(ordinal) not in occupied:
            free.append(str(ordinal))
        ordinal += 1
    return free
