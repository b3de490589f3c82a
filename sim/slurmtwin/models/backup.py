"""A backup controller that stands by: polls, heartbeat, takeover (slurm.md 5.1; backup.c run_backup()).

A round of its loop sleeps a second and takes a little more; one that polls waits for the answers as well. It polls in
the first round in which the clock's whole seconds are SlurmctldTimeout / 3 past those of the last poll. While the
primary answers, polls change nothing and none is played out: their times are known, so the last good one is, too. Only
a primary that does not answer makes them real.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import DaemonClock
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.controller import Controller

SETUP_PAUSE_S: Final = 5
"""Pause before the loop begins, which itself sleeps a second before its first poll."""


class BackupWatch:
    """The loop of one backup."""

    def __init__(self, controller: Controller, clock: DaemonClock) -> None:
        self._controller = controller
        self._cluster = controller.cluster
        self._clock = clock
        conf = self._cluster.conf
        self._timeout_s = conf.timers.slurmctld_timeout_ns // SECOND
        self._interval_s = max(1, self._timeout_s // 3)
        self._round_ns = SECOND + self._cluster.standby_round()
        self._guarded = conf.version != "22.05"
        """Since 23.11 the heartbeat must be readable and unchanged over two failed polls."""
        self._began_ns = clock.now_ns
        """Rounds count from then: it stood by, or a poll has ended."""
        self._poll_ns = clock.now_ns + (SETUP_PAUSE_S + 1) * self._round_ns
        """The next poll."""
        self._last_good_ns = clock.now_ns
        self._previous_beat_s = 0
        self._poll_call: Call | None = None
        self._commanded = False
        self._takes = False
        """It takes over, whoever answers from now on."""
        self._was_fine = True
        self._waits_for_file = False
        if self._guarded and self._cluster.volume.heartbeat is None:
            self._waits_for_file = True
        self.primary_changed()

    def _primary_answers(self) -> bool:
        """ping_controllers(): some controller of higher rank answers, in charge or not."""
        ranks = self._cluster.controllers[: self._controller.index]
        return any((c.ctld is not None or c.standby) and not c.frozen and not c.unheard for c in ranks)

    def _next_round_ns(self, least_ns: int) -> int:
        """The first round at or after then."""
        return self._began_ns - (self._began_ns - least_ns) // self._round_ns * self._round_ns

    def _behind_ns(self, asked_ns: int, least_ns: int) -> int:
        """The poll behind one that was asked then: a round from then on, time(NULL) so many seconds past that one's."""
        if self._commanded:
            return self._next_round_ns(least_ns)
        epoch_ns = self._cluster.epoch_ns
        due_ns = ((epoch_ns + asked_ns) // SECOND + self._interval_s) * SECOND - epoch_ns
        return self._next_round_ns(max(due_ns, least_ns))

    def primary_changed(self) -> None:
        """A controller began or ceased to answer."""
        if self._takes:
            return
        now_ns = self._clock.now_ns
        if self._waits_for_file:
            if self._cluster.volume.heartbeat is None:
                return
            self._waits_for_file = False
            self._began_ns = self._next_round_ns(now_ns)
            self._poll_ns = self._began_ns + (SETUP_PAUSE_S + 1) * self._round_ns
        while self._was_fine and self._poll_ns <= now_ns:
            asked_ns = self._poll_ns
            self._last_good_ns = max(self._last_good_ns, asked_ns)
            self._began_ns = asked_ns + self._cluster.standby_ping()
            self._poll_ns = self._behind_ns(asked_ns, asked_ns + 1)
        self._was_fine = fine = self._primary_answers()
        if fine:
            self._cancel()
        elif self._poll_call is None:
            self._poll_call = self._clock.call_at(max(self._poll_ns, now_ns), self._poll)

    def _cancel(self) -> None:
        if self._poll_call is not None:
            self._poll_call.cancel()
            self._poll_call = None

    def _poll(self, _argument: object) -> None:
        """One poll of a primary that does not answer (a frozen or cut off one is waited for, MessageTimeout long)."""
        cluster = self._cluster
        frozen = any(c.frozen or c.unheard for c in cluster.controllers[: self._controller.index])
        waits_ns = cluster.conf.timers.message_timeout_ns
        lasts_ns = waits_ns + cluster.hung_ping() if frozen else cluster.standby_ping()
        self._poll_call = self._clock.call_in(lasts_ns, self._polled, self._clock.now_ns)

    def _polled(self, asked_ns: int) -> None:
        """What it came to; rounds go on from its end."""
        now_ns = self._clock.now_ns
        self._poll_call = None
        if now_ns > asked_ns:
            self._began_ns = now_ns
        self._poll_ns = self._behind_ns(asked_ns, now_ns + 1)
        if self._primary_answers():
            self._last_good_ns = now_ns
            self._was_fine = True
        elif self._commanded or self._takes_over():
            self._takes = True
            self._controller.take_over(self._cluster.takeover_load())
        else:
            self._poll_call = self._clock.call_at(self._poll_ns, self._poll)

    def _takes_over(self) -> bool:
        """slurm.md 5.1 "Takeover test" and "24.05+/26.05 guards"."""
        cluster = self._cluster
        now_s = (cluster.epoch_ns + self._clock.now_ns) // SECOND
        good_s = (cluster.epoch_ns + self._last_good_ns) // SECOND
        heartbeat = cluster.volume.heartbeat
        beat_s = heartbeat.read_s(now_s) if heartbeat is not None else 0
        if heartbeat is not None and heartbeat.index <= self._controller.index:
            good_s = max(good_s, beat_s)
        safe = True
        if self._guarded:
            safe = beat_s != 0 and beat_s == self._previous_beat_s
            self._previous_beat_s = beat_s
        return now_s - good_s > self._timeout_s and safe

    def takeover_command(self) -> None:
        """scontrol takeover: stop the primary, wait 2 s, then poll each second and take over at the first failure."""
        if self._takes or (self._guarded and self._cluster.volume.heartbeat is None):
            return
        for other in self._cluster.controllers[: self._controller.index]:
            if not other.frozen:
                other.stop()
        self._cancel()
        self._commanded = True
        self._poll_ns = self._next_round_ns(self._clock.now_ns + self._cluster.shutdown_wait_ns)
        self._poll_call = self._clock.call_at(self._poll_ns, self._poll)
