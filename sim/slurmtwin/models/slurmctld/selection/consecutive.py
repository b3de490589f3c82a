"""Best fit over runs of consecutive nodes: cons_tres' usual choice (slurm.md 1.3 "cons_tres default placement").

`by_bitmaps` never looks at a single node where nodes are equal; `by_index` is the plain form of the same rules
and serves jobs with required or contiguous nodes. Source: 22.05 cons_tres job_test.c _eval_nodes(), 26.05
topology/common/eval_nodes.c _eval_nodes_consec(), which agree.
"""

from __future__ import annotations

from dataclasses import dataclass

from slurmtwin.models.slurmctld.selection.bitmaps import longest_run, runs, shortest_run
from slurmtwin.models.slurmctld.selection.pick import Ask, Chosen, Offers, Pick, fit_at, union
from slurmtwin.models.slurmctld.selection.weights import WeightGroups

Levels = dict[tuple[int, int], int]
"""(usable CPUs, reserve per node) -> nodes."""


def choose(ask: Ask, offers: Offers, weights: WeightGroups) -> Chosen | None:
    """The nodes, or None when these offers cannot satisfy the request in this order."""
    if ask.required or ask.demand.contiguous:
        return by_index(ask, offers, weights)
    return by_bitmaps(ask, offers, weights)


def by_bitmaps(ask: Ask, offers: Offers, weights: WeightGroups) -> Chosen | None:
    """No required nodes, weights respected: whole runs at a time."""
    levels: Levels = {}
    for bitmap, fit in offers:
        key = (fit.usable, fit.reserve)
        levels[key] = levels.get(key, 0) | bitmap
    pick = Pick(ask)
    for group in weights.cut(union(offers)):
        left = group
        while left and pick.max_nodes > 0:
            run = _best_run(left, levels, pick)
            _fill(run, levels, pick)
            if pick.done:
                return pick.chosen()
            left &= ~run
    return pick.chosen() if pick.acceptable else None


