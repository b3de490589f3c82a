"""One pass over a workload that one of several clusters shall run, by MultiKueue's protocol (KQ).

Nominate clusters (all at once, or a few per round), mirror the workload there, keep the first copy that is admitted
and delete the others. A cluster that stays silent for worker_lost_after_s loses the workload; when it comes back its
copy is deleted, so a job may run twice meanwhile (X83): that is the protocol's price, and it shows in the rows.
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
    actions: list[Action] = [] if o.me.finalizer or o.me.deleting else [SetFinalizer(True)]
    reasons: list[Reason] = []
    mirrors = {m.cluster: m for m in o.mirrors}
    known = [mirrors[name] for name in o.spec.clusters if name in mirrors]
    if o.me.deleting:
        actions += [SetMirror(m.cluster, False) for m in known if m.exists and m.reachable]
        if not any(m.exists for m in known) and o.me.finalizer:
            actions.append(SetFinalizer(False))
        return Plan(tuple(actions), memory, SOON_NS, reasons=(Reason(Why.DELETING, o.me.name),))
    winner = mirrors.get(memory.admitted)
    lost_ns = o.switches.worker_lost_after_s * SECOND
    if winner is not None and not winner.reachable and now - winner.seen_ns >= lost_ns:
        reasons.append(Reason(Why.CLUSTER_LOST, winner.cluster))
        memory, winner = replace(memory, admitted="", rounds=0, round_ns=-1), None
    if winner is not None and winner.reachable and not winner.exists:
        memory, winner = replace(memory, admitted="", rounds=0, round_ns=-1), None
    if winner is None:
        admitted = [m for m in known if m.reachable and (m.admitted or m.finished)]
        if admitted:
            winner = admitted[0]
            memory = replace(memory, admitted=winner.cluster)
            reasons.append(Reason(Why.ADMITTED, winner.cluster))
    if winner is not None:
        actions += [SetMirror(m.cluster, False) for m in known if m.exists and m.reachable and m is not winner]
    else:
        memory = _nominate(o, known, memory, now, actions, reasons)
    status = (("cluster", memory.admitted), ("finished", bool(winner and winner.finished)))
    return Plan(tuple(actions), memory, SOON_NS, status, (), tuple(reasons))


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
