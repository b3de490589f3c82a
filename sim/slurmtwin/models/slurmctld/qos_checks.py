"""One QOS' limits against a job that could start (acct_policy.c _qos_job_runnable_pre_select, _post_select)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld import limit_reasons as why
from slurmtwin.models.slurmctld.association_tree import Association, Qos
from slurmtwin.models.slurmctld.limit_checks import (
    OKAY,
    Imposed,
    all_of,
    in_use,
    run_minutes,
    too_little,
    too_much,
    unique_nodes,
    usable_minutes,
)
from slurmtwin.models.slurmctld.limit_reasons import LimitKind
from slurmtwin.models.slurmctld.partition_limits import ROOT
from slurmtwin.models.slurmctld.tres import NODE

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.tables import Job


def check_counts(job: Job, qos: Qos, own: Qos | None, assoc: Association, imposed: Imposed, safe: bool) -> str | None:
    """Limits on numbers of jobs and on wall time; the reason, or None."""
    limits = qos.limits
    if imposed.claim("grp_jobs", limits.grp_jobs) and qos.counters.jobs >= (limits.grp_jobs or 0):
        return "QOS" + why.GRP_JOBS
    minutes = usable_minutes(job, own)
    if imposed.claim("grp_wall", limits.grp_wall):
        used, most = int(qos.usage.wall) // 60, limits.grp_wall or 0
        if used >= most or (safe and used + minutes > most):
            return "QOS" + why.GRP_WALL
    if imposed.claim("max_jobs_pa", limits.max_jobs_per_account) and (
        qos.account(assoc.account).jobs >= (limits.max_jobs_per_account or 0)
    ):
        return why.QOS_MAX_JOBS_ACCOUNT
    if imposed.claim("max_jobs_pu", limits.max_jobs) and qos.user(job.user or ROOT).jobs >= (limits.max_jobs or 0):
        return why.QOS_MAX_JOBS_USER
    if imposed.claim("max_wall", limits.max_wall) and minutes > (limits.max_wall or 0):
        return "QOS" + why.MAX_WALL
    return None


def check_resources(
    job: Job, qos: Qos, assoc: Association, imposed: Imposed, counts: list[int], tres_minutes: list[int],
    nodes: int, factor: float, safe: bool,
) -> tuple[LimitKind, int] | None:  # fmt: skip
    """Limits on TRES, in Slurm's order; (which kind, which TRES), or None."""
    limits, counters = qos.limits, qos.counters
    if limits.grp_tres_mins:
        used = [int(x / 60) if factor else 0 for x in qos.usage.tres_raw]
        i = in_use(limits.grp_tres_mins, imposed.grp_mins, tres_minutes, run_minutes(counters, factor), used, safe)
        imposed.grp_mins |= all_of(limits.grp_tres_mins)
        if i != OKAY:
            return LimitKind.QOS_GRP_MINS, i
    if limits.grp_tres:
        i = in_use(limits.grp_tres, imposed.grp_tres, unique_nodes(counts, nodes, counters), counters.tres, None, True)
        imposed.grp_tres |= all_of(limits.grp_tres)
        if i != OKAY:
            return LimitKind.QOS_GRP, i
    if limits.grp_tres_run_mins:
        running = run_minutes(counters, factor)
        i = in_use(limits.grp_tres_run_mins, imposed.grp_run_mins, tres_minutes, running, None, True)
        imposed.grp_run_mins |= all_of(limits.grp_tres_run_mins)
        if i != OKAY:
            return LimitKind.QOS_GRP_RUN_MINS, i
    i, imposed.max_mins_job = too_much(tres_minutes, limits.max_tres_mins_per_job, imposed.max_mins_job)
    if i != OKAY:
        return LimitKind.QOS_MAX_MINS_PER_JOB, i
    i, imposed.max_per_job = too_much(counts, limits.max_tres_per_job, imposed.max_per_job)
    if i != OKAY:
        return LimitKind.QOS_MAX_PER_JOB, i
    i, imposed.max_per_node = too_much(counts, limits.max_tres_per_node, imposed.max_per_node, counts[NODE])
    if i != OKAY:
        return LimitKind.QOS_MAX_PER_NODE, i
    i, imposed.min_per_job = too_little(counts, limits.min_tres_per_job, imposed.min_per_job)
    if i != OKAY:
        return LimitKind.QOS_MIN, i
    return _per_holder(job, qos, assoc, imposed, counts, nodes)


def _per_holder(
    job: Job, qos: Qos, assoc: Association, imposed: Imposed, counts: list[int], nodes: int
) -> tuple[LimitKind, int] | None:
    """MaxTRESPerAccount, then MaxTRESPerUser."""
    limits = qos.limits
    if limits.max_tres_per_account:
        held = qos.account(assoc.account)
        wanted = unique_nodes(counts, nodes, held)
        i = in_use(limits.max_tres_per_account, imposed.max_per_account, wanted, held.tres, None, True)
        imposed.max_per_account |= all_of(limits.max_tres_per_account)
        if i != OKAY:
            return LimitKind.QOS_MAX_PER_ACCOUNT, i
    if limits.max_tres_per_user:
        held = qos.user(job.user or ROOT)
        wanted = unique_nodes(counts, nodes, held)
        i = in_use(limits.max_tres_per_user, imposed.max_per_user, wanted, held.tres, None, True)
        imposed.max_per_user |= all_of(limits.max_tres_per_user)
        if i != OKAY:
            return LimitKind.QOS_MAX_PER_USER, i
    return None
