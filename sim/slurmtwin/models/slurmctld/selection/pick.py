"""Nodes taken one after another until a request is met: the counters of Slurm's eval_nodes loops.

`take` handles any number of equal nodes at once: what eval_nodes_cpus_to_use() would give each is found in
closed form, so a wide job costs a few steps and not one per node.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slurmtwin.models.slurmctld.selection.bitmaps import lowest
from slurmtwin.models.slurmctld.selection.demand import Demand
from slurmtwin.models.slurmctld.selection.node_test import Fit

_MANY: Final = 1 << 40

Offers = Sequence[tuple[int, Fit]]
"""(bitmap, what each of its nodes offers), disjoint, usable > 0."""


@dataclass(frozen=True, slots=True)
class Ask:
    """How much is wanted: the arguments of select_p_job_test() that may differ from the job's own request."""

    demand: Demand
    min_nodes: int
    max_nodes: int
    req_nodes: int
    min_cpus: int
    required: int
    whole: bool
    """The job gets whole nodes."""

    def enough(self, nodes: int, rem_nodes: int) -> bool:
        """eval_nodes_enough_nodes(): between the minimum and the requested count is enough."""
        return nodes >= self.needed(rem_nodes)

    def needed(self, rem_nodes: int) -> int:
        """Nodes still needed at least."""
        if self.req_nodes > self.min_nodes:
            return rem_nodes + self.min_nodes - self.req_nodes
        return rem_nodes


@dataclass(frozen=True, slots=True)
class Chosen:
    """The nodes, and those that give fewer CPUs than they offer: (bitmap, CPUs each)."""

    nodes: int
    given: tuple[tuple[int, int], ...] = ()
    switch_ok: bool = True
    """best_switch: the switch count asked for is met, or waited for long enough."""


class Pick:
    """What is still wanted, and what is taken."""

    __slots__ = ("ask", "given", "max_nodes", "min_rem", "rem_cpus", "rem_max_cpus", "rem_nodes", "taken")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.rem_cpus = ask.min_cpus
        self.rem_max_cpus = ask.min_cpus
        self.rem_nodes = max(ask.min_nodes, ask.req_nodes)
        self.min_rem = ask.min_nodes
        self.max_nodes = ask.max_nodes
        self.taken = 0
        self.given: list[tuple[int, int]] = []

    @property
    def done(self) -> bool:
        """Nodes and CPUs suffice."""
        return self.rem_nodes <= 0 and self.rem_cpus <= 0

    @property
    def acceptable(self) -> bool:
        """CPUs suffice and the minimum of nodes is there, if not the number asked for."""
        return self.rem_cpus <= 0 and self.ask.enough(0, self.rem_nodes)

    def chosen(self) -> Chosen:
        """The result so far."""
        return Chosen(self.taken, tuple(self.given))

    def grant(self, cpus: int, reserve: int) -> int:
        """eval_nodes_cpus_to_use(): CPUs one more node gives, keeping `reserve` back for each further node."""
        if self.ask.whole:
            return cpus
        room = self.rem_max_cpus - max(self.min_rem - 1, 0) * reserve
        return cpus if cpus <= room else max(room, self.ask.demand.pn_min_cpus)

    def take(self, nodes: int, cpus: int, reserve: int, *, skip_small: bool = False) -> None:
        """Take nodes that offer `cpus` each, lowest index first, until done or no more are allowed.

        skip_small: the last node allowed must offer all CPUs that are missing.
        """
        while nodes and self.max_nodes > 0 and not self.done:
            if skip_small and self.max_nodes == 1 and cpus < self.rem_cpus:
                return
            grant = self.grant(cpus, reserve)
            count = min(self._alike(cpus, grant, reserve), max(self.rem_nodes, -(-self.rem_cpus // grant), 1))
            count = min(count, self.max_nodes - 1 if skip_small and self.max_nodes > 1 else self.max_nodes)
            some = lowest(nodes, count)
            count = some.bit_count()
            nodes ^= some
            self.book(some, count, grant)
            if grant != cpus:
                self.given.append((some, grant))

    def take_one(self, bit: int, fit: Fit) -> int:
        """Take one node, whatever is still wanted; the CPUs it gives."""
        grant = self.grant(fit.usable, fit.reserve)
        self.book(bit, 1, grant)
        if grant != fit.usable:
            self.given.append((bit, grant))
        return grant

    def book(self, nodes: int, count: int, grant: int) -> None:
        """Count nodes that give `grant` CPUs each as taken."""
        self.taken |= nodes
        self.rem_nodes -= count
        self.min_rem -= count
        self.max_nodes -= count
        self.rem_cpus -= count * grant
        self.rem_max_cpus -= count * grant

    def _alike(self, cpus: int, grant: int, reserve: int) -> int:
        """How many equal nodes in a row would get the same grant."""
        if self.ask.whole:
            return _MANY
        within = max(self.min_rem, 0)  # so long each node taken gives its reserve back
        slope = grant - reserve if within else grant
        most = within or _MANY
        room = self.rem_max_cpus - max(self.min_rem - 1, 0) * reserve
        if grant == cpus:
            return most if slope <= 0 else min(most, (room - cpus) // slope + 1) if room >= cpus else 1
        if slope == 0 or (grant > room and slope > 0):
            return most
        return 1


def fit_at(offers: Offers, bit: int) -> Fit | None:
    """What the node of that bit offers."""
    for bitmap, fit in offers:
        if bitmap & bit:
            return fit
    return None


def union(offers: Offers) -> int:
    """All nodes of the offers."""
    out = 0
    for bitmap, _fit in offers:
        out |= bitmap
    return out
