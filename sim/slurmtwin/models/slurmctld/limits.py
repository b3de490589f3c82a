"""Association and QOS limits: who may submit, who may start (slurmctld/acct_policy.c).

AccountingIdentity finds a job's association and QOS and is all there is without AccountingStorageEnforce=limits.
AccountingLimits adds the limits and the counters they are held against. Order of the checks: the partition's
QOS, the job's QOS (the other way round with OverPartQOS), then the associations from the user up to root.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.models.slurmctld import limit_reasons as why
from slurmtwin.models.slurmctld.association_tree import Association, AssociationTree, Counters, Qos
from slurmtwin.models.slurmctld.limit_checks import (
    OKAY,
    Imposed,
    all_of,
    in_use,
    limit_minutes,
    order_qos,
    run_minutes,
    scaled,
    too_much_for_assoc,
    unique_nodes,
    usable_minutes,
)
from slurmtwin.models.slurmctld.limit_reasons import LimitKind, tres_reason
from slurmtwin.models.slurmctld.limit_submit import SubmitLimits
from slurmtwin.models.slurmctld.partition_limits import ROOT, SubmitError
from slurmtwin.models.slurmctld.priority_basic import PriorityBasic
from slurmtwin.models.slurmctld.qos_checks import check_counts, check_resources
from slurmtwin.models.slurmctld.states import Reason
from slurmtwin.models.slurmctld.tres import ENERGY, NODE, TresTable

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.allocation import Allocation
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job, Partition

_NEED_ASSOCIATION: Final = ("associations", "limits", "qos", "safe", "wckeys")


class AccountingIdentity:
    """parts.AccountingPolicy without limits: association, account and QOS of a job."""

    def __init__(self, slurmctld: Slurmctld, tree: AssociationTree | None, tres: TresTable) -> None:
        """tree: None without slurmdbd: jobs then have neither association nor QOS."""
        self._ctl = slurmctld
        self._tree = tree
        self._tres = tres
        enforce = {f.lower() for f in slurmctld.conf.controller.accounting_enforce}
        self._need_assoc = any(f in enforce for f in _NEED_ASSOCIATION)
        self._need_qos = "qos" in enforce
        self._safe = "safe" in enforce

    @property
    def watches_usage(self) -> bool:
        """Running jobs can be ended by limits on usage: the 30 s scan has to ask timed_out()."""
        return False

    def admit(self, job: Job) -> str | None:
        """At submit, in _job_create()'s order: association, QOS, partition, limits, reservation. None: accepted."""
        ctl = self._ctl
        refused = self._identify(job) or ctl.partition_limits.submit(job) or self._validate(job)
        if refused is None and job.reservation:
            refused = ctl.reservations.submit(job)
        return refused

    def _identify(self, job: Job) -> SubmitError | None:
        tree, request = self._tree, job.request
        if tree is None:
            job.account = request.account
            job.qos = request.qos
            return None
        part = job.parts[0].name if len(job.parts) == 1 else ""
        account = request.account.lower()
        assoc = tree.find(account, job.user or ROOT, part)
        if assoc is None and self._need_assoc:
            return SubmitError.ACCOUNT
        if assoc is None and account:
            assoc = tree.find("", job.user or ROOT, part)
        job.assoc = assoc
        job.account = assoc.account if assoc is not None else account
        return self._choose_qos(job, tree, assoc)

    def _choose_qos(self, job: Job, tree: AssociationTree, assoc: Association | None) -> SubmitError | None:
        """_determine_and_validate_qos()."""
        name = job.request.qos.lower() or tree.default_qos(assoc)
        qos = tree.qos.get(name)
        if self._need_qos:
            if qos is None or (assoc is not None and name not in assoc.valid_qos):
                return SubmitError.QOS
            if "requiresreservation" in qos.flags and not job.reservation:
                return SubmitError.QOS
        job.qos = name if qos is not None else ""
        return None

    def _validate(self, job: Job) -> str | None:  # noqa: ARG002  the limits' hook
        return None

    def job_submitted(self, job: Job) -> None:
        """Nothing is counted."""

    def job_left(self, job: Job) -> None:
        """Nothing is counted."""

    def runnable(self, job: Job) -> str | None:
        """Only the association must exist where it is enforced."""
        if self._need_assoc and job.assoc is None:
            return Reason.INVALID_ACCOUNT
        return None

    def runnable_with(self, job: Job, allocation: Allocation | None) -> str | None:  # noqa: ARG002
        """No limit."""
        return None

    def max_nodes(self, job: Job, part: Partition) -> tuple[int, str] | None:  # noqa: ARG002
        """No limit."""
        return None

    def preferred_nodes(self, job: Job, part: Partition) -> int:  # noqa: ARG002  the limits' hook
        """No limit prefers a node."""
        return 0

    def prio_thresh(self, job: Job) -> int:  # noqa: ARG002
        """No limit."""
        return 0

    def timed_out(self, job: Job) -> bool:  # noqa: ARG002
        """Never."""
        return False

    def job_started(self, job: Job) -> None:
        """Nothing is counted."""

    def job_ended(self, job: Job) -> None:
        """The calculation thread charges the job no more."""
        self._ctl.priority.job_ended(job)


