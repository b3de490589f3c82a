"""How long backfill takes a job to run, and what time limit a job it starts gets (slurm.md 2.2 "Job length").

Source: plugins/sched/backfill/backfill.c _set_backfill_timelimits(), _reset_job_time_limit(), _get_job_max_tl().
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.tables import INFINITE_S, Job, Partition

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.node_space import NodeSpace
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld


@dataclass(slots=True)
class Trial:
    """What is being tried for one record: its lengths, and what the present slot gave."""

    job: Job
    part: Partition
    limit_s: int
    """The length tested with (--time-min if given)."""
    most_s: int
    """comp_time_limit: the length a started job may be stretched to."""
    no_reserve: bool
    no_reserve_qos: bool
    first_s: int
    """Expected start found in another partition earlier in this cycle; 0: none."""
    counted: bool = False
    now_s: int = 0
    start_s: int = 0
    """Where the present slot begins."""
    later_s: int = 0
    """Where to try next; 0: nowhere."""
    nodes: int = 0


def trial_of(ctld: Slurmctld, job: Job, part: Partition, now_s: int, no_reserve: bool, first_s: int) -> Trial:
    """_set_backfill_timelimits(): how long the job is taken to run."""
    most_s = part.conf.max_time_ns // SECOND if part.conf.max_time_ns >= 0 else INFINITE_S
    if job.limit_s is None or job.limit_s < 0:
        limit_s = most_s
    elif part.conf.max_time_ns < 0:
        limit_s = job.limit_s
    else:
        limit_s = min(job.limit_s, most_s)
    stretch_s = limit_s
    minutes = (job.deadline_s - now_s) // 60 if job.deadline_s else 0
    if minutes:
        stretch_s = min(limit_s, minutes * 60)
    elif job.time_min_s and job.time_min_s < limit_s:
        if ctld.conf.version != "26.05":
            stretch_s = job.time_min_s
        limit_s = job.time_min_s
    no_reserve_qos = bool(job.qos) and _says_no_reserve(ctld, job)
    if no_reserve_qos and ctld.conf.preempt.mode != "off":
        limit_s = 60
    return Trial(job, part, limit_s, stretch_s, no_reserve, no_reserve_qos, first_s)


def _says_no_reserve(ctld: Slurmctld, job: Job) -> bool:
    return any(q.name == job.qos and "NoReserve" in q.flags for q in ctld.conf.qos)


def longest_without_conflict(space: NodeSpace, trial: Trial, nodes: int) -> int:
    """_get_job_max_tl(): how long a hetjob component may be without touching a reservation."""
    if not trial.job.time_min_s:
        return trial.most_s
    end_s = trial.now_s + trial.most_s
    for place, begin_s in enumerate(space.begin):
        if begin_s != trial.now_s and begin_s < end_s and nodes & ~space.free[place]:
            return min(trial.most_s, (begin_s - trial.now_s + 59) // 60 * 60)
    return trial.most_s


def limit_of_started(ctld: Slurmctld, space: NodeSpace, trial: Trial, given: int | None, nodes: int) -> int | None:
    """The time limit of a job that backfill starts: --time-min stretched as far as the map allows.

    Before 26.05 the stretch had no room: the job keeps its minimum (backfill.c comp_time_limit).
    """
    job = trial.job
    if trial.no_reserve_qos:
        return trial.most_s if given is None else given
    if job.time_min_s and ctld.conf.scheduler.time_min_as_soft_limit:
        return given
    if job.time_min_s or job.deadline_s:
        return _stretched(space, trial, nodes)
    return trial.most_s if given is None else given


def _stretched(space: NodeSpace, trial: Trial, nodes: int) -> int:
    """_reset_job_time_limit(): no longer than to the first reservation on the job's nodes, in whole minutes."""
    limit_s, now_s = trial.most_s, trial.now_s
    end_s = now_s + limit_s
    for place, begin_s in enumerate(space.begin):
        if begin_s != now_s and begin_s < end_s and nodes & ~space.free[place]:
            limit_s = min(limit_s, (begin_s - now_s) // 60 * 60)
    return max(trial.job.time_min_s, limit_s)


def is_preemptable(ctld: Slurmctld, job: Job) -> bool:
    """slurm_job_preempt_mode() is not OFF."""
    preempt = ctld.conf.preempt
    if preempt.type == "preempt/none":
        return False
    mode = job.part.conf.preempt_mode if job.part is not None else ""
    return (mode or preempt.mode).lower() != "off"
