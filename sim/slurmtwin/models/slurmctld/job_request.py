"""From sbatch's options to the numbers slurmctld schedules by: nodes, CPUs, memory, generic resources.

Follows common/slurm_opt.c slurm_opt_create_job_desc(), sbatch/opt.c and job_mgr.c _copy_job_desc_to_job_record().
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.contract.clock import MINUTE, SECOND
from slurmtwin.contract.hostlist import expand

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import ClusterConf, PartitionConf
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.models.slurmctld.tables import Job


def limit_seconds(limit_ns: int | None) -> int | None:
    """Slurm keeps limits in minutes: seconds are rounded up (time_str2mins()). UNLIMITED is -1."""
    if limit_ns is None or limit_ns < 0:
        return limit_ns
    return -(-limit_ns // MINUTE) * 60


def limit_at_start(limit_s: int | None, part: PartitionConf, qos_rules: bool) -> int:
    """The limit a starting job gets (select_nodes()): its own, cut or filled in by the partition; -1 unlimited."""
    most = -1 if part.max_time_ns < 0 else part.max_time_ns // SECOND
    over = most >= 0 and limit_s is not None and (limit_s < 0 or limit_s > most)
    if limit_s is not None and not (over and not qos_rules):
        return limit_s
    if part.default_time_ns == -2:
        return most
    return -1 if part.default_time_ns < 0 else part.default_time_ns // SECOND


def parse_gres(text: str) -> tuple[tuple[str, str, int], ...]:
    """`gpu:2,gpu:a100:1` -> ((name, type or "", count), ...). A missing count is 1. ValueError when it is no count."""
    out: list[tuple[str, str, int]] = []
    for part in filter(None, (p.strip() for p in text.split(","))):
        fields = part.removeprefix("gres/").removeprefix("gres:").split(":")
        count = _gres_count(fields.pop()) if len(fields) > 1 and fields[-1][:1].isdigit() else 1
        if len(fields) > 2 or not fields[0]:
            raise ValueError(part)
        out.append((fields[0], fields[1] if len(fields) == 2 else "", count))
    return tuple(out)


def _gres_count(text: str) -> int:
    factor = {"K": 1024, "M": 1024**2, "G": 1024**3}.get(text[-1:].upper(), 1)
    return int(text if factor == 1 else text[:-1]) * factor


def parse_licenses(text: str) -> tuple[tuple[str, int], ...]:
    """`matlab:2,ansys` -> (("matlab", 2), ("ansys", 1)). ValueError when a count is no number."""
    out: list[tuple[str, int]] = []
    for part in filter(None, (p.strip() for p in text.replace(";", ",").split(","))):
        name, _, count = part.partition(":")
        out.append((name, int(count) if count else 1))
    return tuple(out)


def set_sizes(job: Job, request: JobRequest) -> None:
    """Fill nodes_min, nodes_max, tasks, cpus_min and pn_min_cpus from the request."""
    nodes_min, nodes_max = request.nodes_min, request.nodes_max
    per_node, tasks = request.ntasks_per_node, request.ntasks
    if nodes_min is not None:
        if nodes_max is None:
            nodes_max = nodes_min  # --nodes=N is N-N
        if tasks is not None and tasks < nodes_min:
            nodes_min = nodes_max = tasks  # "can't run 1 processes on 2 nodes, setting nnodes to 1" (sbatch/opt.c)
        elif tasks is not None and nodes_max > tasks:
            nodes_max = tasks
    elif request.nodelist:
        nodes_min = len(set(expand(request.nodelist)))
    elif tasks is not None and per_node:
        nodes_min = -(-tasks // per_node)
    estimated = tasks
    if estimated is None:
        fixed = nodes_min is not None and nodes_max in (None, 0, nodes_min)
        estimated = (nodes_min or 1) * (per_node or 1) if fixed else 1
    cpus_per_task = request.cpus_per_task or 1
    job.nodes_min = nodes_min if nodes_min is not None else 1
    job.nodes_max = nodes_max or 0
    if not job.nodes_max and tasks:
        job.nodes_max = tasks  # no more nodes than tasks
    job.tasks = max(1, estimated)
    job.cpus_min = max(1, estimated * cpus_per_task)
    job.pn_min_cpus = cpus_per_task
    if per_node and job.tasks > 1:
        job.pn_min_cpus = max(job.pn_min_cpus, cpus_per_task * per_node)


def set_memory(job: Job, request: JobRequest, part: PartitionConf, conf: ClusterConf) -> None:
    """--mem or --mem-per-cpu, else the partition's default, else the cluster's (_get_def_mem())."""
    if request.mem_per_cpu_mib is not None:
        job.mem_mib, job.mem_per_cpu = request.mem_per_cpu_mib, True
    elif request.mem_per_node_mib is not None:
        job.mem_mib, job.mem_per_cpu = request.mem_per_node_mib, False
    elif part.def_mem_per_cpu_mib:
        job.mem_mib, job.mem_per_cpu = part.def_mem_per_cpu_mib, True
    elif part.def_mem_per_node_mib:
        job.mem_mib, job.mem_per_cpu = part.def_mem_per_node_mib, False
    elif conf.select.def_mem_per_cpu_mib:
        job.mem_mib, job.mem_per_cpu = conf.select.def_mem_per_cpu_mib, True
    else:
        job.mem_mib, job.mem_per_cpu = conf.select.def_mem_per_node_mib, False


def fit_memory_limit(job: Job, part: PartitionConf, conf: ClusterConf) -> bool:
    """MaxMemPerCPU and MaxMemPerNode (_valid_pn_min_mem()): more CPUs per task, or False when over the limit."""
    per_cpu, per_node = part.max_mem_per_cpu_mib, part.max_mem_per_node_mib
    if not per_cpu and not per_node:
        per_cpu, per_node = conf.select.max_mem_per_cpu_mib, conf.select.max_mem_per_node_mib
    if per_cpu and job.mem_per_cpu:
        if job.mem_mib > per_cpu:
            ratio = -(-job.mem_mib // per_cpu)
            job.mem_mib = -(-job.mem_mib // ratio)
            job.pn_min_cpus *= ratio
            job.cpus_min *= ratio
        return True
    if per_cpu:
        cpus = -(-job.mem_mib // per_cpu)
        job.pn_min_cpus = max(job.pn_min_cpus, cpus)
        job.cpus_min = max(job.cpus_min, cpus)
        return True
    if not per_node:
        return True
    per_node_mib = job.mem_mib * job.pn_min_cpus if job.mem_per_cpu else job.mem_mib
    return per_node_mib <= per_node
