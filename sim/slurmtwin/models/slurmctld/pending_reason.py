"""Setting a pending job's reason (squeue's REASON), with its event and its stamp."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld import event_details
from slurmtwin.models.slurmctld.states import Reason

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


def set_reason(ctld: Slurmctld, job: Job, reason: str, stamp: bool = True) -> None:
    """Change the reason; nothing happens when it is that already. stamp: last_job_update moves."""
    if job.reason == reason:
        return
    job.reason = reason
    if stamp:
        ctld.last_job_update_s = ctld.now_s()
    detail = event_details.reason(str(reason))
    if job.array_task is not None:
        detail = event_details.of_task(detail, job.array_task) or detail
    ctld.emit(Kind.JOB_PENDING, job_id=job.id, detail=detail)