def _best_run(nodes: int, levels: Levels, pick: Pick) -> int:
    """The tightest run that suffices, else the one with most CPUs; the first of equals."""
    here = [(cpus, bitmap & nodes) for (cpus, _reserve), bitmap in levels.items() if bitmap & nodes]
    need = pick.ask.needed(pick.rem_nodes)
    if len(here) == 1:
        return shortest_run(nodes, max(need, -(-pick.rem_cpus // here[0][0]))) or longest_run(nodes)
    best = best_cpus = 0
    best_suffices = False
    for run in runs(nodes):
        total = sum((bitmap & run).bit_count() * cpus for cpus, bitmap in here)
        suffices = total >= pick.rem_cpus and run.bit_count() >= need
        if not best or (suffices and (not best_suffices or total < best_cpus)) or (not suffices and total > best_cpus):
            best, best_cpus, best_suffices = run, total, suffices
    return best


def _fill(run: int, levels: Levels, pick: Pick) -> None:
    if pick.rem_nodes <= 1:
        fitting = [(key, bitmap & run) for key, bitmap in levels.items() if key[0] >= pick.rem_cpus and bitmap & run]
        if fitting:
            least = min(key[0] for key, _bitmap in fitting)
            alike = 0
            for key, bitmap in fitting:
                if key[0] == least:
                    alike |= bitmap
            node = alike & -alike
            reserve = next(key[1] for key, bitmap in fitting if bitmap & node)
            pick.take(node, least, reserve, skip_small=True)
            return
    left = run
    while left and pick.max_nodes > 0 and not pick.done:
        first = left & -left
        for (cpus, reserve), bitmap in levels.items():
            if bitmap & first:
                other = left & ~bitmap
                block = left & bitmap & ((other & -other) - 1) if other else left
                left ^= block
                pick.take(block, cpus, reserve, skip_small=True)
                break


@dataclass(slots=True)
class _Run:
    """One set of consecutive nodes (the consec_* arrays)."""

    start: int = 0
    end: int = 0
    nodes: int = 0
    """How many may still be chosen."""
    cpus: int = 0
    weight: int | None = None
    required: int = -1
    """Index of its first required node."""


def by_index(ask: Ask, offers: Offers, weights: WeightGroups) -> Chosen | None:
    """Required nodes first, then runs; contiguous jobs ignore weights and need one run that holds everything."""
    pick = Pick(ask)
    for index in _indices(ask.required):
        if pick.max_nodes <= 0:
            break
        fit = fit_at(offers, 1 << index)
        if fit is None:
            return None
        pick.take_one(1 << index, fit)
    if ask.required:
        if pick.done:
            return pick.chosen()
        if pick.max_nodes <= 0:
            return None
    cpus_at: dict[int, int] = {}
    for bitmap, fit in offers:
        for index in _indices(bitmap):
            cpus_at[index] = fit.usable
    sets = _runs_by_index(ask, cpus_at, weights)
    while sets and pick.max_nodes > 0:
        best, suffices = _best_set(sets, pick)
        if best is None or (ask.demand.contiguous and not suffices):
            break
        _fill_set(best, cpus_at, offers, pick)
        if pick.done:
            return pick.chosen()
        best.nodes = best.cpus = 0
    return pick.chosen() if pick.acceptable else None


def _runs_by_index(ask: Ask, cpus_at: dict[int, int], weights: WeightGroups) -> list[_Run]:
    sets: list[_Run] = []
    run = _Run()
    last = -1
    for index in sorted(cpus_at):
        bit = 1 << index
        weight = weights.of(bit)
        gap = index != last + 1
        differs = not ask.demand.contiguous and run.weight is not None and weight != run.weight
        if gap or differs:
            if run.nodes:
                run.end = last
                sets.append(run)
                run = _Run()
            else:
                run.required = -1
            if gap:
                run.weight = None
        last = index
        if not run.nodes:
            run.start = index
        if ask.required & bit:
            if run.required == -1:
                run.required = index
            continue
        run.nodes += 1
        run.cpus += cpus_at[index]
        run.weight = weight
    if run.nodes:
        run.end = last
        sets.append(run)
    return sets


def _best_set(sets: list[_Run], pick: Pick) -> tuple[_Run | None, bool]:
    ask = pick.ask
    pinned = bool(ask.demand.contiguous and ask.required)
    best: _Run | None = None
    best_suffices = False
    for place, run in enumerate(sets):
        if not run.nodes or (pinned and run.required == -1):
            continue
        suffices = run.cpus >= pick.rem_cpus and ask.enough(run.nodes, pick.rem_nodes)
        better = best is None or (best.required == -1 and run.required != -1) or _weight(run) < _weight(best)
        if not better and best is not None and run.weight == best.weight:
            better = (suffices and (not best_suffices or run.cpus < best.cpus)) or (
                not suffices and run.cpus > best.cpus
            )
        if not better and not best_suffices and ask.demand.contiguous and suffices:
            better = True
        if better:
            best, best_suffices = run, suffices
        if pinned and any(other.required != -1 for other in sets[place + 1 :]):
            return None, False  # required nodes lie in more than one set
    return best, best_suffices


def _weight(run: _Run) -> int:
    return run.weight if run.weight is not None else 1 << 64


def _fill_set(run: _Run, cpus_at: dict[int, int], offers: Offers, pick: Pick) -> None:
    if run.required != -1:
        order = [*range(run.required, run.end + 1), *range(run.required - 1, run.start - 1, -1)]
        single = False
    else:
        order = list(range(run.start, run.end + 1))
        single = True
    if single and pick.rem_nodes <= 1:
        fitting = [i for i in order if cpus_at.get(i, 0) >= max(pick.rem_cpus, 1) and not pick.taken >> i & 1]
        if fitting:
            order = [min(fitting, key=lambda i: (cpus_at[i], i))]
    for index in order:
        if pick.max_nodes == 0 or pick.done:
            return
        cpus = cpus_at.get(index, 0)
        if pick.taken >> index & 1 or not cpus:
            continue
        if single and pick.max_nodes == 1 and cpus < pick.rem_cpus:
            continue
        fit = fit_at(offers, 1 << index)
        assert fit is not None
        pick.take_one(1 << index, fit)


def _indices(bitmap: int) -> list[int]:
    out: list[int] = []
    while bitmap:
        low = bitmap & -bitmap
        out.append(low.bit_length() - 1)
        bitmap ^= low
    return out
