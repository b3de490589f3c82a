"""Setting a pending job's reason (squeue's REASON), with its event and its stamp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld import event_details
from slurmtwin.models.slurmctld.states import JobState, Reason

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job

RESOURCE_REASONS: Final = frozenset({Reason.RESOURCES, Reason.NODES_DOWN})
"""WAIT_RESOURCES with and without its long text."""

REPLACEABLE: Final = frozenset({Reason.NONE, Reason.RESOURCES, Reason.NODES_DOWN})
"""What the main pass turns into Priority behind a closed partition (job_scheduler.c _schedule())."""

PARTITION_REASONS: Final = frozenset(
    {
        Reason.PARTITION_DOWN,
        Reason.PARTITION_INACTIVE,
        Reason.PARTITION_NODE_LIMIT,
        Reason.PARTITION_TIME_LIMIT,
        "PartitionConfig",
    }
)

NEVER_INDEPENDENT: Final = frozenset(
    {
        Reason.HELD_USER,
        Reason.HELD_ADMIN,
        Reason.HOLD_MAX_REQUEUE,
        Reason.LAUNCH_FAILED_REQUEUED_HELD,
        Reason.RESERVATION_DELETED,
        Reason.INVALID_ACCOUNT,
        Reason.INVALID_QOS,
        Reason.DEPENDENCY_NEVER,
    }
)
"""Reasons with which job_independent() (job_mgr.c) refuses a job at once."""


_NOT_KEPT: Final = frozenset({Reason.NONE, Reason.PRIORITY, Reason.RESOURCES})
"""What a build of the queue does not note for the accounting (job_scheduler.c _foreach_build_job_queue())."""


def keep_later(ctld: Slurmctld, job: Job) -> None:
    """Its reason has changed: one that says more than that it waits is looked at by the next build of the queue."""
    if job.reason not in _NOT_KEPT:
        ctld.reasons_to_keep[job.slurm_id] = job


def set_held(ctld: Slurmctld, job: Job, reason: str) -> None:
    """Priority 0 until somebody releases it, for this reason."""
    job.held = True
    job.priority = 0
    job.reason = reason
    keep_later(ctld, job)


def keep_a_build_later(ctld: Slurmctld, job: Job) -> None:
    """That a requeued job waits for its begin time is found by the next build of the queue, and new to the one behind
    that; a hold is there already."""
    if job.reason == Reason.BEGIN_TIME:
        ctld.reasons_to_keep.pop(job.slurm_id, None)
        ctld.reasons_to_find[job.slurm_id] = job


def keep_reasons(ctld: Slurmctld) -> None:
    """Each build of the queue, of a main pass or a backfill cycle, moves last_job_update once for a pending job's new
    reason, also where none of its own code did: so a requeued job that waits for its begin time makes the backfill
    agent work once more (job_scheduler.c _foreach_build_job_queue(), state_reason_prev_db; 22.05 to 26.05)."""
    if not ctld.reasons_to_keep and not ctld.reasons_to_find:
        return
    jobs, ctld.reasons_to_keep = ctld.reasons_to_keep.values(), ctld.reasons_to_find
    ctld.reasons_to_find = {}
    for job in jobs:
        if job.state is JobState.PENDING and job.reason not in _NOT_KEPT and job.reason != job.reason_kept:
            job.reason_kept = job.reason
            ctld.last_job_update_s = ctld.now_s()


def set_reason(ctld: Slurmctld, job: Job, reason: str, stamp: bool = True) -> None:
    """Change the reason; nothing happens when it is that already. stamp: last_job_update moves."""
    if job.reason == reason:
        return
    job.reason = reason
    keep_later(ctld, job)
    if stamp:
        ctld.last_job_update_s = ctld.now_s()
    detail = event_details.reason(str(reason))
    if job.array_task is not None:
        detail = event_details.of_task(detail, job.array_task) or detail
    ctld.emit(Kind.JOB_PENDING, job_id=job.id, detail=detail)
