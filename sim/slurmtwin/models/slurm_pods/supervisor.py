"""supervisord as the container's main process: it starts a daemon again inside the container (process model 2 of X62).

States of supervisor/process.py 4.2 with autorestart=unexpected, exitcodes=0: an end with code 0 is final, an end by a
signal or another code is followed by a start in the next round; a start that lasts less than startsecs is retried after
1, 2, 3 s, then given up (FATAL).

An end wakes poll(), as the program's pipes close, so a round begins at once (supervisord.py runforever(): poll,
transition, reap). If it finds a process to reap, the next round starts it 1 s later: nothing is left to wake poll(). If
it came too early for that (a process closes its files before it can be reaped), SIGCHLD wakes nobody (PEP 475), and it
is one round more. 22 of 22 restarts of a program with nine threads under supervisord 4.2.5 began after 1.01 to 1.18 s.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.slurm_pods.settings import DaemonPods

ROUND_NS: Final = SECOND
"""A round without news."""


class Supervisor:
    """One program under supervisord."""

    def __init__(self, clock: Clock, settings: DaemonPods, start: Callable[[], None]) -> None:
        self._clock = clock
        self._settings = settings
        self._start = start
        self._began_ns = clock.now_ns
        self._failures = 0
        self.fatal = False
        self._next: Call | None = None

    def begin(self) -> None:
        """supervisord itself begins: it waits for its first round, then starts the daemon (supervisord.py runforever():
        poll with a timeout of 1 s, then transition)."""
        settings = self._settings
        self._next = self._clock.call_in(settings.supervisor_begin() + settings.supervisor_round_ns, self._again)

    def started(self) -> None:
        """The daemon was executed."""
        self._began_ns = self._clock.now_ns

    def ended(self, expected: bool) -> None:
        """The daemon's process is gone; expected: with exit code 0."""
        settings = self._settings
        if self._clock.now_ns - self._began_ns >= settings.supervisor_start_ns:
            self._failures = 0
            if expected:
                return
            wait_ns = settings.supervisor_look()
        else:
            self._failures += 1
            if self._failures > settings.supervisor_retries:
                self.fatal = True
                return
            wait_ns = self._failures * SECOND
        self._next = self._clock.call_in(wait_ns, self._again)

    def _again(self, _argument: object) -> None:
        self._next = None
        self._start()

    def stop(self) -> None:
        """supervisord itself ends: nothing is started any more."""
        if self._next is not None:
            self._next.cancel()
            self._next = None
