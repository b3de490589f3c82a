"""A node's resource managers together: pods admitted, containers started, kubelets restarted.

Source: kubernetes.md 1.4, 1.8, 1.9 and 1.12; topologymanager/scope_pod.go and
scope_container.go, v1.34.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from slurmtwin.contract.errors import InputError
from slurmtwin.models.kubelet.cpu_manager import (
    AdmissionError,
    CpuCheckpoint,
    CpuManager,
    CpuPolicy,
    CpuPolicyOptions,
    ManagerStartError,
)
from slurmtwin.models.kubelet.cpu_topology import CpuTopology
from slurmtwin.models.kubelet.memory_manager import (
    MemoryCheckpoint,
    MemoryManager,
    MemoryPolicy,
)
from slurmtwin.models.kubelet.pod_resources import ContainerResources, PodResources
from slurmtwin.models.kubelet.topology_manager import (
    DEFAULT_MAX_NUMA_NODES,
    NO_AFFINITY,
    NumaInfo,
    TopologyHint,
    TopologyManager,
    TopologyPolicy,
    TopologyScope,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Host:
    """A host's CPUs, memory in bytes by NUMA node and resource, and NUMA distances."""

    topology: CpuTopology
    memory_bytes: dict[int, dict[str, int]]
    distances: dict[int, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class KubeletConfiguration:
    """The part of a KubeletConfiguration that the resource managers read."""

    cpu_policy: CpuPolicy = "none"
    cpu_options: CpuPolicyOptions = field(default_factory=CpuPolicyOptions)
    reserved_cpus: int = 0
    reserved_cpu_count: int = 0
    topology_policy: TopologyPolicy = "none"
    topology_scope: TopologyScope = "container"
    prefer_closest_numa_nodes: bool = False
    max_allowable_numa_nodes: int = DEFAULT_MAX_NUMA_NODES
    memory_policy: MemoryPolicy = "None"
    reserved_memory_bytes: dict[int, dict[str, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to a pod; ``reason`` is empty where it was admitted."""

    uid: str
    reason: str

    @property
    def admitted(self) -> bool:
        return not self.reason


class NodeResources:
    """The resource managers of one node over the lives of its kubelet.

    A pod that is refused is Failed for good and no longer active, but keeps what its first
    containers got until the next clean-up.
    """

    def __init__(self, host: Host, configuration: KubeletConfiguration) -> None:
        self.host = host
        self.configuration = configuration
        self.pods: dict[str, PodResources] = {}
        self._cpu_file: CpuCheckpoint | None = None
        self._memory_file: MemoryCheckpoint | None = None
        self.cpu: CpuManager | None = None
        self.memory: MemoryManager | None = None
        self.start_by_chance = False

    def start(self, configuration: KubeletConfiguration | None = None) -> list[Admission]:
        """Starts a kubelet on what the one before left; active pods are admitted again.

        ``start_by_chance`` is set where the memory manager's answer is a matter of chance.

        Raises ``ManagerStartError`` with the manager's name in front.
        """
        self.configuration = configuration or self.configuration
        settings = self.configuration
        self.cpu = self.memory = None
        self.start_by_chance = False
        self._topology = self._new_topology_manager()
        cpu = _named("cpu", lambda: self._new_cpu_manager(settings))
        memory = _named("memory", lambda: self._new_memory_manager(settings))
        self._cpu_file = self._cpu_file or cpu.checkpoint
        _named("cpu", cpu.start)
        self._memory_file = self._memory_file or memory.checkpoint
        try:
            _named("memory", memory.start)
        finally:
            self.start_by_chance = memory.start_by_chance
        self.cpu, self.memory = cpu, memory
        return [self._admit(pod) for pod in list(self.pods.values())]

    def wipe(self, configuration: KubeletConfiguration | None = None) -> None:
        """The cure of a start error: drain, delete the state files, start.

        Raises ``ManagerStartError``.
        """
        self.pods.clear()
        self._cpu_file = self._memory_file = None
        self.start(configuration)

    def _new_topology_manager(self) -> TopologyManager:
        settings = self.configuration
        numa = NumaInfo(self.host.topology.numa_ids, dict(self.host.distances))
        try:
            return TopologyManager(
                settings.topology_policy,
                settings.topology_scope,
                numa,
                prefer_closest=settings.prefer_closest_numa_nodes,
                max_numa_nodes=settings.max_allowable_numa_nodes,
            )
        except InputError as error:
            raise ManagerStartError(f"topology: {error}") from error

    def _new_cpu_manager(self, settings: KubeletConfiguration) -> CpuManager:
        return CpuManager(
            settings.cpu_policy,
            self.host.topology,
            self._cpu_file,
            options=settings.cpu_options,
            reserved=settings.reserved_cpus,
            reserved_count=settings.reserved_cpu_count,
            single_numa_node=settings.topology_policy == "single-numa-node",
        )

    def _new_memory_manager(self, settings: KubeletConfiguration) -> MemoryManager:
        return MemoryManager(
            settings.memory_policy,
            self.host.memory_bytes,
            settings.reserved_memory_bytes,
            self._memory_file,
        )

    def admit(self, pod: PodResources) -> Admission:
        """A pod arrives; CPUs and memory are given out at once, container by container."""
        self.pods[pod.uid] = pod
        return self._admit(pod)

    def _admit(self, pod: PodResources) -> Admission:
        try:
            self._allocate_pod(pod)
        except AdmissionError as error:
            del self.pods[pod.uid]
            return Admission(pod.uid, error.reason)
        return Admission(pod.uid, "")

    def _allocate_pod(self, pod: PodResources) -> None:
        policy, scope = self.configuration.topology_policy, self.configuration.topology_scope
        affinity = NO_AFFINITY
        if policy != "none" and scope == "pod":
            affinity = self._affinity(pod, None)
        for container in pod.all_containers():
            if policy != "none" and scope == "container":
                affinity = self._affinity(pod, container)
            self._allocate(pod, container, affinity)

    def _affinity(self, pod: PodResources, container: ContainerResources | None) -> TopologyHint:
        cpu, memory = self._managers()
        cpu.remove_stale(self.pods)
        memory.remove_stale(self.pods)
        hints = [cpu.hints(pod, container), memory.hints(pod, container)]
        affinity, admitted = self._topology.merge(hints)
        if not admitted:
            raise AdmissionError("TopologyAffinityError", "no NUMA nodes suit all resources")
        return affinity

    def _allocate(self, pod: PodResources, container: ContainerResources, affinity: TopologyHint) -> None:
        cpu, memory = self._managers()
        cpu.remove_stale(self.pods)
        cpu.allocate(pod, container, affinity.numa)
        memory.remove_stale(self.pods)
        memory.allocate(pod, container, affinity)

    def _managers(self) -> tuple[CpuManager, MemoryManager]:
        if self.cpu is None or self.memory is None:
            raise InputError("the kubelet is not running; start it first")
        return self.cpu, self.memory

    def container_started(self, uid: str, container: str) -> None:
        """A container of an active pod starts (or starts again: it keeps its CPUs)."""
        pod = self.pods.get(uid)
        if pod is not None and any(each.name == container for each in pod.all_containers()):
            self._managers()[1].container_started(pod, container)

    def remove(self, uid: str) -> None:
        """A pod ends; what it held returns with the next admission or reconcile."""
        self.pods.pop(uid, None)

    def reconcile(self) -> None:
        """The CPU manager's loop, every 10 s: gives back what ended pods held."""
        self._managers()[0].remove_stale(self.pods)


def _named(manager: str, action: Callable[[], T]) -> T:
    try:
        return action()
    except ManagerStartError as error:
        raise ManagerStartError(f"{manager}: {error}") from error
