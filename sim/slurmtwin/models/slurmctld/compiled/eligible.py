"""Which runs are plain enough for compiled code: decided here alone, each refusal with its reason.

A cluster is asked once, when it has booted and nothing has arrived; jobs are asked one by one. What a request comes
to (nodes, choice rule) is not worked out anew: the twin's own submission and node selection answer, once per shape.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import MINUTE, SECOND
from slurmtwin.contract.jobs import FIELD_DEFAULTS
from slurmtwin.models.slurmctld.compiled.plain_settings import odd_cost, odd_partition, odd_setting
from slurmtwin.models.slurmctld.job_lifecycle import Lifecycle
from slurmtwin.models.slurmctld.limits import AccountingIdentity
from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
from slurmtwin.models.slurmctld.partition_limits import PartitionLimits
from slurmtwin.models.slurmctld.pending_queue import QueueRecord, is_plain, slurm_order
from slurmtwin.models.slurmctld.plain_planner import PlainPlanner
from slurmtwin.models.slurmctld.priority_basic import PriorityBasic
from slurmtwin.models.slurmctld.priority_multifactor import PriorityMultifactor
from slurmtwin.models.slurmctld.scheduler import Scheduler
from slurmtwin.models.slurmctld.selection.select_nodes import Selection
from slurmtwin.models.slurmctld.selection.uniform import wanted
from slurmtwin.models.slurmctld.tables import INFINITE_S

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import ClusterConf
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.host_costs import HostCosts
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_FREE_FIELDS: Final = ("job_id", "submit_ns", "run_ns", "limit_ns", "user", "account", "name", "exit_code")
"""What every job may have of its own."""
_SHAPE_FIELDS: Final = (
    "ntasks", "nodes_min", "nodes_max", "cpus_per_task", "mem_per_node_mib", "mem_per_cpu_mib", "partition"
)  # fmt: skip
"""What says how many nodes it gets."""
_OTHERS: Final = tuple(name for name in FIELD_DEFAULTS if name not in _FREE_FIELDS + _SHAPE_FIELDS)
_own: Final = attrgetter("job_id", "submit_ns", "run_ns", "limit_ns", "exit_code")
_shape: Final = attrgetter(*_SHAPE_FIELDS)
_rest: Final = attrgetter(*_OTHERS)
_PLAIN_REST: Final = tuple(FIELD_DEFAULTS[name] for name in _OTHERS)
_LONGEST_NS: Final = 1 << 60
VERSIONS: Final = ("24.11", "26.05")


def cluster_reason(cluster: SlurmCluster, costs: HostCosts, usual: ClusterConf) -> str | None:
    """Why this booted cluster is not plain; None: it is. usual: the version's default configuration."""
    ctld = cluster.ctld
    if ctld is None or len(cluster.controllers) != 1:
        return "not one slurmctld"
    return (
        odd_cost(costs) or _version_reason(ctld) or odd_setting(ctld.conf, usual) or _values_reason(ctld)
        or _parts_reason(ctld) or _nodes_reason(cluster, ctld)
    )  # fmt: skip


def _version_reason(ctld: Slurmctld) -> str | None:
    return None if ctld.conf.version in VERSIONS else f"Slurm {ctld.conf.version}"


def _values_reason(ctld: Slurmctld) -> str | None:
    """Values of known settings that the loop cannot play."""
    scheduler, timers = ctld.conf.scheduler, ctld.conf.timers
    if scheduler.interval_ns < SECOND or scheduler.backfill.interval_ns < SECOND:
        return "a scheduler without full passes or backfill"
    if timers.min_job_age_ns < SECOND or timers.over_time_limit_ns < 0:
        return "MinJobAge or OverTimeLimit"
    return None


def _parts_reason(ctld: Slurmctld) -> str | None:
    """The parts that hang on the controller are the plain ones, and as they start."""
    schedulers, lifecycle, selection, priority = ctld.schedulers, ctld.lifecycle, ctld.selection, ctld.priority
    assert isinstance(schedulers, Scheduler)
    assert isinstance(lifecycle, Lifecycle)
    if type(ctld.limits) is not AccountingIdentity or not isinstance(ctld.partition_limits, PartitionLimits):
        return "limits"
    if not isinstance(priority, PriorityBasic) and not (
        isinstance(priority, PriorityMultifactor) and priority.is_constant
    ):
        return "priorities that differ"
    if schedulers.queue.order is not slurm_order or not isinstance(selection, Selection):
        return "a policy of one's own"
    if schedulers.backfill.kept_busy:
        return "backfill that pings keep busy"
    if selection.placement is not None or lifecycle.gang.on:
        return "a policy of one's own, or gang scheduling"
    if not PlainPlanner(ctld, schedulers.queue).allowed:
        return "SchedulerParameters of backfill"
    if ctld.reservations.next_change_s(0) is not None:
        return "reservations"
    return None


