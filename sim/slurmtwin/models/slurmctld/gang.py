"""Gang scheduling: jobs that share resources take turns, a higher tier suspends a lower one (slurmctld/gang.c).

Only with GANG in PreemptMode. Each partition has an active row: the running jobs of higher tiers (their
shadows) first, then its own jobs as they fit. Whoever does not fit is suspended. Each SchedulerTimeSlice
(30 s, slurm.md 3.2 "Gang") partitions whose jobs do not all fit are turned: active ones go to the back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import bits

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Call
    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job

NOT_ACTIVE, ACTIVE, FILLER = 0, 1, 2


@dataclass(slots=True, eq=False)
class GangJob:
    """One job under gang scheduling."""

    job: Job
    suspended: bool = False
    row: int = NOT_ACTIVE


@dataclass(slots=True, eq=False)
class GangPart:
    """One partition: its jobs in turn order, and the jobs of higher tiers that cover resources."""

    name: str
    tier: int
    jobs: list[GangJob] = field(default_factory=list)
    shadows: list[GangJob] = field(default_factory=list)
    active: int = 0
    """How many jobs (shadows included) the active row holds."""


class ActiveRow:
    """What the active row of a partition takes, in the select plugin's unit."""

    def __init__(self, ctld: Slurmctld) -> None:
        self._ctld = ctld
        select = ctld.conf.select
        self._unit = "node" if select.type == "select/linear" else select.unit
        self._nodes = 0
        self._cores: dict[int, int] = {}
        self._cpus: dict[int, int] = {}

    def _shares(self, job: Job) -> list[tuple[int, int, int]]:
        """(node index, core bitmap, CPUs) of each node."""
        allocation = job.alloc
        assert allocation is not None
        out = []
        for place, index in enumerate(bits(allocation.nodes)):
            conf = self._ctld.nodes.nodes[index].conf
            every = (1 << conf.boards * conf.sockets * conf.cores_per_socket) - 1
            cores = allocation.cores[place] if allocation.cores else every
            out.append((index, cores, allocation.cpus[place] if allocation.cpus else conf.cpus))
        return out

    def fits(self, job: Job) -> bool:
        """_job_fits_in_active_row()."""
        assert job.alloc is not None
        if not job.alloc.nodes & self._nodes:
            return True
        if self._unit == "node":
            return False
        for index, cores, cpus in self._shares(job):
            if self._unit == "cpu":
                if self._cpus.get(index, 0) + cpus > self._ctld.nodes.nodes[index].conf.cpus:
                    return False
            elif self._cores.get(index, 0) & cores:
                return False
        return True

    def add(self, job: Job) -> None:
        """_add_job_to_active()."""
        assert job.alloc is not None
        self._nodes |= job.alloc.nodes
        if self._unit != "node":
            for index, cores, cpus in self._shares(job):
                self._cores[index] = self._cores.get(index, 0) | cores
                self._cpus[index] = self._cpus.get(index, 0) + cpus


