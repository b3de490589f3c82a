"""The other orders of nodes: least loaded, serial at the end, busy first, spread (slurm.md 1.3).

Sources: 26.05 topology/common/eval_nodes.c, 22.05 cons_tres job_test.c _eval_nodes_lln(), _serial(), _busy(),
_spread(). They go node by node, as upstream does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from slurmtwin.models.slurmctld.selection.pick import Ask, Chosen, Offers, Pick, fit_at, union
from slurmtwin.models.slurmctld.selection.weights import WeightGroups
from slurmtwin.models.slurmctld.tables import bits


def least_loaded(ask: Ask, offers: Offers, weights: WeightGroups) -> Chosen | None:
    """CR_LLN: of one weight the node with the highest share of free CPUs first."""
    pick = _begin(ask, offers)
    if pick is None or pick.done:
        return pick.chosen() if pick else None
    for group in weights.cut(union(offers) & ~ask.required):
        last_free = -1
        left = group
        while left and pick.max_nodes > 0:
            bit, last_free = _freest(left, offers, last_free)
            left ^= bit
            fit = fit_at(offers, bit)
            assert fit is not None
            pick.take_one(bit, fit)
            if pick.done:
                return pick.chosen()
    return _end(pick)


def _freest(nodes: int, offers: Offers, last_free: int) -> tuple[int, int]:
    best_bit = best_free = best_total = 0
    for index in bits(nodes):
        fit = fit_at(offers, 1 << index)
        assert fit is not None
        if not best_bit or best_free * fit.shape.config_cpus < fit.free_cpus * best_total:
            best_bit, best_free, best_total = 1 << index, fit.free_cpus, fit.shape.config_cpus
            if best_free == last_free:
                break
    return best_bit, best_free


def serial_at_end(ask: Ask, offers: Offers, weights: WeightGroups) -> Chosen | None:
    """pack_serial_at_end: the highest index of the lowest weight."""
    return _in_order(ask, offers, weights, lambda group: reversed(list(bits(group))))


def busy_first(ask: Ask, offers: Offers, weights: WeightGroups, idle: int) -> Chosen | None:
    """bf_busy_nodes: nodes that run something before idle ones."""

    def order(group: int) -> Iterator[int]:
        yield from bits(group & ~idle)
        yield from bits(group & idle)

    return _in_order(ask, offers, weights, order)


def _in_order(ask: Ask, offers: Offers, weights: WeightGroups, order: Callable[[int], Iterable[int]]) -> Chosen | None:
    pick = _begin(ask, offers)
    if pick is None or pick.done:
        return pick.chosen() if pick else None
    for group in weights.cut(union(offers) & ~ask.required):
        for index in order(group):
            if pick.max_nodes <= 0:
                break
            fit = fit_at(offers, 1 << index)
            assert fit is not None
            pick.take_one(1 << index, fit)
            if pick.done:
                return pick.chosen()
    return _end(pick)


def spread(ask: Ask, offers: Offers, weights: WeightGroups) -> Chosen | None:
    """--spread-job: one task per node on as many nodes as allowed, then further tasks round by round."""
    demand = ask.demand
    room = {index: fit.usable for bitmap, fit in offers for index in bits(bitmap)}
    most = min(ask.max_nodes, demand.num_tasks) if demand.num_tasks else ask.max_nodes
    used: dict[int, int] = dict.fromkeys(bits(ask.required), demand.cpus_per_task)
    if len(used) > most or any(index not in room for index in used):
        return None
    rem_nodes = max(ask.min_nodes, ask.req_nodes) - len(used)
    rem_cpus = ask.min_cpus - len(used) * demand.cpus_per_task
    order = [index for group in weights.cut(union(offers)) for index in bits(group)]
    while True:
        rem_nodes = max(rem_nodes, 1) if rem_cpus > 0 else rem_nodes
        before = len(used)
        for index in order:
            if len(used) >= most or rem_nodes <= 0:
                break
            if index not in used:
                used[index] = demand.cpus_per_task
                rem_nodes -= 1
                rem_cpus -= demand.cpus_per_task
        rem_cpus = _second_tasks(used, room, rem_cpus, demand.cpus_per_task)
        if rem_cpus <= 0 or len(used) >= most or len(used) == before:
            break
    return _spread_result(ask, offers, used)


def _second_tasks(used: dict[int, int], room: dict[int, int], rem_cpus: int, step: int) -> int:
    progress = True
    while rem_cpus > 0 and progress:
        progress = False
        for index in sorted(used):
            if used[index] < room[index] and rem_cpus > 0:
                used[index] += step
                rem_cpus -= step
                progress = True
    return rem_cpus


def _spread_result(ask: Ask, offers: Offers, used: dict[int, int]) -> Chosen | None:
    pick = Pick(ask)
    for index in sorted(used):
        fit = fit_at(offers, 1 << index)
        assert fit is not None
        cpus = max(used[index], ask.demand.pn_min_cpus)
        grant = pick.grant(cpus, fit.reserve)
        pick.book(1 << index, 1, grant)
        if grant != fit.usable and not ask.whole:
            pick.given.append((1 << index, grant))
    return pick.chosen() if pick.rem_cpus <= 0 and pick.min_rem <= 0 else None


def _begin(ask: Ask, offers: Offers) -> Pick | None:
    """Required nodes are taken; None when one offers nothing or there are too many."""
    pick = Pick(ask)
    if ask.demand.num_tasks:
        pick.max_nodes = min(pick.max_nodes, ask.demand.num_tasks)
    for index in bits(ask.required):
        fit = fit_at(offers, 1 << index)
        if fit is None or pick.max_nodes <= 0:
            return None
        pick.take_one(1 << index, fit)
    if ask.required and not pick.done and pick.max_nodes <= 0:
        return None
    return pick


def _end(pick: Pick) -> Chosen | None:
    return None if pick.rem_cpus > 0 or pick.min_rem > 0 else pick.chosen()
