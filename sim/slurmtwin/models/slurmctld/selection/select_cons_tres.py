"""select/cons_tres: cores, memory and generic resources as consumable, with sharing between partitions.

`job_test` follows _job_test() (22.05: cons_common/job_test.c; 26.05: cons_tres/job_test.c): idle cores of all
partitions first, and only jobs that may share go on to the later steps (slurm.md 1.3 "Sharing steps in cons_tres").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from slurmtwin.contract.cluster import ClusterConf
from slurmtwin.models.slurmctld.selection import node_test
from slurmtwin.models.slurmctld.selection.demand import version_key
from slurmtwin.models.slurmctld.selection.node_choice import NodeChooser
from slurmtwin.models.slurmctld.selection.node_test import Fit
from slurmtwin.models.slurmctld.selection.pick import Chosen, Offers
from slurmtwin.models.slurmctld.selection.query import Query
from slurmtwin.models.slurmctld.selection.shapes import Shape
from slurmtwin.models.slurmctld.selection.usage import AVAILABLE, State, Usage
from slurmtwin.models.slurmctld.tables import Partition

FreeCores = Callable[[State, Shape], int]


@dataclass(frozen=True, slots=True)
class Found:
    """Nodes that serve a query, and what each of them offers."""

    chosen: Chosen
    offers: Offers
    query: Query


class ConsTres:
    """The plugin's tests; usage is passed in, so that futures can be tried on copies."""

    def __init__(
        self, conf: ClusterConf, shapes: Sequence[Shape], chooser: NodeChooser, parts: Sequence[Partition]
    ) -> None:
        self._shapes = shapes
        self._chooser = chooser
        self._version = version_key(conf.version)
        self._gang = conf.preempt.gang
        self._memory = conf.select.memory
        self._by_part = conf.preempt.type == "preempt/partition_prio"
        self._by_qos = conf.preempt.type == "preempt/qos"
        self._cluster_mode_off = conf.preempt.mode == "off"
        self._parts = parts
        self._spare = 1 if self._by_qos else 0
        self._rows_of = partition_rows(parts, self._by_qos)

    def offers_now(self, usage: Usage, query: Query, nodes: int) -> list[tuple[int, Fit]]:
        """What each node of `nodes` offers beside what runs (test 1)."""
        profile = query.profile
        known = profile.now
        out: list[tuple[int, Fit]] = []
        for state, members in usage.classes.items():
            here = members & nodes
            if here:
                if state in known:
                    fit = known[state]
                else:
                    fit = known[state] = self._fit_now(query, state, self._spare)
                if fit is not None:
                    out.append((here, fit))
        return out

    def _fit_now(self, query: Query, state: State, spare: int) -> Fit | None:
        rules = query.profile.rules
        shape = self._shapes[state.shape]
        if not node_test.state_allows(rules, state, shape, self._rows_of, spare):
            return None
        free = shape.core_map & ~state.used_cores()
        if rules.whole and free != shape.core_map:
            return None
        fit = node_test.can_run(rules, state, shape, free, test_only=False)
        return fit if fit is not None and fit.usable else None

    def remembers(self, query: Query) -> bool:
        """Only what nodes offer beside all that runs decides: equal offers get equal answers."""
        return not self._gang and query.profile.rules.req != AVAILABLE and self._chooser.placement is None

    def serving(self, usage: Usage, query: Query) -> tuple[int, int]:
        """Nodes that offer the query something, and those of them without which it cannot do."""
        usage.settle()
        some = enough = 0
        alone = query.ask.min_cpus if query.ask.max_nodes == 1 else 1
        for bitmap, fit in self.offers_now(usage, query, -1):
            some |= bitmap
            if fit.usable >= alone:
                enough |= bitmap
        return some, enough

    def full(self, usage: Usage) -> int:
        """Nodes on which no job can get a CPU or memory, whatever it asks; 0 where cores may be shared."""
        if self._gang or max(self._rows_of, default=1) > 1:
            return 0
        out = 0
        for state, members in usage.classes.items():
            shape = self._shapes[state.shape]
            if not shape.core_map & ~state.used_cores() or (self._memory and state.mem_mib >= shape.mem_mib):
                out |= members
        return out

    def could_run(self, usage: Usage, query: Query, nodes: int) -> bool:
        """SELECT_MODE_TEST_ONLY: on those nodes, if nothing were allocated."""
        ask = query.ask
        if nodes.bit_count() < ask.min_nodes:
            return False
        profile = query.profile
        key = (nodes, ask.min_nodes, ask.max_nodes, ask.req_nodes, ask.required)
        if key in profile.ever:
            return profile.ever[key]
        offers: dict[int, tuple[int, Fit]] = {}
        for state, members in usage.classes.items():
            here = members & nodes
            if here:
                bare = State(state.shape)
                if bare not in profile.empty:
                    shape = self._shapes[state.shape]
                    profile.empty[bare] = node_test.can_run(profile.rules, bare, shape, shape.core_map, test_only=True)
                fit = profile.empty[bare]
                if fit is not None and fit.usable:
                    offers[state.shape] = (offers.get(state.shape, (0, fit))[0] | here, fit)
        answer = self._choose(query, list(offers.values()), 0, False) is not None
        profile.ever[key] = answer
        return answer

    def job_test(
        self, usage: Usage, query: Query, nodes: int, idle: int = 0, *,
        busy_first: bool = False, extra_row: bool = False,
    ) -> Found | None:  # fmt: skip
        """Nodes for the query beside what `usage` says; idle is for bf_busy_nodes.

        extra_row: the row kept for QOS preemption may be used.
        """
        rules = query.profile.rules
        shares = self._gang or rules.req == AVAILABLE
        if nodes.bit_count() < query.ask.min_nodes:
            return None
        usage.settle()
        if shares and not self._fits_at_all(usage, query, nodes, idle, busy_first, extra_row):
            return None
        if extra_row:
            offers = self._offers(usage, query, nodes, _free_of_all, extra_row)
        else:
            offers = self.offers_now(usage, query, nodes)
        chosen = self._choose(query, offers, idle, busy_first)
        if chosen is not None and chosen.switch_ok:
            return Found(chosen, offers, query)
        if not shares:
            return None
        return self._shared(usage, query, nodes, idle, busy_first, extra_row)

    def _fits_at_all(
        self, usage: Usage, query: Query, nodes: int, idle: int, busy_first: bool, extra_row: bool
    ) -> bool:
        """Test 0: with all cores of the nodes the job may use."""
        return self._try(usage, query, nodes, lambda _s, shape: shape.core_map, idle, busy_first, extra_row) is not None

    def _shared(
        self, usage: Usage, query: Query, nodes: int, idle: int, busy_first: bool, extra_row: bool
    ) -> Found | None:
        """Tests 2 to 4: without what higher tiers hold, then without the same tier, then row by row."""
        own = query.profile.rules.part
        tier = self._parts[own].conf.priority_tier
        barred = self._barred(own, tier) if self._by_part else frozenset[int]()

        def without(parts: frozenset[int]) -> FreeCores:
            return lambda state, shape: shape.core_map & ~_cores_of(state, parts)

        if self._try(usage, query, nodes, without(barred), idle, busy_first, extra_row) is None:
            return None
        same = barred | {i for i, p in enumerate(self._parts) if p.conf.priority_tier == tier}
        found = self._try(usage, query, nodes, without(same), idle, busy_first, extra_row)
        if found is not None:
            lower = sorted(
                (i for i, p in enumerate(self._parts) if p.conf.priority_tier < tier),
                key=lambda i: -self._parts[i].conf.priority_tier,
            )
            for part in lower:  # keep off the lower partitions' jobs too, as far as that works
                same = same | {part}
                better = self._try(usage, query, nodes, without(same), idle, busy_first, extra_row)
                if better is None:
                    break
                found = better
            return found
        return self._rows(usage, query, nodes, barred, idle, busy_first, extra_row)

    def _rows(
        self, usage: Usage, query: Query, nodes: int, barred: frozenset[int], idle: int, busy_first: bool,
        extra_row: bool,
    ) -> Found | None:  # fmt: skip
        rules = query.profile.rules
        rows = self._rows_of[rules.part]
        if self._by_qos and not extra_row:
            rows -= 1
        if self._by_qos and rules.req != AVAILABLE:
            rows = 1
        for row in range(rows):

            def free(state: State, shape: Shape, row: int = row) -> int:
                return shape.core_map & ~_cores_of(state, barred) & ~_row_cores(state, rules.part, row)

            found = self._try(usage, query, nodes, free, idle, busy_first, extra_row)
            if found is not None:
                return found
        return None

    def _barred(self, own: int, tier: int) -> frozenset[int]:
        """Partitions whose cores this job can never have: a higher tier, or never preempted."""
        out = []
        for i, part in enumerate(self._parts):
            mode = part.conf.preempt_mode.lower()
            off = mode == "off" if mode else self._cluster_mode_off
            if part.conf.priority_tier <= tier and not off:
                continue
            if i == own and self._rows_of[i] > 1:
                continue
            out.append(i)
        return frozenset(out)

    def _try(
        self, usage: Usage, query: Query, nodes: int, free: FreeCores, idle: int, busy_first: bool, extra_row: bool
    ) -> Found | None:  # fmt: skip
        offers = self._offers(usage, query, nodes, free, extra_row)
        chosen = self._choose(query, offers, idle, busy_first)
        return Found(chosen, offers, query) if chosen is not None and chosen.switch_ok else None

    def _offers(
        self, usage: Usage, query: Query, nodes: int, free: FreeCores, extra_row: bool
    ) -> list[tuple[int, Fit]]:
        rules = query.profile.rules
        spare = 0 if extra_row else self._spare
        out: list[tuple[int, Fit]] = []
        for state, members in usage.classes.items():
            here = members & nodes
            if not here:
                continue
            shape = self._shapes[state.shape]
            if not node_test.state_allows(rules, state, shape, self._rows_of, spare):
                continue
            cores = free(state, shape)
            if rules.whole and cores != shape.core_map:
                continue
            fit = node_test.can_run(rules, state, shape, cores, test_only=False)
            if fit is not None and fit.usable:
                out.append((here, fit))
        return out

    def _choose(self, query: Query, offers: Offers, idle: int, busy_first: bool) -> Chosen | None:
        if not offers:
            return None
        return self._chooser.choose(
            query.ask, offers, query.weights, query.profile.rules.part, idle, busy_first, query.waited_s
        )


def _rows(part: Partition) -> int:
    mode = part.conf.over_subscribe
    return part.conf.over_subscribe_count if mode in ("YES", "FORCE") else 1


def partition_rows(parts: Sequence[Partition], by_qos: bool) -> tuple[int, ...]:
    """Rows per partition index: the OverSubscribe count, and one for QOS preemption (part_data_create_array())."""
    return tuple(max(1, _rows(p)) + (1 if by_qos else 0) for p in parts)


def _free_of_all(state: State, shape: Shape) -> int:
    return shape.core_map & ~state.used_cores()


def _cores_of(state: State, parts: frozenset[int]) -> int:
    cores = 0
    for part, _row, bitmap in state.rows:
        if part in parts:
            cores |= bitmap
    return cores


def _row_cores(state: State, part: int, row: int) -> int:
    for owner, where, bitmap in state.rows:
        if owner == part and where == row:
            return bitmap
    return 0
