"""job_time_limit(): each 30 s slurmctld looks at every running job (slurm.md 4.6 "Time limit").

Only jobs that could be found there are kept: a limit that may pass before the script ends by itself, a
warning signal, a victim in its grace time, a job whose nodes are not ready. A healthy job costs nothing.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MINUTE
from slurmtwin.models.slurmctld.background import Duty, Periodic
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import INFINITE_S
from slurmtwin.models.slurmd.batch_job import BatchJob

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.background import BackgroundLoop
    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job

PERIODIC_TIMEOUT_S: Final = 30


class TimeLimits:
    """The 30 s scan of one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle, loop: BackgroundLoop) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        self._loop = loop
        self._period: Periodic | None = None
        self._queue: list[tuple[int, int, Job]] = []
        self._configuring: dict[int, Job] = {}
        self._serial = 0
        loop.register(Duty.TIME_LIMIT, self.scan)

    def start(self) -> None:
        """The loop has begun: the phase of the scans is known."""
        self._period = Periodic(self._loop, self._ctld, PERIODIC_TIMEOUT_S)
        self._arm()

    @property
    def last_s(self) -> int:
        """The second of the last scan."""
        assert self._period is not None
        return self._period.last_s

    def over_time_s(self, job: Job) -> int:
        """OverTimeLimit of the job's partition or of the cluster, whole minutes as seconds."""
        part = job.part
        value = part.conf.over_time_limit_ns if part is not None else -2
        if value == -2:
            value = self._ctld.conf.timers.over_time_limit_ns
        return INFINITE_S if value < 0 else value // MINUTE * 60

    def watch(self, job: Job) -> None:
        """Look at this running job when its limit (or warning) may be met; again after any change of its times."""
        due_s = self._ctld.now_s() if self._ctld.limits.watches_usage else self._limit_due_s(job)
        warn_s = self._lifecycle.signals.warning_due_s(job)
        if warn_s is not None:
            due_s = warn_s if due_s is None else min(due_s, warn_s)
        if due_s is not None:
            self.look_at(job, due_s)

    def _limit_due_s(self, job: Job) -> int | None:
        due_s: int | None = None
        if job.limit_s is not None and job.limit_s >= 0:
            due_s = job.end_s + self.over_time_s(job)
            leader = job.het_job[0] if job.het_job else job
            work = leader.work
            ends_ns = work.expected_end_ns if isinstance(work, BatchJob) else None
            if ends_ns is not None and ends_ns < self._ctld.at_s(due_s):
                due_s = None
        reservation_s = self._lifecycle.reservation_end_s(job)
        if reservation_s is not None:
            due_s = reservation_s if due_s is None else min(due_s, reservation_s)
        return due_s

    def look_at(self, job: Job, due_s: int) -> None:
        """Take the job into the first scan at or after that second."""
        self._serial += 1
        heappush(self._queue, (due_s, self._serial, job))
        self._arm()

    def watch_configuring(self, job: Job) -> None:
        """Its nodes are powering up: tested at each scan (test_job_nodes_ready())."""
        self._configuring[job.slurm_id] = job
        self._arm()

    def _arm(self) -> None:
        if self._period is None:
            return
        if self._configuring:
            self._loop.arm(Duty.TIME_LIMIT, self._period.next_s())
        elif self._queue:
            self._loop.arm(Duty.TIME_LIMIT, self._period.next_s(self._queue[0][0]))

    def scan(self) -> None:
        """One look of job_time_limit()."""
        assert self._period is not None
        self._period.acted()
        now_s = self._ctld.now_s()
        self._configured()
        while self._queue and self._queue[0][0] <= now_s:
            job = heappop(self._queue)[2]
            if job.state is JobState.RUNNING:
                self._look(job, now_s)
        self._arm()

    def _configured(self) -> None:
        table = self._ctld.nodes
        for job in list(self._configuring.values()):
            allocation = job.alloc
            if not job.configuring or allocation is None:
                del self._configuring[job.slurm_id]
            elif not allocation.nodes & (table.booting | table.power_down | ~table.avail):
                del self._configuring[job.slurm_id]
                self.nodes_ready(job)

    def nodes_ready(self, job: Job) -> None:
        """job_config_fini(): the limit counts from now, the script is launched."""
        now_s = self._ctld.now_s()
        self._configuring.pop(job.slurm_id, None)
        job.end_s += now_s - job.start_s
        self._lifecycle.starts.launch(job)

    def _look(self, job: Job, now_s: int) -> None:
        lifecycle = self._lifecycle
        if job.preempt_s:
            lifecycle.preemption.grace_over(job)
            return
        lifecycle.signals.warn(job)
        if job.limit_s is not None and job.limit_s >= 0 and job.end_s + self.over_time_s(job) <= now_s:
            lifecycle.timed_out(job)
            return
        reservation_s = lifecycle.reservation_end_s(job)
        if (reservation_s is not None and reservation_s <= now_s) or self._ctld.limits.timed_out(job):
            lifecycle.timed_out(job)
            return
        due_s = now_s if self._ctld.limits.watches_usage else self._limit_due_s(job)
        if due_s is not None:
            self.look_at(job, max(due_s, now_s + 1))

    def stop(self) -> None:
        """slurmctld ends."""
        self._queue.clear()
        self._configuring.clear()
