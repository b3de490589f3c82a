"""Taint eviction: pods leave a node whose NoExecute taints they do not tolerate, or not for longer (kubernetes.md 4.2).

Source: pkg/controller/tainteviction/taint_eviction.go v1.34.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from slurmtwin.models.api_server.objects import NO_EXECUTE, Condition, Node, Pod, Taint, Toleration, tolerates

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.controllers.controller_manager import ControllerManager


@dataclass(slots=True)
class _Planned:
    """A pod that will be deleted."""

    created_ns: int
    call: Call


class TaintEviction:
    """The controller."""

    def __init__(self, plane: ControllerManager) -> None:
        self.plane = plane
        self._client = plane.client()
        self._planned: dict[str, _Planned] = {}
        plane.nodes.tell(self._node_changed)
        plane.pods.informer.tell(self._pod_changed, marks=False)

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        before, now = _no_execute(old), _no_execute(new)
        if new is None or before == now:
            return
        for pod in self.plane.pods.on_node(new.meta.name):
            self._process(pod, now)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            assert old is not None
            self._cancel(old)
            return
        if old is not None and old.meta.uid == new.meta.uid and old.spec.node_name == new.spec.node_name:
            return
        node = self.plane.nodes.get(new.spec.node_name) if new.spec.node_name else None
        taints = _no_execute(node)
        if taints:
            self._process(new, taints)

    def _process(self, pod: Pod, taints: tuple[Taint, ...]) -> None:
        """processPodOnNode()."""
        if not taints:
            self._cancel(pod)
            return
        now_ns = self.plane.now_ns
        used = [tolerates(pod.spec.tolerations, taint) for taint in taints]
        if any(toleration is None for toleration in used):
            self._cancel(pod)
            self._plan(pod, now_ns, now_ns)
            return
        least_ns = min_toleration_ns([t for t in used if t is not None])
        if least_ns is None:
            self._cancel(pod)
            return
        planned = self._planned.get(pod.meta.uid)
        start_ns = now_ns
        if planned is not None:
            start_ns = planned.created_ns
            if start_ns < now_ns:
                return
            self._cancel(pod)
        self._plan(pod, start_ns, now_ns + least_ns)

    def _plan(self, pod: Pod, created_ns: int, at_ns: int) -> None:
        call = self.plane.clock.call_at(max(at_ns, self.plane.now_ns), self._delete, pod)
        self._planned[pod.meta.uid] = _Planned(created_ns, call)

    def _cancel(self, pod: Pod) -> None:
        planned = self._planned.pop(pod.meta.uid, None)
        if planned is not None and planned.call.pending:
            planned.call.cancel()
            message = f"Cancelling deletion of Pod {pod.meta.key}"
            self._client.event(f"Pod/{pod.meta.name}", "TaintManagerEviction", message)

    def _delete(self, pod: Pod) -> None:
        """deletePodHandler()."""
        message = f"Marking for deletion Pod {pod.meta.key}"
        self._client.event(f"Pod/{pod.meta.name}", "TaintManagerEviction", message)
        self._client.get(Pod, pod.meta.key, lambda _: self._mark_and_delete(pod))

    def _mark_and_delete(self, pod: Pod) -> None:
        """addConditionAndDeletePod(), which has read the pod."""
        condition = Condition("True", self.plane.now_ns, "DeletionByTaintManager")
        self._client.patch(
            Pod, pod.meta.key,
            lambda p: replace(
                p, status=replace(p.status, conditions={**p.status.conditions, "DisruptionTarget": condition})
            ),
            lambda _: self._client.delete(Pod, pod.meta.key, uid=pod.meta.uid),
            uid=pod.meta.uid,
        )  # fmt: skip


def _no_execute(node: Node | None) -> tuple[Taint, ...]:
    return tuple(t for t in node.spec.taints if t.effect == NO_EXECUTE) if node is not None else ()


def min_toleration_ns(used: list[Toleration]) -> int | None:
    """The shortest; 0 for one that is not positive; None: for ever (getMinTolerationTime())."""
    times = [max(0, t.for_ns) for t in used if t.for_ns is not None]
    return min(times) if times else None
