"""The CPU manager: exclusive CPUs for containers of Guaranteed pods.

Source: kubernetes.md 1.1 to 1.12 and 1.2; pkg/kubelet/cm/cpumanager, v1.34.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from slurmtwin.models.kubelet.cpu_accumulator import NotEnoughCpusError, take_packed
from slurmtwin.models.kubelet.cpu_distribution import take_distributed
from slurmtwin.models.kubelet.cpu_topology import CpuTopology, union
from slurmtwin.models.kubelet.pod_resources import ContainerResources, PodResources, peak
from slurmtwin.models.kubelet.topology_manager import Hints, TopologyHint, subsets

CpuPolicy = Literal["none", "static"]
CPU = "cpu"


class ManagerStartError(Exception):
    """A resource manager that refuses to start; the kubelet then exits."""


class AdmissionError(Exception):
    """A container that cannot get what it asks for; ``reason`` is the pod's status reason."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class CpuPolicyOptions:
    """The static policy's options (kubernetes.md 1.2, table)."""

    full_pcpus_only: bool = False
    distribute_cpus_across_numa: bool = False
    align_by_socket: bool = False
    distribute_cpus_across_cores: bool = False
    strict_cpu_reservation: bool = False
    prefer_align_cpus_by_uncorecache: bool = False

    def conflict(self) -> str | None:
        """The pair of options that may not stand together, or None."""
        across_cores = "distribute-cpus-across-cores"
        if self.distribute_cpus_across_cores:
            if self.full_pcpus_only:
                return f"full-pcpus-only and {across_cores}"
            if self.distribute_cpus_across_numa:
                return f"distribute-cpus-across-numa and {across_cores}"
            if self.prefer_align_cpus_by_uncorecache:
                return f"prefer-align-cpus-by-uncorecache and {across_cores}"
        if self.prefer_align_cpus_by_uncorecache and self.distribute_cpus_across_numa:
            return "prefer-align-cpus-by-uncorecache and distribute-cpus-across-numa"
        return None


@dataclass(slots=True)
class CpuCheckpoint:
    """The file ``cpu_manager_state``: sets by pod UID and container name."""

    policy: CpuPolicy
    default: int = 0
    entries: dict[str, dict[str, int]] = field(default_factory=dict)

    def known_cpus(self) -> int:
        """The shared set and everything assigned."""
        return self.default | union(held for containers in self.entries.values() for held in containers.values())


