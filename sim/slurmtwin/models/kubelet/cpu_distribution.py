"""Choosing exclusive CPUs evenly over NUMA nodes (``distribute-cpus-across-numa``).

Source: kubernetes.md 1.2; cpumanager/cpu_assignment.go ``takeByTopologyNUMADistributed``,
v1.34.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from slurmtwin.models.kubelet.cpu_accumulator import (
    CpuAccumulator,
    NotEnoughCpusError,
    take_packed,
)
from slurmtwin.models.kubelet.cpu_topology import CpuTopology


class AllocatorHangsError(Exception):
    """The kubelet's allocator would loop for ever at this point."""


@dataclass(slots=True)
class _Prefix:
    """A growing list over shared storage, as a Go slice: storage doubles when it is full.

    Two lists with the same storage overwrite each other's last members. The kubelet keeps
    such a list as its best choice, so the choice can change under it; the twin must too.
    """

    storage: list[int]
    length: int

    def plus(self, item: int) -> _Prefix:
        if self.length < len(self.storage):
            self.storage[self.length] = item
            return _Prefix(self.storage, self.length + 1)
        capacity = max(1, 2 * len(self.storage))
        room = [0] * (capacity - self.length - 1)
        return _Prefix([*self.storage[: self.length], item, *room], self.length + 1)

    def items(self) -> list[int]:
        return self.storage[: self.length]


def _combinations(items: Sequence[int], size: int) -> Iterator[_Prefix]:
    """Combinations in lexical order; an earlier one may change while later ones come."""

    def extend(prefix: _Prefix, start: int, missing: int) -> Iterator[_Prefix]:
        if missing == 0:
            yield prefix
            return
        for index in range(start, len(items) - missing + 1):
            yield from extend(prefix.plus(items[index]), index + 1, missing - 1)

    if size >= 1:
        yield from extend(_Prefix([], 0), 0, size)


def _rounded(value: float) -> float:
    """To three decimals, halves up."""
    scaled = value * 1000
    whole = math.floor(scaled)
    return (whole + 1 if scaled - whole >= 0.5 else whole) / 1000


def _imbalance(free: dict[int, int]) -> float:
    """Standard deviation of free CPUs over NUMA nodes, to three decimals."""
    mean = _rounded(sum(free.values()) / len(free))
    total = 0.0
    for count in free.values():
        total += (count - mean) * (count - mean)  # as Go adds; sum() is more exact since Python 3.12
    return _rounded(math.sqrt(total / len(free)))


@dataclass(slots=True)
class _Choice:
    imbalance: float
    nodes: _Prefix | None
    remainder: _Prefix | None


