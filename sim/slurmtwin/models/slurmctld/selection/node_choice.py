"""Which of the possible nodes: the algorithm the settings name, and retries without the poorest nodes.

Follows cons_tres job_test.c choose_nodes() and _eval_nodes() in 22.05, common_topo_choose_nodes(), eval_nodes()
and _get_one_res() in 26.05.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from slurmtwin.contract.cluster import ClusterConf
from slurmtwin.models.slurmctld.selection import consecutive, other_choices
from slurmtwin.models.slurmctld.selection.demand import version_key
from slurmtwin.models.slurmctld.selection.pick import Ask, Chosen, Offers, Pick, union
from slurmtwin.models.slurmctld.selection.tree_choice import SwitchTree
from slurmtwin.models.slurmctld.selection.weights import WeightGroups
from slurmtwin.models.slurmctld.tables import bits

Placement = Callable[[Ask, Offers, WeightGroups], Chosen | None]
"""What is asked, what nodes offer, their weights -> the nodes, or None when these do not do."""


class NodeChooser:
    """The choice rules of one configuration."""

    def __init__(self, conf: ClusterConf, tree: SwitchTree | None) -> None:
        self._version = version_key(conf.version)
        self._lln = conf.select.lln
        self._lln_parts = frozenset(i for i, part in enumerate(conf.partitions) if part.lln)
        self._serial_at_end = conf.scheduler.pack_serial_at_end
        self._tree = tree
        self.placement: Placement | None = None
        """A rule of one's own instead of all of these (policy.py)."""
        self._tree_optional = any(p.lower() == "topooptional" for p in conf.controller.topology_param)

    def choose(
        self, ask: Ask, offers: Offers, weights: WeightGroups, part: int, idle: int, busy_first: bool, waited_s: int
    ) -> Chosen | None:  # fmt: skip
        """The nodes for `ask`; None when these offers do not serve it. idle: idle nodes, for bf_busy_nodes."""
        if self.placement is not None:
            return self.placement(ask, offers, weights)
        if ask.max_nodes == 1 and self._version >= (26, 5) and not self._has_own_rule(ask, part, busy_first):
            return _one_node(ask, offers, weights)
        demand = ask.demand
        nodes = union(offers)
        if ask.required & ~nodes:
            return None
        if demand.ntasks_per_node and demand.num_tasks:
            ask = replace(ask, min_nodes=max(ask.min_nodes, -(-demand.num_tasks // demand.ntasks_per_node)))
        if nodes.bit_count() < ask.min_nodes:
            return None
        first = ask
        clip = demand.num_tasks and (self._version < (23, 2) or not demand.ntasks_per_node)
        if clip and ask.max_nodes > demand.num_tasks:
            first = replace(ask, max_nodes=max(demand.num_tasks, ask.min_nodes))
        if not _possible(ask, offers):
            return None
        weights = weights.with_gpus(offers)
        found = self._evaluate(first, offers, weights, part, idle, busy_first, waited_s)
        if found is not None:
            return found
        again = first if self._version < (23, 2) else ask
        if not _possible(again, offers):
            return None
        for fewer in self._without_poor(again, offers, first is not again):
            found = self._evaluate(again, fewer, weights, part, idle, busy_first, waited_s)
            if found is not None:
                return found
        return None

    def _has_own_rule(self, ask: Ask, part: int, busy_first: bool) -> bool:
        """Settings whose order of nodes holds for one-node jobs too (26.05.5, by observation; 26.05.3 ignored them)."""
        if (busy_first and not ask.demand.contiguous) or self._lln or part in self._lln_parts:
            return True
        return self._serial_at_end and ask.min_cpus == 1 and ask.req_nodes == 1

    def _evaluate(
        self, ask: Ask, offers: Offers, weights: WeightGroups, part: int, idle: int, busy_first: bool, waited_s: int
    ) -> Chosen | None:  # fmt: skip
        demand = ask.demand
        nodes = union(offers)
        if nodes.bit_count() < ask.min_nodes or ask.required & ~nodes:
            return None
        if demand.spread:
            return other_choices.spread(ask, offers, weights)
        if busy_first and not demand.contiguous:
            return other_choices.busy_first(ask, offers, weights, idle)
        if self._lln or part in self._lln_parts:
            return other_choices.least_loaded(ask, offers, weights)
        if self._serial_at_end and ask.min_cpus == 1 and ask.req_nodes == 1:
            return other_choices.serial_at_end(ask, offers, weights)
        if self._tree is not None and not demand.contiguous and (demand.switches or not self._tree_optional):
            return self._tree.choose(ask, offers, weights, waited_s)
        return consecutive.choose(ask, offers, weights)

    def _without_poor(self, ask: Ask, offers: Offers, changed: bool) -> Iterator[Offers]:
        """The offers again and again without the nodes of least resources, as each version drops them."""
        if changed:
            yield offers
        if self._version < (26, 5):
            yield from _drop_by_level(ask, offers)
        else:
            yield from _drop_one_by_one(ask, offers)


def _one_node(ask: Ask, offers: Offers, weights: WeightGroups) -> Chosen | None:
    """26.05, at most one node: no best fit, the first node of the lowest weight that holds the job."""
    fitting = 0
    for bitmap, fit in offers:
        if fit.usable >= ask.min_cpus:
            fitting |= bitmap
    if ask.required:
        fitting &= ask.required
    bit = weights.first(fitting)
    if not bit:
        return None
    pick = Pick(replace(ask, min_nodes=1))
    fit = next(f for bitmap, f in offers if bitmap & bit)
    pick.take_one(bit, fit)
    return pick.chosen()


def _possible(ask: Ask, offers: Offers) -> bool:
    """Could any choice of nodes satisfy the CPUs? The richest nodes first, as many as allowed."""
    left, cpus = ask.max_nodes, 0
    for bitmap, fit in sorted(offers, key=lambda offer: -offer[1].usable):
        count = min(left, bitmap.bit_count())
        cpus += count * fit.usable
        left -= count
        if left <= 0 or cpus >= ask.min_cpus:
            break
    return cpus >= ask.min_cpus


def _cut(offers: Offers, gone: int) -> Offers:
    return [(bitmap & ~gone, fit) for bitmap, fit in offers if bitmap & ~gone]


def _drop_by_level(ask: Ask, offers: Offers) -> Iterator[Offers]:
    """Up to 24.11: all nodes with one CPU (and GPU), then with two, and so on."""
    left = union(offers).bit_count()
    gone = 0
    for level in sorted({fit.weight for _bitmap, fit in offers})[:-1]:
        for index in bits(union([o for o in offers if o[1].weight == level]) & ~ask.required):
            if left <= ask.min_nodes:
                break
            gone |= 1 << index
            left -= 1
        yield _cut(offers, gone)
        if left <= ask.min_nodes:
            return


def _drop_one_by_one(ask: Ask, offers: Offers) -> Iterator[Offers]:
    """26.05: one node after another, the poorest first."""
    left = union(offers).bit_count()
    gone = 0
    order: list[tuple[int, int]] = sorted(
        (fit.weight, index) for bitmap, fit in offers for index in bits(bitmap & ~ask.required)
    )
    for _weight, index in order:
        if left <= ask.min_nodes:
            return
        gone |= 1 << index
        left -= 1
        yield _cut(offers, gone)
