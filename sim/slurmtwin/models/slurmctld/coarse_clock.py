"""time(NULL) of a real host: the kernel's coarse clock, a few ms behind the one that wakes sleepers.

slurmctld's loops sleep until the next whole second (since 24.11). At W.000 time(NULL) still shows W - 1. A loop that
finds nothing due goes round and sees second W some 5 ms later; but where a pass takes longer than the lag, the loop has
gone to sleep until W + 1 by then, and sees W only at (W + 1).000. So what is due in second X happens at X.005 or at
(X + 1).000, and the first look of a new slurmctld is at its own start's second (docs/surprises.md).

A tick that is long due and waits for the end of the cycle before it asks no clock: it comes at the first whole second
behind that end, but where the thread that tells the end (agent.c _agent_nodes_update(), which wakes at whole seconds as
well) was later than the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MS, SECOND

if TYPE_CHECKING:
    import numpy as np

SEEN_LATE: Final = (7, 24)
"""Of 24 ticks of eight quiet runs in pods 7 came within 3 ms of a whole second: those are a second late."""
MIDDLE_SHARE: Final = 0.295
"""Median of what these ticks tell of the share, Beta(7.5, 17.5)."""
TOLD_LATE: Final = (9, 58)
"""Of 58 ticks that waited for a cycle with a frozen slurmd in recorded runs (s2-slurmd-hang, x64-worker-host-lost and
x70-undrain-before-down, 26.05) 9 came a second behind the first whole second: 8 of 37 on overloaded hosts, 1 of 21
since."""
MIDDLE_TOLD_LATE: Final = 0.1572
"""Median of what these tell of the share, Beta(9.5, 49.5)."""
CAUGHT_UP_NS: Final = 5 * MS
"""How far time(NULL) is behind, where a recording does not show it."""


def seen_late(unix_ns: int, lag_ns: int = CAUGHT_UP_NS) -> bool:
    """Sooner behind a whole second than time(NULL) shows it: what comes then was due in the second before.

    Rows of slurmctld's log are known to 1 ms, so half of one is left to them.
    """
    return unix_ns % SECOND < lag_ns - MS // 2


class CoarseClock:
    """Draws of one host.

    How often a tick is late is known from quiet runs alone, and drawn once (`still`: held at its median). Which tick is
    late is the phase of the loop against the clock: no number of quiet runs tells it.
    """

    def __init__(self, generator: np.random.Generator, still: bool = False, lag_ns: int = CAUGHT_UP_NS) -> None:
        self.lag_ns = lag_ns
        """How far time(NULL) is behind."""
        self._generator = generator
        drawn, told = _possible(generator, SEEN_LATE), _possible(generator.spawn(1)[0], TOLD_LATE)
        self._share = MIDDLE_SHARE if still else drawn
        self._told_share = MIDDLE_TOLD_LATE if still else told
        self._second = (0, False)

    def late_in(self, second: int) -> bool:
        """As late(), one answer for all that is due in that Unix second."""
        if self._second[0] != second:
            self._second = (second, self.late())
        return self._second[1]

    def late(self) -> bool:
        """What is due in this second is seen a second later."""
        return bool(self._generator.random() < self._share)

    def told_late(self) -> bool:
        """The end of a cycle is told behind the look of the next whole second, so that it is seen a second later."""
        return bool(self._generator.random() < self._told_share)


def _possible(generator: np.random.Generator, counted: tuple[int, int]) -> float:
    """A share that (how often, of how many) leaves possible, by Jeffreys' prior."""
    late, all_ = counted
    return float(generator.beta(late + 0.5, all_ - late + 0.5))
