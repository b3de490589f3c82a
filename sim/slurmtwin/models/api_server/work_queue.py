"""A controller's work queue: each key once, a number of workers, back-off per key (client-go util/workqueue).

Retry of a key after the k-th failure in a row: 5 ms * 2**(k-1), at most 1000 s (kubernetes.md 6.4).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MS, SECOND

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.engine.environment import Call

BASE_NS: Final = 5 * MS
MOST_NS: Final = 1000 * SECOND

Finished = Callable[[bool], None]
"""A worker is done with its key; False: it failed and is tried again after its back-off."""
Reconcile = Callable[[str, Finished], None]


class WorkQueue:
    """Keys that wait, keys in work, keys that come back."""

    def __init__(
        self, clock: Clock, reconcile: Reconcile, workers: int = 1, base_ns: int = BASE_NS, most_ns: int = MOST_NS,
        single: bool = False,
    ) -> None:  # fmt: skip
        self._clock = clock
        self._reconcile = reconcile
        self._free = workers
        self._base_ns = base_ns
        self._most_ns = most_ns
        self._waiting: deque[str] = deque()
        self._dirty: dict[str, None] = {}
        self._working: dict[str, None] = {}
        self._failures: dict[str, int] = {}
        self._later: dict[str, tuple[int, Call]] = {}
        self._single = single
        """A key is there once, to be worked on now or later: wanted now, its later time is forgotten, and none is noted
        while it waits (controller-runtime >= 0.23 priorityqueue.go lockedAddWithOpts(); the reference operator's
        shell/work_queue.py).
        """

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: str) -> None:
        """The key wants work: nothing happens when it waits already; one in work comes again afterwards."""
        if key in self._dirty:
            return
        if self._single and key in self._later:
            self._later.pop(key)[1].cancel()
        self._dirty[key] = None
        if key not in self._working:
            self._waiting.append(key)
            self._feed()

    def add_after(self, key: str, delay_ns: int) -> None:
        """The key wants work then. Of several times the earliest counts (delaying_queue.go insert())."""
        if delay_ns <= 0:
            self.add(key)
            return
        if self._single and key in self._dirty:
            return
        due_ns = self._clock.now_ns + delay_ns
        waiting = self._later.get(key)
        if waiting is not None:
            if waiting[0] <= due_ns:
                return
            waiting[1].cancel()
        self._later[key] = (due_ns, self._clock.call_in(delay_ns, self._add_later, key))

    def _add_later(self, key: str) -> None:
        del self._later[key]
        self.add(key)

    def failures(self, key: str) -> int:
        """Failures in a row."""
        return self._failures.get(key, 0)

    def _feed(self) -> None:
        while self._free and self._waiting:
            key = self._waiting.popleft()
            del self._dirty[key]
            self._working[key] = None
            self._free -= 1
            self._clock.call_in(0, self._work, key)

    def _work(self, key: str) -> None:
        def finished(good: bool) -> None:
            self._finished(key, good)

        self._reconcile(key, finished)

    def _finished(self, key: str, good: bool) -> None:
        del self._working[key]
        self._free += 1
        if key in self._dirty:
            self._waiting.append(key)
        if good:
            self._failures.pop(key, None)
        else:
            count = self._failures.get(key, 0)
            self._failures[key] = count + 1
            self.add_after(key, min(self._base_ns << min(count, 40), self._most_ns))
        self._feed()
