"""The main scheduling pass: _schedule() (slurmctld/job_scheduler.c; slurm.md 1.2).

Records are tried in queue order. The first that finds its nodes busy closes its partition and takes the
partition's nodes out of the pass; what waits behind gets reason Priority. Once every partition with work is
closed the real loop only walks on; here the pass ends, with the same reasons and stamps.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.hostlist import expand
from slurmtwin.models.slurmctld.parts import Refusal
from slurmtwin.models.slurmctld.pending_queue import PendingQueue, QueueRecord, array_may_start
from slurmtwin.models.slurmctld.pending_reason import REPLACEABLE, RESOURCE_REASONS, set_reason
from slurmtwin.models.slurmctld.start_attempt import attempt_start, is_meta
from slurmtwin.models.slurmctld.states import JobState, Reason

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Partition

_MAX_FAILED_RESERVATIONS: Final = 10
"""22.05 remembers no more blocked reservations than that (MAX_FAILED_RESV)."""

_BUSY: Final = Refusal("busy", Reason.RESOURCES)

_CLOSING_KINDS: Final = frozenset({"busy", "preempting"})


class MainPass:
    """One pass, from run() to its end. Counters are read afterwards."""

    __slots__ = (
        "_avail", "_cleared", "_ctld", "_depth", "_early", "_failed", "_failed_reservations", "_full", "_now_s",
        "_open", "_options", "_part_jobs", "_preempting", "_queue", "_rejected", "_rejected_job", "started", "tested",
    )  # fmt: skip

    def __init__(self, ctld: Slurmctld, queue: PendingQueue, full: bool) -> None:
        self._ctld = ctld
        self._queue = queue
        self._full = full
        self._options = ctld.conf.scheduler
        self._early = ctld.conf.version == "22.05"
        self._now_s = ctld.now_s()
        self._avail = ctld.nodes.avail
        count = len(ctld.partitions)
        self._failed = [False] * count
        self._cleared = [False] * count
        self._open = count - queue.in_part.count(0)
        self._failed_reservations: list[str] = []
        self._depth = 0
        self._part_jobs = [0] * count
        self._preempting: set[int] = set()
        self._rejected: tuple[int, int, str] | None = None
        self._rejected_job: Job | None = None
        self.tested = 0
        """Jobs for which nodes were looked for."""
        self.started = 0

    @property
    def cost_ns(self) -> int:
        """What the host has charged so far."""
        return self._ctld.costs.main_pass_ns + self.tested * self._ctld.costs.main_test_ns

    def run(self) -> None:
        """Walk the queue."""
        ctld, queue = self._ctld, self._queue
        if self._options.reduce_completing_frag:
            self._close_completing()
        queue.lock()
        try:
            for record in queue.walk():
                if not self._visit(record):
                    break
                if self._open <= 0 and not queue.special:
                    self._leave_rest(record)
                    break
        finally:
            queue.unlock()
        if self.started:
            ctld.last_job_update_s = ctld.now_s()

    def _close_completing(self) -> None:
        """reduce_completing_frag: partitions with nodes that completed jobs of a short while ago stay closed."""
        for job in recently_completing(self._ctld):
            if job.part is None:
                continue
            for part in self._ctld.partitions.values():
                if part.nodes & job.part.nodes and part.conf.state in ("UP", "DRAIN"):
                    if not self._failed[part.index]:
                        self._fail(part)
                    if self._early:
                        self._avail &= ~part.nodes

    # --- one record; False ends the pass

    def _visit(self, record: QueueRecord) -> bool:
        job, part = record.job, record.part
        if job.state is not JobState.PENDING or not job.priority or job.slurm_id in self._preempting:
            return True
        if job.het_job is not None:
            return self._close(part)
        head = is_meta(job)
        while True:
            options = self._options
            if self.cost_ns and self._out_of_time():
                return False
            if options.max_job_start and self.started >= options.max_job_start:
                return False
            if not self._array_goes_on(job, part):
                break
            if options.partition_job_depth:
                self._part_jobs[part.index] += 1
                if self._part_jobs[part.index] > options.partition_job_depth:
                    if job.reason == Reason.NONE:
                        set_reason(self._ctld, job, Reason.PRIORITY)
                    break
            if not self._full:
                self._depth += 1
                if self._depth > options.default_queue_depth + 1:
                    return False
            going_on, started = self._try(record)
            if not going_on:
                return False
            if not started or not head or not job.array_waiting or job.state is not JobState.PENDING:
                break
        self._fill_array_reason(job)
        return True

    def _out_of_time(self) -> bool:
        """max_sched_time, counted from the pass's first second."""
        now_s = (self.cost_ns + self._ctld.env.now_ns + self._ctld.epoch_ns) // SECOND
        return now_s - self._now_s >= self._options.max_sched_time_ns // SECOND

    def _array_goes_on(self, job: Job, part: Partition) -> bool:
        """Once a task of an array is rejected, the others are not tried in that partition (slurm.md 1.2 "Array")."""
        if job.array_job is None and not is_meta(job):
            return True
        meta = job.array_job or job
        mark = (meta.slurm_id, part.index, job.reservation)
        if self._rejected == mark:
            return False
        self._rejected, self._rejected_job = mark, job
        return array_may_start(self._ctld, job)

    def _fill_array_reason(self, job: Job) -> None:
        """fill_array_reasons(): the other tasks of a rejected array show the reason of the first."""
        first = self._rejected_job
        if first is None or first is job or job.state is not JobState.PENDING:
            return
        if (job.array_job or job) is (first.array_job or first) and job.reason != first.reason:
            set_reason(self._ctld, job, first.reason)

    def _try(self, record: QueueRecord) -> tuple[bool, bool]:
        """(the pass goes on, the job started)."""
        ctld, job, part = self._ctld, record.job, record.part
        job.part = part  # limits go by the partition that is tried, with its QOS
        if job.reservation:
            if job.reservation in self._failed_reservations:
                set_reason(ctld, job, Reason.PRIORITY)
                return True, False
        elif self._failed[part.index]:
            if not self._cleared[part.index] and not self._early:
                self._cleared[part.index] = True
                self._avail &= ~part.nodes
            if job.reason in REPLACEABLE:
                set_reason(ctld, job, Reason.PRIORITY)
            ctld.last_job_update_s = self._now_s
            return True, False
        given = job.limit_s
        if job.deadline_s and not self._meets_deadline(job, part):
            return True, False
        if job.reason.startswith(("Assoc", "QOS", "Max")) and ctld.limits.runnable(job) is not None:
            return True, False
        wanted = required_nodes(ctld, job)
        if job.reason == Reason.NODE_NOT_AVAIL and wanted & ~self._avail:
            return True, False
        if job.nodes_min > (self._avail & part.nodes).bit_count():
            set_reason(ctld, job, Reason.NODES_DOWN)
            ctld.last_job_update_s = self._now_s
            job.limit_s = given
            return self._close(part), False
        if self._early and job.licenses and not ctld.licenses.available(job):
            set_reason(ctld, job, Reason.LICENSES)
            return not self._options.backfill.licenses, False
        self.tested += 1
        if self._plainly_busy(record):
            job.limit_s = given
            set_reason(ctld, job, Reason.RESOURCES, stamp=False)
            return self._refused(job, part, _BUSY, wanted), False
        result = attempt_start(ctld, job, part, self._avail, "main")
        if not isinstance(result, Refusal):
            self._rejected = self._rejected_job = None
            self.started += 1
            if result is not job:
                job.limit_s = given
            return True, True
        job.limit_s = given
        return self._refused(job, part, result, wanted), False

    def _plainly_busy(self, record: QueueRecord) -> bool:
        """Nodes are free or full for the job, enough are up, and too few are free: no need to look closer."""
        job = record.job
        if job.qos or job.assoc is not None or job.reservation:
            return False
        uniform = record.uniform
        if not isinstance(uniform, tuple):
            return False
        up = self._avail & record.part.nodes & self._ctld.nodes.avail
        count = uniform[0]
        return (up & self._ctld.selection.free_nodes()).bit_count() < count <= up.bit_count()

    def _refused(self, job: Job, part: Partition, refusal: Refusal, wanted: int) -> bool:
        """What a refusal means for the rest of the pass; False ends it."""
        ctld, options = self._ctld, self._options
        kind = refusal.kind
        closes = kind in _CLOSING_KINDS
        if kind == "preempting":
            self._preempting.add(job.slurm_id)
        elif kind == "license":
            if options.backfill.licenses:
                return False
        elif kind == "limit":
            closes = options.assoc_limit_stop
        elif kind == "never" and len(job.parts) == 1 and not (job.reservation and not self._early):
            ctld.lifecycle.hold(job, Reason.BAD_CONSTRAINTS)
            return True
        if refusal.reason in RESOURCE_REASONS:
            self._queue.mark_fresh(job)
        if wanted and wanted.bit_count() >= job.nodes_min:
            closes = False
            self._avail &= ~wanted
        if closes and job.reservation:
            closes = False
            if not self._early or len(self._failed_reservations) < _MAX_FAILED_RESERVATIONS:
                self._failed_reservations.append(job.reservation)
        backfill = options.backfill
        if closes and backfill.min_age_reserve_ns:
            age_s = self._now_s - job.eligible_s
            closes = bool(job.eligible_s) and age_s >= backfill.min_age_reserve_ns // SECOND
        if closes and job.priority < (ctld.limits.prio_thresh(job) or backfill.min_prio_reserve):
            closes = False
        return self._close(part) if closes else True

    def _meets_deadline(self, job: Job, part: Partition) -> bool:
        """deadline_ok(): too late for the (minimum) limit ends the job; else the limit shrinks for this attempt."""
        if not deadline_ok(self._ctld, job):
            return False
        minutes = (job.deadline_s - self._now_s) // 60
        most = job.limit_s
        if most is None or most < 0:
            for given_ns in (part.conf.default_time_ns, part.conf.max_time_ns):
                if given_ns >= 0:
                    most = given_ns // SECOND
                    break
        if minutes:
            job.limit_s = minutes * 60 if most is None or most < 0 else min(most, minutes * 60)
        return True

    # --- closing

    def _fail(self, part: Partition) -> None:
        self._failed[part.index] = True
        if self._queue.in_part[part.index]:
            self._open -= 1

    def _close(self, part: Partition) -> bool:
        """No more jobs in this partition nor on its nodes. From 24.11 closing it twice ends the pass."""
        if self._failed[part.index]:
            return self._early
        self._fail(part)
        self._cleared[part.index] = True
        self._avail &= ~part.nodes
        return True

    def _leave_rest(self, last: QueueRecord) -> None:
        """Every partition is closed: only reasons and the stamp change for the records behind `last`."""
        queue, ctld = self._queue, self._ctld
        entries = queue.entries
        left = len(entries) if self._full else self._options.default_queue_depth + 1 - self._depth
        if left <= 0 or not entries or entries[-1] is last.entry:
            return
        ctld.last_job_update_s = self._now_s
        key = last.entry[:-1]
        behind = [(number, record) for number, record in queue.fresh.items() if record.entry[:-1] > key]
        if not behind:
            return
        place = bisect_left(entries, key) + left if not self._full else len(entries)
        bound = entries[place][:-1] if place < len(entries) else None
        for number, record in behind:
            if bound is None or record.entry[:-1] <= bound:
                del queue.fresh[number]
                if record.job.reason in REPLACEABLE:
                    set_reason(ctld, record.job, Reason.PRIORITY)


def recently_completing(ctld: Slurmctld) -> list[Job]:
    """job_is_completing(): jobs that have been COMPLETING for less than CompleteWait (0: none counts)."""
    wait_s = ctld.conf.timers.complete_wait_ns // SECOND
    if not wait_s:
        return []
    recent_s = ctld.now_s() - wait_s
    return [job for job in ctld.completing.values() if job.end_s >= recent_s]


def required_nodes(ctld: Slurmctld, job: Job) -> int:
    """Bitmap of --nodelist; 0 when not given, or when it only says which nodes will do."""
    text = job.request.nodelist
    return ctld.nodes.asked(expand(text)) if text and not job.node_pool else 0


def deadline_ok(ctld: Slurmctld, job: Job) -> bool:
    """deadline_ok() (job_scheduler.c): False when the job can no longer end in time; it then ends DEADLINE."""
    least_s = job.time_min_s or (job.limit_s if job.limit_s is not None and job.limit_s > 0 else 0)
    if not least_s or job.deadline_s >= ctld.now_s() + least_s:
        return True
    ctld.lifecycle.end(job, JobState.DEADLINE, Reason.DEADLINE)
    return False
