"""An API server that runs in short bursts: it is stopped for a pause, runs a while, is stopped again (api_server.slow).

What is under way waits with it: work needs so much of the time in which the server runs (the signals of e2e kind/
faults/services.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True)
class Bursts:
    """Stopped at since_ns for pause_ns, then running for run_ns, and so on until until_ns (None: no end yet)."""

    since_ns: int
    pause_ns: int
    run_ns: int
    until_ns: int | None = None
    first: Callable[[], int] = lambda: 0
    """What waited takes at least so much when the server goes on: all of it comes at once."""

    def runs_ns(self, at_ns: int) -> int:
        """The first time from then on at which the server runs."""
        if at_ns < self.since_ns or self._over(at_ns):
            return at_ns
        into_ns = (at_ns - self.since_ns) % (self.pause_ns + self.run_ns)
        return at_ns + max(0, self.pause_ns - into_ns)

    def done_ns(self, at_ns: int, work_ns: int) -> int:
        """When something that comes at that time, and keeps a server that runs busy so long, is done."""
        if self.runs_ns(at_ns) > at_ns:
            work_ns = max(work_ns, self.first())
        cycle_ns = self.pause_ns + self.run_ns
        while True:
            at_ns = self.runs_ns(at_ns)
            if at_ns < self.since_ns:
                left_ns = self.since_ns - at_ns
            elif self._over(at_ns):
                return at_ns + work_ns
            else:
                left_ns = cycle_ns - (at_ns - self.since_ns) % cycle_ns
            if work_ns <= left_ns:
                return at_ns + work_ns
            at_ns, work_ns = at_ns + left_ns, work_ns - left_ns
            whole = (work_ns - 1) // self.run_ns  # bursts that it fills, as far as they come
            if self.until_ns is not None:
                whole = min(whole, max(0, self.until_ns - at_ns) // cycle_ns)
            at_ns, work_ns = at_ns + whole * cycle_ns, work_ns - whole * self.run_ns

    def end(self, now_ns: int) -> None:
        """It is not stopped again: it runs from the end of this pause on."""
        self.until_ns = self.runs_ns(now_ns)

    def _over(self, at_ns: int) -> bool:
        return self.until_ns is not None and at_ns >= self.until_ns
