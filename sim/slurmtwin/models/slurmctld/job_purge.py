"""purge_old_job(): each 60 s finished records leave memory, stuck ones are killed again, deadlines are met.

job_mgr.c _list_find_job_old() and _foreach_pre_purge_old_job() (slurm.md 0, 4.6 "MinJobAge", "COMPLETING").
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld import event_details as details
from slurmtwin.models.slurmctld.background import Duty, Periodic
from slurmtwin.models.slurmctld.states import JobState, Reason

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.background import BackgroundLoop
    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job

PURGE_JOB_INTERVAL_S: Final = 60
QUICK_PURGE_MIN_S: Final = 10


class Purge:
    """The 60 s pass of one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle, loop: BackgroundLoop) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        self._loop = loop
        self._period: Periodic | None = None
        self._old: list[tuple[int, int, Job]] = []
        self._deadlines: list[tuple[int, int, Job]] = []
        self._stuck: dict[int, Job] = {}
        self._serial = 0
        self.min_age_s = ctld.conf.timers.min_job_age_ns // SECOND
        self.record_count = 0
        """Records in memory, every task of an array counted (MaxJobCount)."""
        self.over_count = 0
        """Those of them that are over for good."""
        loop.register(Duty.PURGE, self.scan)

    def start(self) -> None:
        """The loop has begun. A short MinJobAge makes the pass more frequent."""
        interval_s = PURGE_JOB_INTERVAL_S
        if 0 < self.min_age_s < PURGE_JOB_INTERVAL_S:
            interval_s = max(QUICK_PURGE_MIN_S, self.min_age_s)
        self._period = Periodic(self._loop, self._ctld, interval_s)
        self._arm()

    @property
    def last_s(self) -> int:
        """The second of the last pass."""
        assert self._period is not None
        return self._period.last_s

    @property
    def interval_s(self) -> int:
        """Seconds from pass to pass."""
        assert self._period is not None
        return self._period.interval_s

    def stop(self) -> None:
        """slurmctld ends."""
        self._old.clear()
        self._deadlines.clear()
        self._stuck.clear()

    def finished(self, job: Job) -> None:
        """The record may leave MinJobAge after its end."""
        self.over_count += weight(job)
        if self.min_age_s:
            self._push(self._old, job.end_s + self.min_age_s, job)

    def watch_deadline(self, job: Job) -> None:
        """--deadline: looked at once the job could no longer end in time."""
        self._push(self._deadlines, job.deadline_s - deadline_need_s(job) + 1, job)

    def watch_completing(self, job: Job) -> None:
        """TERMINATE could not be delivered everywhere: sent again while the job stays COMPLETING."""
        self._stuck[job.slurm_id] = job
        self._arm()

    def keep(self, job: Job) -> None:
        """A finished job is requeued: its record stays."""
        self.over_count -= weight(job)
        self._old = [entry for entry in self._old if entry[2] is not job]
        self._old.sort()

    def _push(self, queue: list[tuple[int, int, Job]], due_s: int, job: Job) -> None:
        self._serial += 1
        heappush(queue, (due_s, self._serial, job))
        if queue[0][2] is job:
            self._arm()

    def _arm(self) -> None:
        if self._period is None:
            return
        due = [queue[0][0] for queue in (self._old, self._deadlines) if queue]
        if self._stuck:
            due.append(0)
        if due:
            self._loop.arm(Duty.PURGE, self._period.next_s(min(due)))

    def scan(self) -> None:
        """One pass."""
        assert self._period is not None
        self._period.acted()
        now_s = self._ctld.now_s()
        while self._deadlines and self._deadlines[0][0] <= now_s:
            job = heappop(self._deadlines)[2]
            if job.pending and not job.completing and not deadline_ok(job, now_s):
                self._lifecycle.ends.cancel_pending(job, JobState.DEADLINE, Reason.DEADLINE)
        self._kill_stuck(now_s)
        while self._old and self._old[0][0] <= now_s:
            self._drop(heappop(self._old)[2])
        self._arm()

    def _kill_stuck(self, now_s: int) -> None:
        silence_s = self._lifecycle.ends.resend_after_s()
        for job in list(self._stuck.values()):
            if not job.completing:
                del self._stuck[job.slurm_id]
            elif job.last_active_s < now_s - silence_s:
                job.last_active_s = now_s
                self._lifecycle.ends.kill_again(job)

    def _drop(self, job: Job) -> None:
        ctld = self._ctld
        if job.slurm_id not in ctld.jobs or self._lifecycle.arrays.keeps(job):
            if job.slurm_id in ctld.jobs:
                self._push(self._old, ctld.now_s() + 1, job)
            return
        del ctld.jobs[job.slurm_id]
        self.record_count -= weight(job)
        self.over_count -= weight(job)
        self._lifecycle.forget(job)
        ctld.emit(Kind.JOB_PURGED, job_id=job.request.job_id, detail=details.of_task(None, job.array_task))


def weight(job: Job) -> int:
    """How many jobs a record stands for: an array's meta record for every task that still waits in it."""
    return len(job.array_waiting) if job.array_waiting else 1


def deadline_need_s(job: Job) -> int:
    """The least time the job must get before its deadline: --time-min, else its limit."""
    if job.time_min_s:
        return job.time_min_s
    return job.limit_s if job.limit_s is not None and job.limit_s > 0 else 0


def deadline_ok(job: Job, now_s: int) -> bool:
    """Whether a job that starts now could still end before its deadline (deadline_ok())."""
    return not job.deadline_s or now_s + deadline_need_s(job) <= job.deadline_s
