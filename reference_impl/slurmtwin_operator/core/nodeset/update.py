"""Which pods of an old revision are replaced now."""

from __future__ import annotations

from slurmtwin_operator.core.actions import Reserve, Why
from slurmtwin_operator.core.nodeset.scale import wanted_number
from slurmtwin_operator.core.nodeset.survey import SECOND, Member, Pass


def budget(text: str, wanted: int) -> int:
    """How many nodes may be out of service: a number, or a percentage rounded down; at least 1."""
    number = wanted * int(text[:-1]) // 100 if text.endswith("%") else int(text)
    return max(1, number)


def reservation_name(node_set: str) -> str:
    """The maintenance reservation of a scheduled update."""
    return f"slurmtwin-maint-{node_set}"


def choose(p: Pass) -> None:
    """Mark the members to be replaced: those out of service anyhow, and others up to the budget."""
    update = p.o.spec.update
    old = [m for m in p.members if m.old and not m.gone and not m.condemned]
    if update.type == "scheduled":
        chosen = old if _window(p, bool(old)) else []
    elif update.type == "on-delete":
        chosen = []
    else:
        chosen = _rolling(p, old) if old else []
    for m in chosen:
        m.updating = True
        m.want = m.want or "update"
    p.unsettled = p.unsettled or bool(chosen)


def _rolling(p: Pass, old: list[Member]) -> list[Member]:
    wanted = wanted_number(p.o)
    serving = [m for m in old if m.available]
    allowed = budget(p.o.spec.update.max_unavailable, wanted)
    if p.sw.update_budget == "unavailable":
        out = [m for m in old if _costs_nothing(m, p)]
        allowed -= wanted - p.rest.available - sum(1 for m in p.members if m.available and not m.condemned)
    else:
        out = []
        serving = [m for m in old if m.pod.ready]
    if serving and allowed <= 0:
        p.say(Why.BUDGET, p.o.me.name)
    serving.sort(key=lambda m: m.slurm is not None and m.slurm.busy)
    return out + serving[: max(0, allowed)]


def _costs_nothing(m: Member, p: Pass) -> bool:
    """Slurm starts no job on it anyhow. A silent node, or a pod that is merely unready, may be back in a moment."""
    node = m.slurm
    return node is None or node.state == "DOWN" or node.drained or m.pod.name in p.drained


def _window(p: Pass, needed: bool) -> bool:
    """Keep the maintenance reservation while it is needed; True inside the window."""
    update = p.o.spec.update
    start, end = update.start_s * SECOND, (update.start_s + update.duration_s) * SECOND
    name = reservation_name(p.o.me.name)
    wanted = needed and p.now < end
    if p.usable and wanted != (name in p.o.slurm.reservations):
        nodes = tuple(m.pod.name for m in p.members if m.slurm is not None)
        if nodes or not wanted:
            p.actions.append(Reserve(name, wanted, nodes if wanted else (), update.start_s, update.duration_s))
    return start <= p.now < end
