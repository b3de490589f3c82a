"""What passes have seen before: views are made anew of objects that changed alone, and plans stand while nothing does.

A pass over a thousand workers looks at a thousand pods, machines and records of Slurm, of which a few are not as they
were. Equal observations are the same tuples here, so that a pass can tell that nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from slurmtwin.adapters.views import node_view, pod_view
from slurmtwin_operator.core.observed import KubeNode
from slurmtwin_operator.core.observed import Pod as PodView

if TYPE_CHECKING:
    from slurmtwin.models.api_server.objects import Node, Pod
    from slurmtwin_operator.core.actions import Memory, Plan
    from slurmtwin_operator.core.observed import NodeSetObserved, Slurm
    from slurmtwin_operator.core.spec import NodeSetSpec

View = TypeVar("View")
Core = Callable[[Any, Any, int], Any]
"""Of what is observed, the memory and the time: a Plan."""


class SeenTuple(Generic[View]):
    """A tuple of views that stays the same object while every view in it does."""

    def __init__(self) -> None:
        self._last: tuple[View, ...] = ()

    def of(self, views: list[View]) -> tuple[View, ...]:
        """These views, as the tuple of last time if they are the same objects."""
        last = self._last
        if len(last) != len(views) or any(a is not b for a, b in zip(last, views, strict=True)):
            self._last = tuple(views)
        return self._last


class NodeSetViews:
    """Pods and machines as one node set sees them."""

    def __init__(self) -> None:
        self._pods: dict[str, tuple[Pod, PodView]] = {}
        self._nodes: dict[str, tuple[Node, NodeSetSpec, KubeNode]] = {}
        self._pod_tuple: SeenTuple[PodView] = SeenTuple()
        self._node_tuple: SeenTuple[KubeNode] = SeenTuple()

    def pods(self, mine: Iterable[Pod], node_set: str) -> tuple[PodView, ...]:
        """The views of its pods."""
        known, self._pods = self._pods, {}
        views = []
        for pod in mine:
            entry = known.get(pod.meta.uid)
            if entry is None or entry[0] is not pod:
                entry = (pod, pod_view(pod, node_set))
            self._pods[pod.meta.uid] = entry
            views.append(entry[1])
        return self._pod_tuple.of(views)

    def nodes(self, nodes: Iterable[tuple[Node, int]], spec: NodeSetSpec, hosts: set[str]) -> tuple[KubeNode, ...]:
        """The views of the machines that it may use or uses; nodes: each with its foreign pods."""
        known, self._nodes = self._nodes, {}
        views = []
        for node, foreign in nodes:
            entry = known.get(node.meta.name)
            if entry is None or entry[0] is not node or entry[1] is not spec or entry[2].foreign_pods != foreign:
                entry = (node, spec, node_view(node, spec, foreign))
            self._nodes[node.meta.name] = entry
            if entry[2].selected or entry[2].name in hosts:
                views.append(entry[2])
        return self._node_tuple.of(views)


@dataclass(frozen=True, slots=True)
class Decided:
    """What a pass decided on what it saw, and until when the passing of time alone changes nothing of it."""

    observed: NodeSetObserved
    memory: Memory
    plan: Plan
    until_ns: int

    def same(self, observed: NodeSetObserved, memory: Memory) -> bool:
        """Whether a pass sees and remembers what that one did."""
        return self.memory == memory and _marks(self.observed) == _marks(observed)


class Decisions:
    """The core as a carrier asks it: not again for what it has just answered.

    Where a pass sees what the last one saw, the core is asked about its own next look too (Plan.requeue_ns). If it
    would say the same then, passes until then say it without asking: what it measures by the clock are spans that end
    once.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._last: dict[str, Decided] = {}
        """Uid of a node set -> its last pass."""

    def plan(self, observed: NodeSetObserved, memory: Memory, now_ns: int) -> Plan:
        """The decision of a pass."""
        last = self._last.get(observed.me.uid)
        same = last is not None and last.same(observed, memory)
        if same and last is not None and now_ns < last.until_ns:
            return last.plan
        made: Plan = self._core(observed, memory, now_ns)
        until_ns = 0
        if same and not made.actions:
            later_ns = now_ns + made.requeue_ns
            until_ns = later_ns if self._core(observed, memory, later_ns) == made else 0
        self._last[observed.me.uid] = Decided(observed, memory, made, until_ns)
        return made


def _marks(o: NodeSetObserved) -> tuple[Any, ...]:
    """Everything but the age of Slurm's answer; long tuples are compared as objects first."""
    slurm: Slurm = o.slurm
    return (
        slurm.answer, o.pods, o.kube_nodes, slurm.nodes, slurm.jobs, slurm.reservations, o.me, o.spec, o.switches,
        o.policy, o.applied, o.conditions, o.power, o.unreachable_s, o.version, o.log_claim,
    )  # fmt: skip
