"""The clock of one daemon process: its timers end with it, and wait while it is frozen.

A daemon's part asks this clock for later calls instead of the environment. After end() (SIGKILL) none of
them happens; between freeze() and thaw() (SIGSTOP, SIGCONT) they pile up and then run in order. What is
already on the wire or runs on other machines belongs to the environment itself.
"""

from __future__ import annotations

from typing import Protocol

from slurmtwin.engine.environment import Action, Call, Environment


class Clock(Protocol):
    """What a model needs of time: the environment itself, or one daemon's clock."""

    @property
    def environment(self) -> Environment:
        """Where the time is kept: read `environment.now_ns` on hot paths."""
        ...

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
    """The timers of one process (environment.Process)."""

    __slots__ = ("_alive", "_frozen", "_late", "environment", "runs")

    def __init__(self, env: Environment) -> None:
        self.environment = env
        """Whose time it is."""
        self.runs = True
        """Neither ended nor frozen."""
        self._alive = True
        self._frozen = False
        self._late: list[Call] = []

    @property
    def now_ns(self) -> int:
        """Simulated time, nanoseconds."""
        return self.environment.now_ns

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
        return self.environment.call_at(at_ns, action, argument, late, self)

    def call_in(self, delay_ns: int, action: Action, argument: object = None) -> Call:
        """Run `action(argument)` after delay_ns >= 0, if the process lives then."""
        env = self.environment
        return env.call_at(env.now_ns + delay_ns, action, argument, 0, self)

    def missed(self, call: Call) -> None:
        """A call fell due while the process did not run: it waits for thaw(), or never happens."""
        if self._alive:
            self._late.append(call)
        else:
            call.cancel()

    def end(self) -> None:
        """The process is gone: nothing it planned will happen."""
        self._alive = self.runs = False
        self._late.clear()

    def freeze(self) -> None:
        """SIGSTOP: what falls due from now on waits."""
        self._frozen = True
        self.runs = False

    def thaw(self) -> None:
        """SIGCONT: what fell due meanwhile happens now, in order."""
        self._frozen = False
        self.runs = self._alive
        late, self._late = self._late, []
        for call in late:
            call.happen()
