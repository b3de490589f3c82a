"""What the scheduler knows of a node: its object, and the pods that are, or are assumed to be, there."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurmtwin.models.api_server.objects import Container, Node, Pod


def requests_of(pod: Pod) -> tuple[int, int]:
    """(milli CPU, bytes) that a pod asks for: its containers, or an init container where that needs more (KEP-753)."""
    spec = pod.spec
    if len(spec.containers) == 1 and not spec.init_containers:
        only = spec.containers[0]
        return only.milli_cpu, only.memory
    return _peak(pod, "milli_cpu"), _peak(pod, "memory")


def _peak(pod: Pod, name: str) -> int:
    def amount(container: Container) -> int:
        return int(getattr(container, name))

    sidecars = initial = 0
    for container in pod.spec.init_containers:
        if container.restartable:
            sidecars += amount(container)
        else:
            initial = max(initial, sidecars + amount(container))
    return max(initial, sidecars + sum(amount(c) for c in pod.spec.containers))


@dataclass(slots=True)
class NodeInfo:
    """One node with its pods."""

    node: Node
    pods: dict[str, Pod] = field(default_factory=dict)
    """uid -> pod, finished ones not included."""
    milli_cpu: int = 0
    memory: int = 0
    guards: dict[str, Pod] = field(default_factory=dict)
    """Those of them with required anti-affinity."""

    def add(self, pod: Pod) -> None:
        """A pod is there; a newer version of one that was replaces it."""
        if pod.meta.uid not in self.pods:
            cpu, memory = requests_of(pod)
            self.milli_cpu += cpu
            self.memory += memory
            if pod.spec.anti_affinity:
                self.guards[pod.meta.uid] = pod
        self.pods[pod.meta.uid] = pod

    def remove(self, uid: str) -> None:
        """It is gone, or finished."""
        pod = self.pods.pop(uid, None)
        if pod is not None:
            self.guards.pop(uid, None)
            cpu, memory = requests_of(pod)
            self.milli_cpu -= cpu
            self.memory -= memory

    def room_for(self, cpu: int, memory: int) -> bool:
        """NodeResourcesFit."""
        status = self.node.status
        return (
            len(self.pods) < status.pods
            and (not cpu or self.milli_cpu + cpu <= status.milli_cpu)
            and (not memory or self.memory + memory <= status.memory)
        )
