"""The kubelet's status manager: statuses go out at once, one after the other, and again where they failed.

Source: pkg/kubelet/status/status_manager.go v1.34.2 (syncPod, which reads the object before it patches it, syncBatch,
canBeDeleted); kubernetes.md 3.6, 3.9.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from slurmtwin.engine.records import changed
from slurmtwin.models.api_server.errors import ApiError, ConflictError, NotFoundError
from slurmtwin.models.api_server.objects import Condition, Pod, PodStatus

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.api_server.client import Client
    from slurmtwin.models.kubelet.relist import Ticks

OWNED = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "DisruptionTarget")
"""Conditions that the kubelet writes; of others it keeps what is there (kubelet/types/pod_status.go)."""


@dataclass(slots=True)
class _Entry:
    key: str
    status: PodStatus
    finished: bool = False
    """Everything of it is cleaned up: the object may go."""
    version: int = 1
    told: int = 0
    deleting: bool = False
    marked: bool = False
    """The object was seen with its end asked for."""
    there: PodStatus | None = None
    """What the API server answered last."""
    way_ns: int | None = None
    """What the next request takes until the API server has it, where that was measured."""


class StatusSender:
    """What this kubelet has to say of its pods, and what the API server knows of it."""

    def __init__(self, clock: Clock, client: Client, sweep: Ticks, gone: Callable[[str], None]) -> None:
        self._clock = clock
        self._client = client
        self._sweep = sweep
        self._gone = gone
        """Told the uid of a pod whose object is no longer there."""
        self._entries: dict[str, _Entry] = {}
        self._queue: list[str] = []
        self._busy = False
        self._sweeping = False

    def stand(self, swept_ns: int) -> None:
        """A sweep comes then, and others by their period from there."""
        self._sweep = self._sweep.anew(swept_ns)

    def status(self, uid: str) -> PodStatus | None:
        """The last status that was set."""
        entry = self._entries.get(uid)
        return entry.status if entry is not None else None

    def set(self, pod: Pod, status: PodStatus, finished: bool = False, way_ns: int | None = None) -> bool:
        """A new status; nothing is sent, and False returned, when nothing changed. way_ns: as patch()."""
        uid = pod.meta.uid
        entry = self._entries.get(uid)
        if entry is None:
            entry = self._entries[uid] = _Entry(pod.meta.key, status)
        elif entry.status == status and entry.finished >= finished:
            return False
        else:
            entry.status = status
            entry.version += 1
        entry.finished = entry.finished or finished
        entry.marked = entry.marked or pod.meta.deletion_ns is not None
        entry.way_ns = way_ns
        self._enqueue(uid)
        return True

    def look(self, pod: Pod) -> None:
        """The object was seen: one that says otherwise of its conditions is put right at the next sweep, and a finished
        pod that is now to be deleted is.
        """
        entry = self._entries.get(pod.meta.uid)
        if entry is None:
            return
        entry.marked = entry.marked or pod.meta.deletion_ns is not None
        if entry.finished and entry.marked and not entry.deleting:
            self._enqueue(pod.meta.uid)
        elif pod.status is not entry.there and entry.told == entry.version and _differs(pod.status, entry.status):
            entry.told = 0
            self._sweep_later()

    def forget(self, uid: str) -> None:
        """The pod is gone."""
        self._entries.pop(uid, None)

    def _enqueue(self, uid: str) -> None:
        if uid not in self._queue:
            self._queue.append(uid)
        self._next()

    def _next(self) -> None:
        while self._queue and not self._busy:
            uid = self._queue.pop(0)
            entry = self._entries.get(uid)
            if entry is None:
                continue
            self._busy = True
            version, status = entry.version, entry.status
            way_ns, entry.way_ns = entry.way_ns, None
            if entry.finished and entry.marked and entry.there is not None and not _differs(entry.there, status):
                entry.told = version  # PatchPodStatus() sends no patch that changes nothing
                self._delete(uid, entry, reads=True, way_ns=way_ns)
                continue
            self._client.patch(
                Pod, entry.key, partial(_merged, mine=status), partial(self._answered, uid, version), uid=uid,
                reads=True, way_ns=way_ns,
            )  # fmt: skip

    def _answered(self, uid: str, version: int, answer: Any) -> None:
        self._busy = False
        entry = self._entries.get(uid)
        if entry is not None:
            if isinstance(answer, (NotFoundError, ConflictError)):
                del self._entries[uid]
                self._gone(uid)
            elif isinstance(answer, ApiError):
                self._sweep_later()
            else:
                entry.told = version
                entry.there = answer.status
                self._delete_finished(uid, entry, answer)
        self._next()

    def _delete_finished(self, uid: str, entry: _Entry, pod: Pod) -> None:
        if entry.finished and entry.told == entry.version and pod.meta.deletion_ns is not None and pod.finished:
            self._delete(uid, entry)

    def _delete(self, uid: str, entry: _Entry, reads: bool = False, way_ns: int | None = None) -> None:
        """The removal is part of the pod's turn: the next pod's requests come behind its answer."""
        entry.deleting = self._busy = True
        self._client.delete(
            Pod, entry.key, grace_ns=0, uid=uid, done=partial(self._deleted, uid), reads=reads, way_ns=way_ns
        )

    def _deleted(self, uid: str, answer: Any) -> None:
        self._busy = False
        entry = self._entries.get(uid)
        if (
            entry is not None
            and isinstance(answer, ApiError)
            and not isinstance(answer, (NotFoundError, ConflictError))
        ):
            entry.deleting = False
            entry.told = 0
            self._sweep_later()
        self._next()

    def _sweep_later(self) -> None:
        if not self._sweeping:
            self._sweeping = True
            self._clock.call_at(self._sweep.next_after(self._clock.now_ns), self._swept)

    def _swept(self, _argument: object) -> None:
        self._sweeping = False
        for uid, entry in list(self._entries.items()):
            if entry.told < entry.version:
                self._enqueue(uid)


def _differs(there: PodStatus, mine: PodStatus) -> bool:
    if there.phase != mine.phase or there.containers != mine.containers:
        return True
    return any(
        name in mine.conditions and (name not in there.conditions or there.conditions[name] != mine.conditions[name])
        for name in OWNED
    )


def _merged(pod: Pod, mine: PodStatus) -> Pod:
    """The kubelet's status over what others wrote. A pod that has finished never runs again."""
    there = pod.status
    own = mine.conditions
    conditions: Mapping[str, Condition] = {**there.conditions, **{name: own[name] for name in OWNED if name in own}}
    phase = there.phase if there.phase in ("Succeeded", "Failed") else mine.phase
    if conditions == there.conditions:
        conditions = there.conditions
    status = changed(mine, phase=phase, conditions=conditions, nominated_node=there.nominated_node)
    return pod if status == there else Pod(meta=pod.meta, spec=pod.spec, status=status)
