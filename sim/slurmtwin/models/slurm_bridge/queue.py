"""The scheduling queue of a scheduler whose attempts may fail for want of an answer (scheduling_queue.go v1.34.2)."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.kube_scheduler.queue import SchedulingQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.controllers.defaults import ControlPlaneDefaults
    from slurmtwin.models.kube_scheduler.queue import Waiting


class BridgeQueue(SchedulingQueue):
    """kube-scheduler's queue; who comes back stands behind those that were added meanwhile."""

    def __init__(self, clock: Clock, defaults: ControlPlaneDefaults, ready: Callable[[], None]) -> None:
        super().__init__(clock, defaults, ready)
        self._backing: list[tuple[int, int, int, int, Waiting]] = []
        self._stuck: list[Waiting] = []
        """Who waits for a change, and may have been something else since."""
        self._serial = 0
        self._taken: Waiting | None = None
        """Whose attempt runs, or ran last."""
        self._flush_ns = 0
        """When those whose back-off is over are looked for next; 0: nobody backs off."""

    def _back_off(self, found: Waiting) -> None:
        if found.due_ns <= self._clock.now_ns:
            self._activate(found)
            return
        found.state = "backoff"
        self._serial += 1
        heappush(self._backing, (found.due_ns, -found.pod.spec.priority, found.added_ns, self._serial, found))
        self._arm(found.due_ns)
        if self._defaults.pops_back_off:
            self._ready()

    def _arm(self, due_ns: int) -> None:
        """flushBackoffQCompleted(), which is once a second where the queue may be popped before (backoff_queue.go)."""
        at_ns = due_ns + -due_ns % SECOND if self._defaults.pops_back_off else due_ns
        if not self._flush_ns or at_ns < self._flush_ns:
            self._flush_ns = at_ns
            self._clock.call_at(at_ns, self._flush, at_ns)

    def _flush(self, at_ns: int) -> None:
        if at_ns != self._flush_ns:
            return
        self._flush_ns = 0
        while (found := self._soonest()) is not None:
            if found.due_ns > at_ns:
                self._arm(found.due_ns)
                return
            heappop(self._backing)
            self._activate(found)

    def _soonest(self) -> Waiting | None:
        """Who backs off and would be over first."""
        while self._backing:
            found = self._backing[0][4]
            if found.state == "backoff" and found.due_ns == self._backing[0][0]:
                return found
            heappop(self._backing)
        return None

    def failed(self, found: Waiting) -> None:
        """As ever, with the time of its return as its place among equals (AddUnschedulableIfNotPresent())."""
        found.added_ns = self._clock.now_ns
        super().failed(found)
        if found.state == "unschedulable":
            self._stuck.append(found)

    def _take(self, found: Waiting) -> Waiting:
        self._taken = super()._take(found)
        return self._taken

    def moved(self) -> None:
        """As ever, without a look at those that back off."""
        if self._taken is not None and self._taken.state == "busy":
            self._taken.moved = True
        stuck, self._stuck = self._stuck, []
        for found in stuck:
            if found.state == "unschedulable":
                self._back_off(found)

    def activated(self, found: Waiting) -> None:
        """The plugin activates a pod while its attempt runs: it backs off, and waits for no change.

        (Activate() notes a wildcard event of the pod in flight, which isPodWorthRequeuing() answers by
        queueAfterBackoff.)
        """
        found.moved = True
        self.failed(found)

    def errored(self, found: Waiting) -> None:
        """An attempt ended with an error: it comes back after its back-off, and not before (errorBackoffQ)."""
        if found.state != "busy":
            return
        now_ns = self._clock.now_ns
        found.state, found.added_ns = "error", now_ns
        due_ns = now_ns + self.back_off_ns(found.attempts)
        self._clock.call_at(due_ns + -due_ns % SECOND, self._after_error, found)

    def _after_error(self, found: Waiting) -> None:
        if found.state == "error":
            self._activate(found)
