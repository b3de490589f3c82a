"""What a partition allows: limits on size and time, states, accounts, QOS and groups.

Three places ask, each with its own part of the rules (slurmctld/job_mgr.c and partition_mgr.c):
at submit (`PartitionLimits.submit`, _alt_part_test() and _valid_job_part()), when the queue is built
(`pending`, job_limits_check()) and before nodes are selected (`select`, the head of select_nodes()).
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster import PartitionConf
from slurmtwin.models.slurmctld.states import Reason
from slurmtwin.models.slurmctld.tables import Job, Partition

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

ROOT: Final = "root"
"""Who submits when a request names no user."""
NO_FLAGS: Final[frozenset[str]] = frozenset()


class SubmitError(StrEnum):
    """Why sbatch is refused, in sbatch's words (common/slurm_errno.c)."""

    ACCESS_DENIED = "Access/permission denied"
    USER_ID_MISSING = "Invalid user id"
    MISSING_GROUP = "User's group not permitted to use this partition"
    TOO_MANY_CPUS = "More processors requested than permitted"
    NODE_COUNT = "Node count specification invalid"
    TASK_COUNT = "Task count specification invalid"
    NODES_NOT_IN_PARTITION = "Requested nodes not in this partition"
    TIME_LIMIT = "Requested time limit is invalid (missing or exceeds some limit)"
    TIME_MIN = "Invalid time-min specification (exceeds job's time or other limits)"
    ACCOUNT = "Invalid account or account/partition combination specified"
    QOS = "Invalid qos specification"
    PARTITION_NOT_AVAIL = "Required partition not available (inactive or drain)"


_ALWAYS_REFUSED: Final = (SubmitError.ACCESS_DENIED, SubmitError.USER_ID_MISSING)


def max_time_s(part: Partition) -> int | None:
    """The partition's MaxTime in seconds; None: UNLIMITED."""
    limit = part.conf.max_time_ns
    return None if limit < 0 else limit // SECOND


def _names_nodes(job: Job) -> bool:
    """The request fixes a node count, by --nodes, --nodelist or tasks per node."""
    request = job.request
    return request.nodes_min is not None or bool(request.nodelist) or bool(request.ntasks and request.ntasks_per_node)


def _most_nodes(job: Job) -> int | None:
    """The node count the request allows at most; the implied one (no more nodes than tasks) does not count here."""
    request = job.request
    implied = request.nodes_min is None and request.nodes_max is None and job.nodes_max == (request.ntasks or 0)
    return None if implied else job.nodes_max or None


def _over(limit_s: int | None, most_s: int | None) -> bool:
    return limit_s is not None and most_s is not None and (limit_s < 0 or limit_s > most_s)


