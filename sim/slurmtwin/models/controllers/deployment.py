"""Deployment: a ReplicaSet per template, the old ones made smaller as the new one grows (kubernetes.md 6.15).

Source: pkg/controller/deployment/{rolling,recreate,sync}.go, util/deployment_util.go v1.34.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.api_server.objects import Deployment, Meta, Owner, ReplicaSet, WorkloadStatus
from slurmtwin.models.controllers.controller import Controller, Request, one_by_one
from slurmtwin.models.controllers.owners import owner_key
from slurmtwin.models.controllers.stateful_set import revision_of

if TYPE_CHECKING:
    from slurmtwin.models.api_server.work_queue import Finished
    from slurmtwin.models.controllers.controller_manager import ControllerManager

TEMPLATE_HASH: Final = "pod-template-hash"


def scaled(value: int | str, total: int, up: bool) -> int:
    """An int, or a percentage of total rounded up or down (intstr.GetScaledValueFromIntOrPercent())."""
    if isinstance(value, int):
        return value
    amount = int(value.rstrip("%")) * total
    return -(-amount // 100) if up else amount // 100


def bounds(spec: Deployment) -> tuple[int, int]:
    """(max surge, max unavailable); both zero: one may be unavailable (ResolveFenceposts())."""
    surge = scaled(spec.max_surge, spec.replicas, up=True)
    unavailable = scaled(spec.max_unavailable, spec.replicas, up=False)
    if not surge and not unavailable:
        unavailable = 1
    return surge, min(unavailable, spec.replicas)


def sizes(spec: Deployment, new: ReplicaSet, old: list[ReplicaSet], old_pods: int) -> dict[str, int]:
    """Set name -> replicas wanted now: reconcileNewReplicaSet(), else reconcileOldReplicaSets(); Recreate otherwise.

    old_pods: pods of old sets that still exist, terminating ones included.
    """
    total = new.replicas + sum(rs.replicas for rs in old)
    if spec.recreate:
        if any(rs.replicas for rs in old):
            return {rs.meta.name: 0 for rs in old if rs.replicas}
        return {} if old_pods or new.replicas == spec.replicas else {new.meta.name: spec.replicas}
    surge, unavailable = bounds(spec)
    if new.replicas > spec.replicas:
        return {new.meta.name: spec.replicas}
    if new.replicas < spec.replicas and total < spec.replicas + surge:
        room = min(spec.replicas + surge - total, spec.replicas - new.replicas)
        return {new.meta.name: new.replicas + room}
    return _shrunk(spec, new, old, total, unavailable)


def _shrunk(spec: Deployment, new: ReplicaSet, old: list[ReplicaSet], total: int, unavailable: int) -> dict[str, int]:
    """Old sets made smaller: unhealthy pods first, then as many as stay available."""
    least = spec.replicas - unavailable
    new_bad = new.replicas - new.status.available
    room = total - least - new_bad
    wanted: dict[str, int] = {}
    if room <= 0:
        return wanted
    left = {rs.meta.name: rs.replicas for rs in old}
    for rs in old:
        bad = max(0, min(room, rs.replicas - rs.status.available))
        if bad:
            left[rs.meta.name] -= bad
            wanted[rs.meta.name] = left[rs.meta.name]
            room -= bad
    spare = new.status.available + sum(rs.status.available for rs in old) - least
    for rs in old:
        take = max(0, min(spare, left[rs.meta.name]))
        if take:
            left[rs.meta.name] -= take
            wanted[rs.meta.name] = left[rs.meta.name]
            spare -= take
    return wanted


class Deployments(Controller):
    """The controller."""

    def __init__(self, plane: ControllerManager) -> None:
        super().__init__(plane, workers=5)
        self._deployments = plane.informer(Deployment)
        self._sets = plane.informer(ReplicaSet)
        self._progress_ns: dict[str, int] = {}
        self._deployments.tell(self._changed)
        self._sets.tell(self._set_changed)
        plane.pods.informer.tell(self._pod_changed, marks=False)

    def _changed(self, _old: Deployment | None, new: Deployment | None) -> None:
        if new is not None:
            self.queue.add(new.meta.key)

    def _set_changed(self, old: ReplicaSet | None, new: ReplicaSet | None) -> None:
        item = new or old
        assert item is not None
        if key := owner_key(item, "Deployment"):
            self.queue.add(key)

    def _pod_changed(self, old: Any, new: Any) -> None:
        """A Recreate Deployment waits for its last old pod (deletePod())."""
        if new is None and (key := owner_key(old, "ReplicaSet")):
            found = self._sets.get(key)
            if found is not None:
                self._set_changed(None, found)

    def sync(self, key: str, finished: Finished) -> None:
        """The new ReplicaSet, then sizes, then the status."""
        spec = self._deployments.get(key)
        if spec is None or spec.meta.deleting:
            finished(True)
            return
        mark = revision_of(spec.template)
        mine = [rs for rs in self._sets if rs.meta.owner is not None and rs.meta.owner.uid == spec.meta.uid]
        new = next((rs for rs in mine if rs.meta.labels.get(TEMPLATE_HASH) == mark), None)
        old = [rs for rs in mine if rs is not new]
        requests: list[Request] = []
        if new is None:
            requests = [self._first(spec, mark, old)]
        elif not spec.paused:
            old_pods = sum(len(self.plane.pods.of_owner(rs.meta.uid)) for rs in old)
            requests = [self._resize(spec, n, size) for n, size in sizes(spec, new, old, old_pods).items()]
        status = self._status(spec, new, old, mark)

        def done(good: bool) -> None:
            if status != spec.status:
                self.client.patch(Deployment, key, lambda d: replace(d, status=status), lambda _: finished(good))
            else:
                finished(good)

        one_by_one(requests, done)

    def _first(self, spec: Deployment, mark: str, old: list[ReplicaSet]) -> Request:
        """getNewReplicaSet(): as large as the surge allows now."""
        surge = bounds(spec)[0]
        busy = sum(rs.replicas for rs in old)
        size = 0 if spec.recreate and busy else max(0, min(spec.replicas, spec.replicas + surge - busy))
        if spec.recreate and not busy:
            size = 0 if any(self.plane.pods.of_owner(rs.meta.uid) for rs in old) else spec.replicas
        labels = {**spec.template.labels, TEMPLATE_HASH: mark}
        owner = Owner("Deployment", spec.meta.name, spec.meta.uid)
        made = ReplicaSet(
            meta=Meta(name=f"{spec.meta.name}-{mark}", namespace=spec.meta.namespace, labels=labels, owner=owner),
            replicas=size, selector={**spec.selector, TEMPLATE_HASH: mark},
            template=replace(spec.template, labels=labels), min_ready_ns=spec.min_ready_ns,
        )  # fmt: skip
        return self._said(spec, f"Scaled up replica set {made.meta.name} from 0 to {size}",
                          lambda done: self.client.create(made, done))  # fmt: skip

    def _resize(self, spec: Deployment, name: str, size: int) -> Request:
        """An update of the version that is cached: a conflict where that is stale, and then another look."""
        before = self._sets.get(f"{spec.meta.namespace}/{name}")
        assert before is not None
        way = "up" if size > before.replicas else "down"
        return self._said(
            spec, f"Scaled {way} replica set {name} from {before.replicas} to {size}",
            lambda done: self.client.update(replace(before, replicas=size), done),
        )  # fmt: skip

    def _said(self, spec: Deployment, message: str, send: Request) -> Request:
        def request(done: Callable[[Any], None]) -> None:
            send(done)
            self.client.event(f"Deployment/{spec.meta.name}", "ScalingReplicaSet", message)

        return request

    def _status(self, spec: Deployment, new: ReplicaSet | None, old: list[ReplicaSet], mark: str) -> WorkloadStatus:
        sets = [*old, *([new] if new is not None else [])]
        updated = new.status.replicas if new is not None else 0
        available = sum(rs.status.available for rs in sets)
        replicas = sum(rs.status.replicas for rs in sets)
        counts = WorkloadStatus(
            observed_generation=spec.meta.generation, replicas=replicas, available=available, updated=updated,
            ready=sum(rs.status.ready for rs in sets), update_revision=mark,
        )  # fmt: skip
        return replace(counts, progressing=self._progress(spec, counts))

    def _progress(self, spec: Deployment, counts: WorkloadStatus) -> str:
        """NewReplicaSetAvailable, ReplicaSetUpdated, or ProgressDeadlineExceeded (progress.go)."""
        now_ns, key = self.plane.now_ns, spec.meta.key
        if counts.updated == counts.replicas == counts.available == spec.replicas:
            return "NewReplicaSetAvailable"
        was = spec.status
        moved = (was.updated, was.available, was.ready, was.update_revision) != (
            counts.updated, counts.available, counts.ready, counts.update_revision)  # fmt: skip
        if moved or key not in self._progress_ns:
            self._progress_ns[key] = now_ns
        left_ns = self._progress_ns[key] + spec.progress_deadline_ns - now_ns
        if left_ns <= 0:
            return "ProgressDeadlineExceeded"
        self.queue.add_after(key, left_ns + SECOND)  # requeueStuckDeployment(): each sync, a second late
        return "ReplicaSetUpdated"
