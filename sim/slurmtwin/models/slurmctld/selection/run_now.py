"""Start now, with victims if need be: _run_now() of cons_tres job_test.c (slurm.md 3.2 "Victim order")."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld.selection import allocate
from slurmtwin.models.slurmctld.selection.demand import version_key
from slurmtwin.models.slurmctld.selection.preempt import Preemption, parts_of
from slurmtwin.models.slurmctld.selection.query import Query
from slurmtwin.models.slurmctld.selection.select_cons_tres import ConsTres, Found
from slurmtwin.models.slurmctld.selection.shapes import Shape
from slurmtwin.models.slurmctld.selection.usage import Groups, Usage
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import Job

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_FIRST = 99_999
"""Sorts the job that made room before all others."""
Start = tuple[Groups, int, tuple[Job, ...]]
"""(groups, CPUs, victims)"""


class RunNow:
    """Attempts to start a job at this moment."""

    def __init__(self, ctld: Slurmctld, plugin: ConsTres, preemption: Preemption, shapes: list[Shape]) -> None:
        conf = ctld.conf
        self._ctld = ctld
        self._plugin = plugin
        self._preemption = preemption
        self._shapes = shapes
        self._block = conf.select.core_default_dist_block
        self._by_qos = conf.preempt.type == "preempt/qos"
        self._reorder = conf.scheduler.preempt_reorder_count
        self._strict = conf.scheduler.preempt_strict_order
        self._version = version_key(conf.version)

    def start(self, query: Query, usage: Usage, nodes: int, candidates: list[Job]) -> Start | None:
        """What the job gets now; with victims it has to wait until they are gone."""
        found = self._plugin.job_test(usage, query, nodes, self._ctld.nodes.idle)
        if found is not None:
            built = allocate.build(found, usage, self._shapes, self._block)
            if built is not None:
                return built[0], built[1], ()
        if not candidates:
            return None
        if self._by_qos and self._preemption.mode(candidates[0]) == "suspend":
            return self._suspending(query, usage, nodes, candidates)
        return self._removing(query, usage, nodes, candidates)

    def _removing(self, query: Query, usage: Usage, nodes: int, candidates: list[Job]) -> Start | None:
        """Take candidates away one by one until the job fits, reorder to need fewer of them, and again."""
        order = list(candidates)
        passes = 0
        while True:
            future = self._scratch(usage)
            found: Found | None = None
            place = 0
            for at, victim in enumerate(order):
                place = at
                if self._preemption.mode(victim) not in ("cancel", "requeue") or not _overlaps(victim, nodes):
                    continue
                _remove(future, victim, nodes)
                found = self._plugin.job_test(future, query, nodes, self._ctld.nodes.idle)
                if found is not None and allocate.build(found, future, self._shapes, self._block) is not None:
                    break
                found = None
            if found is None:
                return None
            last = passes > self._reorder or len(order) <= passes + 1
            passes += 1
            if last:
                return self._with_victims(found, future, order[: place + 1])
            order = self._reordered(order, place, found.chosen.nodes)

    def _scratch(self, usage: Usage) -> Usage:
        return usage.copy() if self._version < (23, 2) else usage.blind()

    def _reordered(self, order: list[Job], place: int, nodes: int) -> list[Job]:
        victim = order[place]
        if self._strict:
            return [victim, *order[:place], *order[place + 1 :]]
        sizes = {job.slurm_id: _count(job, nodes) for job in order[:place]}
        sizes[victim.slurm_id] = _FIRST
        return sorted(order, key=lambda j: -sizes.get(j.slurm_id, 0))

    def _with_victims(self, found: Found, future: Usage, gone: list[Job]) -> Start | None:
        victims = tuple(
            job
            for job in gone
            if self._preemption.mode(job) in ("cancel", "requeue") and _overlaps(job, found.chosen.nodes)
        )
        built = allocate.build(found, future, self._shapes, self._block)
        assert built is not None
        return built[0], built[1], victims

    def _suspending(self, query: Query, usage: Usage, nodes: int, candidates: list[Job]) -> Start | None:
        """preempt/qos with suspend: the row kept for it, over the cores of jobs that will be suspended."""
        if self._version < (23, 2):
            found = self._plugin.job_test(usage, query, nodes, self._ctld.nodes.idle, extra_row=True)
            built = allocate.build(found, usage, self._shapes, self._block) if found is not None else None
            return (built[0], built[1], ()) if built is not None else None
        future = self._scratch(usage)
        for victim in candidates:
            if self._preemption.mode(victim) != "suspend" or not _overlaps(victim, nodes):
                continue
            for part in parts_of(victim):
                future.strip_cores(part.slurm_id, nodes)
            found = self._plugin.job_test(future, query, nodes, self._ctld.nodes.idle)
            if found is not None:
                built = allocate.build(found, future, self._shapes, self._block)
                return (built[0], built[1], ()) if built is not None else None
        return None


def _overlaps(job: Job, nodes: int) -> bool:
    return any(
        p.state in (JobState.RUNNING, JobState.SUSPENDED) and p.alloc is not None and bool(p.alloc.nodes & nodes)
        for p in parts_of(job)
    )


def _remove(usage: Usage, job: Job, nodes: int) -> None:
    for part in parts_of(job):
        usage.remove(part.slurm_id, nodes)


def _count(job: Job, nodes: int) -> int:
    return sum((p.alloc.nodes & nodes).bit_count() for p in parts_of(job) if p.alloc is not None)
