"""The clock of one daemon process: its timers end with it, and wait while it is frozen.

A daemon's part asks this clock for later calls instead of the environment. After end() (SIGKILL) none of
them happens; between freeze() and thaw() (SIGSTOP, SIGCONT) they pile up and then run in order. What is
already on the wire or runs on other machines belongs to the environment itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from slurmtwin.engine.environment import Action, Call, Environment


class Clock(Protocol):
    """What a model needs of time: the environment itself, or one daemon's clock."""

    @property
    def now_ns(self) -> int:
        """Simulated time, nanoseconds."""
        ...

    def call_at(self, at_ns: int, action: Action, argument: object = None, late: int = 0) -> Call:
        """Run `action(argument)` at a time >= now; `late` > 0: after all that is less late at that instant."""
        ...

    def call_in(self, delay_ns: int, action: Action, argument: object = None) -> Call:
        """Run `action(argument)` after delay_ns >= 0."""
        ...


class DaemonClock:
    """The timers of one process."""

    def __init__(self, env: Environment) -> None:
        self._env = env
        self._alive = True
        self._frozen = False
        self._late: list[Call] = []
        self._run: list[Callable[[Any], None]] = [self._happen]

    @property
    def now_ns(self) -> int:
        """Simulated time, nanoseconds."""
        return self._env._now  # type: ignore[return-value]

    @property
    def alive(self) -> bool:
        """The process has not ended."""
        return self._alive

    @property
    def frozen(self) -> bool:
        """Stopped by SIGSTOP."""
        return self._frozen

    def call_at(self, at_ns: int, action: Action, argument: object = None, late: int = 0) -> Call:
        """Run `action(argument)` at a time >= now, if the process lives then."""
        call = self._env.call_at(at_ns, action, argument, late)
        call.callbacks = self._run
        return call

    def call_in(self, delay_ns: int, action: Action, argument: object = None) -> Call:
        """Run `action(argument)` after delay_ns >= 0, if the process lives then."""
        call = self._env.call_at(self._env.now_ns + delay_ns, action, argument)
        call.callbacks = self._run
        return call

    def _happen(self, call: Call) -> None:
        if not self._alive:
            call.cancel()
        elif self._frozen:
            self._late.append(call)
        else:
            action = call.action
            if action is not None:
                argument = call.argument
                call.cancel()
                action(argument)

    def end(self) -> None:
        """The process is gone: nothing it planned will happen."""
        self._alive = False
        self._late.clear()

    def freeze(self) -> None:
        """SIGSTOP: what falls due from now on waits."""
        self._frozen = True

    def thaw(self) -> None:
        """SIGCONT: what fell due meanwhile happens now, in order."""
        self._frozen = False
        late, self._late = self._late, []
        for call in late:
            self._happen(call)
