"""The topology manager: hints of NUMA nodes, merged into one affinity per container or pod.

Source: kubernetes.md 1.20 to 1.24; pkg/kubelet/cm/topologymanager, v1.34.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Literal

from slurmtwin.contract.errors import InputError
from slurmtwin.models.kubelet.cpu_topology import members

TopologyPolicy = Literal["none", "best-effort", "restricted", "single-numa-node"]
TopologyScope = Literal["container", "pod"]

DEFAULT_MAX_NUMA_NODES = 8


@dataclass(frozen=True, slots=True)
class TopologyHint:
    """A set of NUMA nodes that would do; ``numa`` None means any.

    ``preferred``: no fewer nodes could do on an empty host.
    """

    numa: int | None
    preferred: bool


NO_AFFINITY = TopologyHint(None, preferred=False)
ANY_NODE = TopologyHint(None, preferred=True)

Hints = dict[str, list[TopologyHint]] | None
"""Hints by resource name; None or empty: no wish. An empty list: nothing would do."""


@dataclass(frozen=True, slots=True)
class NumaInfo:
    """The host's NUMA nodes and the distances from each to all, by node id."""

    nodes: int
    distances: dict[int, Sequence[int]]

    def mean_distance(self, numa: int) -> float:
        """Mean distance over all pairs of a set, each node with itself included."""
        nodes = list(members(numa))
        total = sum(self.distances[one][other] for one in nodes for other in nodes)
        return total / (len(nodes) ** 2)


@cache
def subsets(nodes: int) -> tuple[int, ...]:
    """All non-empty subsets of a set, by size; asked for with every hint, so kept."""
    chosen: list[int] = []
    subset = nodes
    while subset:
        chosen.append(subset)
        subset = (subset - 1) & nodes
    return tuple(sorted(chosen, key=lambda numa: (numa.bit_count(), numa)))


def _offers(hints: Iterable[Hints]) -> list[list[TopologyHint]]:
    """One list per resource: no wish is any node, nothing possible is any node unpreferred."""
    offers: list[list[TopologyHint]] = []
    for by_resource in hints:
        if not by_resource:
            offers.append([ANY_NODE])
            continue
        offers.extend(offer or [NO_AFFINITY] for offer in by_resource.values())
    return offers


class TopologyManager:
    """Merges the providers' hints by policy.

    Raises ``InputError`` for more NUMA nodes than ``max_numa_nodes``: such a kubelet does not
    start.
    """

    def __init__(
        self,
        policy: TopologyPolicy,
        scope: TopologyScope,
        numa: NumaInfo,
        *,
        prefer_closest: bool = False,
        max_numa_nodes: int = DEFAULT_MAX_NUMA_NODES,
    ) -> None:
        self.policy = policy
        self.scope = scope
        self._numa = numa
        # single-numa-node has no use for distances (policy.go NewHintMerger)
        self._closest = prefer_closest and policy != "single-numa-node"
        if policy != "none" and numa.nodes.bit_count() > max_numa_nodes:
            raise InputError(
                f"{numa.nodes.bit_count()} NUMA nodes, {max_numa_nodes} allowed; raise the topology"
                " manager's option max-allowable-numa-nodes"
            )

    def merge(self, hints: Iterable[Hints]) -> tuple[TopologyHint, bool]:
        """The affinity to use, and whether the pod is admitted with it (kubernetes.md 1.23)."""
        offers = _offers(hints)
        if self.policy == "single-numa-node":
            offers = [[hint for hint in offer if _single(hint)] for offer in offers]
        best = self._best(offers)
        if self.policy == "single-numa-node" and best.numa == self._numa.nodes:
            best = TopologyHint(None, best.preferred)
        return best, self.policy == "best-effort" or best.preferred

    def _best(self, offers: list[list[TopologyHint]]) -> TopologyHint:
        agreed = self._agreed(offers)
        if agreed:
            return TopologyHint(min(agreed, key=self._fitness), preferred=True)
        merged = {self._numa.nodes}
        for offer in offers:
            masks = {self._numa.nodes if hint.numa is None else hint.numa for hint in offer}
            merged = {mask & other for mask in merged for other in masks}
        merged.discard(0)
        if not merged:
            return TopologyHint(self._numa.nodes, preferred=False)
        return TopologyHint(min(merged, key=self._unpreferred_fitness(offers)), preferred=False)

    def _agreed(self, offers: list[list[TopologyHint]]) -> set[int]:
        """Masks that every resource offers as preferred, or has no wish about."""
        agreed: set[int] | None = None
        for offer in offers:
            if ANY_NODE in offer:
                continue
            masks = {hint.numa for hint in offer if hint.preferred and hint.numa is not None}
            agreed = masks if agreed is None else agreed & masks
        if agreed is None:
            return {self._numa.nodes}
        return {mask & self._numa.nodes for mask in agreed} - {0}

    def _fitness(self, numa: int) -> tuple[int, float, int]:
        """Fewer nodes first, then closer ones where asked for, then lower ones."""
        return (
            numa.bit_count(),
            self._numa.mean_distance(numa) if self._closest else 0.0,
            numa,
        )

    def _unpreferred_fitness(
        self, offers: list[list[TopologyHint]]
    ) -> Callable[[int], tuple[int, int, tuple[int, float, int]]]:
        """As near as possible to, and not above, the widest of the resources' smallest masks."""
        smallest = [
            min((hint.numa.bit_count() for hint in offer if hint.numa is not None), default=0) for offer in offers
        ]
        target = max(smallest, default=0)

        def fitness(numa: int) -> tuple[int, int, tuple[int, float, int]]:
            count = numa.bit_count()
            if count > target:
                return 1, 0, self._fitness(numa)
            return 0, target - count, self._fitness(numa)

        return fitness


def _single(hint: TopologyHint) -> bool:
    return hint.preferred and (hint.numa is None or hint.numa.bit_count() == 1)
