"""An API server that runs in short bursts: it is stopped for a pause, runs a while, is stopped again (api_server.slow).

What is under way waits with it: work needs so much of the time in which the server runs (the signals of e2e kind/
faults/services.py).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

SLOWER_PERCENT: Final = 165
"""What such a server does in a burst takes so much of what it takes of one that always runs: it catches up with all
that waited. Two requests of each kind behind one that waited, in the same burst: reads 1.8 times their usual, patches
of a ConfigMap 1.7, of a Pod 1.6, 60 of each (slurmtwin_e2e.kind.burst_requests, 30 November)."""


@dataclass(slots=True)
class Bursts:
    """Stopped at since_ns for pause_ns, then running for run_ns, and so on until until_ns (None: no end yet)."""

    since_ns: int
    pause_ns: int
    run_ns: int
    until_ns: int | None = None
    wake: Callable[[], int] = lambda: 0
    """When what waited is begun, behind a pause: all of it comes at once when the server goes on."""
    beyond: Callable[[], tuple[int, int]] = lambda: (0, 0)
    """By how much the next pause and the burst behind it are longer."""
    slower_percent: int = 100
    """Of the time that work takes of a server that always runs."""
    _on_ns: list[int] = field(default_factory=list)
    _off_ns: list[int] = field(default_factory=list)
    """When it went on, and was stopped again, as far as anybody asked."""

    def runs_ns(self, at_ns: int) -> int:
        """The first time from then on at which the server runs."""
        if at_ns < self.since_ns or self._over(at_ns):
            return at_ns
        return max(at_ns, self._on_ns[self._burst(at_ns)])

    def done_ns(self, at_ns: int, work_ns: int) -> int:
        """When something that comes at that time, and keeps a server that runs busy so long, is done."""
        before_ns = max(0, self.since_ns - at_ns)
        if (before_ns and work_ns <= before_ns) or self._over(at_ns):
            return at_ns + work_ns
        at_ns, work_ns = at_ns + before_ns, (work_ns - before_ns) * self.slower_percent // 100
        if self.runs_ns(at_ns) > at_ns:
            work_ns += self.wake()
        while True:
            at_ns = self.runs_ns(at_ns)
            if self._over(at_ns):
                return at_ns + work_ns
            left_ns = self._off_ns[self._burst(at_ns)] - at_ns
            if work_ns <= left_ns:
                return at_ns + work_ns
            at_ns, work_ns = at_ns + left_ns, work_ns - left_ns

    def end(self, now_ns: int) -> None:
        """It is not stopped again: it runs from the end of this pause on."""
        self.until_ns = self.runs_ns(now_ns)

    def _burst(self, at_ns: int) -> int:
        """The number of the burst that ends behind that time."""
        last_ns = self._off_ns[-1] if self._off_ns else self.since_ns
        while last_ns <= at_ns:
            pause_ns, run_ns = self.beyond()
            self._on_ns.append(last_ns + self.pause_ns + pause_ns)
            last_ns = self._on_ns[-1] + self.run_ns + run_ns
            self._off_ns.append(last_ns)
        return bisect.bisect_right(self._off_ns, at_ns)

    def _over(self, at_ns: int) -> bool:
        return self.until_ns is not None and at_ns >= self.until_ns