class AccountingLimits(AccountingIdentity):
    """parts.AccountingPolicy with AccountingStorageEnforce=limits or safe."""

    def __init__(self, slurmctld: Slurmctld, tree: AssociationTree, tres: TresTable) -> None:
        super().__init__(slurmctld, tree, tres)
        self._tree: AssociationTree = tree
        self._submit = SubmitLimits(tree, tres)
        self._held: dict[int, list[int]] = {}
        """TRES that each started job was counted with, by Slurm id."""
        self._usage_bound = tree.usage_bound()
        self._limits_nodes = tree.limits_nodes()
        self._max_nodes: dict[tuple[str, str, Association | None], tuple[int, str] | None] = {}
        """By the QOS of the job, that of the partition, and the association: what max_nodes() found."""

    @property
    def watches_usage(self) -> bool:
        """GrpTRESMins or GrpWall without safe."""
        return self._usage_bound and not self._safe

    def _validate(self, job: Job) -> str | None:
        parts = job.parts or ([job.part] if job.part else [])
        return self._submit.validate(job, parts)

    # what is counted

    def _qos_of(self, job: Job) -> Qos | None:
        return self._tree.qos.get(job.qos) if job.qos else None

    def _part_qos(self, part: Partition | None) -> Qos | None:
        return self._tree.qos.get(part.conf.qos) if part is not None and part.conf.qos else None

    def qos_order(self, job: Job, part: Partition | None) -> list[Qos]:
        """acct_policy_set_qos_order(): the partition's QOS before the job's, unless the job's is OverPartQOS."""
        return order_qos(self._qos_of(job), self._part_qos(part))

    def _counters(self, job: Job, qos: Qos, assoc: Association) -> tuple[Counters, Counters, Counters]:
        return qos.counters, qos.user(job.user or ROOT), qos.account(assoc.account)

    def _submit_qos(self, job: Job) -> list[Qos]:
        """Every QOS a job waiting in its partitions counts in, each once."""
        if len(job.parts) > 1 and (job.pending or job.slurm_id not in self._held):
            out = dict.fromkeys(q for q in map(self._part_qos, job.parts) if q is not None)
            own = self._qos_of(job)
            if own is not None:
                out.setdefault(own)
            return list(out)
        return self.qos_order(job, job.part or (job.parts[0] if job.parts else None))

    def job_submitted(self, job: Job) -> None:
        """acct_policy_add_job_submit(): every task of an array counts."""
        self._count_submit(job, self._submit_qos(job), _tasks(job))

    def job_left(self, job: Job) -> None:
        """acct_policy_remove_job_submit()."""
        self._count_submit(job, self._submit_qos(job), -_tasks(job))

    def _count_submit(self, job: Job, all_qos: list[Qos], change: int) -> None:
        assoc = job.assoc
        if not isinstance(assoc, Association):
            return
        for qos in all_qos:
            for counters in self._counters(job, qos, assoc):
                counters.submit_jobs = max(0, counters.submit_jobs + change)
        for level in assoc.line:
            level.counters.submit_jobs = max(0, level.counters.submit_jobs + change)

    def job_started(self, job: Job) -> None:
        """acct_policy_job_begin(): TRES, nodes and TRES-run-minutes; the QOS of partitions not chosen are left."""
        assoc, alloc = job.assoc, job.alloc
        if not isinstance(assoc, Association) or alloc is None:
            return
        order = self.qos_order(job, job.part)
        if len(job.parts) > 1:
            for qos in dict.fromkeys(q for q in map(self._part_qos, job.parts) if q is not None and q not in order):
                for counters in self._counters(job, qos, assoc):
                    counters.submit_jobs = max(0, counters.submit_jobs - 1)
        counts = self._held[job.slurm_id] = self._tres.allocated(job)
        seconds = limit_minutes(job) * 60
        own = self._qos_of(job)
        if own is not None and own.conf.usage_factor >= 0:
            seconds = int(seconds * own.conf.usage_factor)
        for holder in self._holders(job, order, assoc):
            holder.take(counts, alloc.nodes)
            run = holder.run_secs
            for i, count in enumerate(counts):
                if count and i != ENERGY:
                    run[i] += seconds * count

    def job_ended(self, job: Job) -> None:
        """acct_policy_job_fini(): the usage is charged first, then everything is given back."""
        self._ctl.priority.job_ended(job)
        counts = self._held.pop(job.slurm_id, None)
        assoc, alloc = job.assoc, job.alloc
        if counts is None or not isinstance(assoc, Association) or alloc is None:
            return
        order = self.qos_order(job, job.part)
        for holder in self._holders(job, order, assoc):
            holder.give_back(counts, alloc.nodes)
        if isinstance(self._ctl.priority, PriorityBasic):
            self._drop_run_secs(job, counts, assoc)

    def _drop_run_secs(self, job: Job, counts: list[int], assoc: Association) -> None:
        """priority/basic has no decay: the whole limit's seconds go at the end, without UsageFactor."""
        seconds = limit_minutes(job) * 60
        own = self._qos_of(job)
        holders = [own.counters] if own is not None else []
        for counters in (*holders, *(level.counters for level in assoc.line)):
            for i, count in enumerate(counts):
                counters.run_secs[i] = max(0, counters.run_secs[i] - seconds * count)

    def _holders(self, job: Job, order: list[Qos], assoc: Association) -> list[Counters]:
        out: list[Counters] = []
        for qos in order:
            out.extend(self._counters(job, qos, assoc))
        out.extend(level.counters for level in assoc.line)
        return out

    # may it start

    def runnable(self, job: Job) -> str | None:
        """acct_policy_job_runnable_pre_select(): limits on counts and times that need no node choice."""
        assoc = job.assoc
        if not isinstance(assoc, Association):
            return Reason.INVALID_ACCOUNT
        self._fresh()
        imposed = Imposed()
        own = self._qos_of(job)
        order = self.qos_order(job, job.part)
        for qos in order:
            reason = check_counts(job, qos, own, assoc, imposed, self._safe)
            if reason is not None:
                return reason
        minutes = usable_minutes(job, own)
        for place, level in enumerate(assoc.line):
            limits, counters = level.limits, level.counters
            if imposed.free("grp_jobs", limits.grp_jobs) and counters.jobs >= (limits.grp_jobs or 0):
                return "Assoc" + why.GRP_JOBS
            if imposed.free("grp_wall", limits.grp_wall):
                used, most = int(level.usage.wall) // 60, limits.grp_wall or 0
                if used >= most or (self._safe and used + minutes > most):
                    return "Assoc" + why.GRP_WALL
            if place:
                continue
            if (
                imposed.free("max_jobs_pa", limits.max_jobs)
                and "max_jobs_pu" not in imposed.scalars
                and counters.jobs >= (limits.max_jobs or 0)
            ):
                return why.ASSOC_MAX_JOBS
            if imposed.free("max_wall", limits.max_wall) and minutes > (limits.max_wall or 0):
                return "Assoc" + why.MAX_WALL
        return None

    def runnable_with(self, job: Job, allocation: Allocation | None) -> str | None:
        """acct_policy_job_runnable_post_select(): limits on the TRES of the selected nodes; None: none was found."""
        assoc = job.assoc
        if not isinstance(assoc, Association):
            return None
        self._fresh()
        tres, nodes = self._tres, allocation.nodes if allocation is not None else 0
        counts = tres.requested(job, job.part) if allocation is None else tres.requested_with(job, job.part, allocation)
        own = self._qos_of(job)
        minutes = usable_minutes(job, own, default=True)
        tres_minutes = [minutes * c for c in counts]
        factor = own.conf.usage_factor if own is not None else 1.0
        imposed = Imposed()
        order = self.qos_order(job, job.part)
        for qos in order:
            failed = check_resources(job, qos, assoc, imposed, counts, tres_minutes, nodes, factor, self._safe)
            if failed is not None:
                return tres_reason(failed[0], self._tres.kind(failed[1]))
        limit_factor = next((q.conf.limit_factor for q in order if q.conf.limit_factor), 0.0)
        for place, level in enumerate(assoc.line):
            failed = self._assoc_resources(
                level, place == 0, imposed, counts, tres_minutes, nodes, factor, limit_factor
            )
            if failed is not None:
                return tres_reason(failed[0], self._tres.kind(failed[1]))
        return None

    def _assoc_resources(
        self, level: Association, lowest: bool, imposed: Imposed, counts: list[int], tres_minutes: list[int],
        nodes: int, factor: float, limit_factor: float,
    ) -> tuple[LimitKind, int] | None:  # fmt: skip
        limits, counters = level.limits, level.counters
        if limits.grp_tres_mins:
            used = [int(x / 60) if factor else 0 for x in level.usage.tres_raw]
            running = run_minutes(counters, factor)
            i = in_use(limits.grp_tres_mins, imposed.grp_mins, tres_minutes, running, used, self._safe)
            if i != OKAY:
                return LimitKind.ASSOC_GRP_MINS, i
        if limits.grp_tres:
            wanted = unique_nodes(counts, nodes, counters)
            i = in_use(scaled(limits.grp_tres, limit_factor), imposed.grp_tres, wanted, counters.tres, None, True)
            if i != OKAY:
                return LimitKind.ASSOC_GRP, i
        if limits.grp_tres_run_mins:
            running = run_minutes(counters, factor)
            i = in_use(limits.grp_tres_run_mins, imposed.grp_run_mins, tres_minutes, running, None, True)
            if i != OKAY:
                return LimitKind.ASSOC_GRP_RUN_MINS, i
        if not lowest:
            return None
        i = too_much_for_assoc(tres_minutes, limits.max_tres_mins_per_job, imposed.max_mins_job)
        if i != OKAY:
            return LimitKind.ASSOC_MAX_MINS_PER_JOB, i
        i = too_much_for_assoc(counts, scaled(limits.max_tres_per_job, limit_factor), imposed.max_per_job)
        if i != OKAY:
            return LimitKind.ASSOC_MAX_PER_JOB, i
        i = too_much_for_assoc(counts, limits.max_tres_per_node, imposed.max_per_node, counts[NODE])
        return (LimitKind.ASSOC_MAX_PER_NODE, i) if i != OKAY else None

    def max_nodes(self, job: Job, part: Partition) -> tuple[int, str] | None:
        """acct_policy_get_max_nodes(): the smallest node limit and the reason it would give."""
        key = (job.qos, part.conf.qos, job.assoc if isinstance(job.assoc, Association) else None)
        if key not in self._max_nodes:
            self._max_nodes[key] = self._find_max_nodes(job, part)
        return self._max_nodes[key]

    def _find_max_nodes(self, job: Job, part: Partition) -> tuple[int, str] | None:
        order = self.qos_order(job, part)
        best: tuple[int, str] | None = None

        def tighter(limit: int | None, reason: str) -> None:
            nonlocal best
            if limit is not None and (best is None or limit < best[0]):
                best = (limit, reason)

        def first(name: str) -> int | None:
            found = (_node_limit(getattr(q.limits, name)) for q in order)
            return next((x for x in found if x is not None), None)

        tighter(first("max_tres_per_account"), tres_reason(LimitKind.QOS_MAX_PER_ACCOUNT, "node"))
        tighter(first("max_tres_per_job"), tres_reason(LimitKind.QOS_MAX_PER_JOB, "node"))
        tighter(first("max_tres_per_user"), tres_reason(LimitKind.QOS_MAX_PER_USER, "node"))
        per_job = best
        group = first("grp_tres")
        tighter(group, tres_reason(LimitKind.QOS_GRP, "node"))
        limit_factor = next((q.conf.limit_factor for q in order if q.conf.limit_factor), 0.0)
        line = job.assoc.line if isinstance(job.assoc, Association) else ()
        for place, level in enumerate(line):
            before = best
            if group is None:
                limit = _node_limit(scaled(level.limits.grp_tres, limit_factor))
                tighter(limit, tres_reason(LimitKind.ASSOC_GRP, "node"))
            group_set = best is not before
            if place == 0 and per_job is None:
                limit = _node_limit(scaled(level.limits.max_tres_per_job, limit_factor))
                tighter(limit, tres_reason(LimitKind.ASSOC_MAX_PER_JOB, "node"))
            if group_set:
                break
        return best

    def preferred_nodes(self, job: Job, part: Partition) -> int:
        """_find_grp_node_bitmap(): a node limit counts a shared node once, so nodes already in use under it come first.

        The first QOS with a limit of a kind, then the lowest association with GrpTRES=node if no QOS has one.
        """
        assoc = job.assoc
        if not isinstance(assoc, Association) or not self._limits_nodes:
            return 0
        found, seen = 0, set()
        for qos in self.qos_order(job, part):
            of_all, of_user, of_account = self._counters(job, qos, assoc)
            limits = qos.limits
            if "group" not in seen and of_all.node_bitmap and _node_limit(limits.grp_tres) is not None:
                seen.add("group")
                found = of_all.nodes.some  # as slurmctld does: what an earlier QOS preferred is dropped
            for kind, own, counters in (
                ("user", limits.max_tres_per_user, of_user),
                ("account", limits.max_tres_per_account, of_account),
            ):
                if kind not in seen and _node_limit(own) is not None:
                    seen.add(kind)
                    found |= counters.nodes.some
        if "group" in seen:
            return found
        for level in assoc.line:
            if level.counters.node_bitmap and _node_limit(level.limits.grp_tres) is not None:
                return found | level.counters.nodes.some
        return found

    def prio_thresh(self, job: Job) -> int:
        """MinPrioThresh of the first that has one: the QOS in their order, then the association."""
        assoc = job.assoc
        if not isinstance(assoc, Association):
            return 0
        holders: list[Qos | Association] = [*self.qos_order(job, job.part), assoc]
        for holder in holders:
            if holder.limits.min_prio_thresh:
                return holder.limits.min_prio_thresh
        return 0

    def timed_out(self, job: Job) -> bool:
        """acct_policy_job_time_out(): GrpTRESMins, GrpWall or MaxTRESMins used up; never under safe."""
        counts = self._held.get(job.slurm_id)
        if self._safe or counts is None or not isinstance(job.assoc, Association):
            return False
        self._fresh()
        minutes = max(0, self._ctl.now_s() - job.start_s - job.pre_suspend_s) // 60
        wanted = [minutes * c + 1 if c and i != ENERGY else 0 for i, c in enumerate(counts)]
        imposed = Imposed()
        holders = [(q.limits, q.usage) for q in self.qos_order(job, job.part)]
        split = len(holders)
        holders += [(level.limits, level.usage) for level in job.assoc.line[:-1] or job.assoc.line]
        for place, (limits, usage) in enumerate(holders):
            used = [int(x / 60) for x in usage.tres_raw]
            if in_use(limits.grp_tres_mins, imposed.grp_mins, wanted, None, used, False) != OKAY:
                return True
            wall = limits.grp_wall
            if imposed.free("grp_wall", wall) and int(usage.wall) // 60 >= (wall or 0):
                return True
            asked = wanted if place < split else [0 if i == NODE else x for i, x in enumerate(wanted)]
            if in_use(limits.max_tres_mins_per_job, imposed.max_mins_job, asked, None, None, True) != OKAY:
                return True
            if place < split:
                imposed.grp_mins |= all_of(limits.grp_tres_mins)
                imposed.max_mins_job |= all_of(limits.max_tres_mins_per_job)
                imposed.claim("grp_wall", wall)
        return False

    def _fresh(self) -> None:
        """Usage as the calculation thread would have left it by now."""
        if self._usage_bound:
            self._ctl.priority.catch_up()


def _tasks(job: Job) -> int:
    """Records the job stands for: the tasks not split off from an array's meta record."""
    return 1 if job.array_waiting is None else len(job.array_waiting)


def _node_limit(limits: tuple[tuple[int, int], ...]) -> int | None:
    return next((limit for i, limit in limits if i == NODE), None)
