"""StatefulSet: one pod per ordinal, in order or in parallel, never two of one name (kubernetes.md 6.17, 6.18).

Source: pkg/controller/statefulset/stateful_set_control.go v1.34.2. A pod that is being deleted keeps its name, so a
silent node holds the ordinal for ever (kubernetes.md 4.3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.models.api_server.objects import (
    Claim,
    ClaimTemplate,
    Meta,
    Owner,
    Pod,
    PodTemplate,
    StatefulSet,
    Volume,
    WorkloadStatus,
)
from slurmtwin.models.controllers.controller import Controller, Request, in_batches, one_by_one
from slurmtwin.models.controllers.owners import owner_key

if TYPE_CHECKING:
    from slurmtwin.models.api_server.work_queue import Finished
    from slurmtwin.models.controllers.controller_manager import ControllerManager

REVISION: Final = "controller-revision-hash"
POD_NAME: Final = "statefulset.kubernetes.io/pod-name"


def revision_of(template: PodTemplate) -> str:
    """A name for a template: equal templates have equal names."""
    return hashlib.blake2b(repr(template).encode(), digest_size=5).hexdigest()


def available(pod: Pod, min_ready_ns: int, now_ns: int) -> bool:
    """Ready for min_ready_ns (podutil.IsPodAvailable())."""
    condition = pod.status.conditions.get("Ready")
    return condition is not None and condition.status == "True" and condition.since_ns + min_ready_ns <= now_ns


def ordinal_of(pod: Pod) -> int:
    """The number at the end of its name; -1: none."""
    number = pod.meta.name.rpartition("-")[2]
    return int(number) if number.isdigit() else -1


@dataclass(frozen=True, slots=True)
class Step:
    """What one look at a StatefulSet asks for, in order."""

    create: tuple[int, ...] = ()
    delete: tuple[Pod, ...] = ()


def next_step(spec: StatefulSet, pods: list[Pod], update_revision: str, now_ns: int) -> Step:
    """updateStatefulSet() and its helpers, as a decision."""
    if spec.meta.deleting:
        return Step()
    by_ordinal = {ordinal_of(pod): pod for pod in pods}
    condemned = sorted((p for o, p in by_ordinal.items() if o >= spec.replicas), key=ordinal_of, reverse=True)

    def unavailable(pod: Pod | None) -> bool:
        return pod is None or not available(pod, spec.min_ready_ns, now_ns) or pod.meta.deleting

    create: list[int] = []
    delete: list[Pod] = []
    for ordinal in range(spec.replicas):
        pod = by_ordinal.get(ordinal)
        if pod is not None and pod.finished:
            if not pod.meta.deleting:
                delete.append(pod)
            if not spec.parallel:
                return Step(tuple(create), tuple(delete))
        elif pod is None:
            create.append(ordinal)
            if not spec.parallel:
                return Step(tuple(create))
        elif not spec.parallel and unavailable(pod):
            return Step()
    if delete or create:
        return Step(tuple(create), tuple(delete))
    return _scale_or_update(spec, by_ordinal, condemned, update_revision, unavailable)


def _scale_or_update(
    spec: StatefulSet, by_ordinal: dict[int, Pod], condemned: list[Pod], update_revision: str,
    unavailable: Callable[[Pod | None], bool],
) -> Step:  # fmt: skip
    """processCondemned(), then the rolling update from the highest ordinal."""
    if condemned and not spec.parallel:
        first_bad = next((p for p in reversed(condemned) if unavailable(p)), None)
        top = condemned[0]
        if top.meta.deleting or (unavailable(top) and top is not first_bad):
            return Step()
        return Step((), (top,))
    gone = tuple(p for p in condemned if not p.meta.deleting)
    if gone or spec.on_delete:
        return Step((), gone)
    for ordinal in range(spec.replicas - 1, spec.partition - 1, -1):
        pod = by_ordinal[ordinal]
        if pod.meta.labels.get(REVISION) != update_revision and not pod.meta.deleting:
            return Step((), (pod,))
        if unavailable(pod):
            return Step()
    return Step()


class StatefulSets(Controller):
    """The controller."""

    def __init__(self, plane: ControllerManager, set_status: Callable[[], int] = lambda: 0) -> None:
        """set_status: the mark of a pod that goes at once until the status of its set is written (pod_durations.py)."""
        super().__init__(plane, workers=5)
        self._set_status = set_status
        self._sets = plane.informer(StatefulSet)
        self._templates: dict[tuple[str, str], tuple[PodTemplate, tuple[ClaimTemplate, ...]]] = {}
        """(uid, revision) -> what pods of that revision are made of (ControllerRevision)."""
        self._sets.tell(self._set_changed)
        plane.pods.informer.tell(self._pod_changed)

    def _set_changed(self, _old: StatefulSet | None, new: StatefulSet | None) -> None:
        if new is not None:
            self.queue.add(new.meta.key)

    def _pod_changed(self, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        assert pod is not None
        if key := owner_key(pod, "StatefulSet"):
            self.queue.add(key)

    def sync(self, key: str, finished: Finished) -> None:
        """One step of a set, then its status."""
        spec = self._sets.get(key)
        if spec is None:
            finished(True)
            return
        update = revision_of(spec.template)
        self._templates.setdefault((spec.meta.uid, update), (spec.template, spec.claims))
        pods = self.plane.pods.of_owner(spec.meta.uid)
        step = next_step(spec, pods, update, self.plane.now_ns)
        requests: list[Request] = [self._deletion(spec, pod) for pod in step.delete]
        for ordinal in step.create:
            requests += self._creation(spec, ordinal, update)
        self._await_min_ready(spec, pods)
        status = self._status(spec, pods, update)
        written_ns = self._written_ns(pods)

        def written(good: bool) -> None:
            if written_ns is not None and written_ns > self.plane.now_ns:
                self.plane.clock.call_at(written_ns, finished, good)
            else:
                finished(good)

        def done(good: bool) -> None:
            if status != spec.status:
                self.client.patch(StatefulSet, key, lambda s: replace(s, status=status), lambda _: written(good))
            else:
                finished(good)

        (in_batches if spec.parallel else one_by_one)(requests, done)

    def _written_ns(self, pods: list[Pod]) -> int | None:
        """When a status is written: behind a deletion without grace it shares the store and the host with what else
        follows from that, and the pod's removal waits for it (measured: quiet-replaced). None: at once.
        """
        marked = [p.meta.deletion_ns for p in pods if p.meta.deletion_ns is not None and p.meta.grace_ns == 0]
        return max(marked) + self._set_status() if marked else None

    def _await_min_ready(self, spec: StatefulSet, pods: list[Pod]) -> None:
        if spec.min_ready_ns:
            for pod in pods:
                if pod.ready and not available(pod, spec.min_ready_ns, self.plane.now_ns):
                    since_ns = pod.status.conditions["Ready"].since_ns
                    self.queue.add_after(spec.meta.key, since_ns + spec.min_ready_ns - self.plane.now_ns)

    def _deletion(self, spec: StatefulSet, pod: Pod) -> Request:
        message = f"delete Pod {pod.meta.name} in StatefulSet {spec.meta.name} successful"

        def request(done: Callable[[Any], None]) -> None:
            self.client.delete(Pod, pod.meta.key, uid=pod.meta.uid, done=done)
            self.client.event(f"StatefulSet/{spec.meta.name}", "SuccessfulDelete", message)

        return request

    def _creation(self, spec: StatefulSet, ordinal: int, update: str) -> list[Request]:
        """The claims that are missing, then the pod."""
        revision = self._revision_for(spec, ordinal, update)
        template, claims = self._templates[spec.meta.uid, revision]
        name = f"{spec.meta.name}-{ordinal}"
        namespace = spec.meta.namespace
        volumes = tuple(Volume(name=c.name, claim=f"{c.name}-{name}") for c in claims)
        labels = {**template.labels, POD_NAME: name, REVISION: revision, "apps.kubernetes.io/pod-index": str(ordinal)}
        owner = Owner("StatefulSet", spec.meta.name, spec.meta.uid)
        pod = Pod(
            meta=Meta(name=name, namespace=namespace, labels=labels, annotations=template.annotations, owner=owner),
            spec=replace(template.spec, hostname=name, volumes=template.spec.volumes + volumes),
        )
        known = self.plane.informer(Claim)
        wanted = [
            Claim(
                meta=Meta(name=f"{c.name}-{name}", namespace=namespace), storage_class=c.storage_class, access=c.access
            )
            for c in claims
            if known.get(f"{namespace}/{c.name}-{name}") is None
        ]
        message = f"create Pod {name} in StatefulSet {spec.meta.name} successful"

        def create(done: Callable[[Any], None]) -> None:
            self.client.create(pod, done)
            self.client.event(f"StatefulSet/{spec.meta.name}", "SuccessfulCreate", message)

        return [*(_claim_request(self, claim) for claim in wanted), create]

    def _revision_for(self, spec: StatefulSet, ordinal: int, update: str) -> str:
        """newVersionedStatefulSetPod(): below the partition, or not reached yet, the old revision."""
        current = spec.status.current_revision or update
        if current == update or spec.on_delete or (spec.meta.uid, current) not in self._templates:
            return update
        return current if ordinal < spec.partition else update

    def _status(self, spec: StatefulSet, pods: list[Pod], update: str) -> WorkloadStatus:
        mine = [p for p in pods if not p.finished]
        good = [p for p in mine if not p.meta.deleting]
        updated = sum(p.meta.labels.get(REVISION) == update for p in good)
        ready = sum(p.ready for p in mine)
        current = spec.status.current_revision or update
        if updated == spec.replicas == ready and len(pods) == spec.replicas:
            current = update
        return WorkloadStatus(
            observed_generation=spec.meta.generation, replicas=len(mine), ready=ready,
            available=sum(available(p, spec.min_ready_ns, self.plane.now_ns) for p in mine),
            updated=updated, current_revision=current, update_revision=update,
        )  # fmt: skip


def _claim_request(controller: Controller, claim: Claim) -> Request:
    return lambda done: controller.client.create(claim, done)
