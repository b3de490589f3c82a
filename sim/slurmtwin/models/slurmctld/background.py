"""slurmctld's background loop: about one look a second, which drives nearly every timer (slurm.md 0).

Nothing ticks here. A duty that may have work arms the loop for the first look at which the real one
would act; an idle loop costs no event. When a look happens follows the version:

- 22.05 sleeps ten times 100 ms between looks (controller.c _slurmctld_background()): the phase is that of
  the start and drifts by what the sleeps overshoot and by the work done, so now and then a second is skipped.
- 24.11 and 26.05 wait until the next whole second of the Unix clock (same function): one look a second, no drift.
  Where time(NULL) is behind (coarse_clock.py) what is due in that second waits in the same look until it shows it.

All duties of one look run in the order of the real loop. Times that Slurm compares are whole seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld


LOOK: Final = 1
MAIN_PASS: Final = 2
BACKFILL: Final = 3
"""Order within one instant, after all messages: the loop's look, the main pass, a backfill cycle."""


class Duty(IntEnum):
    """What the loop does at a look, in its order."""

    RESERVATIONS = 0
    """set_node_maint_mode(), each 5 s."""
    TIME_LIMIT = 1
    """job_time_limit() and check_reboot_nodes(), each 30 s."""
    HEALTH_CHECK = 2
    PING = 3
    SRUN_PING = 4
    AGENT = 5
    """agent_trigger(): queued RPCs are retried."""
    PURGE = 6
    """purge_old_job()."""
    SCHEDULE = 7
    """A full or a queued main pass."""
    SAVE = 8
    """save_all_state(), each 300 s."""


_DUTIES: Final = tuple(Duty)
_NEVER: Final = 1 << 100
"""Later than any time."""


@dataclass(frozen=True, slots=True)
class LoopPhase:
    """Where a loop stands: what a compiled run goes on from (compiled/handover.py)."""

    anchor_ns: int
    lag_ns: int
    looked_ns: int
    next_ns: int | None
    """The next look; None: none is wanted."""
    due: dict[Duty, tuple[int, int]]
    """(look, second asked for) of each armed duty."""


def steady_loop(version: str) -> bool:
    """That Slurm's loop looks at every whole second; 22.05's sleeps a second after each round."""
    return version != "22.05"


