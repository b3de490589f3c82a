"""How clients and the nodes' daemons try to reach a controller: attempts, windows and pauses, in closed form.

One attempt asks every controller once a second for MessageTimeout seconds (slurm.md 5.4 "No controller accepts").
Who does not give up pauses and begins another attempt: slurmstepd 15 s, slurmd 1, 2, 4 .. 128 s. Nothing polls
here: when a controller begins to listen, `next_try_ns` says when each waiting message finds it.

Windows differ: up to 24.11 there are MessageTimeout tries, the last one a second before the attempt ends; 26.05
tries once more (slurm_protocol_api.c slurm_open_controller_conn(), _open_controller()).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

STEPD_PAUSE_NS: Final = 15 * SECOND
LONGEST_REGISTRATION_PAUSE_S: Final = 128

Pauses = Callable[[], Iterator[int]]


def window_s(version: str, message_timeout_s: int) -> int:
    """Seconds from an attempt's first to its last try."""
    return message_timeout_s if version == "26.05" else message_timeout_s - 1


def stepd_pauses() -> Iterator[int]:
    """slurmstepd's completion message: 15 s each time (slurm.md 4.6 "stepd completion message")."""
    while True:
        yield STEPD_PAUSE_NS


def registration_pauses(version: str, window: int) -> Iterator[int]:
    """slurmd's registration: 1, 2, 4 .. 128 s; in 26.05 counted from the attempt's begin.

    Source: slurmd.c _registration_engine().
    """
    delay = 1
    while True:
        rest = delay if version != "26.05" else max(0, delay - window)
        yield rest * SECOND
        delay = min(delay * 2, LONGEST_REGISTRATION_PAUSE_S)


@dataclass(slots=True, eq=False)
class Message:
    """One message that still has to reach a controller."""

    deliver: Callable[[Slurmctld], None]
    failed: Callable[[], None]
    """Runs when the sender gives up."""
    begun_ns: int
    """Begin of the present attempt."""
    window: int
    """Seconds from first to last try of an attempt."""
    pauses: Iterator[int]
    tries: int = -1
    """Attempts left, this one included; -1: for ever."""
    first_ns: int = field(default=0)
    """Begin of the first attempt: how long a standby controller is put up with counts from here."""
    given_up: bool = False

    def next_try_ns(self, not_before_ns: int) -> int | None:
        """The first try at or after that time; None when the sender gives up before (`gives_up_ns` tells when)."""
        while True:
            if not_before_ns <= self.begun_ns:
                return self.begun_ns
            steps = -(-(not_before_ns - self.begun_ns) // SECOND)
            if steps <= self.window:
                return self.begun_ns + steps * SECOND
            if not self.again():
                return None

    def again(self) -> bool:
        """The present attempt failed to its end: begin the next one, after a pause; False when there is none."""
        if self.tries > 0:
            self.tries -= 1
        if self.tries == 0:
            return False
        self.begun_ns += self.window * SECOND + next(self.pauses)
        return True

    @property
    def gives_up_ns(self) -> int | None:
        """End of the last attempt, if this is the last one."""
        return self.begun_ns + self.window * SECOND if self.tries == 1 else None