class _Distribution:
    """One request of ``wanted`` CPUs handed out in chunks of ``chunk``."""

    def __init__(self, collected: CpuAccumulator, wanted: int, chunk: int) -> None:
        self._collected = collected
        self._wanted = wanted
        self._chunk = chunk
        self._order = collected.numa_order()
        nodes = collected.topology.numa_nodes
        self._free = {node: (nodes[node] & collected.free).bit_count() for node in self._order}

    def sizes(self) -> range:
        """Numbers of NUMA nodes worth trying."""
        topology = self._collected.topology
        chunks = (len(topology.cpus) - 1) // self._chunk + 1
        per_node = (chunks - 1) // len(topology.numa_nodes) + 1
        needed = (self._wanted - 1) // self._chunk + 1
        return range((needed - 1) // per_node + 1, min(needed, len(self._order)) + 1)

    def best(self, size: int) -> _Choice:
        """The combination of ``size`` nodes that leaves the free CPUs most even."""
        best = _Choice(math.inf, None, None)
        for nodes in _combinations(self._order, size):
            if best.imbalance == 0:
                break
            choice = self._judge(nodes)
            if choice is not None and choice.imbalance < best.imbalance:
                best = choice
        return best

    def share(self, nodes: int) -> int:
        """What each of ``nodes`` nodes gives for certain."""
        return self._wanted // nodes // self._chunk * self._chunk

    def _judge(self, nodes: _Prefix) -> _Choice | None:
        picked = nodes.items()
        if sum(self._free[node] for node in picked) < self._wanted:
            return None
        if sum(self._free[node] // self._chunk for node in picked) * self._chunk < self._wanted:
            return None
        share = self.share(len(picked))
        if any(self._free[node] < share for node in picked):
            return None
        left = dict(self._free)
        for node in picked:
            left[node] -= share
        remainder = self._wanted - share * len(picked)
        if remainder == 0:
            return _Choice(_imbalance(left), nodes, None)
        imbalance, subset = self._spread_remainder(
            left, remainder, [node for node in picked if left[node] >= self._chunk]
        )
        return _Choice(imbalance, nodes, subset)

    def _spread_remainder(
        self, left: dict[int, int], remainder: int, givers: list[int]
    ) -> tuple[float, _Prefix | None]:
        best, best_subset = math.inf, None
        for size in range(len(givers), 0, -1):
            for subset in _combinations(givers, size):
                nodes = subset.items()
                if sum(left[node] for node in nodes) < remainder:
                    continue
                after = dict(left)
                self._give(after, remainder, nodes)
                imbalance = _imbalance(after)
                if imbalance < best:
                    best, best_subset = imbalance, subset
        return best, best_subset

    def _give(self, left: dict[int, int], remainder: int, nodes: list[int]) -> None:
        while remainder > 0:
            before = remainder
            for node in nodes:
                if remainder == 0:
                    break
                if left[node] < self._chunk:
                    continue
                left[node] -= self._chunk
                remainder -= self._chunk
            if remainder == before:
                raise AllocatorHangsError("no chunk is left on any node of the subset")

    def hand_out(self, choice: _Choice, *, spread: bool) -> int:
        """The CPUs of a choice; reads the choice as it stands by now."""
        collected, topology = self._collected, self._collected.topology
        assert choice.nodes is not None
        nodes = choice.nodes.items()
        share = self.share(len(nodes))
        for node in nodes:
            self._take(node, share, spread=spread)
        remainder = self._wanted - share * len(nodes)
        givers = choice.remainder.items() if choice.remainder else []
        while remainder > 0:
            before = remainder
            for node in givers:
                if remainder == 0:
                    break
                if (topology.numa_nodes[node] & collected.free).bit_count() < self._chunk:
                    continue
                self._take(node, self._chunk, spread=spread)
                remainder -= self._chunk
            if remainder == before:
                raise AllocatorHangsError("no chunk is left on any node that gives the rest")
        if collected.needed:
            raise NotEnoughCpusError("other CPUs were handed out than were counted")
        return collected.taken

    def _take(self, node: int, count: int, *, spread: bool) -> None:
        collected = self._collected
        free = collected.topology.numa_nodes[node] & collected.free
        try:
            cpus = take_packed(collected.topology, free, count, spread=spread, by_uncore=False)
        except NotEnoughCpusError:
            return  # the kubelet ignores this error and finds out by counting
        collected.take(cpus)


def take_distributed(topology: CpuTopology, free: int, wanted: int, *, chunk: int, spread: bool) -> int:
    """``wanted`` CPUs out of ``free``, spread evenly in chunks of ``chunk`` CPUs.

    Raises ``NotEnoughCpusError``; ``AllocatorHangsError`` where the kubelet never answers.
    """
    if wanted % chunk:
        return take_packed(topology, free, wanted, spread=spread, by_uncore=False)
    if wanted < 1:
        return 0
    if wanted > free.bit_count():
        raise NotEnoughCpusError(f"{wanted} CPUs wanted, {free.bit_count()} free")
    distribution = _Distribution(CpuAccumulator(topology, free, wanted, spread=spread), wanted, chunk)
    for size in distribution.sizes():
        choice = distribution.best(size)
        if choice.nodes is not None:
            return distribution.hand_out(choice, spread=spread)
    return take_packed(topology, free, wanted, spread=spread, by_uncore=False)
