"""ReplicaSet: so many pods, whichever; one that is being deleted counts no more (kubernetes.md 6.16).

Source: pkg/controller/replicaset/replica_set.go, controller_utils.go v1.34.2.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.api_server.objects import Meta, Owner, Pod, ReplicaSet, WorkloadStatus
from slurmtwin.models.controllers.controller import Controller, Request, in_batches
from slurmtwin.models.controllers.expectations import Expectations
from slurmtwin.models.controllers.owners import owner_key
from slurmtwin.models.controllers.stateful_set import available

if TYPE_CHECKING:
    from slurmtwin.models.api_server.client import Done
    from slurmtwin.models.api_server.work_queue import Finished
    from slurmtwin.models.controllers.controller_manager import ControllerManager

MOST_AT_ONCE: Final = 500
"""Creations or deletions of one sync (BurstReplicas)."""
DELETION_COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_PHASES: Final = {"Pending": 0, "Unknown": 1, "Running": 2}


def victims(pods: list[Pod], count: int, now_ns: int) -> list[Pod]:
    """Which pods go first when there are too many (ActivePodsWithRanks.Less())."""
    on_node: dict[str, int] = {}
    for pod in pods:
        on_node[pod.spec.node_name] = on_node.get(pod.spec.node_name, 0) + 1

    def rank(pod: Pod) -> tuple[object, ...]:
        ready_ns = pod.status.conditions["Ready"].since_ns if pod.ready else 0
        restarts = max((c.restart_count for c in pod.status.containers), default=0)
        return (
            bool(pod.spec.node_name), _PHASES.get(pod.status.phase, 2), pod.ready,
            int(pod.meta.annotations.get(DELETION_COST, "0")), -on_node[pod.spec.node_name],
            _age_bucket(now_ns - ready_ns) if pod.ready else 0, -restarts, _age_bucket(now_ns - pod.meta.created_ns),
            pod.meta.uid,
        )  # fmt: skip

    return sorted(pods, key=rank)[:count]


def _age_bucket(age_ns: int) -> int:
    """Ages on a log scale of two, in seconds (LogarithmicScaleDown)."""
    return max(0, age_ns // SECOND).bit_length()


def suffix(base: str, number: int) -> str:
    """Five characters as the server's name generator draws, but from the name and a count."""
    letters = "bcdfghjklmnpqrstvwxz2456789"
    digest = hashlib.blake2b(f"{base}{number}".encode(), digest_size=5).digest()
    return "".join(letters[byte % len(letters)] for byte in digest)


class ReplicaSets(Controller):
    """The controller."""

    def __init__(self, plane: ControllerManager) -> None:
        super().__init__(plane, workers=5)
        self._sets = plane.informer(ReplicaSet)
        self._made: dict[str, int] = {}
        self._expected = Expectations()
        """Creations and deletions."""
        self._sets.tell(self._set_changed)
        plane.pods.informer.tell(self._pod_changed)

    def _set_changed(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        if new is not None:
            self.queue.add(new.meta.key)
        elif old is not None:
            self._expected.forget(old.meta.key)
            self._made.pop(old.meta.uid, None)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        key = owner_key(pod, "ReplicaSet")
        if not key:
            return
        if old is None or new is None or (new.meta.deleting and not old.meta.deleting):
            self._expected.seen(key, pod.meta.name)
        self.queue.add(key)

    def sync(self, key: str, finished: Finished) -> None:
        """manageReplicas(), then the status."""
        spec = self._sets.get(key)
        if spec is None:
            finished(True)
            return
        pods = [p for p in self.plane.pods.of_owner(spec.meta.uid) if p.active]
        requests: list[Request] = []
        if not self._expected.pending(key) and not spec.meta.deleting:
            requests = self._requests(spec, pods)
        status = WorkloadStatus(
            observed_generation=spec.meta.generation, replicas=len(pods), ready=sum(p.ready for p in pods),
            available=sum(available(p, spec.min_ready_ns, self.plane.now_ns) for p in pods),
        )  # fmt: skip
        if spec.min_ready_ns and status.ready != status.available:
            self.queue.add_after(key, spec.min_ready_ns)

        def done(good: bool) -> None:
            if status != spec.status:
                self.client.patch(ReplicaSet, key, lambda s: replace(s, status=status), lambda _: finished(good))
            else:
                finished(good)

        in_batches(requests, done)

    def _requests(self, spec: ReplicaSet, pods: list[Pod]) -> list[Request]:
        missing = spec.replicas - len(pods)
        if missing > 0:
            return [self._creation(spec) for _ in range(min(missing, MOST_AT_ONCE))]
        gone = victims(pods, min(-missing, MOST_AT_ONCE), self.plane.now_ns) if missing else []
        return [self._deletion(spec, pod) for pod in gone]

    def _creation(self, spec: ReplicaSet) -> Request:
        number = self._made[spec.meta.uid] = self._made.get(spec.meta.uid, 0) + 1
        name = f"{spec.meta.name}-{suffix(spec.meta.uid, number)}"
        template = spec.template
        owner = Owner("ReplicaSet", spec.meta.name, spec.meta.uid)
        meta = Meta(
            name=name,
            namespace=spec.meta.namespace,
            labels=template.labels,
            annotations=template.annotations,
            owner=owner,
        )

        def send(done: Done) -> None:
            self.client.create(Pod(meta=meta, spec=template.spec), done)
            self.client.event(f"ReplicaSet/{spec.meta.name}", "SuccessfulCreate", f"Created pod: {name}")

        return self._expected.until_seen(spec.meta.key, name, send)

    def _deletion(self, spec: ReplicaSet, pod: Pod) -> Request:
        def send(done: Done) -> None:
            self.client.delete(Pod, pod.meta.key, uid=pod.meta.uid, done=done)
            self.client.event(f"ReplicaSet/{spec.meta.name}", "SuccessfulDelete", f"Deleted pod: {pod.meta.name}")

        return self._expected.until_seen(spec.meta.key, pod.meta.name, send)
