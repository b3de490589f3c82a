"""When the main scheduler runs: the triggers of slurm.md 1.1, and the part that holds both schedulers together.

Sources: controller.c _slurmctld_background(), queue_job_scheduler(); job_scheduler.c schedule(), _sched_agent().
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND, US
from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text
from slurmtwin.models.slurmctld.backfill import BackfillAgent
from slurmtwin.models.slurmctld.background import MAIN_PASS, BackgroundLoop, Duty, Periodic
from slurmtwin.models.slurmctld.coarse_clock import seen_late
from slurmtwin.models.slurmctld.main_pass import MainPass, recently_completing
from slurmtwin.models.slurmctld.parts import Refusal
from slurmtwin.models.slurmctld.pending_queue import PendingQueue
from slurmtwin.models.slurmctld.pending_reason import set_reason
from slurmtwin.models.slurmctld.start_attempt import attempt_start
from slurmtwin.models.slurmctld.states import Reason

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.slurmctld.coarse_clock import CoarseClock
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job

_DETAIL_CACHE: Final = {started: detail_text(started=started) for started in range(64)}

UNREAD_BATCH_SCHED_DELAY_S: Final = 3
UNREAD_SCHED_INTERVAL_S: Final = 60
"""controller.c batch_sched_delay and sched_interval until the first pass has read SchedulerParameters."""


def started_detail(started: int) -> str:
    """{"started": n} of a pass or cycle."""
    return _DETAIL_CACHE.get(started) or detail_text(started=started)


@dataclass(frozen=True, slots=True)
class MainPhase:
    """Where the main scheduler stands between two passes (compiled/handover.py)."""

    full_last_s: int
    full_period_s: int
    full_at_s: int
    queued: int
    last_s: int
    options_read: bool
    free_at_ns: int
    next_ns: int | None
    """The next pass; None: none is asked for."""
    full_requested: bool
    defers: bool


class Scheduler:
    """parts.Schedulers: the pending queue, the main pass with its triggers, the backfill agent."""

    def __init__(self, ctld: Slurmctld) -> None:
        self._ctld = ctld
        self._options = ctld.conf.scheduler
        self.queue = PendingQueue(ctld)
        self.backfill = BackfillAgent(ctld, self.queue)
        self._full_passes: Periodic | None = None
        self._full_at_s = 0
        self._queued = 0
        self._last_sched_s = 0
        self._request: Call | None = None
        self._full_requested = False
        # proc_req.c looks for the word defer, which defer_batch contains; job_mgr.c asks for defer_batch first
        defer, batch_only = self._options.defer, self._options.defer_batch
        self._defers_epilogs = defer or batch_only
        self._defers_salloc = self._defers_epilogs and (not batch_only or ctld.conf.version == "22.05")
        self._options_read = False
        self._batch_delay_s = self._options.batch_sched_delay_ns // SECOND
        self._completing_waits = bool(ctld.conf.timers.complete_wait_ns) and not self._options.reduce_completing_frag
        self._free_at_ns = 0
        self._busy_ns = 0
        """How long the last pass kept the next one away."""
        self._seen: tuple[object, ...] | None = None
        """Before the last pass, where that started nothing."""
        self._quiet: tuple[object, ...] | None = None
        """The next pass from here would find nothing new; ..."""
        self._quiet_stamps = False
        """... it would only say that jobs changed."""
        self.serving = False
        self.clock: CoarseClock | None = None
        """The host's coarse clock, where it is known: what is due comes as that shows its second, or later by one."""
        self._late_full: Call | None = None

    def start(self) -> None:
        """slurmctld serves: the loop may ask for passes from now on; the backfill agent begins its first sleep."""
        ctld = self._ctld
        background = ctld.background
        assert isinstance(background, BackgroundLoop)
        background.register(Duty.SCHEDULE, self._at_look)
        self._looped = background
        self._last_sched_s = background.start_s
        self._full_passes = Periodic(background, ctld, UNREAD_SCHED_INTERVAL_S)
        self.serving = True
        self.backfill.start()
        self._arm()

    def stop(self) -> None:
        """slurmctld ends."""
        self.serving = False
        self._queued = 0
        self.backfill.stop()
        for call in (self._request, self._late_full):
            if call is not None:
                call.cancel()
        self._request = self._late_full = None

    def phase(self) -> MainPhase | None:
        """Where it stands; None when jobs wait."""
        full, request = self._full_passes, self._request
        if full is None or self._quiet is not None or self.queue.has_pending:
            return None
        next_ns = request.at_ns if request is not None and request.pending else None
        return MainPhase(
            full.last_s, full.interval_s, self._full_at_s, self._queued, self._last_sched_s, self._options_read,
            self._free_at_ns, next_ns, self._full_requested, self._defers_epilogs,
        )  # fmt: skip

    # --- the queue

    def enqueue(self, job: Job) -> None:
        """The job became pending, or its place in the order changed."""
        self.queue.add(job, self._ctld.now_s())
        if self.serving:
            self._arm()

    def dequeue(self, job: Job) -> None:
        """The job is no longer pending."""
        self.queue.remove(job)

    def reorder(self) -> None:
        """Priorities of many jobs changed."""
        self.queue.resort()

    # --- requests

    def queue_pass(self) -> None:
        """queue_job_scheduler(): the loop looks batch_sched_delay after its own last call."""
        self._queued += 1
        if self.serving:
            self._arm()

    def pass_now(self) -> None:
        """A job's last epilog reported: schedule(false) at once, or queued under `defer`."""
        if self._defers_epilogs:
            self.queue_pass()
        else:
            self._schedule(full=False)

    def _arm(self) -> None:
        loop, full = self._looped, self._full_passes
        shown_ns = self._shown_ns()
        if full is None:
            if self._queued:
                loop.arm(Duty.SCHEDULE, self._last_sched_s + self._delay_s(), shown_ns)
            return
        if self._ctld.now_s() >= self._full_at_s and self._full_look_is_over():
            self._full_at_s = full.coming_s()
        if self._queued:
            loop.arm(Duty.SCHEDULE, self._loop_called_s() + self._delay_s(), shown_ns)
        if self.queue.has_pending:
            loop.arm(Duty.SCHEDULE, self._full_at_s, shown_ns)

    def _full_look_is_over(self) -> bool:
        """The look of the next full pass went by without one: nothing was pending."""
        ctld, full_s = self._ctld, self._full_at_s
        now_s = ctld.now_s()
        if now_s != full_s:
            return now_s > full_s
        return self._looped.has_come(self._looped.first_look_ns(full_s, ctld.at_s(full_s) - 1, self._shown_ns()))

    def _shown_ns(self) -> int:
        """How long behind its begin a second is shown; 0 where no coarse clock is known."""
        return self.clock.lag_ns if self.clock is not None else 0

    def _delay_s(self) -> int:
        """batch_sched_delay; until the first pass has read SchedulerParameters the compiled-in 3 s (_schedule())."""
        return self._batch_delay_s if self._options_read else UNREAD_BATCH_SCHED_DELAY_S

    def _loop_called_s(self) -> int:
        """last_sched_time of the loop. Full passes over an empty queue are not run here, but they count."""
        full = self._full_passes
        if full is None:
            return self._last_sched_s
        return max(self._last_sched_s, self._full_at_s - full.interval_s)

    def _at_look(self) -> None:
        """The scheduling step of one look of the background loop, by the second that its clock shows."""
        now_s = self._ctld.now_s()
        shown_s = self._shown_s(now_s)
        full = self._full_passes
        if full is not None and shown_s >= self._full_at_s and not self._seen_late(now_s):
            self._call_full(full)
        elif self._queued and not self._waits(now_s, shown_s):
            self._queued = 0
            self._last_sched_s = shown_s
            self._schedule(full=False)
        self._arm()

    def _shown_s(self, now_s: int) -> int:
        """What time(NULL) shows now: right behind a whole second the one before."""
        ctld, clock = self._ctld, self.clock
        return now_s if clock is None else now_s - seen_late(ctld.env.now_ns + ctld.epoch_ns, clock.lag_ns)

    def _waits(self, now_s: int, shown_s: int) -> bool:
        """A queued pass is not due, or is so in this very second and is seen at the next whole one."""
        over_s = shown_s - self._loop_called_s() - self._delay_s()
        if over_s or self.clock is None or shown_s != now_s:
            return over_s < 0
        return self.clock.late_in(now_s)

    def _call_full(self, full: Periodic, pass_ns: int = 0) -> None:
        """pass_ns: when the scheduling thread has it at the earliest."""
        full.acted()
        self._full_at_s = full.next_s()
        self._queued = 0
        self._last_sched_s = self._ctld.now_s()
        self._schedule(full=True, not_before_ns=pass_ns)

    def _seen_late(self, now_s: int) -> bool:
        """The full pass that is due now comes at the next whole second, at which time(NULL) still shows this one."""
        if self.clock is None or (self._late_full is not None and self._late_full.pending):
            return self.clock is not None
        if not self.clock.late_in(now_s):
            return False
        self._late_full = self._ctld.env.call_at(self._ctld.at_s(now_s + 1) - US, self._full_at_last)
        return True

    def _full_at_last(self, _argument: object) -> None:
        """The thread asks time(NULL) itself (build_job_queue()): where it comes after the lag, it sees the second."""
        self._late_full = None
        if self._full_passes is not None and self.serving:
            wakes_ns = self._ctld.costs.loop_lag_ns
            caught_up = wakes_ns >= self._shown_ns()
            self._call_full(self._full_passes, self._ctld.env.now_ns + US + wakes_ns if caught_up else 0)
            self._arm()

    def full_pass_then(self, lag_ns: int) -> None:
        """A recording has a full pass now: the coming ones count from it. `lag_ns` is that of its time(NULL)."""
        full = self._full_passes
        if full is None or not self._options_read:
            return
        full.counts_from(self._due_s(lag_ns))
        self._full_at_s = full.next_s()
        self._arm()

    def called_then(self, lag_ns: int) -> None:
        """A recording has a call of the loop for a pass now: the next one is batch_sched_delay behind it."""
        self._last_sched_s = self._due_s(lag_ns)
        self._arm()

    def _due_s(self, lag_ns: int) -> int:
        """The second in which a recorded pass of now was due."""
        ctld = self._ctld
        late = self._looped.steady and seen_late(ctld.env.now_ns + ctld.epoch_ns, lag_ns)
        return ctld.now_s() - late

    def _schedule(self, full: bool, not_before_ns: int = 0) -> None:
        """schedule(): wake the scheduling thread; sched_min_interval after its last pass at the earliest."""
        self._full_requested |= full
        if self._request is not None and self._request.action is not None:
            return
        ctld = self._ctld
        at_ns = max(ctld.env.now_ns, self._free_at_ns, not_before_ns)
        self._request = ctld.env.call_at(at_ns, self._run, None, MAIN_PASS)

    def _run(self, _argument: object) -> None:
        full, self._full_requested = self._full_requested, False
        ctld, options = self._ctld, self._options
        if not self._options_read:
            self._read_options()
        if options.interval_ns < 0:
            return
        self.queue.refresh(ctld.now_s())
        if not self.queue.entries:
            return
        if self._completing_waits and recently_completing(ctld):
            return
        state = self._state() if full else None
        if state is not None and state == self._quiet:
            if self._quiet_stamps:
                ctld.last_job_update_s = ctld.now_s()
            self._free_at_ns = ctld.env.now_ns + self._busy_ns
            return
        again = state is not None and state == self._seen
        stamps = ctld.job_stamps
        started = self._pass(full)
        self._seen = state if state is not None and not started else None
        if self.queue.odd:  # what a refusal stamps shows when it comes again
            self._quiet, self._quiet_stamps = (self._seen if again else None), ctld.job_stamps > stamps
            return
        self._quiet = self._seen
        self._quiet_stamps = len(self.queue) > 1 or any(
            record.job.reason == Reason.NODES_DOWN for record in self.queue.fresh.values()
        )

    def _read_options(self) -> None:
        """The first pass reads SchedulerParameters; sched_interval counts from then on, -1 means no full pass."""
        self._options_read = True
        if self._full_passes is None or self._options.interval_ns < 0:
            self._full_passes = None
            return
        self._full_passes.interval_s = max(1, self._options.interval_ns // SECOND)
        self._full_at_s = self._full_passes.coming_s()

    def _state(self) -> tuple[object, ...] | None:
        """Equal states give equal full passes; None: time or other jobs may decide as well."""
        ctld, queue = self._ctld, self.queue
        if any(record.entry is not queue.entries[0] for record in queue.fresh.values()):
            return None
        if queue.timed or ctld.conf.controller.accounting_enforce or ctld.conf.timers.complete_wait_ns:
            return None
        if sum(1 for records in queue.in_part if records) != 1:
            return None
        if ctld.reservations.next_change_s(ctld.now_s()) is not None:
            return None
        return queue.version, ctld.selection.usage_version, ctld.nodes.avail, ctld.last_part_update_s

    def run_pass(self, full: bool = True) -> int:
        """One main pass now, whatever the triggers say; returns how many jobs started."""
        self.queue.refresh(self._ctld.now_s())
        return self._pass(full)

    def _pass(self, full: bool) -> int:
        ctld = self._ctld
        main = MainPass(ctld, self.queue, full)
        main.run()
        ctld.emit(Kind.SCHED_MAIN_PASS, value=main.tested, unit="job", detail=started_detail(main.started))
        if main.started:
            ctld.store.changed()
        min_interval_ns = self._options.min_interval_ns
        self._busy_ns = main.cost_ns + (min_interval_ns + US if min_interval_ns else 0)
        self._free_at_ns = ctld.env.now_ns + self._busy_ns
        return main.started

    def try_at_submit(self, job: Job) -> bool:
        """job_allocate() for salloc: only a job of top priority, without `defer`, may start inside the RPC."""
        ctld = self._ctld
        now_s = ctld.now_s()
        if self._defers_salloc or job.het_job is not None or job.deadline_s or not job.parts:
            return False
        if not self.queue.independent(job, now_s) or recently_completing(ctld):
            return False
        if not self.top_priority(job):
            set_reason(ctld, job, Reason.PRIORITY)
            return False
        for part in job.parts:
            if ctld.partition_limits.pending(job, part) is None:
                result = attempt_start(ctld, job, part, ctld.nodes.avail, "submit")
                if not isinstance(result, Refusal):
                    return True
        return False

    def top_priority(self, job: Job) -> bool:
        """_top_priority() (job_mgr.c): no runnable job in an overlapping partition comes first."""
        nodes = 0
        tier = min(part.conf.priority_tier for part in job.parts)
        for part in job.parts:
            nodes |= part.nodes
        for entry in self.queue.entries:
            other = entry[-1]
            if other.job is job or not other.part.nodes & nodes:
                continue
            if job.reservation and not other.job.reservation:
                return True
            if other.job.reservation and not job.reservation:
                return False
            if other.part.conf.priority_tier != tier:
                return bool(other.part.conf.priority_tier < tier)
            return bool(other.priority < job.priority)
        return True
