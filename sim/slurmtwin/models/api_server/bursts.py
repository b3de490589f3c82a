"""An API server that runs in short bursts: it is stopped for a pause, runs a while, is stopped again (api_server.slow).

What is under way waits with it: work needs so much of the time in which the server runs (the signals of e2e kind/
faults/services.py).
"""

from __future__ import annotations

import bisect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from slurmtwin.contract.clock import MS

BURST_NS: Final = 100 * MS
"""api_server.slow lets the server run so long between two pauses."""


@dataclass(slots=True)
class Bursts:
    """Stopped at since_ns for pause_ns, then running for run_ns, and so on until until_ns (None: no end yet)."""

    since_ns: int
    pause_ns: int
    run_ns: int
    until_ns: int | None = None
    wake: Callable[[], int] = lambda: 0
    """How much later what waited is served: all of it comes at once when the server goes on."""
    beyond: Callable[[], tuple[int, int]] = lambda: (0, 0)
    """By how much the next pause and the burst behind it are longer."""
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
        if self.runs_ns(at_ns) > at_ns:
            work_ns += self.wake()
        while True:
            at_ns = self.runs_ns(at_ns)
            if self._over(at_ns):
                return at_ns + work_ns
            stop_ns = self.since_ns if at_ns < self.since_ns else self._off_ns[self._burst(at_ns)]
            if work_ns <= stop_ns - at_ns:
                return at_ns + work_ns
            at_ns, work_ns = stop_ns, work_ns - (stop_ns - at_ns)

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
