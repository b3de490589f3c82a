"""What a pod asks of a node's CPUs and memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ContainerResources:
    """A container's requests: CPU in thousandths, memory and huge pages in bytes by resource.

    ``restartable``: an init container that keeps running beside the others (a sidecar).
    """

    name: str
    milli_cpu: int
    memory_bytes: dict[str, int] = field(default_factory=dict)
    restartable: bool = False


@dataclass(frozen=True, slots=True)
class PodResources:
    """A pod as the kubelet's resource managers see it; Guaranteed when limits equal requests."""

    uid: str
    guaranteed: bool
    containers: tuple[ContainerResources, ...]
    init_containers: tuple[ContainerResources, ...] = ()

    def all_containers(self) -> Iterator[ContainerResources]:
        """Init containers first: the order of allocation (kubernetes.md 1.4)."""
        yield from self.init_containers
        yield from self.containers

    def passing_init_containers(self) -> Iterator[ContainerResources]:
        """Init containers that end before the others run, in order."""
        return (container for container in self.init_containers if not container.restartable)


def peak(pod: PodResources, amounts: dict[str, int]) -> int:
    """The most a pod needs at once of what ``amounts`` gives by container name.

    Source: KEP-753; podGuaranteedCPUs and getPodRequestedResources, v1.34.
    """
    sidecars = initial = 0
    for container in pod.init_containers:
        amount = amounts.get(container.name, 0)
        if container.restartable:
            sidecars += amount
        else:
            initial = max(initial, sidecars + amount)
    running = sum(amounts.get(container.name, 0) for container in pod.containers)
    return max(initial, running + sidecars)
