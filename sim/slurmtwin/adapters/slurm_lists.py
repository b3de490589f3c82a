"""When a client of slurmrestd lists jobs, nodes and reservations: the informers of slurm-client (slurm-operator).

A client looks at once and then each 30 s for informers that somebody has asked for, and starts them (client.go
Start()); until then each call goes to slurmrestd itself. An informer that was started lists nothing before its own
first tick, 30 s later (informer.go runListInformer()), unless a refresh is asked for, as for nodes. Who wants
reservations, as each pass does first, or jobs waits that long. From then on jobs are as old as the last tick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slurmtwin.contract.clock import SECOND

CHECK_NS: Final = SECOND
PERIOD_NS: Final = 30 * SECOND
"""Lists are asked for in batches of 1 s and each 30 s; who waits looks each second."""
NEVER_NS: Final = 1 << 62


@dataclass(frozen=True, slots=True, kw_only=True)
class ListTimes:
    """What is known of one client's timers."""

    began_ns: int
    """The operator has the client since then: its RestApi object appeared, or its process began."""
    asked_ns: int | None = None
    """Jobs were asked for first, where it is known: just before the first worker's pod was made."""
    reserved_first: bool = False
    """Reservations were asked for before the client's first look, so their informer runs since the client began."""
    period_ns: int = PERIOD_NS
    check_ns: int = CHECK_NS
    late_ns: int = 0
    """A round of the batch timer lasts so much longer than its second: lists move away from the ticks by it."""


def batch_in_ns(now_ns: int, some_ns: int, round_ns: int) -> int:
    """From a refresh asked for now to the batch that makes it, where one of the informer's batches came at some_ns.

    An informer has one timer, which is set anew at each batch (slurm-client 1.1 informer.go runListInformer()): two
    refreshes a whole number of rounds apart wait equally long.
    """
    return (some_ns - now_ns) % round_ns


class ClientLists:
    """The timers of one client."""

    def __init__(self, times: ListTimes) -> None:
        self._times = times
        self.runs_ns = NEVER_NS
        """The informers of jobs and nodes run since then."""
        if times.asked_ns is not None:
            self.asked(times.asked_ns)

    @property
    def running(self) -> bool:
        """The informers of jobs and nodes run, or are about to."""
        return self.runs_ns != NEVER_NS

    @property
    def check_ns(self) -> int:
        """Who waits for a list looks so often."""
        return self._times.check_ns

    @property
    def period_ns(self) -> int:
        """An informer lists so often."""
        return self._times.period_ns

    def asked(self, now_ns: int) -> bool:
        """Somebody asks for jobs; True: for the first time. The client's next look starts the informer."""
        if self.running:
            return False
        began_ns, period_ns = self._times.began_ns, self._times.period_ns
        self.runs_ns = began_ns + max(1, -((began_ns - now_ns) // period_ns)) * period_ns
        return True

    def direct(self, now_ns: int) -> bool:
        """Jobs and nodes are still asked for without a cache."""
        return now_ns < self.runs_ns

    def reservations_wait_ns(self, now_ns: int) -> int:
        """How long a pass that begins now waits for the first list of reservations, in looks.

        Not the one that made the first worker: it was past that when the informer began.
        """
        times = self._times
        start_ns = times.began_ns + (0 if times.reserved_first else times.period_ns)
        asked_ns = times.asked_ns
        if now_ns < start_ns or (asked_ns is not None and now_ns <= asked_ns):
            return 0
        return self.looks_ns(self._listed_ns(start_ns, 1) - now_ns)

    def jobs_wait_ns(self, now_ns: int) -> int:
        """How long somebody who wants jobs now waits for their first list, in looks."""
        return 0 if self.direct(now_ns) else self.looks_ns(self._listed_ns(self.runs_ns, 1) - now_ns)

    def next_list_ns(self, now_ns: int) -> int:
        """When jobs are listed next, after now."""
        period_ns = self._times.period_ns
        tick = max(1, (now_ns - self.runs_ns) // period_ns)
        while self._listed_ns(self.runs_ns, tick) <= now_ns:
            tick += 1
        return self._listed_ns(self.runs_ns, tick)

    def _listed_ns(self, start_ns: int, tick: int) -> int:
        """The batch behind that tick of an informer that started then."""
        times = self._times
        rounds = tick * times.period_ns // times.check_ns
        return start_ns + tick * times.period_ns + rounds * times.late_ns % times.check_ns

    def looks_ns(self, left_ns: int) -> int:
        """Until the look that finds done what is done in so long."""
        check_ns = self._times.check_ns
        return -(-max(0, left_ns) // check_ns) * check_ns
