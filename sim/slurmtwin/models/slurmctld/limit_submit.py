"""Limits at submit (acct_policy.c acct_policy_validate): what is refused, and what time limit a job gets from them.

Sizes and times are only refused at submit when a QOS of the job has DenyOnLimit, or when it has no QOS at all;
otherwise the job is accepted and waits with the reason. Numbers of submitted jobs are always enforced.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.contract.clock import MINUTE
from slurmtwin.models.slurmctld import limit_reasons as why
from slurmtwin.models.slurmctld.association_tree import Association, AssociationTree, Qos
from slurmtwin.models.slurmctld.limit_checks import (
    INFINITE,
    OKAY,
    Imposed,
    TimeRequest,
    order_qos,
    scaled,
    too_little,
    too_much,
    too_much_for_assoc,
)
from slurmtwin.models.slurmctld.limit_reasons import LimitKind, tres_reason
from slurmtwin.models.slurmctld.partition_limits import ROOT
from slurmtwin.models.slurmctld.tres import NODE, TresTable

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.tables import Job, Partition


class SubmitLimits:
    """acct_policy_validate() over one association tree."""

    def __init__(self, tree: AssociationTree, tres: TresTable) -> None:
        self._tree = tree
        self._tres = tres

    def validate(self, job: Job, parts: list[Partition]) -> str | None:
        """The refusal's reason, or None; job.limit_s and limit_set are filled in from limits on time."""
        minutes = None if job.limit_s is None else INFINITE if job.limit_s < 0 else job.limit_s // 60
        time = TimeRequest(minutes, INFINITE, job.limit_set)
        for part in parts:
            time.part_max = INFINITE if part.conf.max_time_ns < 0 else part.conf.max_time_ns // MINUTE
            reason = _Submission(self._tree, self._tres, job, part, time).test()
            if reason is not None:
                return reason
        if time.minutes != minutes:
            job.limit_s = -1 if time.minutes == INFINITE else (time.minutes or 0) * 60
        job.limit_set = time.set_by_limit
        return None


