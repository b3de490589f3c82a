"""One backfill cycle: _attempt_backfill() (plugins/sched/backfill/backfill.c; slurm.md 2.2).

Every record of the queue is tested in order: first now, then at later slots of the map, until it starts,
gets a reservation or has no slot left. Versions differ in small ways that move starts.

Two shortcuts, neither changes who starts when: a cycle ends early once no record behind could start now
(`prune`), and `valid_until_s` tells the agent how long an unchanged state gives the same outcome.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.allocation import Allocation
from slurmtwin.models.slurmctld.backfill_counts import BackfillCounts
from slurmtwin.models.slurmctld.backfill_hetjobs import HetjobPlans
from slurmtwin.models.slurmctld.backfill_lengths import (
    Trial,
    is_preemptable,
    limit_of_started,
    longest_without_conflict,
    trial_of,
)
from slurmtwin.models.slurmctld.main_pass import deadline_ok
from slurmtwin.models.slurmctld.node_space import FAR_S, NodeSpace
from slurmtwin.models.slurmctld.parts import Placement, Refusal
from slurmtwin.models.slurmctld.pending_queue import PendingQueue, QueueRecord, array_may_start
from slurmtwin.models.slurmctld.pending_reason import set_reason
from slurmtwin.models.slurmctld.start_attempt import attempt_start, is_meta
from slurmtwin.models.slurmctld.states import JobState, Reason
from slurmtwin.models.slurmctld.uniform_search import UniformSearch

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Partition


class BackfillCycle:
    """One cycle. run() is a generator: it yields nanoseconds to wait whenever the locks are released."""

    def __init__(self, ctld: Slurmctld, queue: PendingQueue, prune: bool) -> None:
        self._ctld = ctld
        self._queue = queue
        self._scheduler = ctld.conf.scheduler
        self._options = ctld.conf.scheduler.backfill
        self._early = ctld.conf.version == "22.05"
        self._begin_ns = ctld.env.now_ns
        self._begin_s = ctld.now_s()
        self._spent_ns = ctld.costs.backfill_cycle_ns
        self._slice_ns = 0
        self._window_s = self._options.window_ns // SECOND
        licenses = None
        if self._options.licenses:
            licenses = dict(ctld.conf.controller.licenses)
        self.space = NodeSpace(
            self._begin_s, self._window_s, self._options.resolution_ns // SECOND, ctld.nodes.avail, licenses
        )
        self._counts = BackfillCounts(self._options)
        self._hetjobs = HetjobPlans(self)
        self._plain = not self._options.licenses and ctld.reservations.next_change_s(self._begin_s) is None
        self._skips = len(queue) <= self._options.max_job_test
        self._search: UniformSearch | None = None
        self._search_key = -1
        self._ignored = 0
        self._expected: dict[int, int] = {}
        self._rejected: tuple[int, int, str] | None = None
        self._rejected_job: Job | None = None
        self._array_id = 0
        self._array_tests = 0
        self._array_start_s = 0
        self._preempting: set[int] = set()
        self._blocked_until_s: dict[str, int] = {}
        self._prune = prune and self._may_prune()
        self._reservations = 0
        self.tested = 0
        """Jobs that reached the expensive test (bf_last_depth_try)."""
        self.started = 0
        self.yielded = False
        self._abandoned = False
        self._everything = (1 << len(ctld.nodes)) - 1
        self.planned = 0
        self.valid_until_s = FAR_S

    # --- what others of the package read

    @property
    def ctld(self) -> Slurmctld:
        """The controller."""
        return self._ctld

    def now_s(self) -> int:
        """time(NULL) inside the cycle: the host's charges count."""
        return (self._ctld.epoch_ns + self._ctld.env.now_ns + self._slice_ns) // SECOND

    # --- the loop over the queue

    def run(self) -> Generator[int, None, None]:
        """The whole cycle."""
        ctld, queue = self._ctld, self._queue
        if self._options.running_job_reserve:
            for job in ctld.running.values():
                self.reserve_running(job)
        costly = bool(ctld.costs.backfill_test_ns or ctld.costs.backfill_cycle_ns)
        self._slice_ns = self._spent_ns
        records = list(queue.walk(backfill=True)) if costly else queue.walk(backfill=True)
        if not costly:
            queue.lock()
        try:
            for record in records:
                if record.gone:
                    continue
                if self.tested >= self._options.max_job_test or self._out_of_time():
                    break
                if self._slice_ns >= self._options.yield_interval_ns and (yield from self._release_locks()):
                    return
                if not (yield from self._visit(record)):
                    break
                if self._prune and self._reservations and self._nothing_can_start():
                    self._charge_rest(record)
                    break
        finally:
            if not costly:
                queue.unlock()
        if not self._abandoned:
            self._hetjobs.start_all()
        now_s = self.now_s()
        for job in ctld.running.values():
            self._bound(job.end_s if job.end_s > now_s else now_s + 1)
        if self._slice_ns:
            yield self._slice_ns
            self._slice_ns = 0

    def _out_of_time(self) -> bool:
        return self.now_s() - self._begin_s >= self._options.max_time_ns // SECOND

    def _release_locks(self) -> Generator[int, None, bool]:
        """_yield_locks(): true when the cycle must be abandoned (slurm.md 2.2 "Yield without bf_continue")."""
        ctld, options = self._ctld, self._options
        yield self._slice_ns
        self._slice_ns = 0
        if not self._early and self.planned:
            ctld.last_node_update_s = ctld.now_s()
        seen = (ctld.last_job_update_s, ctld.last_node_update_s, ctld.last_part_update_s, ctld.last_resv_update_s)
        avail = ctld.nodes.avail
        self.yielded = True
        yield options.yield_sleep_ns
        self._ignored |= ctld.nodes.avail & ~avail
        now = (ctld.last_job_update_s, ctld.last_node_update_s, ctld.last_part_update_s, ctld.last_resv_update_s)
        self._abandoned = now != seen if not options.continue_ else now[2:] != seen[2:]
        return self._abandoned

    def _charge(self) -> None:
        self._slice_ns += self._ctld.costs.backfill_test_ns

    def _charge_rest(self, last: QueueRecord) -> None:
        """The host would have tested the rest as well."""
        cost_ns = self._ctld.costs.backfill_test_ns
        if cost_ns:
            left = len(self._queue.entries) - bisect_right(self._queue.entries, last.entry[:-1]) - 1
            self._slice_ns += cost_ns * max(0, min(left, self._options.max_job_test - self.tested))

    # --- one record

    def _visit(self, record: QueueRecord) -> Generator[int, None, bool]:
        """Test one record; False ends the cycle."""
        job, part = record.job, record.part
        ctld, options = self._ctld, self._options
        self._array_start_s = 0
        if job.het_job is not None:
            self._hetjobs.begin(job, part)
            if job.reason == Reason.NONE:
                set_reason(ctld, job, Reason.RESOURCES, stamp=False)
        if not self._still_runnable(job) or part not in job.parts:
            return True
        job.part = part
        if job.het_job is not None and self._hetjobs.others_start_s(job) > self._begin_s + self._window_s:
            return True
        if not self._scheduler.assoc_limit_stop:
            reason = ctld.limits.runnable(job)
            if reason is not None:
                set_reason(ctld, job, reason, stamp=False)
                return True
        no_reserve = self._now_only(job, part)
        if job.slurm_id in self._preempting:
            return True
        head = is_meta(job)
        first_s = self._expected.get(job.slurm_id, 0)
        while True:
            outcome = yield from self._test(record, no_reserve, first_s)
            if outcome == "end":
                return False
            if outcome == "started":
                if options.max_job_start and self.started >= options.max_job_start:
                    return False
                if self.tested >= options.max_job_test:
                    return False
                if not head or not job.array_waiting or job.state is not JobState.PENDING:
                    break
            elif outcome == "reserved":
                if not self._next_array_reservation(job):
                    break
            else:
                break
        self._finish(job)
        return True

    def _finish(self, job: Job) -> None:
        """The guaranteed work after each record (fill_array_reasons(), an array's expected start)."""
        if job.state is not JobState.PENDING:
            return
        first = self._rejected_job
        if first is not None and first is not job and (job.array_job or job) is (first.array_job or first):
            set_reason(self._ctld, job, first.reason)
        if self._array_start_s and is_meta(job) and not self._early:
            self._expected[job.slurm_id] = self._array_start_s

    def _still_runnable(self, job: Job) -> bool:
        """_job_runnable_now(): the job may have changed while the locks were released."""
        return job.state is JobState.PENDING and job.priority != 0 and not job.completing

    def _now_only(self, job: Job, part: Partition) -> bool:
        """Whether the job may start now but gets no reservation (bf_min_prio_reserve, bf_min_age_reserve, ...)."""
        options = self._options
        if job.priority < (self._ctld.limits.prio_thresh(job) or options.min_prio_reserve):
            return True
        if options.min_age_reserve_ns and job.eligible_s:
            self._bound(self.now_s() + 1)
            if self.now_s() - job.eligible_s < options.min_age_reserve_ns // SECOND:
                return True
        if options.one_resv_per_job and self._expected.get(job.slurm_id):
            return True
        return not self._counts.may_reserve(part)

    def _next_array_reservation(self, job: Job) -> bool:
        """Reservations for further tasks of the same array, bf_max_job_array_resv at most."""
        if not is_meta(job):
            return False
        start_s = self._expected.get(job.slurm_id, 0)
        if self._array_id != job.slurm_id:
            self._array_id, self._array_tests, self._array_start_s = job.slurm_id, 1, start_s
        else:
            self._array_tests += 1
            self._array_start_s = min(self._array_start_s or start_s, start_s)
        waiting = len(job.array_waiting or ())
        if self._array_tests >= self._options.max_job_array_resv or self._array_tests >= waiting:
            return False
        if not job.array_max:
            return True
        if self._early:
            return job.array_max > 0
        return self._array_tests + job.array_active < job.array_max

    # --- the tests before the map is looked at

    def _test(self, record: QueueRecord, no_reserve: bool, first_s: int) -> Generator[int, None, str]:
        """next_task: ... of the C code. Returns started, reserved, skip or end."""
        ctld, options = self._ctld, self._options
        job, part = record.job, record.part
        if job.array_job is not None or is_meta(job):
            meta = job.array_job or job
            mark = (meta.slurm_id, part.index, job.reservation)
            if self._rejected == mark:
                return "skip"
            self._rejected, self._rejected_job = mark, job
            if not array_may_start(ctld, job):
                return "skip"
        if self._counts.exceeded(job, part) or part.conf.state not in ("UP", "DRAIN"):
            return "skip"
        if not options.licenses and job.licenses and not ctld.licenses.available(job):
            return "skip"
        if (job.dependency or job.reservation) and not self._queue.independent(job, self.now_s()):
            return "skip"
        counts = ctld.selection.node_counts(job, part)
        if isinstance(counts, Refusal):
            if counts.kind == "limit":
                set_reason(ctld, job, counts.reason, stamp=False)
            return "skip"
        if job.deadline_s and not deadline_ok(ctld, job):
            return "skip"
        trial = trial_of(ctld, job, part, self.now_s(), no_reserve, first_s)
        blocked = self._blocked_until_s
        trial.later_s = max(self.now_s(), blocked.get(job.qos, 0), blocked.get(part.conf.qos, 0))
        trial.now_s = self.now_s()
        least = counts[0]
        uniform = self._uniform(record) if self._plain else None
        while True:
            if self._out_of_time():
                return "end"
            if self._slice_ns >= options.yield_interval_ns:
                if (yield from self._release_locks()):
                    return "end"
                if not self._still_runnable(job) or not self._queue.independent(job, self.now_s()):
                    return "skip"
            outcome = self._try_slot(trial, least) if uniform is None else self._try_uniform(trial, *uniform)
            if outcome != "later":
                return outcome

    # --- one slot

    def _try_slot(self, trial: Trial, least: int) -> str:
        """TRY_LATER: ... of the C code: started, reserved, skip, end, or later."""
        ctld, space, job = self._ctld, self.space, trial.job
        start_s = max(trial.later_s, self._hetjobs.others_start_s(job) if job.het_job is not None else 0)
        trial.start_s, trial.later_s = start_s, 0
        if not self._early and space.end[-1] < start_s:
            self._bound_by_window()
            return "skip"
        avail, change_s = self._after_reservations(trial)
        avail &= trial.part.nodes & ctld.nodes.up & ~self._ignored
        if self._scan_slots(trial, avail):
            return self._later_or_skip(trial)
        if change_s and change_s + 1 < space.end[-1] and (not trial.later_s or change_s + 1 < trial.later_s):
            trial.later_s = change_s + 1
        usable = ctld.selection.usable_nodes(job, trial.part, trial.nodes)
        if usable is None or usable.bit_count() < least:
            return self._later_or_skip(trial)
        if not trial.counted:
            trial.counted = True
            self.tested += 1
            self._charge()
        until_s = 0 if self._early else trial.later_s
        found = ctld.selection.will_run(
            job, trial.part, usable, trial.now_s, 0 if self._early else start_s, until_s, trial.no_reserve
        )
        trial.now_s = self.now_s()
        if isinstance(found, Refusal):
            return self._later_or_skip(trial)
        return self._with_start(trial, max(found[0], start_s), found[1], usable)

    # --- the same on bitmaps alone

    def _uniform(self, record: QueueRecord) -> tuple[int, Callable[[int, int], int]] | None:
        """Nodes needed and the choice rule, where nodes are free or full for the job and nothing else counts."""
        job = record.job
        if job.reservation or job.licenses or job.het_job is not None:
            return None
        uniform = record.uniform
        if isinstance(uniform, bool):
            uniform = self._ctld.selection.uniform(job, record.part)
        return uniform

    def _chain(self) -> UniformSearch:
        """The search over the running jobs as they are now."""
        ctld = self._ctld
        if self._search is None or self._search_key != ctld.selection.usage_version:
            self._search = UniformSearch(
                list(ctld.running.values()), self._everything, self._options.window_linear_ns // SECOND,
                ctld.conf.version == "24.11", ctld.selection.guess_end,
            )  # fmt: skip
            self._search_key = ctld.selection.usage_version
        return self._search

    def _try_uniform(self, trial: Trial, count: int, choose: Callable[[int, int], int]) -> str:
        """_try_slot() where nodes are free or full: slots without enough nodes are passed over at once."""
        space, search, now_s = self.space, self._chain(), trial.now_s
        begin, end, free = space.begin, space.end, space.free
        last, length_s = len(begin) - 1, trial.limit_s
        everywhere = trial.part.nodes & self._ctld.nodes.up & ~self._ignored
        start_s = max(trial.later_s, now_s) if trial.later_s <= now_s else trial.later_s
        while True:
            trial.start_s = start_s
            if end[-1] < start_s:
                self._bound_by_window()
                return "skip"
            end_s = start_s + length_s
            place = bisect_right(end, start_s)
            if start_s <= now_s and place <= last:
                self._bound(end[place])
            avail, later_s, hopeless = everywhere, 0, False
            while place <= last:
                here = avail & free[place]
                inside = begin[place] <= end_s
                if not later_s and place < last and everywhere & free[place + 1] & ~here:
                    later_s = end[place]
                    if inside and self._skips and (here & search.freed_by(later_s)).bit_count() < count:
                        hopeless = True
                        break
                if not inside:
                    if not later_s and place + 1 < last:
                        later_s = end[place + 1]
                    if start_s <= now_s:
                        self._bound(begin[place] - length_s)
                    break
                avail = here
                place += 1
            trial.later_s, trial.nodes = later_s, avail
            if not hopeless and avail.bit_count() >= count:
                if not trial.counted:
                    trial.counted = True
                    self.tested += 1
                    self._charge()
                found = search.will_run(avail, count, choose, now_s, start_s, later_s, trial.no_reserve)
                if found is not None:
                    return self._with_start(trial, max(found[0], start_s), found[1], avail)
            if not later_s or trial.no_reserve:
                self._expect(trial.job, trial.first_s)
                return "skip"
            start_s = later_s

    def _after_reservations(self, trial: Trial) -> tuple[int, int]:
        """job_test_resv(): nodes not reserved for others in that time, and when that changes next (0: never)."""
        ctld, job = self._ctld, trial.job
        everything = self._everything
        end_s = trial.start_s + trial.limit_s
        avail = ctld.reservations.usable_nodes(job, everything, trial.start_s, end_s)
        if avail == everything and not job.reservation:
            change_s = ctld.reservations.next_change_s(trial.start_s)
            if change_s is not None:
                self._bound(change_s - trial.limit_s)
            return avail, 0
        self._bound(trial.now_s + 1)
        return avail, ctld.reservations.next_change_s(trial.start_s) or 0

    def _scan_slots(self, trial: Trial, avail: int) -> bool:
        """What the slots leave of `avail`, and the next try. True: licences are missing."""
        found = self.space.scan(
            trial.start_s, trial.now_s, trial.limit_s, avail, trial.job.licenses, stop_at_licenses=not self._early
        )
        trial.nodes, trial.later_s, lacking, bound_s = found
        self._bound(bound_s)
        if lacking and not self._early:
            set_reason(self._ctld, trial.job, Reason.LICENSES, stamp=False)
        return lacking

    def _later_or_skip(self, trial: Trial) -> str:
        if trial.later_s and not trial.no_reserve:
            return "later"
        self._expect(trial.job, trial.first_s)
        return "skip"

    def _expect(self, job: Job, start_s: int) -> None:
        self._expected[job.slurm_id] = start_s

    # --- with an expected start

    def _with_start(self, trial: Trial, start_s: int, nodes: int, usable: int) -> str:
        """The select plugin found a start and nodes: start the job, reserve, or try later."""
        ctld, space, job, now_s = self._ctld, self.space, trial.job, trial.now_s
        later_s = trial.later_s
        slot = space.slot(start_s, trial.limit_s, not self._early)
        overlap_tested = False
        if not self._early and start_s > now_s:
            if space.overlaps(*slot, nodes, job.licenses):
                again_s = start_s
                if start_s == trial.start_s and ctld.conf.version == "26.05":
                    again_s += space.resolution_s
                trial.later_s = again_s
                return "later"
            overlap_tested = True
        if start_s <= now_s and nodes & ctld.nodes.completing:
            start_s = now_s + 1
            later_s = 0
            self._bound(now_s + 1)
        if job.het_job is None and start_s <= now_s:
            outcome, start_s = self._start_now(trial, usable)
            if outcome:
                return outcome
            later_s = later_s if start_s > now_s else 0
        elif job.het_job is not None:
            self._hetjobs.found(job, trial.part, start_s, longest_without_conflict(space, trial, nodes))
        if start_s > now_s and trial.no_reserve:
            self._expect(job, trial.first_s if 0 < trial.first_s < start_s else start_s)
            return "skip"
        if later_s and start_s > later_s:
            trial.later_s = later_s
            return "later"
        if not overlap_tested:
            slot = space.slot(start_s, trial.limit_s, not self._early)
        if start_s > self._begin_s + self._window_s:
            self._bound(start_s - self._window_s)
            self._expect(job, trial.first_s if 0 < trial.first_s < start_s else start_s)
            return "skip"
        if not overlap_tested and (start_s > now_s or not self._early) and space.overlaps(*slot, nodes, job.licenses):
            trial.later_s = start_s
            return "later"
        return self._reserve(trial, start_s, nodes, slot)

    def _reserve(self, trial: Trial, start_s: int, nodes: int, slot: tuple[int, int]) -> str:
        """The job's nodes are taken out of the map from its expected start on."""
        ctld, job, part = self._ctld, trial.job, trial.part
        if job.het_job is not None and self._hetjobs.would_deadlock(job, part, start_s):
            return "skip"
        if not self._scheduler.assoc_limit_stop:
            reason = ctld.limits.runnable_with(job, Allocation(nodes, None, max(job.cpus_min, 1)))
            if reason is not None:
                set_reason(ctld, job, reason, stamp=False)
                return "skip"
        if trial.no_reserve_qos or not self._counts.may_reserve(part):
            return "skip"
        self._counts.reserved(part)
        self._rejected = self._rejected_job = None
        if not self._options.one_resv_per_job or not trial.first_s:
            if self.space.records >= self._options.node_space_size:
                return "end"
            if slot[1] >= self.space.end[-1]:
                self._bound_by_window()
            self.space.reserve(*slot, nodes, job.licenses)
            self._reservations += 1
        if not trial.first_s or start_s < trial.first_s:
            self.planned |= nodes
            self._plan(job, start_s, nodes)
        self._expect(job, trial.first_s if 0 < trial.first_s < start_s else start_s)
        return "reserved"

    def _plan(self, job: Job, start_s: int, nodes: int) -> None:
        ctld = self._ctld
        first = not job.planned_start_s
        job.planned_start_s = start_s
        if first:
            ctld.emit(
                Kind.JOB_PLANNED, "backfill", job.id, ctld.nodes.hostlist(nodes), ctld.at_s(start_s), "ns"
            )  # fmt: skip

    # --- starting

    def _start_now(self, trial: Trial, usable: int) -> tuple[str, int]:
        """_start_job() and what follows it. ("", start) when the job stays and its nodes are to be reserved."""
        ctld, job = self._ctld, trial.job
        given = job.limit_s

        def set_limit(starting: Job, placement: Placement) -> None:
            starting.limit_s = limit_of_started(ctld, self.space, trial, given, placement.allocation.nodes)

        result = attempt_start(ctld, job, trial.part, usable, "backfill", set_limit)
        if not isinstance(result, Refusal):
            self.started += 1
            self._rejected = self._rejected_job = None
            ctld.last_job_update_s = ctld.now_s()
            self.reserve_running(result)
            if result is not job:
                job.limit_s = given
            return "started", trial.now_s
        job.limit_s = given
        kind = result.kind
        if kind == "preempting":
            self._preempting.add(job.slurm_id)
        if kind == "reservation" or (kind == "limit" and not self._scheduler.assoc_limit_stop):
            self._expect(job, trial.first_s)
            return "skip", 0
        if kind == "limit":
            until_s = trial.later_s or trial.now_s + 500
            if result.reason.startswith("QOSGrp"):
                self._blocked_until_s[trial.part.conf.qos or job.qos] = until_s
            return "", until_s
        return "", trial.now_s

    def reserve_running(self, job: Job) -> None:
        """_bf_reserve_running(): whole-node jobs (and licences) enter the map until their time limit ends."""
        licenses = job.licenses if self._options.licenses else ()
        if not job.running or job.alloc is None or not (job.whole_node or licenses):
            return
        preemptable = is_preemptable(self._ctld, job)
        if (preemptable and not licenses) or self.space.records >= self._options.node_space_size:
            return
        resolution, end_s = self.space.resolution_s, job.end_s
        if self._scheduler.time_min_as_soft_limit and job.time_min_s:
            end_s = job.start_s + job.time_min_s
            if end_s < self.now_s():
                end_s = self.now_s() + (job.end_s - self.now_s()) // 2
        end_s = (end_s if self._early else end_s + resolution - 1) // resolution * resolution
        self.space.reserve(0, end_s, 0 if preemptable or not job.whole_node else job.alloc.nodes, licenses)

    # --- shortcuts

    def _bound(self, unix_s: int) -> None:
        """From that second on an unchanged state may give another outcome."""
        if unix_s < self.valid_until_s:
            self.valid_until_s = max(unix_s, 0)

    def _bound_by_window(self) -> None:
        """The end of the map moves with bf_resolution."""
        self._bound(self.space.end[-1] + self.space.resolution_s - self._window_s)

    def _may_prune(self) -> bool:
        """Whether a count of free nodes decides if a job can start now."""
        conf = self._ctld.conf
        return conf.preempt.type == "preempt/none" and not self._options.licenses and not self._queue.special

    def _nothing_can_start(self) -> bool:
        """No record has as many free, unreserved nodes as it needs, over its whole length, now.

        Reservations only shrink what is left, so a record that fails this test now fails its own test too.
        """
        space, now_s = self.space, self.now_s()
        now_free = self._ctld.selection.free_nodes() & self._ctld.nodes.avail
        first = bisect_right(space.end, now_s)
        slots = len(space.begin)
        for part, demand in self._queue.demand():
            free, place = now_free & part.nodes, first
            for limit_s, fewest in demand:
                while place < slots and space.begin[place] <= now_s + limit_s:
                    free &= space.free[place]
                    place += 1
                if free.bit_count() >= fewest:
                    return False
        return True
