"""The memory manager: memory of Guaranteed pods tied to groups of NUMA nodes.

Source: kubernetes.md 1.25; pkg/kubelet/cm/memorymanager, v1.34.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from slurmtwin.models.kubelet.cpu_manager import AdmissionError, ManagerStartError
from slurmtwin.models.kubelet.cpu_topology import members, union
from slurmtwin.models.kubelet.pod_resources import ContainerResources, PodResources, peak
from slurmtwin.models.kubelet.topology_manager import Hints, TopologyHint, subsets

MemoryPolicy = Literal["None", "Static"]
MEMORY = "memory"


@dataclass(slots=True)
class MemoryBlock:
    """Bytes of one resource held by a container anywhere on a set of NUMA nodes."""

    numa: int
    resource: str
    size_bytes: int


@dataclass(slots=True)
class MemoryNode:
    """One NUMA node: bytes by resource, and the group of nodes it serves at present."""

    allocatable: dict[str, int]
    free: dict[str, int]
    group: int
    assignments: int = 0


@dataclass(slots=True)
class MemoryCheckpoint:
    """The file ``memory_manager_state``."""

    policy: MemoryPolicy
    nodes: dict[int, MemoryNode] = field(default_factory=dict)
    entries: dict[str, dict[str, list[MemoryBlock]]] = field(default_factory=dict)


class MemoryManager:
    """One life of the memory manager.

    ``capacity`` and ``reserved``: bytes by NUMA node and resource; capacity of ``memory``
    excludes what huge pages hold.

    Raises ``ManagerStartError`` where the kubelet would not start.
    """

    def __init__(
        self,
        policy: MemoryPolicy,
        capacity: dict[int, dict[str, int]],
        reserved: dict[int, dict[str, int]],
        checkpoint: MemoryCheckpoint | None,
    ) -> None:
        self.policy = policy
        self._capacity = capacity
        self._reserved = reserved
        if policy == "Static":
            if any(node not in capacity for node in reserved):
                raise ManagerStartError("memory reserved on a NUMA node that does not exist")
            if sum(amounts.get(MEMORY, 0) for amounts in reserved.values()) <= 0:
                raise ManagerStartError("the policy Static needs reserved memory")
        self._reusable: tuple[str, dict[tuple[int, str], int]] = ("", {})
        self.start_by_chance = False
        self.checkpoint = checkpoint or MemoryCheckpoint(policy)

    def _empty_host(self) -> dict[int, MemoryNode]:
        nodes: dict[int, MemoryNode] = {}
        for node, amounts in self._capacity.items():
            kept = self._reserved.get(node, {})
            left = {resource: size - kept.get(resource, 0) for resource, size in amounts.items()}
            nodes[node] = MemoryNode(left, dict(left), group=1 << node)
        return nodes

    def start(self) -> None:
        """Checks the checkpoint: the host's state must follow from the assignments.

        Where groups overlap (an affinity narrower than any hint of ours allows it) the kubelet's
        answer depends on the order of a Go map: ``start_by_chance`` is set then, and the
        answer given is the one for the order of admission.

        Raises ``ManagerStartError``: drain the node and delete the file.
        """
        state = self.checkpoint
        if state.policy != self.policy:
            raise ManagerStartError(f"checkpoint of policy {state.policy}, not {self.policy}")
        if self.policy == "None":
            return
        if not state.nodes:
            if state.entries:
                raise ManagerStartError("memory assigned on a host without NUMA nodes")
            state.nodes = self._empty_host()
            return
        expected = self._empty_host()
        self.start_by_chance = self._groups_overlap()
        for containers in state.entries.values():
            for blocks in containers.values():
                for block in blocks:
                    if any(node not in expected for node in members(block.numa)):
                        raise ManagerStartError("memory assigned on an unknown NUMA node")
                    _occupy(expected, block.numa, block.resource, block.size_bytes)
        if not _same_state(state.nodes, expected):
            raise ManagerStartError("the host's memory state does not follow from its assignments")

    def _groups_overlap(self) -> bool:
        groups = {
            block.numa
            for containers in self.checkpoint.entries.values()
            for blocks in containers.values()
            for block in blocks
        }
        return sum(group.bit_count() for group in groups) > union(groups).bit_count()

    def remove_stale(self, active: dict[str, PodResources]) -> None:
        """Gives back the memory of pods that are no longer active."""
        if self.policy == "None":
            return
        for uid in [uid for uid in self.checkpoint.entries if uid not in active]:
            for container in list(self.checkpoint.entries[uid]):
                self._release(uid, container)

    def container_started(self, pod: PodResources, container: str) -> None:
        """A container starts: the init containers before it have ended, their memory is free."""
        if self.policy == "None":
            return
        for init in pod.init_containers:
            if init.name == container:
                return
            if not init.restartable:
                self._release(pod.uid, init.name)

    def _release(self, uid: str, container: str) -> None:
        containers = self.checkpoint.entries.get(uid, {})
        blocks = containers.pop(container, [])
        if not containers:
            self.checkpoint.entries.pop(uid, None)
        for block in blocks:
            left = block.size_bytes
            for number in members(block.numa):
                node = self.checkpoint.nodes[number]
                node.assignments -= 1
                if node.assignments == 0:
                    node.group = 1 << number
                held = node.allocatable[block.resource] - node.free[block.resource]
                given = min(left, held)
                node.free[block.resource] += given
                left -= given

    def blocks(self, uid: str, container: str) -> list[MemoryBlock] | None:
        """A container's memory; None where it holds none."""
        return self.checkpoint.entries.get(uid, {}).get(container)

    def hints(self, pod: PodResources, container: ContainerResources | None) -> Hints:
        """NUMA groups for a container, or for a whole pod where ``container`` is None."""
        if self.policy == "None" or not pod.guaranteed:
            return None
        if container is not None:
            wanted = container.memory_bytes
            held = self.blocks(pod.uid, container.name)
            return self._hints(pod, wanted) if held is None else _held_hints(held, wanted)
        wanted = _pod_request(pod)
        for each in pod.all_containers():
            held = self.blocks(pod.uid, each.name)
            if held is not None:
                return _held_hints(held, wanted)
        return self._hints(pod, wanted)

    def _hints(self, pod: PodResources, wanted: dict[str, int]) -> dict[str, list[TopologyHint]]:
        """Groups that are free to form and have room; none at all gives no hint, not a refusal."""
        nodes = self.checkpoint.nodes
        smallest = len(nodes)
        offered: list[int] = []
        for numa in subsets(sum(1 << node for node in nodes)):
            group = [nodes[node] for node in members(numa)]
            if any(sum(node.allocatable[resource] for node in group) < size for resource, size in wanted.items()):
                continue
            smallest = min(smallest, numa.bit_count())
            if not _may_form(group, numa):
                continue
            if all(
                sum(node.free[resource] for node in group) + self._reusable_of(pod, numa, resource) >= size
                for resource, size in wanted.items()
            ):
                offered.append(numa)
        if not offered:
            return {}
        hints = [TopologyHint(numa, numa.bit_count() == smallest) for numa in offered]
        return dict.fromkeys(wanted, hints)

    def _reusable_of(self, pod: PodResources, numa: int, resource: str) -> int:
        uid, amounts = self._reusable
        return amounts.get((numa, resource), 0) if uid == pod.uid else 0

    def allocate(self, pod: PodResources, container: ContainerResources, affinity: TopologyHint) -> None:
        """Ties a container's memory to a group of NUMA nodes.

        Raises ``AdmissionError``.
        """
        if self.policy == "None" or not pod.guaranteed:
            return
        held = self.blocks(pod.uid, container.name)
        if held is not None:
            self._remember(pod, container, held)
            return
        wanted = container.memory_bytes
        numa = self._group(pod, wanted, affinity)
        nodes = self.checkpoint.nodes
        if numa.bit_count() > 1 and any(
            nodes[node].assignments and nodes[node].group != numa for node in members(numa)
        ):
            raise AdmissionError("UnexpectedAdmissionError", "the group overlaps one that is in use")
        blocks = [MemoryBlock(numa, resource, size) for resource, size in sorted(wanted.items())]
        for block in blocks:
            fresh = block.size_bytes - self._reusable_of(pod, numa, block.resource)
            _occupy(nodes, numa, block.resource, max(0, fresh))
        self._remember(pod, container, blocks)
        self.checkpoint.entries.setdefault(pod.uid, {})[container.name] = blocks
        self._charge_init_containers(pod, container, blocks)

    def _group(self, pod: PodResources, wanted: dict[str, int], affinity: TopologyHint) -> int:
        """The affinity, or the best hint where it is any node, widened until it has room."""
        numa, preferred = affinity.numa, affinity.preferred
        if numa is None:
            hints = self._hints(pod, wanted)
            if not hints:
                raise AdmissionError("UnexpectedAdmissionError", "no NUMA nodes have the memory")
            best = _best(hints[MEMORY])
            if preferred and not best.preferred:
                raise AdmissionError("UnexpectedAdmissionError", "no preferred group has memory")
            assert best.numa is not None
            numa, preferred = best.numa, best.preferred
        nodes = self.checkpoint.nodes
        if all(sum(nodes[node].free[resource] for node in members(numa)) >= size for resource, size in wanted.items()):
            return numa
        wider = [
            hint for hint in self._hints(pod, wanted).get(MEMORY, []) if hint.numa is not None and not numa & ~hint.numa
        ]
        if not wider:
            raise AdmissionError("UnexpectedAdmissionError", "no wider group has the memory")
        best = _best(wider)
        if preferred and not best.preferred:
            raise AdmissionError("UnexpectedAdmissionError", "no wider preferred group")
        assert best.numa is not None
        return best.numa

    def _remember(self, pod: PodResources, container: ContainerResources, blocks: Iterable[MemoryBlock]) -> None:
        """What later containers of the pod may take over from ended init containers."""
        uid, amounts = self._reusable
        amounts = amounts if uid == pod.uid else {}
        passing = container in pod.passing_init_containers()
        for block in blocks:
            key = block.numa, block.resource
            before = amounts.get(key, 0)
            if passing:
                amounts[key] = max(before, block.size_bytes)
            elif before:
                amounts[key] = max(0, before - block.size_bytes)
        self._reusable = (pod.uid, amounts)

    def _charge_init_containers(
        self, pod: PodResources, container: ContainerResources, blocks: Iterable[MemoryBlock]
    ) -> None:
        """Memory that was taken over counts for its new holder alone."""
        for block in blocks:
            left = block.size_bytes
            for init in pod.init_containers:
                if init.name == container.name or not left:
                    break
                if init.restartable:
                    continue
                for given in self.blocks(pod.uid, init.name) or ():
                    if (given.resource, given.numa) != (block.resource, block.numa):
                        continue
                    taken = min(left, given.size_bytes)
                    given.size_bytes -= taken
                    left -= taken


