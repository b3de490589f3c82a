"""When a kubelet renews its lease and reports its node: the instants, drawn only where somebody needs them.

A renewal follows the one before by U(10, 10.4) s (wait.JitterUntil, sliding, factor 0.04; kubernetes.md 4.1, 4.2). A
healthy node's renewals, and its status reports each 5 min, change nothing, so none is simulated (DESIGN 7):
`Rhythm.last_before` and `next_after` make up the instants round a time that matters. Questions come in order of time.
Times are nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

FAR_PERIODS: Final = 4096
"""Further ahead than this the phase is drawn anew. A gap spreads by 0.115 s, so 4096 of them by 7.4 s: modulo 10.2 s
that differs from uniform by exp(-2 pi^2 (7.4 / 10.2)^2), below 0.0001."""


class Rhythm:
    """Instants that follow each other by `gap_ns()`, from a first one."""

    def __init__(self, first_ns: int, gap_ns: Callable[[], int], phase_ns: Callable[[], int]) -> None:
        self._last_ns = first_ns
        self._next_ns = first_ns + gap_ns()
        self._gap_ns = gap_ns
        self._phase_ns = phase_ns
        """A draw of how long ago the last instant was, for times far ahead."""

    def last_before(self, now_ns: int) -> int:
        """The last instant at or before now (the first one, where that lies ahead)."""
        self._advance(now_ns)
        return self._last_ns

    def next_after(self, now_ns: int) -> int:
        """The first instant after now."""
        self._advance(now_ns)
        return self._next_ns

    def begin_anew(self, at_ns: int) -> None:
        """The process has started, or was held up until then: an instant now, the others count from it."""
        self._last_ns = at_ns
        self._next_ns = at_ns + self._gap_ns()

    def _advance(self, now_ns: int) -> None:
        gap_ns = self._next_ns - self._last_ns
        if now_ns - self._next_ns > FAR_PERIODS * gap_ns:
            self._last_ns = now_ns - self._phase_ns()
            self._next_ns = self._last_ns + self._gap_ns()
        while self._next_ns <= now_ns:
            self._last_ns = self._next_ns
            self._next_ns += self._gap_ns()
