"""Heterogeneous jobs in backfill: all components start in one cycle or none (backfill.c; slurm.md 9).

Each component is tested like a job of its own, not before the latest expected start of the others. When the
queue is done (at once with bf_hetjob_immediate), a job whose components could all start now is started.
The real agent empties its list of these plans before each cycle, so nothing is carried over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.parts import Placement, Refusal
from slurmtwin.models.slurmctld.start_attempt import attempt_start
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import INFINITE_S

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.backfill_cycle import BackfillCycle
    from slurmtwin.models.slurmctld.tables import Job, Partition


@dataclass(slots=True)
class _Component:
    job: Job
    part: Partition
    start_s: int


@dataclass(slots=True)
class _Plan:
    components: dict[int, _Component] = field(default_factory=dict)
    """By Slurm id."""
    most_s: int = INFINITE_S
    """The shortest of the components' longest lengths."""


class HetjobPlans:
    """Expected starts of all hetjob components seen in one cycle."""

    def __init__(self, cycle: BackfillCycle) -> None:
        self._cycle = cycle
        self._ctld = cycle.ctld
        self._options = cycle.ctld.conf.scheduler.backfill
        self._plans: dict[int, _Plan] = {}
        self._in_part: dict[int, dict[int, int]] = {}
        """Partition index -> leader id -> latest expected start there (deadlock test)."""

    @staticmethod
    def _leader(job: Job) -> int:
        assert job.het_job is not None
        return job.het_job[0].slurm_id

    def begin(self, job: Job, part: Partition) -> None:
        """Worst case first: the component starts in a year."""
        self._set(job, part, self._cycle.now_s() + INFINITE_S, INFINITE_S)

    def found(self, job: Job, part: Partition, start_s: int, most_s: int) -> None:
        """The component could start then; bf_hetjob_immediate tries the whole job at once."""
        self._set(job, part, start_s, most_s)
        if self._options.hetjob_immediate and self._room_for_starts():
            self._start_if_ready(self._plans[self._leader(job)])

    def _set(self, job: Job, part: Partition, start_s: int, most_s: int) -> None:
        plan = self._plans.setdefault(self._leader(job), _Plan())
        plan.most_s = min(plan.most_s, most_s)
        known = plan.components.get(job.slurm_id)
        if known is None or start_s < known.start_s:
            plan.components[job.slurm_id] = _Component(job, part, start_s)

    def others_start_s(self, job: Job) -> int:
        """The latest expected start of the other components; 0: none known."""
        plan = self._plans.get(self._leader(job))
        if plan is None:
            return 0
        return max((c.start_s for number, c in plan.components.items() if number != job.slurm_id), default=0)

    def would_deadlock(self, job: Job, part: Partition, start_s: int) -> bool:
        """_het_job_deadlock_test(): another hetjob comes earlier here but later in a partition both use."""
        leader = self._leader(job)
        here = self._in_part.setdefault(part.index, {})
        here[leader] = max(here.get(leader, 0), start_s)
        order = sorted(here, key=lambda number: -here[number])
        for index, there in self._in_part.items():
            if index == part.index or leader not in there:
                continue
            for other in order:
                if other == leader:
                    break
                if other in there and there[other] < here[leader]:
                    return True
        return False

    def start_all(self) -> None:
        """The end of the queue: start every hetjob whose components can all start now."""
        if self._options.hetjob_immediate:
            return
        for plan in self._plans.values():
            if not self._room_for_starts():
                return
            self._start_if_ready(plan)

    def _room_for_starts(self) -> bool:
        return not self._options.max_job_start or self._cycle.started < self._options.max_job_start

    def _start_if_ready(self, plan: _Plan) -> None:
        components = list(plan.components.values())
        everyone = components[0].job.het_job or []
        if any(j.state is JobState.PENDING and (j.slurm_id not in plan.components or not j.priority) for j in everyone):
            return
        if any(c.start_s > self._cycle.now_s() for c in components):
            return
        for component in components:
            component.job.part = component.part
        if any(self._ctld.limits.runnable(c.job) is not None for c in components):
            return
        started: list[Job] = []
        used = 0
        for component in components:
            if component.job.state is not JobState.PENDING:
                continue
            job = self._start(component, used, plan.most_s)
            if job is None:
                self._undo(started)
                return
            started.append(job)
            used |= job.alloc.nodes if job.alloc is not None else 0
        self._cycle.started += len(started)

    def _start(self, component: _Component, used: int, most_s: int) -> Job | None:
        """_het_job_start_now() for one component."""
        ctld, job, part = self._ctld, component.job, component.part
        now_s = ctld.now_s()
        avail = ctld.reservations.usable_nodes(job, (1 << len(ctld.nodes)) - 1, now_s, now_s + (job.limit_s or 0))
        avail &= part.nodes & ctld.nodes.up & ~used

        def stretch(starting: Job, _placement: Placement) -> None:
            if starting.time_min_s:
                starting.limit_s = max(starting.time_min_s, most_s // 60 * 60)

        result = attempt_start(ctld, job, part, avail, "backfill", stretch)
        return None if isinstance(result, Refusal) else result

    def _undo(self, started: list[Job]) -> None:
        """_het_job_kill_now(): what did start goes back to the queue, held for the lifetime of a credential."""
        hold_s = self._ctld.conf.timers.cred_expire_ns // SECOND + 1
        for job in started:
            self._ctld.lifecycle.requeue(job, "hetjob start failure")
            job.begin_s = max(job.begin_s, self._ctld.now_s() + hold_s)