def _pod_request(pod: PodResources) -> dict[str, int]:
    """A pod's peak request of each resource that a main container asks for."""
    resources = {name for container in pod.containers for name in container.memory_bytes}
    return {
        resource: peak(
            pod,
            {each.name: each.memory_bytes.get(resource, 0) for each in pod.all_containers()},
        )
        for resource in sorted(resources)
    }


def _held_hints(held: list[MemoryBlock], wanted: dict[str, int]) -> Hints:
    """Hints for memory that is held already; no wish where it is not what is asked for now."""
    if len(held) != len(wanted):
        return None
    if any(wanted.get(block.resource) != block.size_bytes for block in held):
        return None
    return {block.resource: [TopologyHint(block.numa, preferred=True)] for block in held}


def _may_form(group: list[MemoryNode], numa: int) -> bool:
    """A node in use serves either itself alone or exactly one group."""
    if len(group) == 1:
        return group[0].group.bit_count() == 1
    return all(not node.assignments or node.group == numa for node in group)


def _occupy(nodes: dict[int, MemoryNode], numa: int, resource: str, size_bytes: int) -> None:
    """Books memory on a group, lower nodes first."""
    left = size_bytes
    for number in members(numa):
        node = nodes[number]
        node.assignments += 1
        node.group = numa
        taken = min(left, node.free[resource])
        node.free[resource] -= taken
        left -= taken


def _best(hints: list[TopologyHint]) -> TopologyHint:
    """Preferred first, then narrower, then lower."""
    return min(hints, key=lambda hint: (not hint.preferred, (hint.numa or 0).bit_count(), hint.numa))


def _same_state(stored: dict[int, MemoryNode], expected: dict[int, MemoryNode]) -> bool:
    """Equal groups, counts and sizes; free memory is compared over each group as a whole."""
    if stored.keys() != expected.keys():
        return False
    for number, node in stored.items():
        other = expected[number]
        if (node.assignments, node.group, node.allocatable) != (
            other.assignments,
            other.group,
            other.allocatable,
        ):
            return False
        for resource in node.allocatable:
            free = [sum(nodes[each].free[resource] for each in members(node.group)) for nodes in (stored, expected)]
            if free[0] != free[1]:
                return False
    return True