class _Submission:
    """One job against the limits of one of its partitions."""

    def __init__(self, tree: AssociationTree, tres: TresTable, job: Job, part: Partition, time: TimeRequest) -> None:
        self.job = job
        self.time = time
        self.tres = tres
        self.counts = tres.requested(job, part)
        self.tasks = len(job.array_waiting) if job.array_waiting is not None else 1
        own = tree.qos.get(job.qos) if job.qos else None
        self.order = order_qos(own, tree.qos.get(part.conf.qos) if part.conf.qos else None)
        self.strict = not self.order or any("denyonlimit" in q.flags for q in self.order)
        self.imposed = Imposed()

    def reason(self, kind: LimitKind, index: int) -> str:
        """The reason for one TRES limit."""
        return tres_reason(kind, self.tres.kind(index))

    def test(self) -> str | None:
        """Both QOS, then the associations up to root."""
        assoc = self.job.assoc
        if not isinstance(assoc, Association):
            return None
        for qos in self.order:
            reason = (
                self._qos_holders(qos)
                or self._qos_group_count(qos)
                or self._qos_times(qos)
                or self._qos_sizes(qos)
                or self._qos_counts(qos, assoc)
                or self._qos_least(qos)
            )
            if reason is not None:
                return reason
        factor = next((q.conf.limit_factor for q in self.order if q.conf.limit_factor), 0.0)
        for place, level in enumerate(assoc.line):
            reason = self._group(level, factor) or (self._own(level, factor) if place == 0 else None)
            if reason is not None:
                return reason
        return None

    # one QOS

    def _qos_holders(self, qos: Qos) -> str | None:
        """MaxTRESPerAccount; then per TRES GrpTRES beside MaxTRESPerUser."""
        if not self.strict:
            return None
        limits, imposed, counts = qos.limits, self.imposed, self.counts
        i, imposed.max_per_account = too_much(counts, limits.max_tres_per_account, imposed.max_per_account)
        if i != OKAY:
            return self.reason(LimitKind.QOS_MAX_PER_ACCOUNT, i)
        group, user = dict(limits.grp_tres), dict(limits.max_tres_per_user)
        for i in sorted({**group, **user}):
            bit = 1 << i
            over_group = over_user = False
            if i in group and not imposed.grp_tres & bit:
                imposed.grp_tres |= bit
                over_group = counts[i] > group[i]
            if not over_group and i in user and not imposed.max_per_user & bit:
                imposed.max_per_user |= bit
                over_user = counts[i] > user[i]
            if over_user or (over_group and i in user and counts[i] > user[i]):
                return self.reason(LimitKind.QOS_MAX_PER_USER, i)
            if over_group:
                return self.reason(LimitKind.QOS_GRP, i)
        return None

    def _qos_group_count(self, qos: Qos) -> str | None:
        most = qos.limits.grp_submit_jobs
        if self.imposed.claim("grp_submit", most) and qos.counters.submit_jobs + self.tasks > (most or 0):
            return "QOS" + why.GRP_SUBMIT_JOBS
        return None

    def _qos_times(self, qos: Qos) -> str | None:
        limits, imposed, time, counts = qos.limits, self.imposed, self.time, self.counts
        if self.strict:
            i, imposed.max_mins_job = time.tres_minutes(counts, limits.max_tres_mins_per_job, imposed.max_mins_job)
            if i != OKAY:
                return self.reason(LimitKind.QOS_MAX_MINS_PER_JOB, i)
            i, imposed.grp_mins = time.tres_minutes(counts, limits.grp_tres_mins, imposed.grp_mins)
            if i != OKAY:
                return self.reason(LimitKind.QOS_GRP_MINS, i)
            i, imposed.grp_run_mins = time.tres_minutes(counts, limits.grp_tres_run_mins, imposed.grp_run_mins)
            if i != OKAY:
                return self.reason(LimitKind.QOS_GRP_RUN_MINS, i)
        if limits.max_wall is not None and imposed.claim("max_wall", limits.max_wall):
            time.bound(limits.max_wall)
            if self.strict and time.exceeds(limits.max_wall):
                return "QOS" + why.MAX_WALL
        if limits.grp_wall is not None and imposed.claim("grp_wall", limits.grp_wall):
            time.bound(limits.grp_wall)
            if self.strict and time.exceeds(limits.grp_wall):
                return "QOS" + why.GRP_WALL
        return None

    def _qos_sizes(self, qos: Qos) -> str | None:
        if not self.strict:
            return None
        limits, imposed, counts = qos.limits, self.imposed, self.counts
        i, imposed.max_per_job = too_much(counts, limits.max_tres_per_job, imposed.max_per_job)
        if i != OKAY:
            return self.reason(LimitKind.QOS_MAX_PER_JOB, i)
        i, imposed.max_per_node = too_much(counts, limits.max_tres_per_node, imposed.max_per_node, counts[NODE])
        return self.reason(LimitKind.QOS_MAX_PER_NODE, i) if i != OKAY else None

    def _qos_counts(self, qos: Qos, assoc: Association) -> str | None:
        limits, imposed = qos.limits, self.imposed
        most = limits.max_submit_jobs_per_account
        if imposed.claim("submit_pa", most) and qos.account(assoc.account).submit_jobs + self.tasks > (most or 0):
            return why.QOS_MAX_SUBMIT_ACCOUNT
        most = limits.max_submit_jobs
        if imposed.claim("submit_pu", most) and (
            qos.user(self.job.user or ROOT).submit_jobs + self.tasks > (most or 0)
        ):
            return why.QOS_MAX_SUBMIT_USER
        return None

    def _qos_least(self, qos: Qos) -> str | None:
        if not self.strict:
            return None
        limits, imposed = qos.limits, self.imposed
        i, imposed.min_per_job = too_little(self.counts, limits.min_tres_per_job, imposed.min_per_job)
        return self.reason(LimitKind.QOS_MIN, i) if i != OKAY else None

    # one association

    def _group(self, level: Association, factor: float) -> str | None:
        """Group limits, of the association itself and of all its parents."""
        limits, imposed, time, counts = level.limits, self.imposed, self.time, self.counts
        if self.strict:
            i = too_much_for_assoc(counts, scaled(limits.grp_tres, factor), imposed.grp_tres)
            if i != OKAY:
                return self.reason(LimitKind.ASSOC_GRP, i)
        most = limits.grp_submit_jobs
        if imposed.free("grp_submit", most) and level.counters.submit_jobs + self.tasks > (most or 0):
            return "Assoc" + why.GRP_SUBMIT_JOBS
        if self.strict:
            i, imposed.grp_mins = time.tres_minutes(counts, limits.grp_tres_mins, imposed.grp_mins)
            if i != OKAY:
                return self.reason(LimitKind.ASSOC_GRP_MINS, i)
            i, imposed.grp_run_mins = time.tres_minutes(counts, limits.grp_tres_run_mins, imposed.grp_run_mins)
            if i != OKAY:
                return self.reason(LimitKind.ASSOC_GRP_RUN_MINS, i)
        return "Assoc" + why.GRP_WALL if self._wall_exceeded("grp_wall", limits.grp_wall) else None

    def _own(self, level: Association, factor: float) -> str | None:
        """Per-job limits of the association itself; its parents' are inherited already."""
        limits, imposed, time, counts = level.limits, self.imposed, self.time, self.counts
        if self.strict:
            i = too_much_for_assoc(counts, scaled(limits.max_tres_per_job, factor), imposed.max_per_job)
            if i != OKAY:
                return self.reason(LimitKind.ASSOC_MAX_PER_JOB, i)
            i = too_much_for_assoc(counts, limits.max_tres_per_node, imposed.max_per_node, counts[NODE])
            if i != OKAY:
                return self.reason(LimitKind.ASSOC_MAX_PER_NODE, i)
        most = limits.max_submit_jobs
        if (
            imposed.free("submit_pa", most)
            and "submit_pu" not in imposed.scalars
            and level.counters.submit_jobs + self.tasks > (most or 0)
        ):
            return why.ASSOC_MAX_SUBMIT
        if self.strict:
            i, imposed.max_mins_job = time.tres_minutes(counts, limits.max_tres_mins_per_job, imposed.max_mins_job)
            if i != OKAY:
                return self.reason(LimitKind.ASSOC_MAX_MINS_PER_JOB, i)
        return "Assoc" + why.MAX_WALL if self._wall_exceeded("max_wall", limits.max_wall) else None

    def _wall_exceeded(self, name: str, most: int | None) -> bool:
        """_validate_time_limit(): fills in a missing limit always, refuses a longer one only when strict."""
        time, imposed = self.time, self.imposed
        if most is None or name in imposed.scalars or (time.minutes is not None and not self.strict):
            return False
        time.bound(most)
        imposed.claim(name, most)
        return time.exceeds(most)
