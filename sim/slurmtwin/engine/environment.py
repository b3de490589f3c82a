"""SimPy's environment on integer nanoseconds, with cheap timed calls, a tie rule and budgets.

Events at one instant run first in, first out; `tie_seed` shuffles them instead (a test: conclusions must
hold under it, reference/style.md 5.4 guard 4). Time never becomes a float.
"""

from __future__ import annotations

import time as wall_clock
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, Protocol

import simpy
from simpy.core import EmptySchedule, Infinity
from simpy.events import NORMAL, Event

from slurmtwin.contract.clock import format_duration
from slurmtwin.contract.errors import ModelError

_TIE_BITS: Final = 40
_WALL_CHECK_EVENTS: Final = 4096

Action = Callable[[Any], None]


class Process(Protocol):
    """Whose timers end with it and wait while it is frozen (daemon_clock.py)."""

    runs: bool
    """Neither ended nor frozen."""

    def missed(self, call: Call) -> None:
        """The call fell due while the process did not run."""
        ...


class Call:
    """A timed call on the SimPy queue: `action(argument)` at its time. Far cheaper than a process."""

    __slots__ = ("action", "argument", "at_ns", "process")

    def __init__(self, at_ns: int, action: Action, argument: Any, process: Process | None) -> None:
        self.at_ns = at_ns
        self.action: Action | None = action
        self.argument = argument
        self.process = process
        """Who made it; None: it happens whatever dies."""

    def cancel(self) -> None:
        """The call will not happen; cancelling twice, or after it happened, does nothing."""
        self.action = None
        self.argument = None

    @property
    def pending(self) -> bool:
        """Still to come: neither run nor cancelled."""
        return self.action is not None

    def happen(self) -> None:
        """Its time has come."""
        action = self.action
        if action is None:
            return
        process = self.process
        if process is not None and not process.runs:
            process.missed(self)
            return
        argument = self.argument
        self.action = self.argument = None
        action(argument)


@dataclass(frozen=True, slots=True)
class RunBudget:
    """Limits of one run; None: no limit. wall_limit_ns is real time, the only place where it counts."""

    max_events: int | None = None
    max_time_ns: int | None = None
    wall_limit_ns: int | None = None


class Environment(simpy.Environment):
    """simpy.Environment whose clock is int nanoseconds and starts at `start_ns` (may be negative)."""

    def __init__(self, start_ns: int = 0, tie_seed: int | None = None) -> None:
        super().__init__(start_ns)
        self.now_ns = start_ns
        """Simulated time, nanoseconds; only this class moves it."""
        self._tie = Random(tie_seed) if tie_seed is not None else None  # noqa: S311  not for secrets
        self.event_count = 0
        self.stop_reason = ""

    @property
    def environment(self) -> Environment:
        """Whose time it is: its own."""
        return self

    def _order(self) -> int:
        order = next(self._eid)
        return order if self._tie is None else (self._tie.getrandbits(32) << _TIE_BITS) | order

    def schedule(self, event: Event, priority: Any = NORMAL, delay: Any = 0) -> None:
        """SimPy's own entry point, with the tie rule. A delay that is not an int is a bug.

        Not `delay: float`, as SimPy has it: mypyc makes a float of an int by that.
        """
        if type(delay) is not int:
            raise ModelError(f"delay {delay!r} is not integer nanoseconds at {format_duration(self.now_ns)}")
        order = self._order() if priority == NORMAL else next(self._eid)
        heappush(self._queue, (self._now + delay, priority, order, event))

    def call_at(
        self, at_ns: int, action: Action, argument: Any = None, late: int = 0, process: Process | None = None
    ) -> Call:
        """Run `action(argument)` at a time >= now; `late` > 0: after all that is less late at that instant.

        process: it happens only while that process runs.
        """
        if at_ns < self.now_ns:
            raise ModelError(f"call at {format_duration(at_ns)} lies before now, {format_duration(self.now_ns)}")
        call = Call(at_ns, action, argument, process)
        order = next(self._eid) if self._tie is None else self._order()
        heappush(self._queue, (at_ns, NORMAL + late, order, call))  # type: ignore[misc]
        return call

    def call_in(self, delay_ns: int, action: Action, argument: Any = None) -> Call:
        """Run `action(argument)` after delay_ns >= 0."""
        return self.call_at(self.now_ns + delay_ns, action, argument)

    @property
    def planned(self) -> list[Action]:
        """What is still to come, in no order."""
        events: list[Any] = [item[3] for item in self._queue]
        return [event.action for event in events if type(event) is Call and event.action is not None]

    def played_elsewhere(self, until_ns: int, events: int) -> None:
        """Compiled code has played the rest of the run: so many events, the last one then."""
        self._now = self.now_ns = until_ns
        self.event_count += events
        self.stop_reason = "done"

    def stop(self, reason: str) -> None:
        """End the run after the current event; `reason` becomes stop_reason."""
        self.stop_reason = reason

    def step(self) -> None:
        """Do what comes next, a call or an event of SimPy. Raises EmptySchedule."""
        if not self._queue:
            raise EmptySchedule
        head: tuple[int, int, int, Any] = self._queue[0]  # type: ignore[assignment]
        self.now_ns = head[0]
        if type(head[3]) is not Call:
            super().step()
            return
        heappop(self._queue)
        self._now = head[0]
        head[3].happen()

    def run_within(self, budget: RunBudget) -> str:
        """Run until nothing is left, stop() or the budget. Returns why: done, max_events, max_time, wall_limit, ...

        A cancelled Call still takes its place in the queue but is not counted as an event.
        """
        queue, step = self._queue, self.step
        max_events = budget.max_events if budget.max_events is not None else Infinity
        max_time = budget.max_time_ns if budget.max_time_ns is not None else Infinity
        deadline = wall_clock.monotonic_ns() + budget.wall_limit_ns if budget.wall_limit_ns is not None else None
        count = self.event_count
        try:
            while not self.stop_reason:
                if not queue:
                    self.stop_reason = "done"
                    break
                item: tuple[int, int, int, Any] = heappop(queue)  # type: ignore[assignment]
                at_ns, _, _, event = item
                if at_ns > max_time:
                    heappush(queue, item)  # type: ignore[misc]
                    self.stop_reason = "max_time"
                    break
                is_call = type(event) is Call
                if is_call and event.action is None:
                    self._now = self.now_ns = at_ns
                    continue
                if count >= max_events:
                    heappush(queue, item)  # type: ignore[misc]
                    self.stop_reason = "max_events"
                    break
                count += 1
                if is_call:
                    self._now = self.now_ns = at_ns
                    process = event.process
                    if process is None or process.runs:
                        action, argument = event.action, event.argument
                        event.action = event.argument = None
                        action(argument)
                    else:
                        process.missed(event)
                else:
                    heappush(queue, item)  # type: ignore[misc]
                    step()
                if deadline is not None and count % _WALL_CHECK_EVENTS == 0 and wall_clock.monotonic_ns() > deadline:
                    self.stop_reason = "wall_limit"
        finally:
            self.event_count = count
        return self.stop_reason
