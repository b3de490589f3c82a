"""A trace as columns for the queue model, and its jobs as slurmctld would read them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from slurmtwin.contract.clock import SECOND

if TYPE_CHECKING:
    from slurmtwin.campaign.planning.queue_kernel import Jobs
    from slurmtwin.contract.cluster import ClusterConf
    from slurmtwin.contract.jobs import JobRequest

LONGEST_S = 10 * 365 * 86_400
"""A limit that is unlimited, for the model's promises."""


@dataclass(frozen=True, slots=True)
class TraceColumns:
    """The jobs of a trace in submit order, whole seconds, one array per column."""

    number: Any
    submit: Any
    run: Any
    limit: Any
    nodes: Any
    cpus: Any
    memory: Any
    whole: Any
    partition: Any

    def __len__(self) -> int:
        return int(self.submit.size)

    @property
    def total_cpus(self) -> Any:
        """CPUs that each job asks for; of a job on whole nodes those it names."""
        return self.cpus * np.maximum(self.nodes, 1)

    def take(self, places: Any, submit: Any | None = None) -> TraceColumns:
        """The jobs at these places, submitted at `submit` when given, in submit order."""
        when = self.submit[places] if submit is None else submit
        order = np.argsort(when, kind="stable")
        chosen = places[order]
        picked = {name: getattr(self, name)[chosen] for name in self.__slots__}
        return replace(self, **{**picked, "submit": when[order]})

    def kernel_jobs(self, node_count: int) -> Jobs:
        """The form the kernel takes, with room for the nodes each job may hold."""
        from slurmtwin.campaign.planning.queue_kernel import Jobs

        rooms = np.where(self.nodes > 0, self.nodes, np.minimum(self.cpus, node_count))
        offset = np.concatenate(([0], np.cumsum(np.minimum(rooms, node_count)))).astype(np.int64)
        return Jobs(
            self.submit, self.run, self.limit, self.nodes, self.cpus, self.memory, self.whole, self.partition, offset
        )


def columns_of(requests: Sequence[JobRequest], conf: ClusterConf) -> TraceColumns:
    """The columns of the requests under a cluster's settings. Arrays and dependencies are not the guide's business."""
    places = {part.name: place for place, part in enumerate(conf.partitions)}
    default = next((place for place, part in enumerate(conf.partitions) if part.default), 0)
    linear = conf.select.type == "select/linear"
    rows = []
    for job in requests:
        name = job.partition.split(",")[0]
        partition = places.get(name, default)
        rows.append((job.job_id, *_row(job, conf, partition, linear), partition))
    table = np.array(rows, np.int64).reshape(len(rows), 9)
    order = np.argsort(table[:, 1], kind="stable")
    return TraceColumns(*(np.ascontiguousarray(column) for column in table[order].T))


def fits_some_node(columns: TraceColumns, conf: ClusterConf) -> Any:
    """Which jobs could run if there were as many as they like of each node: else slurmctld refuses them."""
    members = [set(part.nodes) for part in conf.partitions]
    kinds = {
        (node.cpus, node.real_memory_mib - node.mem_spec_limit_mib, tuple(node.name in names for names in members))
        for node in conf.nodes
    }
    wanted = np.where(columns.nodes > 0, columns.cpus, 1)
    fits = np.zeros(len(columns), bool)
    for cpus, memory, member in sorted(kinds):
        fits |= np.array(member, bool)[columns.partition] & (wanted <= cpus) & (columns.memory <= memory)
    return fits


def _row(job: JobRequest, conf: ClusterConf, partition: int, linear: bool) -> tuple[int, ...]:
    """submit, run, limit, nodes, cpus, memory, whole of one request."""
    per_task = job.cpus_per_task or 1
    tasks = job.ntasks or (job.nodes_min or 1) * (job.ntasks_per_node or 1)
    whole = linear or bool(job.exclusive) or conf.partitions[partition].over_subscribe == "EXCLUSIVE"
    if job.nodes_min:
        nodes, cpus = job.nodes_min, -(-tasks // job.nodes_min) * per_task
    elif tasks == 1 or job.mem_per_node_mib is not None:
        nodes, cpus = 1, tasks * per_task
    elif whole:
        largest = max(node.cpus for node in conf.nodes)
        nodes = -(-tasks * per_task // largest)
        cpus = -(-tasks * per_task // nodes)
    else:
        nodes, cpus = 0, tasks * per_task
    memory = _memory_mib(job, conf, cpus if nodes else 1)
    run_s = LONGEST_S if job.run_ns is None else -(-job.run_ns // SECOND)
    limit_s = _limit_s(job, conf, partition)
    return job.submit_ns // SECOND, min(run_s, limit_s), limit_s, nodes, cpus, memory, int(whole)


def _memory_mib(job: JobRequest, conf: ClusterConf, cpus: int) -> int:
    """On each node, `cpus` of them taken there: 0 where memory is not counted, -1 for all that the node has."""
    select = conf.select
    if not select.memory:
        return 0
    if job.mem_per_node_mib is not None:
        return job.mem_per_node_mib or -1
    per_cpu = job.mem_per_cpu_mib or select.def_mem_per_cpu_mib
    return per_cpu * cpus if per_cpu else select.def_mem_per_node_mib or -1


def _limit_s(job: JobRequest, conf: ClusterConf, partition: int) -> int:
    limit_ns = job.limit_ns
    part = conf.partitions[partition]
    if limit_ns is None:
        limit_ns = part.default_time_ns if part.default_time_ns >= 0 else part.max_time_ns
    return LONGEST_S if limit_ns is None or limit_ns < 0 else max(1, limit_ns // SECOND)