class BackgroundLoop:
    """The looks of one slurmctld, from start() to stop()."""

    def __init__(self, ctld: Slurmctld) -> None:
        self._ctld = ctld
        self.steady = steady_loop(ctld.conf.version)
        """A look at every whole second (loop_lag_ns after it)."""
        self._period_ns = SECOND + ctld.costs.loop_lag_ns
        self._anchor_ns = 0
        self._actions: dict[Duty, Callable[[], None]] = {}
        self._lag_ns = self._period_ns - SECOND
        self._time = ctld.env.environment
        self._due: list[int] = [_NEVER] * len(_DUTIES)
        """By duty, the look it waits for."""
        self._asked: list[int] = [_NEVER] * len(_DUTIES)
        """For an armed duty the second it was asked for: a later wish cannot bring it forward."""
        self._call: Call | None = None
        self._current: Duty | None = None
        self._looked_ns = -1
        """Until the look of an instant has come, what happens at that instant can still be in it."""
        self.start_s = 0
        """time(NULL) when the loop began: the phase of every periodic duty."""

    def register(self, duty: Duty, action: Callable[[], None]) -> None:
        """Who does the duty; an action that wants to go on arms itself again."""
        self._actions[duty] = action

    def start(self) -> None:
        """The loop begins now; its first look comes about a second later."""
        self._anchor_ns = self._ctld.env.now_ns
        self.start_s = self._ctld.now_s()

    def stop(self) -> None:
        """No look comes any more."""
        self._due[:] = self._asked[:] = [_NEVER] * len(_DUTIES)
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def phase(self) -> LoopPhase:
        """Where the loop stands now."""
        call = self._call
        next_ns = call.at_ns if call is not None and call.pending else None
        due = {duty: (self._due[duty], self._asked[duty]) for duty in _DUTIES if self._due[duty] != _NEVER}
        return LoopPhase(self._anchor_ns, self._lag_ns, self._looked_ns, next_ns, due)

    def look_then(self) -> None:
        """A recording has a look of 22.05's loop now: those before and after are whole rounds from it."""
        now_ns = self._ctld.env.now_ns
        if self.steady or now_ns <= self._anchor_ns:
            return
        self._anchor_ns = now_ns - (now_ns - self._anchor_ns) // self._period_ns * self._period_ns
        waiting = [(duty, self._asked[duty]) for duty in _DUTIES if self._due[duty] != _NEVER]
        self.stop()
        for duty, asked_s in waiting:
            self.arm(duty, asked_s)

    def first_look_ns(self, not_before_s: int, after_ns: int, shown_ns: int = 0) -> int:
        """The first look strictly after `after_ns` at which the Unix clock shows `not_before_s` or more.

        `shown_ns`: so long behind its begin a second is shown; 0: nobody asks.
        """
        ctld = self._ctld
        if self.steady:
            lag_ns, epoch_ns = self._lag_ns, ctld.epoch_ns
            second_ns = not_before_s * SECOND - epoch_ns
            if shown_ns and second_ns > self._anchor_ns and second_ns + shown_ns > after_ns:
                return second_ns + shown_ns
            unix = max(not_before_s * SECOND, epoch_ns + after_ns + 1 - lag_ns, epoch_ns + self._anchor_ns + 1)
            return -(-unix // SECOND) * SECOND - epoch_ns + lag_ns
        wanted = max(ctld.at_s(not_before_s), after_ns + 1)
        rounds = max(1, -((self._anchor_ns - wanted) // self._period_ns))
        return self._anchor_ns + rounds * self._period_ns

    def has_come(self, look_ns: int) -> bool:
        """The look of that instant is over."""
        now_ns = self._ctld.env.now_ns
        return look_ns < now_ns or look_ns == now_ns == self._looked_ns

    def arm(self, duty: Duty, not_before_s: int = 0, shown_ns: int = 0) -> None:
        """Do the duty at the first look from now on whose second is not_before_s or later (shown_ns: first_look_ns()).

        Armed twice, the earlier look counts. Inside a look, a duty that comes later in the loop runs in the same one.
        """
        if not_before_s >= self._asked[duty]:
            return
        now_ns = self._time.now_ns
        in_look = self._current is not None and duty > self._current
        if in_look and now_ns >= self._ctld.at_s(not_before_s) + shown_ns:
            look_ns = now_ns
        else:
            after_ns = now_ns if now_ns == self._looked_ns else now_ns - 1
            look_ns = self.first_look_ns(not_before_s, after_ns, shown_ns)
        if self._due[duty] <= look_ns:
            return
        self._due[duty] = look_ns
        self._asked[duty] = not_before_s
        if self._current is None:
            self._wake_at(look_ns)

    def _wake_at(self, look_ns: int) -> None:
        call = self._call
        if call is not None and call.action is not None:
            if call.at_ns <= look_ns:
                return
            call.cancel()
        self._call = self._ctld.env.call_at(look_ns, self._look, None, LOOK)

    def _look(self, _argument: object) -> None:
        now_ns = self._looked_ns = self._time.now_ns
        due = self._due
        for duty in _DUTIES:
            if due[duty] <= now_ns:
                due[duty] = self._asked[duty] = _NEVER
                self._current = duty
                self._actions[duty]()
        self._current = None
        next_ns = min(due)
        if next_ns < _NEVER:
            self._wake_at(next_ns)


class Periodic:
    """`if (difftime(now, last) >= interval) { last = now; ... }` of the loop, without the ticks.

    The real loop acts at every interval whether there is work or not, so the phase runs on by itself;
    `next_s` says when it acts next.
    """

    def __init__(self, loop: BackgroundLoop, ctld: Slurmctld, interval_s: int) -> None:
        self._loop = loop
        self._ctld = ctld
        self.interval_s = interval_s
        self._last_s = loop.start_s

    @property
    def last_s(self) -> int:
        """When it acted last, as far as that was played out."""
        return self._last_s

    def acted(self) -> None:
        """The duty acts in this look."""
        self._last_s = self._ctld.now_s()

    def counts_from(self, second: int) -> None:
        """It acted in that Unix second."""
        self._last_s = second

    def coming_s(self) -> int:
        """As next_s(), but since 24.11 a look of this very instant counts while it has not come yet."""
        ctld, loop, interval = self._ctld, self._loop, self.interval_s
        if not loop.steady:
            return self.next_s()
        behind = ctld.now_s() - self._last_s
        coming_s = self._last_s + max(1, -(-behind // interval)) * interval
        return coming_s + interval if loop.has_come(ctld.at_s(coming_s)) else coming_s

    def next_s(self, not_before_s: int = 0) -> int:
        """The Unix second of the first coming look at which the duty acts and which is not before `not_before_s`."""
        ctld, loop, interval = self._ctld, self._loop, self.interval_s
        now_ns = ctld.env.now_ns
        last = self._last_s
        if loop.steady:
            behind = max(not_before_s, ctld.now_s() + 1) - last
            return last + max(1, -(-behind // interval)) * interval
        while True:
            look_ns = loop.first_look_ns(last + interval, ctld.at_s(last) - 1)
            look_s = (look_ns + ctld.epoch_ns) // SECOND
            if look_ns > now_ns and look_s >= not_before_s:
                return look_s
            last = look_s
            if look_ns <= now_ns:
                self._last_s = last
