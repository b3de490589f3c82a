"""Is a pod let in: room for its requests, after eviction and the resource managers had their say (kubernetes.md 1.12).

The order is that of kubelet.go v1.34.2: eviction manager, CPU, memory and topology managers, then
lifecycle/predicate.go. Amounts: thousandths of a core, bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmtwin.models.kubelet.pod_resources import ContainerResources, PodResources, peak
from slurmtwin.models.kubelet.pod_status import pod_quality

if TYPE_CHECKING:
    from slurmtwin.models.api_server.objects import Container, Pod


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCapacity:
    """What pods may ask of a node (allocatable), and the memory that it has."""

    milli_cpu: int
    memory: int
    pods: int = 110
    memory_capacity: int = 0
    """0: as much as is allocatable."""


def resources_of(pod: Pod) -> PodResources:
    """A pod as the resource managers see it. A limit without a request is its request too."""

    def one(container: Container) -> ContainerResources:
        memory = container.memory or container.memory_limit
        return ContainerResources(
            container.name, container.milli_cpu or container.milli_cpu_limit, {"memory": memory} if memory else {},
            container.restartable,
        )  # fmt: skip

    return PodResources(
        pod.meta.uid, pod_quality(pod) == "Guaranteed", tuple(one(c) for c in pod.spec.containers),
        tuple(one(c) for c in pod.spec.init_containers),
    )  # fmt: skip


def asked(pod: Pod) -> tuple[int, int]:
    """(CPU, memory) that a pod takes of a node: the most it needs at once (resource helpers PodRequests())."""
    spec = pod.spec
    if not spec.init_containers:
        cpu_all = memory_all = 0
        for container in spec.containers:
            cpu_all += container.milli_cpu or container.milli_cpu_limit
            memory_all += container.memory or container.memory_limit
        return cpu_all, memory_all
    resources = resources_of(pod)
    cpu = {c.name: c.milli_cpu for c in resources.all_containers()}
    memory = {c.name: c.memory_bytes.get("memory", 0) for c in resources.all_containers()}
    return peak(resources, cpu), peak(resources, memory)


class Room:
    """What the pods on a node hold of it.

    A pod counts from its admission until its containers have ended (kubelet_pods.go filterOutInactivePods()).
    """

    def __init__(self, capacity: NodeCapacity) -> None:
        self._capacity = capacity
        self._held: dict[str, tuple[int, int]] = {}
        self._milli_cpu = 0
        self._memory = 0

    def take(self, pod: Pod) -> str:
        """Give the pod its room; the reason if there is none: OutOfpods, OutOfcpu, OutOfmemory."""
        cpu, memory = asked(pod)
        if len(self._held) + 1 > self._capacity.pods:
            return "OutOfpods"
        if cpu and self._milli_cpu + cpu > self._capacity.milli_cpu:
            return "OutOfcpu"
        if memory and self._memory + memory > self._capacity.memory:
            return "OutOfmemory"
        self._held[pod.meta.uid] = (cpu, memory)
        self._milli_cpu += cpu
        self._memory += memory
        return ""

    def leave(self, uid: str) -> None:
        """The pod's containers have ended."""
        cpu, memory = self._held.pop(uid, (0, 0))
        self._milli_cpu -= cpu
        self._memory -= memory
