"""Answers to the pings of healthy nodes, as far as backfill sees them: each stamps last_node_update.

agent.c reset_node_load() does that at every answer to a ping, so a cycle follows although no node changed. Ticks that
change nothing else are not played (pings.py): they are followed here while jobs wait, and an idle day costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MS, SECOND

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.coarse_clock import CoarseClock
    from slurmtwin.models.slurmctld.pending_queue import PendingQueue
    from slurmtwin.models.slurmctld.pings import Pings
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

BACK_NS: Final = 10 * MS
"""From the tick to the first answer: recorded cycles follow ticks by 20 ms, but not by 15 (x62-hold-default)."""


class HealthyAnswers:
    """The coming tick that healthy nodes answer, while somebody waits for it."""

    def __init__(self, ctld: Slurmctld, pings: Pings, clock: CoarseClock) -> None:
        self._ctld = ctld
        self._pings = pings
        self._clock = clock
        self._armed = False

    def follow(self, queue: PendingQueue) -> None:
        """Be there when the next tick is answered."""
        if self._armed:
            return
        self._armed = True
        self._wait(queue, self._pings.due_s())

    def _wait(self, queue: PendingQueue, due_s: int) -> None:
        ctld = self._ctld
        seen_ns = ctld.at_s(due_s) + (SECOND if self._clock.late_in(due_s) else self._clock.lag_ns)
        ctld.env.call_at(max(ctld.env.now_ns, seen_ns + BACK_NS), self._answered, (queue, due_s))

    def _answered(self, argument: tuple[PendingQueue, int]) -> None:
        queue, due_s = argument
        ctld, pings = self._ctld, self._pings
        if pings.asks_the_well(due_s):
            ctld.last_node_update_s = ctld.now_s()
        if queue.has_pending:
            self._wait(queue, due_s + pings.interval_s)
        else:
            self._armed = False
