"""The CPUs of a host: which core, socket, NUMA node and cache each belongs to.

Sets of CPUs and of NUMA nodes are integers with bit N set for member N.
Source: kubernetes.md 1.2; pkg/kubelet/cm/cpumanager/topology/topology.go, v1.34.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import reduce
from operator import or_

from slurmtwin.contract.errors import InputError


@dataclass(frozen=True, slots=True)
class LogicalCpu:
    """One logical CPU and the ids of what it belongs to; a core's id is its lowest CPU's."""

    cpu: int
    core: int
    socket: int
    numa: int
    uncore: int


def members(bits: int) -> Iterator[int]:
    """The members of a set, ascending."""
    while bits:
        lowest = bits & -bits
        yield lowest.bit_length() - 1
        bits ^= lowest


def set_of(ids: Iterable[int]) -> int:
    """The set with these members."""
    bits = 0
    for member in ids:
        bits |= 1 << member
    return bits


def union(sets: Iterable[int]) -> int:
    """All members of all sets."""
    return reduce(or_, sets, 0)


def list_form(bits: int) -> str:
    """A set as Linux writes cpuset lists: ``0-2,5``; the empty set is the empty string."""
    parts: list[str] = []
    while bits:
        first = (bits & -bits).bit_length() - 1
        length = (~(bits >> first) & ((bits >> first) + 1)).bit_length() - 1
        parts.append(str(first) if length == 1 else f"{first}-{first + length - 1}")
        bits &= ~(((1 << length) - 1) << first)
    return ",".join(parts)


class CpuTopology:
    """Sets of CPUs by core, socket, NUMA node and last-level ("uncore") cache.

    The sizes ``cpus_per_*`` are averages over the host, as the kubelet takes them: on an
    uneven host no group may have that size.

    Raises ``InputError`` for a host without CPUs or with a CPU given twice.
    """

    def __init__(self, cpus: Iterable[LogicalCpu]) -> None:
        self.cpus = tuple(sorted(cpus, key=lambda cpu: cpu.cpu))
        if not self.cpus:
            raise InputError("a host without CPUs; give at least one")
        self.all_cpus = set_of(cpu.cpu for cpu in self.cpus)
        if self.all_cpus.bit_count() != len(self.cpus):
            raise InputError("a CPU is given twice; each CPU id may appear once")
        self.cores: dict[int, int] = {}
        self.sockets: dict[int, int] = {}
        self.numa_nodes: dict[int, int] = {}
        self.uncore_caches: dict[int, int] = {}
        self.core_of: dict[int, int] = {}
        for cpu in self.cpus:
            bit = 1 << cpu.cpu
            self.core_of[cpu.cpu] = cpu.core
            for groups, key in (
                (self.cores, cpu.core),
                (self.sockets, cpu.socket),
                (self.numa_nodes, cpu.numa),
                (self.uncore_caches, cpu.uncore),
            ):
                groups[key] = groups.get(key, 0) | bit
        self.cpus_per_core = len(self.cpus) // len(self.cores)
        self.cpus_per_socket = len(self.cpus) // len(self.sockets)
        self.cpus_per_uncore = len(self.cpus) // len(self.uncore_caches)
        self.numa_ids = set_of(self.numa_nodes)

    def in_numa_nodes(self, numa: int) -> int:
        """The CPUs of a set of NUMA nodes."""
        return union(self.numa_nodes.get(node, 0) for node in members(numa))

    def sockets_of(self, numa: int) -> list[int]:
        """The ids of the sockets that share a CPU with a set of NUMA nodes, ascending."""
        cpus = self.in_numa_nodes(numa)
        return sorted(socket for socket, held in self.sockets.items() if held & cpus)

    def whole_cores(self, cpus: int) -> int:
        """``cpus`` and all their siblings on the same cores."""
        return union(self.cores[self.core_of[cpu]] for cpu in members(cpus))
