"""topology/tree: as few leaf switches as possible, best fit, near each other (slurm.md 9 "topology/tree").

Sources: 22.05 cons_tres job_test.c _eval_nodes_topo(), 26.05 topology/tree/eval_nodes_tree.c _eval_nodes_topo()
and switch_record.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from slurmtwin.contract.cluster import SwitchConf
from slurmtwin.models.slurmctld.selection.pick import Ask, Chosen, Offers, Pick, fit_at, union
from slurmtwin.models.slurmctld.selection.weights import WeightGroups
from slurmtwin.models.slurmctld.tables import NodeTable, bits

_FAR: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class _Switch:
    nodes: int
    level: int
    """0: a leaf."""
    parent: int
    """Index; its own when it has none."""


class SwitchTree:
    """The switches of topology.conf with their levels and distances."""

    def __init__(self, confs: Sequence[SwitchConf], nodes: NodeTable, version: tuple[int, int]) -> None:
        self._version = version
        index = {conf.name: i for i, conf in enumerate(confs)}
        below = [[index[name] for name in conf.switches] for conf in confs]
        parent = list(range(len(confs)))
        for i, children in enumerate(below):
            for child in children:
                parent[child] = i

        def level(i: int) -> int:
            return 1 + max((level(child) for child in below[i]), default=0) if below[i] else 0

        def members(i: int) -> int:
            out = nodes.bitmap(confs[i].nodes)
            for child in below[i]:
                out |= members(child)
            return out

        self._switches = [_Switch(members(i), level(i), parent[i]) for i in range(len(confs))]
        self._distance = _distances(below)

    def choose(self, ask: Ask, offers: Offers, weights: WeightGroups, waited_s: int) -> Chosen | None:
        """The nodes; switch_ok tells whether --switches is met or was waited for long enough."""
        request = ask
        while True:
            found = self._once(request, offers, weights)
            if found is None:
                return None
            demand = ask.demand
            if not demand.switches or waited_s >= demand.switch_wait_s:
                return found
            leaves = sum(1 for s in self._switches if s.level == 0 and s.nodes & found.nodes)
            if leaves <= demand.switches:
                return found
            if self._version < (23, 11) or request.req_nodes <= request.min_nodes:
                return replace(found, switch_ok=False)
            request = replace(request, req_nodes=request.req_nodes - 1)

    def _once(self, ask: Ask, offers: Offers, weights: WeightGroups) -> Chosen | None:
        available = union(offers)
        if ask.required.bit_count() > ask.max_nodes:
            return None
        pick = Pick(ask)
        for i in bits(ask.required):
            fit = fit_at(offers, 1 << i)
            if fit is None:
                return None
            pick.take_one(1 << i, fit)
        top = self._top_switch(ask, pick, offers, weights)
        if top < 0 or ask.required & ~self._switches[top].nodes:
            return None
        reach = available & self._switches[top].nodes
        if ask.required:
            if pick.done:
                return pick.chosen()
            if pick.max_nodes <= 0:
                return None
        wanted = self._lowest_weights(pick, offers, weights, reach & ~ask.required)
        if wanted is None:
            return None
        sure, best = wanted
        return self._fill(pick, offers, sure, best, reach)

    def _top_switch(self, ask: Ask, pick: Pick, offers: Offers, weights: WeightGroups) -> int:
        """The highest switch with all required nodes, or with enough nodes and among those of lowest weight."""
        available = union(offers)
        top, top_weight = -1, 0
        for i, switch in enumerate(self._switches):
            here = switch.nodes & available
            if ask.required:
                if here & ask.required and (top == -1 or switch.level > self._switches[top].level):
                    top = i
                continue
            if not ask.enough(here.bit_count(), pick.rem_nodes) or not here:
                continue
            if self._version >= (23, 11) and pick.rem_cpus > _cpus(offers, here):
                continue
            weight = weights.of(weights.first(here))
            if top == -1 or (switch.level >= self._switches[top].level and weight <= top_weight):
                top, top_weight = i, weight
        return top

    def _lowest_weights(self, pick: Pick, offers: Offers, weights: WeightGroups, reach: int) -> tuple[int, int] | None:
        """(nodes of lower weight that must all be used, nodes to choose from): weights added until they suffice."""
        sure = best = 0
        cpus = count = 0
        suffices = False
        for group in weights.cut(reach):
            if count:
                sure |= best
            best |= group
            count = best.bit_count()
            cpus = _cpus(offers, best)
            suffices = suffices or (cpus >= pick.rem_cpus and pick.ask.enough(count, pick.rem_nodes))
            if self._version < (23, 11):
                if suffices:
                    break
            elif count >= pick.rem_nodes and cpus >= pick.rem_cpus:
                break
        return (sure, best) if suffices else None

    def _fill(self, pick: Pick, offers: Offers, sure: int, best: int, reach: int) -> Chosen | None:
        new = self._version >= (23, 11)
        for i in bits(sure):
            if pick.max_nodes <= 0:
                break
            _take(pick, offers, 1 << i)
        if sure:
            if pick.done:
                return pick.chosen()
            if pick.max_nodes <= 0:
                return None
        here = [s.nodes & reach & (best | pick.taken) for s in self._switches]
        counts = [bitmap.bit_count() for bitmap in here]
        must = [bool(bitmap & pick.taken) for bitmap in here]
        if pick.taken:
            for i, switch in enumerate(self._switches):
                if not must[i] or switch.level:
                    continue
                before = pick.taken
                for node in bits(here[i] & ~pick.taken):
                    _take(pick, offers, 1 << node)
                    if pick.done:
                        return pick.chosen()
                    if new and pick.max_nodes <= 0:
                        return None
                if new:
                    self._count_down(counts, i, (pick.taken & ~before).bit_count())
        return self._add_leaves(pick, offers, here, counts, must)

    def _add_leaves(
        self, pick: Pick, offers: Offers, here: list[int], counts: list[int], must: list[bool]
    ) -> Chosen | None:
        new = self._version >= (23, 11)
        all_cpus = [_cpus(offers, s.nodes & union(offers)) for s in self._switches] if new else []
        far = [0] * len(here)
        for i, required in enumerate(must):
            if required:
                self._add_distance(far, i)
        stalled = pick.rem_nodes + 1
        while stalled != pick.rem_nodes:
            stalled = pick.rem_nodes
            leaf = -1
            for i, switch in enumerate(self._switches):
                if not must[i] and switch.level == 0:
                    leaf = self._better_leaf(i, leaf, far, counts, all_cpus, pick)
            if leaf == -1:
                break
            self._add_distance(far, leaf)
            for node in bits(here[leaf] & ~pick.taken):
                if pick.max_nodes <= 0:
                    break
                _take(pick, offers, 1 << node)
                if pick.done:
                    return pick.chosen()
                if new and pick.max_nodes <= 0:
                    return None
            if new:
                self._count_down(counts, leaf, counts[leaf])
            counts[leaf] = 0
        return pick.chosen() if pick.min_rem <= 0 and pick.rem_cpus <= 0 else None

    def _add_distance(self, far: list[int], switch: int) -> None:
        for i, distance in enumerate(self._distance[switch]):
            far[i] = _FAR if distance >= _FAR or far[i] >= _FAR else far[i] + distance

    def _better_leaf(
        self, i: int, best: int, far: list[int], counts: list[int], all_cpus: list[int], pick: Pick
    ) -> int:
        if not counts[i] or far[i] >= _FAR:
            return best
        if best == -1:
            return i
        order, fits = self._compare(i, best, counts, all_cpus, pick)
        nearer = far[i] < far[best] and (fits if self._version >= (23, 11) else order >= 0)
        return i if nearer or (far[i] == far[best] and order > 0) else best

    def _compare(self, i: int, j: int, counts: list[int], all_cpus: list[int], pick: Pick) -> tuple[int, bool]:
        """(1: i is the better fit, -1: j is, 0: neither; i fits), looking up the tree until they differ."""
        switches = self._switches
        while True:
            i_fits = counts[i] >= pick.rem_nodes and (not all_cpus or all_cpus[i] >= pick.rem_cpus)
            j_fits = counts[j] >= pick.rem_nodes and (not all_cpus or all_cpus[j] >= pick.rem_cpus)
            if i_fits and j_fits:
                if counts[i] != counts[j]:
                    return (1 if counts[i] < counts[j] else -1), i_fits
                break
            if i_fits or j_fits:
                return (1 if i_fits else -1), i_fits
            up_i, up_j = switches[i].parent, switches[j].parent
            if (up_i != i or up_j != j) and up_i != up_j:
                i, j = up_i, up_j
                continue
            break
        if counts[i] != counts[j]:
            return (1 if counts[i] > counts[j] else -1), i_fits
        if switches[i].level != switches[j].level:
            return (1 if switches[i].level < switches[j].level else -1), i_fits
        return 0, i_fits

    def _count_down(self, counts: list[int], switch: int, taken: int) -> None:
        while True:
            counts[switch] = max(0, counts[switch] - taken)
            if self._switches[switch].parent == switch:
                return
            switch = self._switches[switch].parent


def _take(pick: Pick, offers: Offers, bit: int) -> None:
    fit = fit_at(offers, bit)
    assert fit is not None
    pick.take_one(bit, fit)


def _cpus(offers: Offers, nodes: int) -> int:
    return sum((bitmap & nodes).bit_count() * fit.usable for bitmap, fit in offers)


def _distances(below: list[list[int]]) -> list[list[int]]:
    """Links between every two switches (_recal_switches_dist())."""
    size = len(below)
    links: list[list[int]] = [[] for _ in range(size)]
    for i, children in enumerate(below):
        for child in children:
            links[i].append(child)
            links[child].append(i)
    out: list[list[int]] = []
    for start in range(size):
        far = [_FAR] * size
        far[start] = 0
        queue = [start]
        for i in queue:
            for j in links[i]:
                if far[j] == _FAR:
                    far[j] = far[i] + 1
                    queue.append(j)
        out.append(far)
    return out
