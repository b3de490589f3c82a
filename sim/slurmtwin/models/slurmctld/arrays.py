"""Job arrays: one meta record that gives off a job per started task (job_mgr.c job_array_split(), slurm.md 9).

The meta record keeps the array's number and becomes the last task itself. Every task counts towards
MaxJobCount; `%n` limits how many run at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import Job

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_COPIED: Final = (
    "account", "accrue_s", "array_max", "assoc", "batch_flag", "begin_s", "comment", "cpus_min", "deadline_s",
    "eligible_s", "features", "gres", "held", "kill_on_node_fail", "licenses", "limit_s", "limit_set", "mem_mib",
    "mem_per_cpu", "nice", "nodes_max", "nodes_min", "part", "pn_min_cpus", "prio_by_part", "prio_key", "priority",
    "qos", "reason", "requeue", "reservation", "tasks", "time_min_s", "user", "whole_node",
)  # fmt: skip


class Arrays:
    """The arrays of one slurmctld."""

    def __init__(self, ctld: Slurmctld, lifecycle: Lifecycle) -> None:
        self._ctld = ctld
        self._lifecycle = lifecycle
        self._tasks: dict[int, dict[int, Job]] = {}
        """By the meta record's Slurm id: task records in memory by task index."""
        self._failed: dict[int, int] = {}

    def split_task(self, meta: Job) -> Job:
        """The next task as a job of its own; for the last one the meta record itself."""
        waiting = meta.array_waiting
        assert waiting
        return self._split(meta, waiting[0])

    def _split(self, meta: Job, index: int) -> Job:
        waiting = meta.array_waiting
        assert waiting
        waiting.remove(index)
        if waiting:
            task = self._ctld.job_record(meta.request, self._lifecycle.next_slurm_id(), meta.submit_s)
            for name in _COPIED:
                setattr(task, name, getattr(meta, name))
            task.parts = list(meta.parts)
            self._ctld.jobs[task.slurm_id] = task
        else:
            task = meta
            meta.array_waiting = None
        task.array_task = index
        task.array_job = meta
        self._tasks.setdefault(meta.slurm_id, {})[index] = task
        return task

    def split_all(self, meta: Job) -> list[Job]:
        """Every waiting task as its own record: aftercorr and what names single tasks need that."""
        return [self._split(meta, index) for index in list(meta.array_waiting or ())]

    def meta_of(self, job: Job) -> Job | None:
        """The meta record of a task, or of itself."""
        return job.array_job or (job if job.array_waiting is not None else None)

    def started(self, job: Job) -> None:
        """A task runs: it counts towards `%n`."""
        if job.array_job is not None:
            job.array_job.array_active += 1

    def ended(self, job: Job, state: JobState) -> None:
        """A task's run is over (job_array_recs tot_run_tasks)."""
        meta = job.array_job
        if meta is not None:
            meta.array_active -= 1
            if state.finished and state is not JobState.COMPLETED:
                self._failed[meta.slurm_id] = self._failed.get(meta.slurm_id, 0) + 1

    def task_of(self, meta: Job, index: int) -> Job | None:
        """The record of one task if it is split off."""
        return self._tasks.get(meta.slurm_id, {}).get(index)

    def has_waiting(self, number: int, index: int) -> bool:
        """The task still waits in the meta record of the array with that workload number."""
        meta = self._lifecycle.by_number(number)
        return meta is not None and index in (meta.array_waiting or ())

    def outcome(self, meta: Job) -> tuple[bool, bool, bool]:
        """(some task pending, all tasks over, all tasks well): test_job_array_pending(), _completed(), _complete()."""
        tasks = self._tasks.get(meta.slurm_id, {}).values()
        pending = bool(meta.array_waiting) or any(t.pending for t in tasks)
        whole_cancelled = meta.state.finished and bool(meta.array_waiting)
        done = (whole_cancelled or not meta.array_waiting) and all(t.state.finished and not t.completing for t in tasks)
        well = not whole_cancelled and not self._failed.get(meta.slurm_id)
        return pending and not whole_cancelled, done, well

    def records(self, meta: Job) -> list[Job]:
        """All records of the array in memory: the meta record and its split-off tasks."""
        tasks = self._tasks.get(meta.slurm_id, {}).values()
        return [meta, *(t for t in tasks if t is not meta)]

    def keeps(self, job: Job) -> bool:
        """The meta record stays in memory while a task of it does (_test_job_array_purged())."""
        return any(t is not job for t in self._tasks.get(job.slurm_id, {}).values())

    def forget(self, job: Job) -> None:
        """The record leaves memory."""
        meta = job.array_job
        if meta is None:
            return
        tasks = self._tasks.get(meta.slurm_id)
        if tasks is not None and job.array_task is not None:
            tasks.pop(job.array_task, None)
            if not tasks:
                del self._tasks[meta.slurm_id]
        if job is meta:
            self._failed.pop(meta.slurm_id, None)