class PartitionLimits:
    """The rules of one controller's configuration. slurm.md 3.1 and man slurm.conf, partition options."""

    def __init__(self, slurmctld: Slurmctld) -> None:
        self._ctl = slurmctld
        conf = slurmctld.conf
        self._old = conf.version == "22.05"
        self._enforce = conf.controller.enforce_part_limits
        self._assocs_enforced = bool(conf.controller.accounting_enforce)
        self._qos_flags = {q.name: frozenset(f.lower() for f in q.flags) for q in conf.qos}
        self._parents = {a.account: a.parent for a in conf.assocs if not a.user}
        self._open: dict[str, tuple[PartitionConf, int]] = {}

    # at submit

    def submit(self, job: Job) -> SubmitError | None:
        """Refusal at submit, or None; fills job.nodes_min and job.limit_s from the partition's rules.

        With several partitions those that take no jobs are dropped from job.parts.
        """
        usable = [p for p in job.parts if p.conf.state.upper() in ("UP", "DOWN")]
        if not usable:
            return SubmitError.PARTITION_NOT_AVAIL
        job.parts[:] = usable
        first = usable[0]
        error = self._submit_access(job, usable)
        if error is not None:
            return error
        return self._submit_size(job, usable) or self._submit_time(job, first, usable)

    def _submit_access(self, job: Job, parts: list[Partition]) -> SubmitError | None:
        request = job.request
        failed: SubmitError | None = None
        passed = False
        nodes_min = job.nodes_min if _names_nodes(job) else None
        for part in parts:
            error = self.access(job, part, nodes_min, _most_nodes(job), job.limit_s)
            if error is None and request.nodelist and not job.node_pool and not self._nodelist_inside(job, part):
                error = SubmitError.NODES_NOT_IN_PARTITION
            if error is None:
                passed = True
                continue
            failed = error
            denied = error in _ALWAYS_REFUSED or (self._old and error is SubmitError.MISSING_GROUP)
            if denied or self._enforce == "all":
                passed = False
                if len(parts) == 1:
                    return error
                break
        if failed is None or self._enforce == "no" or (self._enforce == "any" and passed):
            return None
        return failed

    def _nodelist_inside(self, job: Job, part: Partition) -> bool:
        from slurmtwin.contract.hostlist import expand

        by_name = self._ctl.nodes.by_name
        return all(name in by_name and part.nodes >> by_name[name].index & 1 for name in expand(job.request.nodelist))

    def _submit_size(self, job: Job, parts: list[Partition]) -> SubmitError | None:
        request, flags = job.request, self.qos_flags(job)
        nodes_max = _most_nodes(job)
        least = min(p.conf.min_nodes for p in parts)
        most = max(1 << 31 if p.conf.max_nodes < 0 else p.conf.max_nodes for p in parts)
        below_ok = "partitionminnodes" in flags
        enforce = self._enforce != "no"
        if not _names_nodes(job):
            job.nodes_min = max(job.nodes_min, least if least and (self._old or not below_ok) else 1)
        elif job.nodes_min > most and enforce and "partitionmaxnodes" not in flags:
            return SubmitError.NODE_COUNT
        elif job.nodes_min < least and (nodes_max is None or nodes_max >= least) and (self._old or not below_ok):
            job.nodes_min = least
        if enforce and not below_ok:
            if nodes_max is not None and nodes_max < least:
                return SubmitError.NODE_COUNT
            if not self._old and request.ntasks is not None and request.ntasks < least:
                return SubmitError.TASK_COUNT
        return None

    def _submit_time(self, job: Job, first: Partition, parts: list[Partition]) -> SubmitError | None:
        default_ns = first.conf.default_time_ns
        if job.limit_s is None:
            if default_ns == 0:
                return SubmitError.TIME_LIMIT
            if default_ns != -2:
                job.limit_s = -1 if default_ns < 0 else default_ns // SECOND
        if "partitiontimelimit" in self.qos_flags(job):
            return None
        limits = [max_time_s(p) for p in parts]
        most = None if None in limits else max(x for x in limits if x is not None)
        if job.time_min_s and _over(job.time_min_s, most):
            return SubmitError.TIME_MIN
        if not job.time_min_s and self._enforce != "no" and _over(job.limit_s, most):
            return SubmitError.TIME_LIMIT
        if job.time_min_s and job.limit_s is not None and 0 <= job.limit_s < job.time_min_s:
            return SubmitError.TIME_MIN
        return None

    # shared by submit and queue build

    def qos_flags(self, job: Job) -> frozenset[str]:
        """The flags of the job's QOS in lower case."""
        return self._qos_flags.get(job.qos, NO_FLAGS)

    def access(
        self, job: Job, part: Partition, nodes_min: int | None, nodes_max: int | None, limit_s: int | None
    ) -> SubmitError | None:
        """_part_access_check(): may this request use this partition?"""
        conf = part.conf
        user = job.user or ROOT
        if conf.req_resv and not job.reservation:
            return SubmitError.ACCESS_DENIED
        if conf.root_only and user != ROOT:
            return SubmitError.ACCESS_DENIED
        if conf.disable_root_jobs and user == ROOT:
            return SubmitError.USER_ID_MISSING
        if self._old and not self._group_allowed(job, part):
            return SubmitError.MISSING_GROUP
        if conf.state.upper() in ("UP", "DRAIN"):
            error = self._size_and_time(job, part, nodes_min, nodes_max, limit_s)
            if error is not None:
                return error
        if self._enforce != "no":
            return self._policy(job, part)
        return None

    def _size_and_time(
        self, job: Job, part: Partition, nodes_min: int | None, nodes_max: int | None, limit_s: int | None
    ) -> SubmitError | None:
        conf, flags = part.conf, self.qos_flags(job)
        total_nodes = part.nodes.bit_count()
        cpus = job.cpus_min
        if cpus > part.total_cpus or (conf.max_cpus_per_node >= 0 and cpus > conf.max_cpus_per_node * total_nodes):
            return SubmitError.TOO_MANY_CPUS
        if nodes_min is not None and nodes_min > total_nodes:
            return SubmitError.NODE_COUNT
        if nodes_min is not None and nodes_min < conf.min_nodes and "partitionminnodes" not in flags:
            return SubmitError.NODE_COUNT
        if nodes_max is not None and 0 <= conf.max_nodes < nodes_max and "partitionmaxnodes" not in flags:
            return SubmitError.NODE_COUNT
        if _over(limit_s, max_time_s(part)) and "partitiontimelimit" not in flags:
            return SubmitError.TIME_LIMIT
        return None

    def _policy(self, job: Job, part: Partition) -> SubmitError | None:
        if not self._old and not self._group_allowed(job, part):
            return SubmitError.MISSING_GROUP
        if not self._account_allowed(job, part):
            return SubmitError.ACCOUNT
        return None if self._qos_allowed(job, part) else SubmitError.QOS

    def _group_allowed(self, job: Job, part: Partition) -> bool:
        """validate_group(): a user's only known group is the one of the same name; root is in every group."""
        user = job.user or ROOT
        return not part.conf.allow_groups or user == ROOT or user in part.conf.allow_groups

    def _account_allowed(self, job: Job, part: Partition) -> bool:
        conf = part.conf
        if not conf.allow_accounts and not conf.deny_accounts:
            return True
        if self._old:
            if conf.allow_accounts:
                return job.account in conf.allow_accounts
            return job.account not in conf.deny_accounts
        if not self._assocs_enforced:
            return True
        line = self._lineage(job.account)
        if conf.allow_accounts:
            return any(a in conf.allow_accounts for a in line)
        return not any(a in conf.deny_accounts for a in line)

    def _lineage(self, account: str) -> list[str]:
        """The account and its parents up to root (_find_acct_in_list)."""
        out = [account]
        while out[-1] in self._parents and self._parents[out[-1]] not in out:
            out.append(self._parents[out[-1]])
        return out

    def _qos_allowed(self, job: Job, part: Partition) -> bool:
        conf = part.conf
        if conf.allow_qos:
            return job.qos in conf.allow_qos
        return not (conf.deny_qos and job.qos in conf.deny_qos)

    # in the scheduling passes

    def pending(self, job: Job, part: Partition, check_min_time: bool = False) -> str | None:
        """job_limits_check(): the reason why the job cannot be in this partition's queue now, or None.

        check_min_time (backfill): --time-min counts instead of the limit.
        """
        conf = part.conf
        known = self._open.get(conf.name)
        if known is None or known[0] is not conf:
            known = self._open[conf.name] = (conf, part.nodes.bit_count() if self.is_open(conf) else 0)
        if job.nodes_min <= known[1] and job.cpus_min <= part.total_cpus:
            return None
        state = conf.state.upper()
        limit_s = job.time_min_s if check_min_time and job.time_min_s else job.limit_s
        error = self.access(job, part, job.nodes_min, _most_nodes(job), limit_s)
        if error is SubmitError.TIME_LIMIT:
            return Reason.PARTITION_TIME_LIMIT
        if error is SubmitError.NODE_COUNT:
            return Reason.PARTITION_NODE_LIMIT
        if error is not None:
            return "PartitionConfig"
        if state == "DOWN":
            return Reason.PARTITION_DOWN
        if state == "INACTIVE":
            return Reason.PARTITION_INACTIVE
        return None

    def is_open(self, conf: PartitionConf) -> bool:
        """No rule of this partition can keep a job that fits its size waiting."""
        return (
            conf.state.upper() == "UP"
            and not (conf.req_resv or conf.root_only or conf.disable_root_jobs or conf.allow_groups)
            and not (conf.allow_accounts or conf.deny_accounts or conf.allow_qos or conf.deny_qos)
            and conf.min_nodes <= 1
            and conf.max_nodes < 0
            and conf.max_time_ns < 0
            and conf.max_cpus_per_node < 0
        )

    def select(self, job: Job, part: Partition) -> str | None:
        """The quick checks at the head of select_nodes(): QOS, account and group against the partition."""
        if not self._qos_allowed(job, part):
            return Reason.QOS_NOT_ALLOWED
        if not self._account_allowed(job, part) or not self._group_allowed(job, part):
            return Reason.ACCOUNT_NOT_ALLOWED
        return None
