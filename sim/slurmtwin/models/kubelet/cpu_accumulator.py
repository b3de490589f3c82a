"""Choosing exclusive CPUs: the packed allocator, best fit from the largest unit down.

Source: kubernetes.md 1.2 steps 3 to 7; cpumanager/cpu_assignment.go
``takeByTopologyNUMAPacked``, v1.34.
"""

from __future__ import annotations

from collections.abc import Mapping

from slurmtwin.models.kubelet.cpu_topology import CpuTopology, members, union


class NotEnoughCpusError(Exception):
    """Fewer CPUs are free than asked for."""


class CpuAccumulator:
    """CPUs being collected for one container from the free ones.

    Groups come in ascending order of their free CPUs, ties by id (the fullest first), and a
    lower level is listed inside the order of its parents.
    """

    def __init__(self, topology: CpuTopology, free: int, wanted: int, *, spread: bool) -> None:
        self.topology = topology
        self.free = free
        self.needed = wanted
        self.taken = 0
        self._spread = spread
        self._numa_first = len(topology.sockets) >= len(topology.numa_nodes)

    def take(self, cpus: int) -> None:
        """Moves ``cpus`` from the free ones to the container's."""
        self.taken |= cpus
        self.free &= ~self.taken
        self.needed -= cpus.bit_count()

    def numa_order(self) -> list[int]:
        """NUMA nodes with a free CPU, in order."""
        numa, sockets = self.topology.numa_nodes, self.topology.sockets
        if self._numa_first:
            return self._ordered(numa, self.free)
        return self._inside(self._ordered(sockets, self.free), sockets, numa)

    def _socket_order(self) -> list[int]:
        numa, sockets = self.topology.numa_nodes, self.topology.sockets
        if not self._numa_first:
            return self._ordered(sockets, self.free)
        return self._inside(self._ordered(numa, self.free), numa, sockets)

    def _core_order(self) -> list[int]:
        if self._numa_first:
            return self._inside(self._socket_order(), self.topology.sockets, self.topology.cores)
        return self._inside(self.numa_order(), self.topology.numa_nodes, self.topology.cores)

    def _uncore_order(self) -> list[int]:
        return self._inside(self.numa_order(), self.topology.numa_nodes, self.topology.uncore_caches)

    def _inside(self, parents: list[int], outer: Mapping[int, int], inner: Mapping[int, int]) -> list[int]:
        """The inner groups in order, parent by parent."""
        return [key for parent in parents for key in self._ordered(inner, outer[parent] & self.free)]

    def _ordered(self, groups: Mapping[int, int], within: int) -> list[int]:
        """Groups with a CPU in ``within``, by all their free CPUs, then by id."""
        free = self.free
        present = [key for key, cpus in groups.items() if cpus & within]
        return sorted(present, key=lambda key: ((groups[key] & free).bit_count(), key))

    def _take_whole(self, order: list[int], groups: Mapping[int, int], size: int | None) -> None:
        """Takes free groups while they fit; ``size`` is what counts as whole, if not all CPUs."""
        whole = [
            key
            for key in order
            if (groups[key] & self.free).bit_count() == (groups[key].bit_count() if size is None else size)
        ]
        for key in whole:
            if self.needed >= groups[key].bit_count():
                self.take(groups[key])

    def take_numa_nodes_and_sockets(self) -> None:
        """Whole units of the higher level, then of the lower one."""
        numa = (self.numa_order, self.topology.numa_nodes, None)
        sockets = (self._socket_order, self.topology.sockets, self.topology.cpus_per_socket)
        for order, groups, size in (numa, sockets) if self._numa_first else (sockets, numa):
            self._take_whole(order(), groups, size)
            if self.needed < 1:
                return

    def take_uncore_caches(self) -> None:
        """Whole caches, then the first cache that supplies exactly the rest."""
        caches = self.topology.uncore_caches
        for cache in self._uncore_order():
            if self.needed >= self.topology.cpus_per_uncore:
                self._take_whole(self._uncore_order(), caches, None)
            if self.needed >= 1:
                self._take_part_of_cache(cache)
            if self.needed < 1:
                return

    def _take_part_of_cache(self, cache: int) -> None:
        per_core = self.topology.cpus_per_core
        within = self.topology.uncore_caches[cache] & self.free
        cores = sorted(core for core, cpus in self.topology.cores.items() if cpus & within)
        enough = cores[: -(-self.needed // per_core)]
        offered = union(self.topology.cores[core] & self.free for core in enough)
        if self.needed % 2 and per_core > 1 and offered.bit_count() > self.needed:
            offered ^= 1 << (offered.bit_length() - 1)
        if offered.bit_count() == self.needed:
            self.take(offered)

    def take_cores(self) -> None:
        """Whole free cores."""
        self._take_whole(self._core_order(), self.topology.cores, self.topology.cpus_per_core)

    def take_cpus(self) -> None:
        """Single CPUs: core by core, or socket by socket where spread over cores."""
        if self._spread:
            parents, groups = self._socket_order(), self.topology.sockets
        else:
            parents, groups = self._core_order(), self.topology.cores
        for cpu in [cpu for key in parents for cpu in members(groups[key] & self.free)]:
            self.take(1 << cpu)
            if self.needed < 1:
                return


def take_packed(topology: CpuTopology, free: int, wanted: int, *, spread: bool, by_uncore: bool) -> int:
    """``wanted`` CPUs out of ``free``, packed.

    Raises ``NotEnoughCpusError``.
    """
    collected = CpuAccumulator(topology, free, wanted, spread=spread)
    if wanted < 1:
        return 0
    if wanted > free.bit_count():
        raise NotEnoughCpusError(f"{wanted} CPUs wanted, {free.bit_count()} free")
    collected.take_numa_nodes_and_sockets()
    if collected.needed >= 1 and by_uncore:
        collected.take_uncore_caches()
    if collected.needed >= 1 and not spread:
        collected.take_cores()
    if collected.needed >= 1:
        collected.take_cpus()
    if collected.needed >= 1:
        raise NotEnoughCpusError(f"{wanted} CPUs wanted, no way found to take them")
    return collected.taken
