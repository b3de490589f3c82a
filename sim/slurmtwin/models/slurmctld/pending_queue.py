"""The pending queue in scheduling order: build_job_queue() and sort_job_queue2() (job_scheduler.c), kept sorted.

slurmctld builds and sorts its queue anew for every pass. Here the order is kept: a record goes in when a
job becomes runnable and out when it starts, and only jobs whose runnability depends on time, on other jobs
or on a reservation are asked again before a pass. One record is one (job, partition) pair (slurm.md 1.2).
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from functools import cmp_to_key
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.pending_reason import (
    NEVER_INDEPENDENT,
    PARTITION_REASONS,
    REPLACEABLE,
    keep_reasons,
    set_reason,
)
from slurmtwin.models.slurmctld.selection.uniform import wanted
from slurmtwin.models.slurmctld.states import DependState, JobState, Reason
from slurmtwin.models.slurmctld.tables import INFINITE_S, bits

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Partition

NO_TASK: Final = 0xFFFFFFFE
"""NO_VAL: the meta record of an array sorts behind its split-off tasks."""

OrderKey = Callable[["Job", "Partition", int], tuple[int, ...]]
"""A queue order: (job, partition, priority there) -> what is sorted by, ascending."""

Entry = tuple[Any, ...]
"""(order key ..., record): what the sorted list holds."""


class QueueRecord:
    """One job in one of its partitions (job_queue_rec_t)."""

    __slots__ = (
        "backfill_ok", "entry", "fewest", "gone", "job", "main_ok", "part", "priority", "shortest_s", "timeless",
        "uniform",
    )  # fmt: skip

    def __init__(
        self, job: Job, part: Partition, priority: int, main_ok: bool, backfill_ok: bool, most_cpus: int
    ) -> None:
        self.job = job
        self.part = part
        self.priority = priority
        self.main_ok = main_ok
        """Partition limits hold with the job's time limit."""
        self.backfill_ok = backfill_ok
        """... with its minimum time limit (slurm.md 2.2 "Queue")."""
        self.gone = False
        self.uniform: tuple[int, Callable[[int, int], int]] | bool | None = False
        """NodeSelection.uniform(); False: not asked yet."""
        self.timeless = False
        """The main scheduler's answer does not change while nodes, usage and queue stay."""
        self.entry: Entry = ()
        self.fewest = max(job.nodes_min, -(-job.cpus_min // most_cpus))
        """It cannot do with fewer nodes."""
        limit_s = job.limit_s if job.limit_s is not None and job.limit_s >= 0 else INFINITE_S
        most_s = part.conf.max_time_ns // SECOND if part.conf.max_time_ns >= 0 else INFINITE_S
        self.shortest_s = min(limit_s, most_s, job.time_min_s or INFINITE_S)
        """No test takes the job for shorter than this."""


def slurm_order(job: Job, part: Partition, priority: int) -> tuple[int, ...]:
    """sort_job_queue2() where nobody preempts: reservation, tier, priority, submit, job id, array task."""
    task = job.array_task
    if task is None or job.array_job is None:
        number, task = job.slurm_id, NO_TASK
    else:
        number = job.array_job.slurm_id
    return (0 if job.reservation else 1, -part.conf.priority_tier, -priority, job.submit_s, number, task, part.index)


class PendingQueue:
    """All pending jobs; `entries` are the runnable ones in order."""

    def __init__(self, ctld: Slurmctld) -> None:
        self._ctld = ctld
        self.order: OrderKey = slurm_order
        """Replace it (and call resort()) to plug in another queue order."""
        self.entries: list[Entry] = []
        self.wanted = array("q")
        """Per entry what uniform.wanted() makes of its nodes, ..."""
        self.lengths = array("q")
        """... and its shortest_s: `entries` in numbers, for plan_kernel.py."""
        self.version = 0
        """Grows with every change of `entries`."""
        self.fresh: dict[int, QueueRecord] = {}
        """Runnable jobs whose reason the next pass may turn into Priority, by Slurm id."""
        self.in_part: list[int] = [0] * len(ctld.partitions)
        """Runnable records per partition index."""
        self.special = 0
        """Runnable records of jobs with a reservation: a closed partition does not stop them."""
        self.odd = 0
        """Runnable records that are more than nodes and time (see plain_planner.py)."""
        self.timed = 0
        """Runnable records whose answer may change with time alone."""
        self._demand: list[dict[int, list[int]]] = [{} for _ in ctld.partitions]
        self._most_cpus = self._largest_nodes()
        self._records: dict[int, list[QueueRecord]] = {}
        self._later: list[tuple[int, int, Job]] = []
        self._waiting: dict[int, Job] = {}
        self._fleeting: dict[int, Job] = {}
        self._walking = False
        self._removed: list[QueueRecord] = []
        self._part_update_s = 0
        self._preempting = ctld.conf.preempt.type != "preempt/none" and ctld.conf.preempt.mode != "off"

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, job: Job) -> bool:
        return job.slurm_id in self._records

    @property
    def has_pending(self) -> bool:
        """Some job is runnable or may become so by itself."""
        return bool(self.entries or self._waiting or self._later)

    # --- in and out

    def add(self, job: Job, now_s: int) -> None:
        """The job is pending: find out whether it may run, and where it stands."""
        self.remove(job)
        if job.state is not JobState.PENDING:
            return
        self._records[job.slurm_id] = []
        if self._runnable(job, now_s):
            self._make_records(job)

    def remove(self, job: Job) -> None:
        """The job is no longer pending, or its place changes."""
        number = job.slurm_id
        records = self._records.pop(number, None)
        if records is None:
            return
        self._waiting.pop(number, None)
        self._fleeting.pop(number, None)
        self._take_out(job, records)

    def _take_out(self, job: Job, records: list[QueueRecord]) -> None:
        if not records:
            return
        self.fresh.pop(job.slurm_id, None)
        self.version += 1
        for record in records:
            self.in_part[record.part.index] -= 1
            if job.reservation:
                self.special -= 1
            record.gone = True
            self.odd -= not (isinstance(record.uniform, tuple) and record.backfill_ok)
            self.timed -= not record.timeless
            sizes = self._demand[record.part.index][record.shortest_s]
            del sizes[bisect_left(sizes, record.fewest)]
            if not sizes:
                del self._demand[record.part.index][record.shortest_s]
            if self._walking:
                self._removed.append(record)
            else:
                self._drop(record)

    def _drop(self, record: QueueRecord) -> None:
        place = bisect_left(self.entries, record.entry[:-1])
        if place == len(self.entries) or self.entries[place] is not record.entry:
            place = self.entries.index(record.entry)
        del self.entries[place], self.wanted[place], self.lengths[place]
        record.entry = (*record.entry[:-1], None)  # its key alone: a ring would wait for the collector

    def _runnable(self, job: Job, now_s: int) -> bool:
        """_job_runnable_test1(): everything that does not depend on the partition. Parks the job if not."""
        if job.priority == 0:
            if job.reason not in NEVER_INDEPENDENT and job.reason != Reason.BAD_CONSTRAINTS:
                set_reason(self._ctld, job, Reason.HELD_ADMIN)
            return False
        if job.completing:
            self._waiting[job.slurm_id] = job
            return False
        if not self.independent(job, now_s):
            if job.begin_s > now_s and job.reason == Reason.BEGIN_TIME:
                heappush(self._later, (job.begin_s, job.slurm_id, job))
            elif job.reason not in NEVER_INDEPENDENT:
                self._waiting[job.slurm_id] = job
            return False
        if job.dependency or job.reservation or job.array_max:
            self._fleeting[job.slurm_id] = job
        return True

    def independent(self, job: Job, now_s: int) -> bool:
        """job_independent() (job_mgr.c): dependencies, array limit, begin time, reservation, in this order."""
        ctld = self._ctld
        if job.reason in NEVER_INDEPENDENT:
            return False
        if job.dependency:
            state = ctld.lifecycle.dependency_state(job)
            if state is DependState.NOT_YET:
                set_reason(ctld, job, Reason.DEPENDENCY, stamp=False)
                return False
            if state is DependState.NEVER:
                if job.state is JobState.PENDING:
                    set_reason(ctld, job, Reason.DEPENDENCY_NEVER)
                return False
        if job.reason == Reason.DEPENDENCY:
            set_reason(ctld, job, Reason.NONE, stamp=False)
        if not array_may_start(ctld, job):
            return False
        if job.begin_s > now_s:
            set_reason(ctld, job, Reason.BEGIN_TIME, stamp=False)
            return False
        if job.reservation:
            why = ctld.reservations.access(job)
            if why is not None:
                set_reason(ctld, job, why, stamp=False)
                return False
        if not job.eligible_s:
            job.eligible_s = now_s
        if job.reason == Reason.BEGIN_TIME:
            set_reason(ctld, job, Reason.NONE, stamp=False)
        return True

    def _make_records(self, job: Job) -> None:
        """_job_runnable_test2() for each partition, and a record where it holds."""
        ctld = self._ctld
        limits = ctld.partition_limits
        records = self._records[job.slurm_id]
        for place, part in enumerate(job.parts):
            reason = limits.pending(job, part)
            backfill_reason = limits.pending(job, part, True) if job.time_min_s else reason
            text = reason or Reason.NONE
            if text != job.reason and (reason is not None or job.reason in PARTITION_REASONS):
                set_reason(ctld, job, text)
            if reason is not None and backfill_reason is not None:
                continue
            priority = job.prio_by_part[place] if job.prio_by_part else job.priority
            record = QueueRecord(
                job, part, priority, reason is None, backfill_reason is None, self._most_cpus[part.index]
            )
            record.entry = (*self.order(job, part, priority), record)
            records.append(record)
            if is_plain(job):
                record.uniform = ctld.selection.uniform(job, part)
            self.odd += not (isinstance(record.uniform, tuple) and record.backfill_ok)
            record.timeless = self._is_timeless(record)
            self.timed += not record.timeless
            place = bisect_right(self.entries, record.entry)
            self.entries.insert(place, record.entry)
            self.wanted.insert(place, wanted(record.uniform))
            self.lengths.insert(place, record.shortest_s)
            insort(self._demand[part.index].setdefault(record.shortest_s, []), record.fewest)
            self.in_part[part.index] += 1
            if job.reservation:
                self.special += 1
        if records:
            self.version += 1
            if job.reason in REPLACEABLE:
                self.fresh[job.slurm_id] = records[0]

    def _is_timeless(self, record: QueueRecord) -> bool:
        """No rule asks for the time: --switches waits, victims are exempt and jobs young for a while, nodes sleep."""
        conf = self._ctld.conf
        if not record.backfill_ok or isinstance(record.uniform, tuple):
            return record.backfill_ok
        times = conf.preempt.type != "preempt/none" or conf.scheduler.backfill.min_age_reserve_ns
        return is_plain(record.job) and not (times or record.job.request.switches or conf.controller.suspend_program)

    def demand(self) -> Iterator[tuple[Partition, list[tuple[int, int]]]]:
        """Per partition with runnable records: (length, fewest nodes of the jobs that long), shortest first."""
        for part, lengths in zip(self._ctld.partitions.values(), self._demand, strict=True):
            if lengths:
                yield part, sorted((limit_s, sizes[0]) for limit_s, sizes in lengths.items())

    def mark_fresh(self, job: Job) -> None:
        """The job's reason became Resources: a later pass may turn it into Priority again."""
        records = self._records.get(job.slurm_id)
        if records:
            self.fresh[job.slurm_id] = records[0]

    # --- before a pass

    def refresh(self, now_s: int) -> None:
        """What build_job_queue() would find new: begin times reached, dependencies met, limits changed."""
        ctld = self._ctld
        keep_reasons(ctld)
        if ctld.last_part_update_s != self._part_update_s:
            self._part_update_s = ctld.last_part_update_s
            self._again(now_s)
            return
        later = self._later
        while later and later[0][0] <= now_s:
            job = heappop(later)[2]
            if job.slurm_id in self._records and not self._records[job.slurm_id]:
                self.add(job, now_s)
        if self._waiting:
            for job in list(self._waiting.values()):
                del self._waiting[job.slurm_id]
                if job.state is JobState.PENDING and self._runnable(job, now_s):
                    self._make_records(job)
        if self._fleeting:
            for job in list(self._fleeting.values()):
                if not self.independent(job, now_s):
                    self.add(job, now_s)

    def _largest_nodes(self) -> list[int]:
        """Most CPUs of one node, per partition."""
        table = self._ctld.nodes.nodes
        parts = self._ctld.partitions.values()
        return [max((table[i].conf.cpus for i in bits(part.nodes)), default=1) for part in parts]

    def _again(self, now_s: int) -> None:
        """A partition changed: every job is tested again."""
        self._most_cpus = self._largest_nodes()
        for records in list(self._records.values()):
            if records:
                self.add(records[0].job, now_s)
        for job in list(self._ctld.jobs.values()):
            if job.state is JobState.PENDING and not self._records.get(job.slurm_id):
                self.add(job, now_s)

    def resort(self) -> None:
        """Priorities changed: new keys for all records."""
        for records in self._records.values():
            for record in records:
                job = record.job
                if job.prio_by_part:
                    record.priority = job.prio_by_part[job.parts.index(record.part)]
                else:
                    record.priority = job.priority
                record.entry = (*self.order(job, record.part, record.priority), record)
        self.entries = sorted(record.entry for records in self._records.values() for record in records)
        self.wanted = array("q", [wanted(entry[-1].uniform) for entry in self.entries])
        self.lengths = array("q", [entry[-1].shortest_s for entry in self.entries])
        self.version += 1

    # --- during a pass

    def walk(self, backfill: bool = False) -> Iterator[QueueRecord]:
        """The records in order. Jobs may leave meanwhile: theirs are skipped; newcomers wait for the next pass."""
        if self._preempting and (self.special or self._ctld.conf.preempt.type == "preempt/qos"):
            for record in _preempting_order(self._ctld, self._records):
                if not record.gone and (record.backfill_ok if backfill else record.main_ok):
                    yield record
            return
        entries = self.entries
        for place in range(len(entries)):
            record = entries[place][-1]
            if not record.gone and (record.backfill_ok if backfill else record.main_ok):
                yield record

    def lock(self) -> None:
        """A pass begins: records that go stay in place until unlock()."""
        self._walking = True

    def unlock(self) -> None:
        """The pass is over."""
        self._walking = False
        if self._removed:
            for record in self._removed:
                self._drop(record)
            self._removed.clear()


def is_plain(job: Job) -> bool:
    """Nothing but nodes and time is asked for, and no association or QOS counts."""
    odd = bool(job.dependency or job.reservation or job.licenses or job.het_job is not None or job.whole_node)
    odd = odd or job.array_waiting is not None or job.array_job is not None or bool(job.deadline_s or job.time_min_s)
    return not odd and not job.qos and job.assoc is None and len(job.parts) == 1


def array_may_start(ctld: Slurmctld, job: Job) -> bool:
    """job_array_start_test() (job_mgr.c): fewer tasks run than `%` allows; sets the reason if not."""
    meta = job.array_job or job
    if meta.array_max and meta.array_active >= meta.array_max:
        if 0 < job.eligible_s <= ctld.now_s():
            job.eligible_s = 0
        set_reason(ctld, job, Reason.ARRAY_TASK_LIMIT, stamp=False)
        return False
    if job.reason == Reason.ARRAY_TASK_LIMIT:
        set_reason(ctld, job, Reason.NONE, stamp=False)
    return True


def _preempting_order(ctld: Slurmctld, by_job: dict[int, list[QueueRecord]]) -> list[QueueRecord]:
    """sort_job_queue2() with its first rule, who can preempt whom: not a total order, so the way of sorting counts.

    glibc's qsort() is a merge sort that halves the array; so is this one (slurm.md 1.2 "Order").
    """
    records = [r for number in sorted(by_job) for r in by_job[number]]

    def compare(a: QueueRecord, b: QueueRecord) -> int:
        if _goes_over(ctld, a, b):
            return -1
        if _goes_over(ctld, b, a):
            return 1
        left, right = a.entry[:-1], b.entry[:-1]
        return -1 if left < right else 1 if left > right else 0

    key = cmp_to_key(compare)

    def merge_sort(part: list[QueueRecord]) -> list[QueueRecord]:
        if len(part) < 2:
            return part
        half = len(part) // 2
        left, right = merge_sort(part[:half]), merge_sort(part[half:])
        out: list[QueueRecord] = []
        i = j = 0
        while i < len(left) and j < len(right):
            if key(right[j]) < key(left[i]):
                out.append(right[j])
                j += 1
            else:
                out.append(left[i])
                i += 1
        return out + left[i:] + right[j:]

    return merge_sort(records)


def _goes_over(ctld: Slurmctld, upper: QueueRecord, lower: QueueRecord) -> bool:
    """preempt_p_job_preempt_check() of partition_prio and qos."""
    preempt = ctld.conf.preempt
    if preempt.type == "preempt/partition_prio":
        overlap = upper.part.nodes & lower.part.nodes
        return bool(overlap) and upper.part.conf.priority_tier > lower.part.conf.priority_tier
    first, second = upper.job.qos, lower.job.qos
    if not first or not second:
        return False
    qos = {q.name: q for q in ctld.conf.qos}
    if first == second:
        return preempt.within and upper.priority > lower.priority
    return first in qos and second in qos[first].preempt
