"""time(NULL) of a real host: the kernel's coarse clock, a few ms behind the one that wakes sleepers.

slurmctld's loops sleep until the next whole second (since 24.11). At W.000 time(NULL) still shows W - 1. A loop that
finds nothing due goes round and sees second W some 5 ms later; but where a pass takes longer than the lag, the loop has
gone to sleep until W + 1 by then, and sees W only at (W + 1).000. So what is due in second X happens at X.005 or at
(X + 1).000, and the first look of a new slurmctld is at its own start's second (docs/surprises.md).

A tick that is long due and waits for the end of the cycle before it asks no clock: it comes at the first whole second
behind that end, or as soon as the thread has told it that does (agent.c _agent_nodes_update()). That wakes at whole
seconds, too, and waits for a CPU where other slurmctlds of the host do the same: the loop goes round until time(NULL)
shows the second, and what is told later than that is found a second later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MS, SECOND, US

if TYPE_CHECKING:
    import numpy as np

CALM_LOAD: Final = 4.0
"""A host (of two CPUs, as all that were recorded) has been loaded from here on."""
SEEN_LATE: Final = (194, 1010)
SEEN_LATE_LOADED: Final = (288, 1153)
"""Ticks of all runs in pods before their first fault, on hosts whose clock was 3 ms and more behind: so many came
within 2 ms of a whole second, and are a second late (sim/tests/campaign/test_recorded_loop.py)."""
OVERLOAD: Final = 8.0
"""From here on a host (of two CPUs) has more to do than it can, which deploying a run alone does not bring about."""
TOLD_BEHIND: Final = (0, 22)
TOLD_BEHIND_BESIDE: Final = (66, 136)
TOLD_BEHIND_OVERLOADED: Final = (20, 29)
"""Ticks that waited for a cycle with a frozen slurmd (26.05): so many came 1 ms and more behind the first whole second.
Of quiet-silent's runs that had the host for themselves, and of those with two or five others beside them; with them
they do not go by the load with which a run began (1.0 to 7.5; test_recorded_loop.py). Last of twelve runs of 21 and 22
November at loads of 8.4 to 36, which are gone since: s2-slurmd-hang, x64-worker-host-lost, x70-undrain-before-down."""
TOLD_NS: Final = (1_500 * US, 3_100 * US)
"""So long behind that second they are told, evenly: 21 of the 66 came within 2 ms, 27 later, and 18 were told when the
loop had gone to sleep, 2.65 ms behind it."""
ASLEEP_OVERLOADED: Final = 8 / 20
"""On an overloaded host the loop is late for its looks, too: so many of those 20 were found a second later, whether
time(NULL) was 0.5 or 5.5 ms behind."""
CAUGHT_UP_NS: Final = 5 * MS
"""How far time(NULL) is behind, where a recording does not show it."""


def seen_late(unix_ns: int, lag_ns: int = CAUGHT_UP_NS) -> bool:
    """Sooner behind a whole second than time(NULL) shows it: what comes then was due in the second before.

    Rows of slurmctld's log are known to 1 ms, so half of one is left to them.
    """
    return unix_ns % SECOND < lag_ns - MS // 2


class CoarseClock:
    """Draws of one host.

    How often a tick is late is known from recorded ticks, and drawn once (`still`: held at its median). Which tick is
    late is the phase of the loop against the clock: no number of runs tells it.
    """

    def __init__(
        self, generator: np.random.Generator, still: bool = False, lag_ns: int = CAUGHT_UP_NS,
        host_load: float | None = None, runs_beside: int = 1,
    ) -> None:  # fmt: skip
        self.lag_ns = lag_ns
        """How far time(NULL) is behind."""
        self._generator = generator
        load = host_load or 0.0
        share = _middle if still else _possible
        seen, told = generator.spawn(2)
        self._overloaded = load >= OVERLOAD
        self._share = share(SEEN_LATE_LOADED if load >= CALM_LOAD else SEEN_LATE, seen)
        self._told_share = share(_told_behind(self._overloaded, runs_beside), told)
        self._second = (0, False)

    def late_in(self, second: int) -> bool:
        """As late(), one answer for all that is due in that Unix second."""
        if self._second[0] != second:
            self._second = (second, self.late())
        return self._second[1]

    def late(self) -> bool:
        """What is due in this second is seen a second later."""
        return bool(self._generator.random() < self._share)

    def told_ns(self) -> int:
        """How long behind a whole second the loop finds that a cycle which was over before is told to be, in ns: a
        second where it sleeps by then."""
        waits, how_long = self._generator.random(2)
        if waits >= self._told_share:
            return 0
        least, most = TOLD_NS
        told_ns = round(least + float(how_long) * (most - least))
        asleep = told_ns > self.lag_ns or (self._overloaded and how_long < ASLEEP_OVERLOADED)
        return SECOND if asleep else told_ns


def _told_behind(overloaded: bool, runs_beside: int) -> tuple[int, int]:
    if overloaded:
        return TOLD_BEHIND_OVERLOADED
    return TOLD_BEHIND_BESIDE if runs_beside > 1 else TOLD_BEHIND


def _middle(counted: tuple[int, int], _generator: np.random.Generator) -> float:
    """About the median of what _possible() draws (Kerman 2011, of a Beta's)."""
    late, all_ = counted
    return (late + 0.5 - 1 / 3) / (all_ + 1 - 2 / 3)


def _possible(counted: tuple[int, int], generator: np.random.Generator) -> float:
    """A share that (how often, of how many) leaves possible, by Jeffreys' prior."""
    late, all_ = counted
    return float(generator.beta(late + 0.5, all_ - late + 0.5))
