"""One pass over a workload that one of several clusters shall run, by MultiKueue's protocol (KQ).

Nominate clusters (all at once, or a few per round), mirror the workload there, let the first copy that is admitted run
and delete the others. A cluster that stays silent for worker_lost_after_s loses the workload; when it comes back its
copy is deleted, so a job may run twice meanwhile (X83): that is the protocol's price, and it shows in the rows.

What a cluster said before it was last told something counts as silence; so does a copy that is missing from the list.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from slurmtwin_operator.core.actions import Action, Memory, Plan, Reason, SetFinalizer, SetMirror, Why
from slurmtwin_operator.core.observed import DispatchObserved, Mirror

SECOND: Final = 1_000_000_000
SOON_NS: Final = 5 * SECOND


def plan_dispatch(o: DispatchObserved, memory: Memory, now: int) -> Plan:
    """The decision of one pass over a Dispatch."""
    if o.switches.dispatch == "none":
        return Plan((), memory, 60 * SECOND)
    since = memory.since_ns if memory.since_ns >= 0 else now
    memory = replace(memory, since_ns=since)
    actions: list[Action] = [] if o.me.finalizer or o.me.deleting else [SetFinalizer(True)]
    mirrors = {m.cluster: m for m in o.mirrors}
    known = [_believed(mirrors[name], since) for name in o.spec.clusters if name in mirrors]
    whole = len(known) == len(o.spec.clusters)
    if o.me.deleting:
        return _delete(o, known, whole, memory, now)
    reasons: list[Reason] = []
    winner, memory = _winner(o, known, memory, now, reasons)
    told: list[Action] = []
    if winner is not None:
        told += [SetMirror(m.cluster, False) for m in known if m.exists and m.reachable and m is not winner]
        if winner.reachable and not (winner.running or winner.finished):
            told.append(SetMirror(winner.cluster, True, run=True))
    elif memory.admitted or not whole:
        reasons.append(Reason(Why.WAITS_FOR_CLUSTER, memory.admitted or o.me.name))
    else:
        memory = _nominate(o, known, memory, now, told, reasons)
    if told:
        memory = replace(memory, since_ns=now + 1)  # what this pass was shown is from before, too
    status = (("cluster", memory.admitted), ("finished", bool(winner and winner.finished)))
    return Plan((*actions, *told), memory, SOON_NS, status, (), tuple(reasons))


def _believed(mirror: Mirror, since: int) -> Mirror:
    """An answer from before we last told a cluster something is none, and a copy may be there."""
    return mirror if mirror.seen_ns >= since else replace(mirror, reachable=False, exists=True)


def _delete(o: DispatchObserved, known: list[Mirror], whole: bool, memory: Memory, now: int) -> Plan:
    """Copies first, then the finalizer; clusters that do not answer are waited for."""
    actions: list[Action] = [SetMirror(m.cluster, False) for m in known if m.exists and m.reachable]
    if actions:
        memory = replace(memory, since_ns=now + 1)
    elif whole and o.me.finalizer and not any(m.exists for m in known):
        actions.append(SetFinalizer(False))
    return Plan(tuple(actions), memory, SOON_NS, reasons=(Reason(Why.DELETING, o.me.name),))


def _winner(
    o: DispatchObserved, known: list[Mirror], memory: Memory, now: int, reasons: list[Reason]
) -> tuple[Mirror | None, Memory]:
    """The copy that runs or shall run: the one that won before, or the first that is admitted."""
    lost_ns = o.switches.worker_lost_after_s * SECOND
    alive = [m for m in known if m.reachable or now - m.seen_ns < lost_ns]
    if memory.admitted:
        found = next((m for m in known if m.cluster == memory.admitted), None)
        if found is None or (found in alive and not (found.reachable and not found.exists)):
            return found, memory
        if found not in alive:
            reasons.append(Reason(Why.CLUSTER_LOST, found.cluster))
        memory = replace(memory, admitted="", rounds=0, round_ns=-1)
    held = [m for m in alive if m.exists and (m.admitted or m.running or m.finished)]
    if not held:
        return None, memory
    best = min(held, key=lambda m: not (m.running or m.finished))
    reasons.append(Reason(Why.ADMITTED, best.cluster))
    return best, replace(memory, admitted=best.cluster)


def _nominate(
    o: DispatchObserved, known: list[Mirror], memory: Memory, now: int, actions: list[Action], reasons: list[Reason]
) -> Memory:
    """Offer the workload: to every reachable cluster, or to the next few when a round is over."""
    number = len(known)
    if o.switches.dispatch == "incremental":
        if memory.round_ns < 0 or now - memory.round_ns >= o.spec.round_s * SECOND:
            memory = replace(memory, rounds=memory.rounds + 1, round_ns=now)
        number = memory.rounds * o.spec.nominate
    for m in known[:number]:
        if m.reachable and not m.exists:
            actions.append(SetMirror(m.cluster, True))
            reasons.append(Reason(Why.NOMINATED, m.cluster))
    return memory
