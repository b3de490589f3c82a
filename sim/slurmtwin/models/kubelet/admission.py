"""Is a pod let in: room for its requests, after eviction and the resource managers had their say (kubernetes.md 1.12).

The order is that of kubelet.go v1.34.2: eviction manager, CPU, memory and topology managers, then
lifecycle/predicate.go. Amounts: thousandths of a core, bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
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
    resources = resources_of(pod)
    cpu = {c.name: c.milli_cpu for c in resources.all_containers()}
    memory = {c.name: c.memory_bytes.get("memory", 0) for c in resources.all_containers()}
    return peak(resources, cpu), peak(resources, memory)


def fits(pod: Pod, others: Iterable[Pod], capacity: NodeCapacity) -> str:
    """ "" if the pod has room beside the others, else the reason: OutOfpods, OutOfcpu, OutOfmemory."""
    cpu, memory = asked(pod)
    count = 0
    for other in others:
        other_cpu, other_memory = asked(other)
        cpu, memory, count = cpu + other_cpu, memory + other_memory, count + 1
    if count + 1 > capacity.pods:
        return "OutOfpods"
    own_cpu, own_memory = asked(pod)
    if own_cpu and cpu > capacity.milli_cpu:
        return "OutOfcpu"
    if own_memory and memory > capacity.memory:
        return "OutOfmemory"
    return ""
