"""SimPy's environment on integer nanoseconds, with cheap timed calls, a tie rule and budgets.

Events at one instant run first in, first out; `tie_seed` shuffles them instead (a test: conclusions must
hold under it, reference/style.md 5.4 guard 4). Time never becomes a float.
"""

from __future__ import annotations

import time as wall_clock
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappush
from random import Random
from typing import Any, Final

import simpy
from simpy.core import EmptySchedule, Infinity
from simpy.events import NORMAL, Event

from slurmtwin.contract.clock import format_duration
from slurmtwin.contract.errors import ModelError

_TIE_BITS: Final = 40
_WALL_CHECK_EVENTS: Final = 4096

Action = Callable[[Any], None]


class Call:
    """A timed call on the SimPy queue: `action(argument)` at its time. Far cheaper than a process."""

    __slots__ = ("_ok", "_value", "action", "argument", "at_ns", "callbacks")

    def __init__(self, at_ns: int, action: Action, argument: Any) -> None:
        self.at_ns = at_ns
        self.action: Action | None = action
        self.argument = argument
        self.callbacks: list[Callable[[Any], None]] | None = _RUN_CALL
        self._ok = True
        self._value = None

    def cancel(self) -> None:
        """The call will not happen; cancelling twice, or after it happened, does nothing."""
        self.action = None
        self.argument = None

    @property
    def pending(self) -> bool:
        """Still to come: neither run nor cancelled."""
        return self.action is not None


def _run_call(call: Call) -> None:
    action = call.action
    if action is not None:
        argument = call.argument
        call.action = call.argument = None
        action(argument)


_RUN_CALL: Final[list[Callable[[Any], None]]] = [_run_call]


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
        self._tie = Random(tie_seed) if tie_seed is not None else None  # noqa: S311  not for secrets
        self.event_count = 0
        self.stop_reason = ""

    @property
    def now_ns(self) -> int:
        """Simulated time, nanoseconds."""
        return self._now  # type: ignore[return-value]

    def _order(self) -> int:
        order = next(self._eid)
        return order if self._tie is None else (self._tie.getrandbits(32) << _TIE_BITS) | order

    def schedule(self, event: Event, priority: Any = NORMAL, delay: float = 0) -> None:
        """SimPy's own entry point, with the tie rule. A delay that is not an int is a bug."""
        if type(delay) is not int:
            raise ModelError(f"delay {delay!r} is not integer nanoseconds at {format_duration(self.now_ns)}")
        order = self._order() if priority == NORMAL else next(self._eid)
        heappush(self._queue, (self._now + delay, priority, order, event))

    def call_at(self, at_ns: int, action: Action, argument: Any = None, late: int = 0) -> Call:
        """Run `action(argument)` at a time >= now; `late` > 0: after all that is less late at that instant."""
        if at_ns < self._now:
            raise ModelError(f"call at {format_duration(at_ns)} lies before now, {format_duration(self.now_ns)}")
        call = Call(at_ns, action, argument)
        heappush(self._queue, (at_ns, NORMAL + late, self._order(), call))  # type: ignore[misc]
        return call

    def call_in(self, delay_ns: int, action: Action, argument: Any = None) -> Call:
        """Run `action(argument)` after delay_ns >= 0."""
        return self.call_at(self.now_ns + delay_ns, action, argument)

    def stop(self, reason: str) -> None:
        """End the run after the current event; `reason` becomes stop_reason."""
        self.stop_reason = reason

    def run_within(self, budget: RunBudget) -> str:
        """Run until nothing is left, stop() or the budget. Returns why: done, max_events, max_time, wall_limit, ...

        A cancelled Call still takes its place in the queue but is not counted as an event.
        """
        step, queue = self.step, self._queue
        max_events = budget.max_events if budget.max_events is not None else Infinity
        max_time = budget.max_time_ns if budget.max_time_ns is not None else Infinity
        deadline = wall_clock.monotonic_ns() + budget.wall_limit_ns if budget.wall_limit_ns is not None else None
        count = self.event_count
        try:
            while not self.stop_reason:
                if not queue:
                    self.stop_reason = "done"
                    break
                head: tuple[int, int, int, Any] = queue[0]  # type: ignore[assignment]
                if head[0] > max_time:
                    self.stop_reason = "max_time"
                    break
                if type(head[3]) is Call and head[3].action is None:
                    step()
                    continue
                count += 1
                if count > max_events:
                    count -= 1
                    self.stop_reason = "max_events"
                    break
                step()
                if deadline is not None and count % _WALL_CHECK_EVENTS == 0 and wall_clock.monotonic_ns() > deadline:
                    self.stop_reason = "wall_limit"
        except EmptySchedule:
            self.stop_reason = "done"
        finally:
            self.event_count = count
        return self.stop_reason
