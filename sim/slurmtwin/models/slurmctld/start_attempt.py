"""One attempt to start a pending job now: what select_nodes() (node_scheduler.c) does around the choice of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.parts import Placement, Refusal
from slurmtwin.models.slurmctld.pending_reason import set_reason
from slurmtwin.models.slurmctld.states import JobState, Reason

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Partition

_TOLD_TO_GO = Refusal("preempting", Reason.RESOURCES)


def is_meta(job: Job) -> bool:
    """The record stands for an array's tasks that were not split off yet."""
    return job.array_waiting is not None and job.array_task is None


def attempt_start(
    ctld: Slurmctld,
    job: Job,
    part: Partition,
    avail: int,
    by: str,
    before_start: Callable[[Job, Placement], None] | None = None,
) -> Job | Refusal:
    """Start the job (or the next task of its array) on nodes of `avail`, or say why not.

    Order as in select_nodes(): limits, partition access, hold, nodes, limits with the nodes found, victims.
    Victims that only get suspended make room at once; others are told to go and the job stays pending with
    Resources (slurm.md 3.2 "Timing"). `before_start` may still change the time limit.
    """
    now_s = ctld.now_s()
    job.part = part
    reason = ctld.limits.runnable(job)
    if reason is not None:
        return _refuse(ctld, job, Refusal("limit", reason))
    reason = ctld.partition_limits.select(job, part)
    if reason is not None:
        return _refuse(ctld, job, Refusal("part_limit", reason))
    found = ctld.selection.select_nodes(job, part, avail, now_s)
    if isinstance(found, Refusal):
        # a limit that is broken as well takes precedence, so that backfill reserves nothing
        reason = ctld.limits.runnable_with(job, None) if found.kind != "limit" else None
        return _refuse(ctld, job, found if reason is None else Refusal("limit", reason, found.considered))
    if job.licenses and not ctld.licenses.available(job):
        return _refuse(ctld, job, Refusal("license", Reason.LICENSES))
    reason = ctld.limits.runnable_with(job, found.allocation)
    if reason is not None:
        return _refuse(ctld, job, Refusal("limit", reason))
    if found.victims and not _make_room(ctld, job, found, now_s):
        return _refuse(ctld, job, _TOLD_TO_GO)
    starting = ctld.lifecycle.split_task(job) if is_meta(job) else job
    starting.part = part
    if before_start is not None:
        before_start(starting, found)
    ctld.lifecycle.start(starting, part, Placement(found.allocation), by)
    return starting


def _make_room(ctld: Slurmctld, job: Job, placement: Placement, now_s: int) -> bool:
    """_preempt_jobs(): tell the victims once per KillWait + MessageTimeout; True when all are merely suspended."""
    timers = ctld.conf.timers
    patience_s = (timers.kill_wait_ns + timers.message_timeout_ns) // SECOND
    if not job.preempt_s or job.preempt_s <= now_s - patience_s:
        ctld.lifecycle.preempt(placement.victims, job)
        if all(v.state is JobState.SUSPENDED for v in placement.victims):
            return True
        job.preempt_s = now_s
    return False


def _refuse(ctld: Slurmctld, job: Job, refusal: Refusal) -> Refusal:
    set_reason(ctld, job, refusal.reason, stamp=refusal.kind in ("not_avail", "part_limit"))
    return refusal
