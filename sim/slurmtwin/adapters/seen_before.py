"""What passes have seen before: views are made anew of objects that changed alone, and plans stand while nothing does.

A pass over a thousand workers looks at a thousand pods, machines and records of Slurm, of which a few are not as they
were. Equal observations are the same tuples here, so that a pass can tell that nothing happened.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import compress, count
from operator import is_, is_not
from typing import TYPE_CHECKING, Any, TypeVar

from slurmtwin.adapters.views import NODE_SET, node_view, pod_view
from slurmtwin_operator.core.actions import Memory, Plan
from slurmtwin_operator.core.nodeset import Standing, plan_node_set
from slurmtwin_operator.core.observed import KubeNode, NodeSetObserved
from slurmtwin_operator.core.observed import Pod as PodView

if TYPE_CHECKING:
    from slurmtwin.models.api_server.objects import Node, Pod
    from slurmtwin_operator.core.observed import Slurm, SlurmNode
    from slurmtwin_operator.core.spec import NodeSetSpec

View = TypeVar("View")
Core = Callable[[Any, Any, int], Any]
"""Of what is observed, the memory and the time: a Plan."""


class NodeSetViews:
    """Pods and machines as one node set sees them."""

    def __init__(self) -> None:
        self.pods: tuple[PodView, ...] = ()
        """Its pods, in the order of the cache."""
        self.nodes: tuple[KubeNode, ...] = ()
        """The machines that it may use, or uses."""
        self._caches = (-1, -1)
        self._spec: NodeSetSpec | None = None
        self._whole = True
        """Everything is to be looked at: objects came or went."""
        self._new_pods: dict[str, Pod] = {}
        """Uid -> the version that came since the last look."""
        self._new_nodes: dict[str, Node] = {}
        self._pod_places: dict[str, int] = {}
        """Uid -> place among the pods."""
        self._node_places: dict[str, int] = {}
        self._seen_pods: dict[str, tuple[Pod, PodView]] = {}
        self._seen_nodes: dict[str, tuple[Node, KubeNode]] = {}

    def stale(self, caches: tuple[int, int], spec: NodeSetSpec) -> bool:
        """Whether caches (their versions) or the set's specification are others than at the last look."""
        known, self._caches = self._caches, caches
        return known != caches or self._spec is not spec

    def pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        """The cache has another version of a pod."""
        if old is None or new is None or old.meta.uid != new.meta.uid or _set_of(old) != _set_of(new):
            self._whole = True
        if new is not None:
            self._new_pods[new.meta.uid] = new

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        """The cache has another version of a machine."""
        if old is None or new is None or old.meta.uid != new.meta.uid:
            self._whole = True
        if new is not None:
            self._new_nodes[new.meta.name] = new

    def catch_up(self, name: str, spec: NodeSetSpec) -> bool:
        """Look at what has changed alone. False: that is not enough, look()."""
        if self._whole or self._spec is not spec:
            return False
        if not (self._see_pods(name) and self._see_nodes(spec)):
            return False
        self._new_pods, self._new_nodes = {}, {}
        return True

    def _see_pods(self, name: str) -> bool:
        """Those that have another version; False: one was bound elsewhere."""
        if not self._new_pods:
            return True
        pods = list(self.pods)
        for uid, pod in self._new_pods.items():
            place = self._pod_places.get(uid)
            if place is None:
                continue
            view = pod_view(pod, name)
            if view.kube_node != pods[place].kube_node:
                return False
            pods[place] = view
            self._seen_pods[uid] = (pod, view)
        self.pods = _kept(self.pods, pods)
        return True

    def _see_nodes(self, spec: NodeSetSpec) -> bool:
        """Those that have another version; False: others may be used than before."""
        if not self._new_nodes:
            return True
        nodes = list(self.nodes)
        for key, node in self._new_nodes.items():
            seen = node_view(node, spec, 0)
            before = self._seen_nodes[key][1]
            if seen.selected != before.selected or before.foreign_pods:
                return False
            self._seen_nodes[key] = (node, seen)
            if key in self._node_places:
                nodes[self._node_places[key]] = seen
        self.nodes = _kept(self.nodes, nodes)
        return True

    def look(self, name: str, spec: NodeSetSpec, pods: list[Pod], nodes: list[tuple[Node, int]]) -> None:
        """Its pods, and all machines, each with its foreign pods."""
        seen_pods, self._seen_pods = self._seen_pods, {}
        for pod in pods:
            known = seen_pods.get(pod.meta.uid)
            self._seen_pods[pod.meta.uid] = known if known and known[0] is pod else (pod, pod_view(pod, name))
        seen_nodes, self._seen_nodes = self._seen_nodes if self._spec is spec else {}, {}
        self._spec = spec
        hosts = {pod.spec.node_name for pod in pods}
        machines: list[KubeNode] = []
        for node, foreign in nodes:
            there = seen_nodes.get(node.meta.name)
            if there is None or there[0] is not node or there[1].foreign_pods != foreign:
                there = (node, node_view(node, spec, foreign))
            self._seen_nodes[node.meta.name] = there
            if there[1].selected or there[1].name in hosts:
                machines.append(there[1])
        self.pods = _kept(self.pods, [view for _, view in self._seen_pods.values()])
        self.nodes = _kept(self.nodes, machines)
        self._pod_places = {uid: place for place, uid in enumerate(self._seen_pods)}
        self._node_places = {view.name: place for place, view in enumerate(machines)}
        self._whole, self._new_pods, self._new_nodes = False, {}, {}


def other_states(before: tuple[SlurmNode, ...], now: tuple[SlurmNode, ...]) -> frozenset[str]:
    """Names of those of now whose state, flags or reason no record of before has: what conditions of pods are made of
    (slurmcontrol.go CalculateNodeStatus()). Most records are the very objects that stood in their places.
    """
    if len(before) == len(now):
        moved = list(compress(count(), map(is_not, before, now)))
        if all(before[place].name == now[place].name for place in moved):
            return frozenset([now[place].name for place in moved if _said(before[place]) != _said(now[place])])
    said = {_said(record) for record in before}
    return frozenset([record.name for record in now if _said(record) not in said])


def _said(record: SlurmNode) -> tuple[str, str, tuple[str, ...], str]:
    return record.name, record.state, record.flags, record.reason


def _set_of(pod: Pod) -> str | None:
    return pod.meta.labels.get(NODE_SET)


def _kept(last: tuple[View, ...], views: list[View]) -> tuple[View, ...]:
    """These views; the tuple of last time where they are the same objects."""
    same = len(last) == len(views) and all(map(is_, last, views))
    return last if same else tuple(views)


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


class StandingCore:
    """The operator's own core, which goes by what changed since it was last asked."""

    def __init__(self) -> None:
        self._standing: dict[str, Standing] = {}
        """Uid of a node set -> what stands of its last pass."""

    def __call__(self, observed: NodeSetObserved, memory: Memory, now_ns: int) -> Plan:
        """plan(), of a node set."""
        standing = self._standing.get(observed.me.uid)
        if standing is None:
            standing = self._standing[observed.me.uid] = Standing()
        return plan_node_set(observed, memory, now_ns, standing)


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
