"""The scheduling queue: pods that are due, that back off, and that nothing has changed for (kubernetes.md 5.1 to 5.3).

Source: pkg/scheduler/backend/queue/{scheduling_queue,backoff_queue}.go v1.34.2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.api_server.objects import Pod

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.controllers.defaults import ControlPlaneDefaults


@dataclass(slots=True)
class Waiting:
    """A pod of the queue."""

    pod: Pod
    added_ns: int
    attempts: int = 0
    state: str = "active"
    """active, backoff, unschedulable, gated or busy (its cycle runs)."""
    failed_ns: int = 0
    due_ns: int = 0
    moved: bool = False
    """Something changed while its cycle ran."""


class SchedulingQueue:
    """Pods that wait for a node; `ready` is called when one may be taken."""

    def __init__(self, clock: Clock, defaults: ControlPlaneDefaults, ready: Callable[[], None]) -> None:
        self._clock = clock
        self._defaults = defaults
        self._ready = ready
        self._pods: dict[str, Waiting] = {}
        self._heap: list[tuple[int, int, int, Waiting]] = []
        self._count = 0

    def __len__(self) -> int:
        return len(self._pods)

    def waiting(self, uid: str) -> Waiting | None:
        """The record of a pod."""
        return self._pods.get(uid)

    def add(self, pod: Pod) -> None:
        """A new pod without a node, or a newer version of one."""
        found = self._pods.get(pod.meta.uid)
        if found is None:
            found = self._pods[pod.meta.uid] = Waiting(pod, self._clock.now_ns)
        found.pod = pod
        if pod.spec.gates:
            found.state = "gated"
        elif found.state in ("active", "gated"):
            self._activate(found)

    def forget(self, uid: str) -> None:
        """It is bound or gone."""
        found = self._pods.pop(uid, None)
        if found is not None:
            found.state = "gone"

    def _activate(self, found: Waiting) -> None:
        found.state = "active"
        self._count += 1
        heappush(self._heap, (-found.pod.spec.priority, found.added_ns, self._count, found))
        self._ready()

    def pop(self) -> Waiting | None:
        """The next pod, its cycle begins; since 1.33 one that backs off, where no other waits (KEP-5142)."""
        while self._heap:
            found = heappop(self._heap)[3]
            if found.state == "active":
                return self._take(found)
        if self._defaults.pops_back_off:
            soonest = self._soonest()
            if soonest is not None:
                return self._take(soonest)
        return None

    def _soonest(self) -> Waiting | None:
        """Who backs off and would be over first."""
        backing = [w for w in self._pods.values() if w.state == "backoff"]
        return min(backing, key=lambda w: (w.due_ns, -w.pod.spec.priority, w.added_ns), default=None)

    def _take(self, found: Waiting) -> Waiting:
        found.state, found.moved = "busy", False
        found.attempts += 1
        return found

    def back_off_ns(self, attempts: int) -> int:
        """1, 2, 4, 8, 10 s ... after the first, second ... attempt that failed."""
        return min(self._defaults.back_off_first_ns << min(attempts - 1, 30), self._defaults.back_off_most_ns)

    def failed(self, found: Waiting) -> None:
        """No node: it waits for a change, or backs off at once where one came meanwhile."""
        if found.state != "busy":
            return
        found.failed_ns = self._clock.now_ns
        found.due_ns = found.failed_ns + self.back_off_ns(found.attempts)
        if found.moved:
            self._back_off(found)
            return
        found.state = "unschedulable"
        sweep_ns = self._defaults.unschedulable_sweep_ns
        late_ns = found.failed_ns + self._defaults.unschedulable_ns
        self._clock.call_at(late_ns + -late_ns % sweep_ns, self._swept, (found, found.failed_ns))

    def _swept(self, mark: tuple[Waiting, int]) -> None:
        found, failed_ns = mark
        if found.state == "unschedulable" and found.failed_ns == failed_ns:
            self._back_off(found)

    def moved(self) -> None:
        """A node or pod changed in a way that may help: everyone who waits for a change may try again."""
        for found in self._pods.values():
            if found.state == "unschedulable":
                self._back_off(found)
            elif found.state == "busy":
                found.moved = True

    def _back_off(self, found: Waiting) -> None:
        now_ns = self._clock.now_ns
        if found.due_ns <= now_ns:
            self._activate(found)
            return
        found.state = "backoff"
        due_ns = found.due_ns
        if self._defaults.pops_back_off:
            due_ns += -due_ns % SECOND  # ends are flushed once a second
            self._ready()
        self._clock.call_at(due_ns, self._over, found)

    def _over(self, found: Waiting) -> None:
        if found.state == "backoff":
            self._activate(found)
