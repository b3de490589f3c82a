"""What a job asks of nodes: the numbers of job_details that node selection reads.

Sources: common/slurm_opt.c slurm_opt_create_job_desc(), slurmctld/job_mgr.c _copy_job_desc_to_job_record() and
validate_job_create_req() of 22.05 and 26.05. Memory in MiB.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter
from typing import Final

from slurmtwin.contract.cluster import ClusterConf
from slurmtwin.contract.hostlist import expand
from slurmtwin.models.slurmctld.tables import Job, NodeTable

SHARE_DEFAULT: Final = 255
"""share_res when the user said nothing (NO_VAL8): the partition decides."""
DEFAULT_SWITCH_WAIT_S: Final = 300
"""max_switch_wait's default (man slurm.conf SchedulerParameters)."""


@lru_cache(maxsize=64)
def version_key(version: str) -> tuple[int, int]:
    """`24.11.5` -> (24, 11)."""
    parts = version.split(".")
    return int(parts[0]), int(parts[1])


@dataclass(frozen=True, slots=True)
class Demand:
    """One job's request, hashable: jobs that ask the same share one object and its cached answers."""

    min_nodes: int
    max_nodes: int
    """0: no limit."""
    implicit_max: bool
    """max_nodes is only the task count (JOB_IMPLICIT_MAX_NODES, 26.05)."""
    min_cpus: int
    num_tasks: int
    """0: sbatch sent none."""
    tasks_set: bool
    """--ntasks was given (JOB_NTASKS_SET)."""
    cpus_per_task: int
    ntasks_per_node: int
    """0: not given."""
    pn_min_cpus: int
    mem_mib: int
    mem_per_cpu: bool
    whole_node: bool
    exclusive_user: bool
    share: int
    """share_res: 0 no, 1 --oversubscribe, SHARE_DEFAULT."""
    contiguous: bool
    spread: bool
    threads_per_core: int
    """0: not given."""
    gres: tuple[tuple[str, str, int], ...]
    constraint: str
    switches: int
    """--switches count; 0: not given."""
    switch_wait_s: int
    required: int
    """Bitmap of --nodelist."""
    excluded: int
    """Bitmap of --exclude."""


_ASKED: Final = attrgetter(
    "nodes_min", "nodes_max", "ntasks", "ntasks_per_node", "cpus_per_task", "mem_per_cpu_mib", "nodelist", "exclude",
    "contiguous", "switches", "spread", "exclusive", "oversubscribe", "threads_per_core", "constraint",
    "external",
)  # fmt: skip
_KEPT: Final = attrgetter(
    "nodes_min", "nodes_max", "cpus_min", "pn_min_cpus", "mem_mib", "mem_per_cpu", "whole_node", "gres"
)


def words_of(job: Job) -> tuple[object, ...]:
    """Everything of a job that of_job() reads: equal words, equal demand."""
    out: tuple[object, ...] = _ASKED(job.request) + _KEPT(job)
    return out


def of_job(job: Job, conf: ClusterConf, nodes: NodeTable) -> Demand:
    """The demand of a job record, as the slurmctld of conf.version keeps it."""
    request = job.request
    key = version_key(conf.version)
    explicit = request.nodes_min is not None or request.nodes_max is not None
    per_node = request.ntasks_per_node or 0
    num_tasks = request.ntasks or 0
    if not num_tasks and per_node:
        num_tasks = per_node * job.nodes_min
    max_nodes = job.nodes_max if explicit else 0
    implicit = False
    if request.spread and not max_nodes and num_tasks:
        max_nodes = min(len(nodes), num_tasks)
    elif not max_nodes and num_tasks and key >= (26, 5):
        max_nodes, implicit = num_tasks, True
    cpus_per_task = request.cpus_per_task or 1
    if request.mem_per_cpu_mib and job.mem_per_cpu and 0 < job.mem_mib < request.mem_per_cpu_mib:
        cpus_per_task *= -(-request.mem_per_cpu_mib // job.mem_mib)  # MaxMemPerCPU split the task over more CPUs
    min_cpus, pn_min_cpus = max(job.cpus_min, 1), max(job.pn_min_cpus, cpus_per_task)
    if num_tasks > min_cpus:
        min_cpus = num_tasks * cpus_per_task
    if per_node and num_tasks > 1:
        pn_min_cpus = max(pn_min_cpus, per_node * cpus_per_task)
    named = expand(request.nodelist)
    if request.external:  # a node that was deleted meanwhile is named until slurmctld starts anew (restart.py)
        named = [name for name in named if name in nodes.by_name]
    required = nodes.asked(named)
    excluded = nodes.asked(expand(request.exclude)) if request.exclude else 0
    if required and request.contiguous:
        low = required & -required
        required = (1 << required.bit_length()) - low
    if required.bit_count() > job.nodes_min and key >= (26, 5):
        excluded |= ((1 << len(nodes)) - 1) & ~required  # more nodes named than needed: any of these
        required = 0
    if not request.external:  # select_nodes(): bit_and_not(usable_node_mask, external_node_bitmap)
        excluded |= nodes.external
    count, wait_s = _switches(request.switches)
    return Demand(
        min_nodes=max(job.nodes_min, required.bit_count()),
        max_nodes=max_nodes,
        implicit_max=implicit,
        min_cpus=min_cpus,
        num_tasks=num_tasks,
        tasks_set=request.ntasks is not None,
        cpus_per_task=cpus_per_task,
        ntasks_per_node=per_node,
        pn_min_cpus=pn_min_cpus,
        mem_mib=job.mem_mib,
        mem_per_cpu=job.mem_per_cpu and job.mem_mib > 0,
        whole_node=job.whole_node,
        exclusive_user=request.exclusive == "user",
        share=0 if job.whole_node else (1 if request.oversubscribe else SHARE_DEFAULT),
        contiguous=request.contiguous,
        spread=request.spread,
        threads_per_core=request.threads_per_core or 0,
        gres=job.gres,
        constraint=request.constraint,
        switches=count,
        switch_wait_s=wait_s,
        required=required,
        excluded=excluded,
    )


def _switches(text: str) -> tuple[int, int]:
    """`--switches=2@30:00` -> (2, seconds), the wait no longer than max_switch_wait."""
    if not text:
        return 0, 0
    count, _, wait = text.partition("@")
    if not wait:
        return int(count), DEFAULT_SWITCH_WAIT_S
    return int(count), min(_wait_seconds(wait), DEFAULT_SWITCH_WAIT_S)


def _wait_seconds(text: str) -> int:
    """man sbatch: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:minutes[:seconds]]."""
    days, dash, rest = text.rpartition("-")
    fields = [int(f) for f in rest.split(":")]
    if dash:
        hours, minutes, seconds = (*fields, 0, 0)[:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(fields) == 1:
        return fields[0] * 60
    if len(fields) == 2:
        return fields[0] * 60 + fields[1]
    return (fields[0] * 60 + fields[1]) * 60 + fields[2]