class Gang:
    """The gang scheduler of one slurmctld; inert without GANG."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        self.on = ctld.conf.preempt.gang
        self._parts: dict[str, GangPart] = {}
        self._call: Call | None = None
        self._begun_ns = 0

    def start(self) -> None:
        """The time slicer thread begins its first sleep."""
        self._begun_ns = self._ctld.env.now_ns

    def job_started(self, job: Job) -> None:
        """gs_job_start()."""
        if not self.on or job.het_job is not None or job.part is None:
            return
        part = self._parts.get(job.part.name)
        if part is None:
            part = self._parts[job.part.name] = GangPart(job.part.name, job.part.conf.priority_tier)
            self._inherit_shadows(part)
        entry = GangJob(job)
        part.jobs.append(entry)
        row = self._active_row(part)
        if job.state is not JobState.SUSPENDED and row.fits(job):
            entry.row = FILLER
            part.active += 1
            self._cast_shadow(entry, part.tier)
            self._update_all()
        else:
            self._stop(part, entry)
        self._arm()

    def job_ended(self, job: Job) -> None:
        """gs_job_fini(): who was covered may go on."""
        if not self.on or job.part is None:
            return
        part = self._parts.get(job.part.name)
        if part is None:
            return
        for entry in list(part.jobs):
            if entry.job is job:
                self._clear_shadow(entry)
                part.jobs.remove(entry)
                self._update_all()

    def _inherit_shadows(self, part: GangPart) -> None:
        for other in self._parts.values():
            if other.tier > part.tier:
                part.shadows.extend(e for e in other.jobs if e.row != NOT_ACTIVE)

    def _active_row(self, part: GangPart) -> ActiveRow:
        row = ActiveRow(self._ctld)
        for shadow in part.shadows:
            row.add(shadow.job)
        for entry in part.jobs:
            if entry.row != NOT_ACTIVE:
                row.add(entry.job)
        return row

    def _sorted(self) -> list[GangPart]:
        return sorted(self._parts.values(), key=lambda p: -p.tier)

    def _cast_shadow(self, entry: GangJob, tier: int) -> None:
        for part in self._parts.values():
            if part.tier < tier and entry not in part.shadows:
                part.shadows.append(entry)

    def _clear_shadow(self, entry: GangJob) -> None:
        for part in self._parts.values():
            if entry in part.shadows:
                part.shadows.remove(entry)

    def _stop(self, part: GangPart, entry: GangJob) -> None:
        """Suspend, or what the partition's preempt mode wants of a job that a shadow covers."""
        if not entry.suspended:
            mode = self._lifecycle.preemption.mode(entry.job)
            if part.shadows and mode in ("cancel", "requeue"):
                self._lifecycle.preemption.go(entry.job, mode)
            else:
                self._lifecycle.suspend(entry.job, by_admin=False)
            entry.suspended = True
            self._clear_shadow(entry)
        entry.row = NOT_ACTIVE

    def _resume(self, part: GangPart, entry: GangJob) -> None:
        if entry.suspended and entry.job.priority:
            self._lifecycle.resume(entry.job)
            entry.suspended = False
        self._cast_shadow(entry, part.tier)

    def _update_all(self) -> None:
        """_update_all_active_rows(): higher tiers first, so that their shadows are there for the lower ones."""
        for part in self._sorted():
            self._update(part)

    def _update(self, part: GangPart) -> None:
        row = ActiveRow(self._ctld)
        part.active = len(part.shadows)
        for shadow in part.shadows:
            row.add(shadow.job)
        for wanted in (ACTIVE, FILLER):
            for entry in list(part.jobs):
                if entry.row != wanted:
                    continue
                if row.fits(entry.job):
                    row.add(entry.job)
                    part.active += 1
                    self._cast_shadow(entry, part.tier)
                else:
                    self._stop(part, entry)
        for entry in list(part.jobs):
            if entry.row == NOT_ACTIVE and entry.job.priority and row.fits(entry.job):
                row.add(entry.job)
                part.active += 1
                entry.row = FILLER
                self._resume(part, entry)

    def _arm(self) -> None:
        """A slice is worth its event only while some partition holds more jobs than its row."""
        slice_ns = self._ctld.conf.scheduler.time_slice_ns
        if (self._call is not None and self._call.pending) or not any(self._crowded(p) for p in self._parts.values()):
            return
        passed = self._ctld.env.now_ns - self._begun_ns
        self._call = self._ctld.env.call_at(self._begun_ns + (passed // slice_ns + 1) * slice_ns, self._slice)

    @staticmethod
    def _crowded(part: GangPart) -> bool:
        return part.active < len(part.jobs) + len(part.shadows)

    def _slice(self, _argument: object) -> None:
        """_timeslicer_thread(): one turn of every crowded partition."""
        for part in self._sorted():
            if self._crowded(part):
                self._turn(part)
        self._arm()

    def _turn(self, part: GangPart) -> None:
        """_cycle_job_list(): active jobs go to the back, the row is built anew."""
        part.jobs = [e for e in part.jobs if e.row != ACTIVE] + [e for e in part.jobs if e.row == ACTIVE]
        for entry in part.jobs:
            entry.row = NOT_ACTIVE
        row = ActiveRow(self._ctld)
        part.active = len(part.shadows)
        for shadow in part.shadows:
            row.add(shadow.job)
        for entry in part.jobs:
            if entry.job.priority and row.fits(entry.job):
                row.add(entry.job)
                part.active += 1
                entry.row = ACTIVE
        for entry in list(part.jobs):
            if entry.row == NOT_ACTIVE and not entry.suspended:
                self._stop(part, entry)
        for entry in list(part.jobs):
            if entry.row == ACTIVE and entry.suspended:
                self._resume(part, entry)