def _nodes_reason(cluster: SlurmCluster, ctld: Slurmctld) -> str | None:
    """Every node is well, and named by its number."""
    nodes = ctld.nodes_lifecycle
    assert isinstance(nodes, NodeLifecycle)
    everything = (1 << len(ctld.nodes)) - 1
    table = ctld.nodes
    if nodes.power is not None or nodes.odd or cluster.slurmds.deaf or nodes.pings.busy:
        return "nodes that are not well"
    if not table.avail == table.up == table.idle == everything or table.completing or ctld.jobs:
        return "nodes that are not idle"
    if not table.series[1]:
        return "node names that do not count up"
    return None


class JobShapes:
    """Jobs as rows of numbers (layout.py FEED_*), or why one is not plain."""

    def __init__(self, ctld: Slurmctld) -> None:
        self._ctld = ctld
        self._known: dict[tuple[Any, ...], tuple[int, int] | str] = {}
        self.part_index = -1
        """The partition of all jobs; -1: none has come yet."""
        self.lengths: dict[int, int] = {}
        """Time limits that occurred, by their place."""

    def row(self, request: JobRequest) -> tuple[int, ...] | str:
        """The job's numbers, or the reason."""
        if _rest(request) != _PLAIN_REST:
            return self._odd_option(request)
        shape = _shape(request)
        found = self._known.get(shape)
        if found is None:
            found = self._known[shape] = self._ask(request)
        if type(found) is str:
            return found
        number, submit_ns, run_ns, limit_ns, exit_code = _own(request)
        if run_ns is None or run_ns < 0 or submit_ns < 0 or submit_ns + run_ns > _LONGEST_NS:
            return "a job without a run time, or before time 0"
        if limit_ns is None or limit_ns < 0:
            limit_s, length_s = -1, INFINITE_S
        elif not limit_ns:
            return "a time limit of 0"
        else:
            limit_s = -(-limit_ns // MINUTE) * 60
            length_s = min(limit_s, INFINITE_S)
        place = self.lengths.setdefault(length_s, len(self.lengths))
        return number, submit_ns, run_ns, limit_s, found[0], found[1], length_s, place, exit_code  # type: ignore[return-value]

    @staticmethod
    def _odd_option(request: JobRequest) -> str:
        name = next(n for n, v in zip(_OTHERS, _rest(request), strict=True) if v != FIELD_DEFAULTS[n])
        return f"a job with {name}"

    def _ask(self, request: JobRequest) -> tuple[int, int] | str:
        """(wanted, fewest nodes) of all jobs of the shape."""
        ctld = self._ctld
        lifecycle = ctld.lifecycle
        assert isinstance(lifecycle, Lifecycle)
        job = lifecycle.submission.tried(request)
        if job is None or not is_plain(job):
            return "a job that is refused, or asks for more than nodes and time"
        part = job.parts[0]
        reason = self._part_reason(job.parts[0].index)
        if reason is not None:
            return reason
        count = wanted(ctld.selection.uniform(job, part))
        if not count:
            return "nodes of several CPUs, or that differ"
        if abs(count) > part.nodes.bit_count():
            return "a job that is larger than its partition"
        return count, QueueRecord(job, part, 1, True, True, 1).fewest

    def _part_reason(self, index: int) -> str | None:
        ctld = self._ctld
        limits = ctld.partition_limits
        assert isinstance(limits, PartitionLimits)
        conf = list(ctld.partitions.values())[index].conf
        if self.part_index == index:
            return None
        if self.part_index >= 0:
            return "jobs in more than one partition"
        odd = odd_partition(conf)
        if odd is not None or not limits.is_open(conf):
            return odd or "a partition with limits"
        if len({replace(ctld.nodes.by_name[name].conf, name="") for name in conf.nodes}) != 1:
            return "nodes that differ"
        self.part_index = index
        return None
