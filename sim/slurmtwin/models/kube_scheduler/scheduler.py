"""The scheduling cycle: one pod at a time, its volumes, its binding (pkg/scheduler/schedule_one.go v1.34.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.engine.daemon_clock import DaemonClock
from slurmtwin.engine.records import changed
from slurmtwin.models.api_server.client import Client, RateLimit
from slurmtwin.models.api_server.errors import ApiError, ConflictError
from slurmtwin.models.api_server.informer import Informer
from slurmtwin.models.api_server.objects import Claim, Condition, Node, PersistentVolume, Pod
from slurmtwin.models.api_server.watch import changed_labels, more_than_marks
from slurmtwin.models.kube_scheduler.filters import anti_affine, skew_after, why_not
from slurmtwin.models.kube_scheduler.node_info import NodeInfo, requests_of
from slurmtwin.models.kube_scheduler.queue import SchedulingQueue, Waiting
from slurmtwin.models.kube_scheduler.scores import scores

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.engine.random_streams import RandomStreams
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.controllers.defaults import ControlPlaneDefaults

SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
FEW_NODES: Final = 100
LEAST_PERCENT: Final = 5


def nodes_to_find(count: int) -> int:
    """How many nodes that pass are enough (numFeasibleNodesToFind(); kubernetes.md 5.6)."""
    if count < FEW_NODES:
        return count
    return max(FEW_NODES, count * max(50 - count // 125, LEAST_PERCENT) // 100)


class KubeScheduler:
    """The process kube-scheduler."""

    def __init__(
        self, env: Environment, server: ApiServer, defaults: ControlPlaneDefaults, streams: RandomStreams,
        latency: Callable[[], int] | None = None, bind_ns: Callable[[], int] = lambda: 0,
        placements: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        self.env = env
        self.server = server
        self.clock = DaemonClock(env)
        self.client = Client(
            server, self.clock, latency, RateLimit(defaults.schedule_requests_per_second, defaults.schedule_burst)
        )
        self.placements = dict(placements or {})
        """Pod name or app -> node that it gets the first time, where that passes: what a recording says."""
        self._bind_ns = bind_ns
        self.queue = SchedulingQueue(self.clock, defaults, self._wake)
        self._infos: dict[str, NodeInfo] = {}
        self._order: list[str] = []
        self._next_start = 0
        self._ruled: set[str] = set()
        """Labels of pods that some pod's rules name."""
        self._ties = streams.generator("kube_scheduler.ties")
        self._scheduling = False
        self._volumes: dict[str, tuple[Waiting, str]] = {}
        """Claim -> the pod that waits for it, and the node it will have."""
        caches = Client(server, self.clock, latency)
        self.pods: Informer[Pod] = Informer(caches, Pod, self._pod_changed, wanted=self._matters)
        self.nodes: Informer[Node] = Informer(caches, Node, self._node_changed)
        self.claims: Informer[Claim] = Informer(caches, Claim, self._claim_changed)
        self.volumes: Informer[PersistentVolume] = Informer(caches, PersistentVolume)

    def start(self) -> None:
        """Caches first."""
        for informer in (self.nodes, self.volumes, self.claims, self.pods):
            informer.start()

    # what changes

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._infos.pop(old.meta.name, None)
            self._order = list(self._infos)
            return
        found = self._infos.get(new.meta.name)
        if found is None:
            found = self._infos[new.meta.name] = NodeInfo(new)
            self._order = list(self._infos)
            for pod in self.pods:
                if pod.spec.node_name == new.meta.name and not pod.finished:
                    found.add(pod)
        found.node = new
        if old is None or old.spec != new.spec or old.status.milli_cpu != new.status.milli_cpu or (
            old.meta.labels != new.meta.labels or old.status.memory != new.status.memory
        ):  # fmt: skip
            self.queue.moved()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and old is not None and old.meta.uid != new.meta.uid:
            self._pod_changed(old, None)
        pod = new or old
        assert pod is not None
        uid = pod.meta.uid
        if new is not None and (new.spec.anti_affinity or new.spec.spread):
            rules = [rule.labels for rule in new.spec.anti_affinity] + [rule.labels for rule in new.spec.spread]
            self._learn({name for labels in rules for name in labels})
        info = self._infos.get(pod.spec.node_name) if pod.spec.node_name else None
        if new is None or new.finished:
            self.queue.forget(uid)
            if info is not None and uid in info.pods:
                info.remove(uid)
                self.queue.moved()
        elif pod.spec.node_name:
            self.queue.forget(uid)
            if info is not None:
                info.add(new)
        elif not new.meta.deleting and new.spec.scheduler == "default-scheduler":
            self.queue.add(new)
        else:
            self.queue.forget(uid)

    def _matters(self, verb: str, old: Pod | None, new: Pod) -> bool:
        """Of a bound pod's labels it reads those that a rule of some pod names."""
        if more_than_marks(verb, old, new) or not new.spec.node_name or old is None:
            return True
        return bool(self._ruled) and not self._ruled.isdisjoint(changed_labels(old, new))

    def _learn(self, names: set[str]) -> None:
        """A rule names labels: where they are new to it, it has not heard of their changes so far."""
        if names <= self._ruled:
            return
        self._ruled |= names
        for known in self.pods:
            now = self.server.find(Pod, known.meta.key)
            if now is None or now.meta.uid != known.meta.uid or now.meta.labels == known.meta.labels:
                continue
            read = changed(known, meta=changed(known.meta, labels=now.meta.labels))
            self.pods.cache[known.meta.key] = read
            info = self._infos.get(known.spec.node_name)
            if info is not None and known.meta.uid in info.pods:
                info.add(read)

    # the cycle

    def _wake(self) -> None:
        if not self._scheduling:
            self._scheduling = True
            self.clock.call_in(0, self._cycle)

    def _cycle(self, _argument: object) -> None:
        self._scheduling = False
        found = self.queue.pop()
        if found is None:
            return
        node = self._choose(found.pod)
        if node is None:
            self._unschedulable(found)
        else:
            self._assume(found, node)
        if len(self.queue):
            self._wake()

    def feasible(self, pod: Pod) -> list[NodeInfo]:
        """Nodes that pass every filter, from where the last search ended, as many as are enough."""
        infos, order = self._infos, self._order
        count = len(order)
        enough = nodes_to_find(count)
        bound = self._bound_node(pod)
        everyone = list(infos.values())
        asked = requests_of(pod)
        found: list[NodeInfo] = []
        looked = 0
        for looked in range(count):
            info = infos[order[(self._next_start + looked) % count]]
            if self._passes(pod, info, bound, everyone, asked):
                found.append(info)
                if len(found) >= enough:
                    break
        self._next_start = (self._next_start + looked + 1) % count if count else 0
        return found

    def _passes(
        self, pod: Pod, info: NodeInfo, bound: str | None, everyone: list[NodeInfo], asked: tuple[int, int]
    ) -> bool:
        if bound is not None and info.node.meta.name != bound:
            return False
        if why_not(pod, info, *asked):
            return False
        if (pod.spec.anti_affinity or info.guards) and anti_affine(pod, info, everyone):
            return False
        return not pod.spec.spread or all(
            skew_after(pod, rule.labels, rule.topology, info, everyone) <= rule.max_skew
            for rule in pod.spec.spread
            if rule.required
        )

    def _bound_node(self, pod: Pod) -> str | None:
        """Where a local volume of the pod lies; None: anywhere."""
        for volume in pod.spec.volumes:
            claim = self.claims.get(f"{pod.meta.namespace}/{volume.claim}") if volume.claim else None
            if claim is not None and claim.volume:
                lies = self.volumes.get(claim.volume)
                if lies is not None and lies.node:
                    return lies.node
        return None

    def _choose(self, pod: Pod) -> str | None:
        """The best node; ties are drawn."""
        if any(v.claim and self.claims.get(f"{pod.meta.namespace}/{v.claim}") is None for v in pod.spec.volumes):
            return None
        found = self.feasible(pod)
        if not found:
            return None
        wanted = self.placements.pop(pod.meta.name, None) or self.placements.pop(pod.meta.labels.get("app", ""), None)
        if wanted is not None and any(info.node.meta.name == wanted for info in found):
            return wanted
        if len(found) == 1:
            return found[0].node.meta.name
        points = scores(pod, found)
        best = max(points)
        names = [info.node.meta.name for info, value in zip(found, points, strict=True) if value == best]
        return names[int(self._ties.integers(len(names)))] if len(names) > 1 else names[0]

    def _unschedulable(self, found: Waiting) -> None:
        pod = found.pod
        self.queue.failed(found)
        message = f"0/{len(self._infos)} nodes are available"
        self.client.event(f"Pod/{pod.meta.name}", "FailedScheduling", message)
        known = pod.status.conditions.get("PodScheduled")
        if known is None:
            condition = Condition("False", self.clock.now_ns, "Unschedulable")
            self.client.patch(Pod, pod.meta.key, lambda p: _with_condition(p, condition), uid=pod.meta.uid)

    # volumes and binding

    def _assume(self, found: Waiting, node: str) -> None:
        """The pod counts as there from now on; volumes first, then the binding."""
        pod = found.pod
        self._infos[node].add(replace(pod, spec=replace(pod.spec, node_name=node)))
        unbound = [
            claim
            for volume in pod.spec.volumes
            if volume.claim
            for claim in [self.claims.get(f"{pod.meta.namespace}/{volume.claim}")]
            if claim is not None and claim.phase != "Bound"
        ]
        if not unbound:
            self.clock.call_in(self._bind_ns(), self._bind, (found, node))
            return
        for claim in unbound:
            self._volumes[claim.meta.key] = (found, node)
            self.client.patch(Claim, claim.meta.key, lambda c: _select(c, node))

    def _claim_changed(self, _old: Claim | None, new: Claim | None) -> None:
        if new is None:
            return
        if new.phase == "Bound" and new.meta.key in self._volumes:
            found, node = self._volumes.pop(new.meta.key)
            if not any(waiter is found for waiter, _ in self._volumes.values()):
                self.clock.call_in(self._bind_ns(), self._bind, (found, node))
        elif _old is None:
            self.queue.moved()

    def _bind(self, order: tuple[Waiting, str]) -> None:
        found, node = order
        pod = found.pod

        def bound(answer: Any) -> None:
            if isinstance(answer, ApiError):
                info = self._infos.get(node)
                if info is not None:
                    info.remove(pod.meta.uid)
                self.queue.failed(found)
                self.queue.moved()

        def act() -> Pod:
            condition = Condition("True", self.env.now_ns)
            return self.server.patch(Pod, pod.meta.key, lambda p: _bound(p, node, condition), pod.meta.uid)

        self.client.call(f"bind Pod {pod.meta.key}", act, bound)
        self.client.event(f"Pod/{pod.meta.name}", "Scheduled", f"Successfully assigned {pod.meta.key} to {node}")


def _with_condition(pod: Pod, condition: Condition) -> Pod:
    conditions = {**pod.status.conditions, "PodScheduled": condition}
    return replace(pod, status=replace(pod.status, conditions=conditions))


def _bound(pod: Pod, node: str, condition: Condition) -> Pod:
    """pods/binding: refused for a pod that has a node or is being deleted (registry/core/pod/storage)."""
    if pod.spec.node_name or pod.meta.deleting:
        raise ConflictError(f"Pod {pod.meta.key} is bound or going")
    return _with_condition(replace(pod, spec=replace(pod.spec, node_name=node)), condition)


def _select(claim: Claim, node: str) -> Claim:
    return replace(claim, meta=replace(claim.meta, annotations={**claim.meta.annotations, SELECTED_NODE: node}))
