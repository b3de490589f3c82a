"""Pod garbage collector: pods of nodes that are gone or out of service, and too many finished ones (kubernetes.md 4.9).

Source: pkg/controller/podgc/gc_controller.go v1.34.2. It looks each 20 s; here only while there is something to find.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from slurmtwin.models.api_server.objects import Condition, Node, Pod
from slurmtwin.models.controllers.node_lifecycle import OUT_OF_SERVICE

if TYPE_CHECKING:
    from slurmtwin.models.controllers.controller_manager import ControllerManager


class PodGarbageCollector:
    """The controller."""

    def __init__(self, plane: ControllerManager) -> None:
        self.plane = plane
        self._client = plane.client()
        period = plane.defaults.pod_gc_ns
        self._phase_ns = plane.streams.uniform_ns("pod_gc.phase", 0, period)()
        self._armed = False
        self._missing: dict[str, int] = {}
        """Node without an object -> when its quarantine is over."""
        self._finished = 0
        plane.nodes.tell(self._node_changed)
        plane.pods.informer.tell(self._pod_changed)

    def _arm(self) -> None:
        if not self._armed:
            self._armed = True
            at_ns, period = self.plane.now_ns, self.plane.defaults.pod_gc_ns
            self.plane.clock.call_at(at_ns + (self._phase_ns - at_ns) % period, self._collect)

    def _node_changed(self, _old: Node | None, new: Node | None) -> None:
        if new is None or any(t.key == OUT_OF_SERVICE for t in new.spec.taints):
            self._arm()

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        was = old is not None and old.finished
        now = new is not None and new.finished
        self._finished += now - was
        lost = new is not None and new.spec.node_name and self.plane.nodes.get(new.spec.node_name) is None
        unscheduled = new is not None and new.meta.deleting and not new.spec.node_name
        if lost or unscheduled or self._finished > self.plane.defaults.terminated_pods or (
            new is not None and new.meta.deleting and self._out_of_service(new.spec.node_name)
        ):  # fmt: skip
            self._arm()

    def _out_of_service(self, name: str) -> bool:
        node = self.plane.nodes.get(name)
        return node is not None and any(t.key == OUT_OF_SERVICE for t in node.spec.taints)

    def _not_ready(self, name: str) -> bool:
        node = self.plane.nodes.get(name)
        return node is not None and node.ready != "True"

    def _collect(self, _argument: object) -> None:
        self._armed = False
        pods = list(self.plane.pods.informer)
        self._gc_finished(pods)
        again = False
        for pod in pods:
            name = pod.spec.node_name
            if not pod.meta.deleting or (name and not self._out_of_service(name)):
                continue
            if not name or self._not_ready(name):
                self._force(pod, "DeletionByPodGC")
            again = again or bool(name)
        if self._gc_orphans(pods) or again:
            self.plane.clock.call_in(1, lambda _: self._arm())

    def _gc_finished(self, pods: list[Pod]) -> None:
        over = self._finished - self.plane.defaults.terminated_pods
        if over > 0:
            oldest = sorted((p for p in pods if p.finished), key=lambda p: (p.meta.created_ns, p.meta.key))
            for pod in oldest[:over]:
                self._force(pod, "")

    def _gc_orphans(self, pods: list[Pod]) -> bool:
        """Pods bound to a node that has had no object for 40 s: Failed, and deleted with grace 0."""
        now_ns = self.plane.now_ns
        names = {
            p.spec.node_name: None for p in pods if p.spec.node_name and self.plane.nodes.get(p.spec.node_name) is None
        }
        due = [name for name in names if self._missing.get(name, now_ns + 1) <= now_ns]
        self._missing = {n: self._missing.get(n, now_ns + self.plane.defaults.orphan_quarantine_ns) for n in names}
        for pod in pods:
            if pod.spec.node_name in due:
                self._force(pod, "DeletionByPodGC")
        return bool(names)

    def _force(self, pod: Pod, reason: str) -> None:
        """Failed first, so that its owner counts it (markFailedAndDeletePod()), then gone."""

        def fail(p: Pod) -> Pod:
            conditions = p.status.conditions
            if reason:
                conditions = {**conditions, "DisruptionTarget": Condition("True", self.plane.now_ns, reason)}
            return replace(p, status=replace(p.status, phase="Failed", conditions=conditions))

        def delete(_answer: object) -> None:
            self._client.delete(Pod, pod.meta.key, grace_ns=0, uid=pod.meta.uid)

        if pod.finished:
            delete(None)
        else:
            self._client.patch(Pod, pod.meta.key, fail, delete, uid=pod.meta.uid)