class CpuManager:
    """One life of the CPU manager, on the checkpoint of the lives before.

    ``reserved``: the CPUs kept from exclusive use (reservedSystemCPUs), or 0 to take
    ``reserved_count`` of them by the allocator's own order.

    Raises ``ManagerStartError`` where the kubelet would not start.
    """

    def __init__(
        self,
        policy: CpuPolicy,
        topology: CpuTopology,
        checkpoint: CpuCheckpoint | None,
        *,
        options: CpuPolicyOptions | None = None,
        reserved: int = 0,
        reserved_count: int = 0,
        single_numa_node: bool = False,
    ) -> None:
        self.policy = policy
        self.options = options or CpuPolicyOptions()
        self._topology = topology
        self._reusable: tuple[str, int] = ("", 0)
        self.reserved = self._reserved_cores = 0
        if policy == "static":
            self._reserve(reserved, reserved_count, single_numa_node=single_numa_node)
        elif self.options != CpuPolicyOptions():
            raise ManagerStartError("the policy none takes no options")
        self.checkpoint = checkpoint or CpuCheckpoint(policy)

    def _reserve(self, reserved: int, count: int, *, single_numa_node: bool) -> None:
        if count < 1:
            raise ManagerStartError("the policy static needs reserved CPUs")
        if conflict := self.options.conflict():
            raise ManagerStartError(f"options {conflict} cannot stand together")
        if self.options.align_by_socket:
            if single_numa_node:
                raise ManagerStartError("align-by-socket does not go with single-numa-node")
            if len(self._topology.sockets) > len(self._topology.numa_nodes):
                raise ManagerStartError("align-by-socket needs a NUMA node for each socket")
        if not reserved:
            try:
                reserved = self._take(self._topology.all_cpus, count)
            except NotEnoughCpusError:
                reserved = 0
        if reserved.bit_count() != count:
            raise ManagerStartError(f"{count} CPUs to reserve, {reserved.bit_count()} found")
        if reserved & ~self._topology.all_cpus:
            raise ManagerStartError("a reserved CPU does not exist")
        self.reserved = reserved
        self._reserved_cores = self._topology.whole_cores(reserved)

    def start(self) -> None:
        """Checks the checkpoint against this host and configuration (kubernetes.md 1.9).

        Raises ``ManagerStartError``: drain the node and delete the file.
        """
        state = self.checkpoint
        if state.policy != self.policy:
            raise ManagerStartError(f"checkpoint of policy {state.policy}, not {self.policy}")
        if self.policy == "none":
            return
        strict = self.options.strict_cpu_reservation
        known = self._topology.all_cpus & ~(self.reserved if strict else 0)
        if not state.default:
            if state.entries:
                raise ManagerStartError("an empty default set with CPUs assigned")
            state.default = known
            return
        if strict and self.reserved & state.default:
            raise ManagerStartError("strictly reserved CPUs in the default set")
        if not strict and self.reserved & ~state.default:
            raise ManagerStartError("reserved CPUs missing from the default set")
        for containers in state.entries.values():
            if any(held & state.default for held in containers.values()):
                raise ManagerStartError("assigned CPUs in the default set")
        if state.known_cpus() != known:
            raise ManagerStartError("the checkpoint knows other CPUs than the host has")

    def assigned(self, uid: str, container: str) -> int | None:
        """A container's exclusive CPUs; None for one that runs in the shared set."""
        return self.checkpoint.entries.get(uid, {}).get(container)

    def cpuset(self, uid: str, container: str) -> int:
        """The CPUs a container runs on when it starts now (kubernetes.md 1.4)."""
        held = self.assigned(uid, container)
        return self.checkpoint.default if held is None else held

    def remove_stale(self, active: dict[str, PodResources]) -> None:
        """Gives back the CPUs of pods that are no longer active (kubernetes.md 1.8)."""
        state = self.checkpoint
        if self.policy == "none":
            return
        for uid in [uid for uid in state.entries if uid not in active]:
            for held in state.entries.pop(uid).values():
                state.default |= held

    def _exclusive(self, pod: PodResources, container: ContainerResources) -> int:
        """How many exclusive CPUs a container gets: a whole number of a Guaranteed pod."""
        if not pod.guaranteed or container.milli_cpu % 1000:
            return 0
        return container.milli_cpu // 1000

    def _pod_exclusive(self, pod: PodResources) -> int:
        return peak(pod, {each.name: self._exclusive(pod, each) for each in pod.all_containers()})

    def hints(self, pod: PodResources, container: ContainerResources | None) -> Hints:
        """NUMA nodes for a container, or for a whole pod where ``container`` is None."""
        if self.policy == "none":
            return None
        if container is None:
            return self._pod_hints(pod)
        wanted = self._exclusive(pod, container)
        if not wanted:
            return None
        held = self.assigned(pod.uid, container.name)
        if held is None:
            return {CPU: self._hints(self._available(), self._reusable_of(pod), wanted)}
        if held.bit_count() != wanted:
            return {CPU: []}
        return {CPU: self._hints(held, 0, wanted)}

    def _pod_hints(self, pod: PodResources) -> Hints:
        wanted = self._pod_exclusive(pod)
        if not wanted:
            return None
        assigned = 0
        for container in pod.all_containers():
            held = self.assigned(pod.uid, container.name)
            if held is None:
                continue
            if held.bit_count() != self._exclusive(pod, container):
                return {CPU: []}
            assigned |= held
        if assigned.bit_count() == wanted:
            return {CPU: self._hints(assigned, 0, wanted)}
        return {CPU: self._hints(self._available(), self._reusable_of(pod) | assigned, wanted)}

    def _hints(self, free: int, reusable: int, wanted: int) -> list[TopologyHint]:
        """Every NUMA mask with enough free CPUs and all reusable ones (kubernetes.md 1.21)."""
        topology = self._topology
        smallest = len(topology.numa_nodes)
        offered: list[int] = []
        for numa in subsets(topology.numa_ids):
            cpus = topology.in_numa_nodes(numa)
            if cpus.bit_count() >= wanted:
                smallest = min(smallest, numa.bit_count())
            if reusable & ~cpus:
                continue
            if reusable.bit_count() + (free & cpus).bit_count() >= wanted:
                offered.append(numa)
        return [
            TopologyHint(
                numa,
                numa.bit_count() == smallest or self._socket_aligned(numa, smallest),
            )
            for numa in offered
        ]

    def _socket_aligned(self, numa: int, smallest: int) -> bool:
        per_socket = len(self._topology.numa_nodes) // len(self._topology.sockets)
        if not self.options.align_by_socket or not per_socket:
            return False
        return len(self._topology.sockets_of(numa)) == -(-smallest // per_socket)

    def allocate(self, pod: PodResources, container: ContainerResources, numa: int | None) -> None:
        """Gives a container its exclusive CPUs, near ``numa`` where that is a set of nodes.

        Raises ``AdmissionError``.
        """
        wanted = 0 if self.policy == "none" else self._exclusive(pod, container)
        if not wanted:
            return
        if self.options.full_pcpus_only:
            self._require_whole_cores(wanted)
        cpus = self.assigned(pod.uid, container.name)
        if cpus is None:
            try:
                cpus = self._allocate(wanted, numa, self._reusable_of(pod))
            except NotEnoughCpusError as error:
                raise AdmissionError("UnexpectedAdmissionError", str(error)) from error
            self.checkpoint.default &= ~cpus
            self.checkpoint.entries.setdefault(pod.uid, {})[container.name] = cpus
        reusable = self._reusable_of(pod)
        passing = container in pod.passing_init_containers()
        self._reusable = (pod.uid, reusable | cpus if passing else reusable & ~cpus)

    def _require_whole_cores(self, wanted: int) -> None:
        per_core = self._topology.cpus_per_core
        if wanted % per_core:
            raise AdmissionError("SMTAlignmentError", f"{wanted} CPUs, {per_core} per core")
        free = (self.checkpoint.default & ~self._reserved_cores).bit_count()
        if wanted > free:
            raise AdmissionError("SMTAlignmentError", f"{wanted} CPUs, {free} on whole cores")

    def _reusable_of(self, pod: PodResources) -> int:
        """CPUs of a pod's ended init containers; only the last pod's are remembered."""
        uid, cpus = self._reusable
        return cpus if uid == pod.uid else 0

    def _available(self) -> int:
        return self.checkpoint.default & ~self.reserved

    def _allocate(self, wanted: int, numa: int | None, reusable: int) -> int:
        allocatable = self._available() | reusable
        cpus = 0
        if numa is not None:
            near = allocatable & self._near(numa)
            cpus = self._take(near, min(wanted, near.bit_count()))
        return cpus | self._take(allocatable & ~cpus, wanted - cpus.bit_count())

    def _near(self, numa: int) -> int:
        if not self.options.align_by_socket:
            return self._topology.in_numa_nodes(numa)
        return union(self._topology.sockets[each] for each in self._topology.sockets_of(numa))

    def _take(self, free: int, wanted: int) -> int:
        options = self.options
        spread = options.distribute_cpus_across_cores
        if options.distribute_cpus_across_numa:
            chunk = self._topology.cpus_per_core if options.full_pcpus_only else 1
            return take_distributed(self._topology, free, wanted, chunk=chunk, spread=spread)
        by_uncore = options.prefer_align_cpus_by_uncorecache
        return take_packed(self._topology, free, wanted, spread=spread, by_uncore=by_uncore)
