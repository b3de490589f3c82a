"""May a job run on a node in a given state, and with how many CPUs: cons_tres job_test.c on one node.

`can_run` follows _can_job_run_on_node() with _allocate_sc() (22.05: cons_common.c) and then
eval_nodes_select_cores() (22.05: _select_cores()); `state_allows` follows _verify_node_state().
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slurmtwin.contract.cluster import PartitionConf, SelectOptions
from slurmtwin.models.slurmctld.selection import gres_count
from slurmtwin.models.slurmctld.selection.demand import Demand
from slurmtwin.models.slurmctld.selection.shapes import Shape
from slurmtwin.models.slurmctld.selection.usage import AVAILABLE, ONE_ROW, RESERVED, State

_NO_LIMIT: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Fit:
    """What a node offers one job."""

    cpus: int
    """avail_res->avail_cpus: most CPUs the job could use there."""
    usable: int
    """The same after the task limits of the node (0: not usable)."""
    cores: int
    """Bitmap of cores the CPUs are taken from."""
    free_cpus: int
    """CPUs of all free cores (max_cpus): how loaded the node is."""
    shape: Shape
    cpus_per_core: int
    """CPUs the job uses of a core (threads, or one)."""
    reserve: int
    """CPUs kept back for each node still needed."""
    near_gres: int = 0
    """GPUs beside free cores when the whole node is wanted: nodes with more come first."""
    weight: int = 0
    """What choose_nodes() sorts by when it drops poor nodes (avail_res_cnt, avail_res_prod)."""


@dataclass(frozen=True, slots=True)
class NodeRules:
    """The settings that a node test depends on, for one job in one partition."""

    demand: Demand
    select: SelectOptions
    version: tuple[int, int]
    part: int
    """Partition index."""
    max_cpus_per_node: int
    """-1: no limit."""
    whole: bool
    """The job gets whole nodes: --exclusive, or an OverSubscribe=EXCLUSIVE partition."""
    req: int
    """node_req: RESERVED, ONE_ROW or AVAILABLE."""
    share: int
    """share_res as _resolve_shared_status() leaves it."""
    part_used: bool
    """Some job ran in the partition since the tables were made (its core maps exist)."""


def node_req(conf: PartitionConf, share: int) -> int:
    """_get_job_node_req(): how the job may live with others in this partition."""
    mode = conf.over_subscribe
    if mode == "EXCLUSIVE":
        return RESERVED
    if mode == "FORCE":
        return AVAILABLE
    if mode == "YES" and conf.over_subscribe_count > 1 and share == 1:
        return AVAILABLE
    return ONE_ROW


def min_memory_mib(demand: Demand) -> int:
    """The least memory a node must have free; 0: all of the node's (slurm.md 1.3 "*_Memory, CR_Memory")."""
    if not demand.mem_per_cpu:
        return demand.mem_mib
    return demand.mem_mib * max(demand.ntasks_per_node, demand.pn_min_cpus, demand.cpus_per_task)


def state_allows(
    rules: NodeRules, state: State, shape: Shape, rows_of: tuple[int, ...], sharing_only_rows: int
) -> bool:
    """_verify_node_state(): memory, generic resources and the other jobs' wish to share.

    sharing_only_rows: rows that do not count because they are kept for preemption (1 under preempt/qos).
    """
    demand = rules.demand
    if rules.select.memory:
        need = min_memory_mib(demand)
        if need:
            if shape.mem_mib - state.mem_mib < need:
                return False
        elif state.mem_mib:
            return False
    if rules.whole and state.gres:
        return False
    if demand.gres and not gres_count.fits(demand.gres, shape.gres, ()):
        return False
    if state.req >= RESERVED:
        return False
    if state.req >= ONE_ROW:
        if rules.req != ONE_ROW:
            return False
        return not _busy(rules, state, rows_of, sharing_only_rows, others_only=True)
    if rules.req == RESERVED:
        return not _busy(rules, state, rows_of, sharing_only_rows, others_only=False)
    if rules.req == ONE_ROW:
        return not _busy(rules, state, rows_of, sharing_only_rows, others_only=True)
    return True


def _busy(rules: NodeRules, state: State, rows_of: tuple[int, ...], spare: int, *, others_only: bool) -> bool:
    """_is_node_busy(): jobs of (other, sharing) partitions hold cores here."""
    if rules.version >= (23, 2) and not state.sharing:
        return False
    for part, row, _cores in state.rows:
        rows = rows_of[part] - spare
        if others_only and (rows < 2 or part == rules.part):
            continue
        if row < rows:
            return True
    return False


def can_run(rules: NodeRules, state: State, shape: Shape, free: int, *, test_only: bool) -> Fit | None:
    """What the job could use of a node whose free cores are `free`; test_only ignores what is allocated."""
    demand = rules.demand
    if demand.gres and not gres_count.fits(demand.gres, shape.gres, () if test_only else state.gres):
        return None
    found = _cores(rules, shape, free, state.part_cores(rules.part) if rules.part_used else None)
    if found is None:
        return None
    cpus, cores, free_cpus, per_core, unit = found
    per_node = demand.ntasks_per_node or (demand.num_tasks if demand.max_nodes == 1 and demand.num_tasks else 1)
    if cpus < max(1, per_node * demand.cpus_per_task):
        return None
    if rules.select.memory:
        room = shape.mem_mib - (0 if test_only else state.mem_mib)
        cpus = _memory_cpus(rules, shape, cpus, room, unit)
        if cpus <= 0:
            return None
    reserve = per_core * (shape.cores if rules.select.unit == "socket" else 1)
    gpus = gres_count.gpus_free(shape.gres, () if test_only else state.gres) if demand.gres else 0
    near = gres_count.near(demand.gres, shape.gres, () if test_only else state.gres) if rules.whole else 0
    weight = cpus + (gpus if rules.version < (26, 5) else 0)
    tasks_least, tasks_most = _tasks(rules, cpus)
    usable = cpus
    if demand.gres and tasks_most:
        usable, cores = _limit_by_tasks(rules, shape, cores, cpus, tasks_least, tasks_most)
    if not tasks_most:
        usable = 0
    elif rules.select.one_task_per_core and not demand.threads_per_core:
        usable = cores.bit_count()
    if demand.gres:
        cpus = min(cpus, usable) if usable else cpus
    return Fit(cpus, usable, cores, free_cpus, shape, per_core, reserve, near, weight)


def _cores(rules: NodeRules, shape: Shape, free: int, part_cores: int | None) -> tuple[int, int, int, int, int] | None:
    """_allocate_sc(): (CPUs, cores, CPUs of all free cores, CPUs per core, allocation unit), or None."""
    demand, select = rules.demand, rules.select
    tpc, per_core, unit = _threads(rules, shape)
    if per_core < 0:
        return None
    mask = (1 << shape.cores) - 1
    own = part_cores & ~free if part_cores is not None else 0
    socket_free: list[int] = []
    free_cores = used_cpus = 0
    for socket in range(shape.sockets):
        shift = socket * shape.cores
        here = (free >> shift & mask).bit_count()
        used = (own >> shift & mask).bit_count() if part_cores is not None else shape.cores - here
        if select.unit == "socket" and used:
            used += here
            here = 0
        socket_free.append(here)
        free_cores += here
        if part_cores is not None:
            used_cpus += used * tpc
    free_cpus = free_cores * tpc
    limit = _partition_limit(rules, free_cpus, used_cpus, per_core)
    if limit <= 0 or free_cores < 1 or free_cores * per_core < demand.pn_min_cpus:
        return None
    avail = tasks = free_cores * per_core
    if demand.ntasks_per_node and rules.share:
        tasks = min(tasks, demand.ntasks_per_node)
    if not demand.gres and rules.version >= (23, 2):
        if demand.cpus_per_task < 2:
            avail = tasks
        elif select.one_task_per_core and demand.cpus_per_task > per_core:
            per_task = -(-demand.cpus_per_task // per_core) * per_core
            avail = avail // per_task * demand.cpus_per_task
        else:
            tasks = min(tasks, avail // demand.cpus_per_task)
            avail = tasks * demand.cpus_per_task
    if (demand.ntasks_per_node and tasks < demand.ntasks_per_node) or avail < demand.pn_min_cpus or tasks < 1:
        return None
    return min(avail, limit), _take(free, socket_free, shape.cores, avail, per_core), free_cpus, per_core, unit


def _threads(rules: NodeRules, shape: Shape) -> tuple[int, int, int]:
    """(threads per core, CPUs the job uses per core or -1 when it asks for more, allocation unit in CPUs)."""
    demand, select = rules.demand, rules.select
    tpc = shape.tpc
    unit = {"socket": shape.cores * tpc, "core": tpc}.get(select.unit, 1)
    usable = _NO_LIMIT
    if select.one_task_per_core:
        usable = min(tpc, demand.cpus_per_task)
    if demand.threads_per_core and demand.threads_per_core < usable:
        usable = demand.threads_per_core
    if usable != _NO_LIMIT and usable > tpc:
        return tpc, -1, unit
    return tpc, min(tpc, usable), min(unit, usable)


def _partition_limit(rules: NodeRules, free_cpus: int, used_cpus: int, per_core: int) -> int:
    """MaxCPUsPerNode: how many more CPUs this partition may use here; 0: none."""
    most = rules.max_cpus_per_node
    if most < 0 or free_cpus + used_cpus <= most:
        return _NO_LIMIT
    if rules.whole or used_cpus >= most:
        return 0
    left = most - used_cpus
    if left == 1 and (rules.demand.cpus_per_task > 1 or (rules.demand.threads_per_core and per_core > 1)):
        return 0
    return left


def _take(free: int, socket_free: list[int], per_socket: int, cpus: int, per_core: int) -> int:
    """The first cores, socket by socket, that hold `cpus`; cores of unusable sockets are left out."""
    cores = 0
    mask = (1 << per_socket) - 1
    for socket, count in enumerate(socket_free):
        if count:
            cores |= free & (mask << (socket * per_socket))
    need = -(-cpus // per_core)
    extra = cores.bit_count() - need
    while extra > 0:
        cores ^= 1 << (cores.bit_length() - 1)
        extra -= 1
    return cores


def _memory_cpus(rules: NodeRules, shape: Shape, cpus: int, room: int, unit: int) -> int:
    """CPUs whose memory fits into `room` MiB; 0 when the job cannot run there."""
    demand = rules.demand
    if not demand.mem_per_cpu:
        return cpus if demand.mem_mib <= room else 0
    need = demand.mem_mib
    if rules.whole and need * cpus > room:
        return 0
    if rules.select.unit != "cpu" and rules.select.one_task_per_core and demand.cpus_per_task == 1:
        cpus = min(cpus, room // (need * shape.tpc))
    elif need * cpus > room:
        over = cpus - room // need
        cpus -= -(-over // unit) * unit
    if cpus <= 0:
        return 0
    cpus -= cpus % demand.cpus_per_task
    return 0 if cpus < demand.ntasks_per_node else cpus


def _tasks(rules: NodeRules, cpus: int) -> tuple[int, int]:
    """(fewest, most) tasks for this node; most 0: it cannot take the fewest."""
    demand = rules.demand
    if demand.ntasks_per_node:
        least, most = demand.ntasks_per_node, demand.ntasks_per_node
    elif rules.select.one_task_per_core:
        least, most = 1, _NO_LIMIT
    elif demand.max_nodes == 1:
        least, most = (demand.num_tasks, demand.num_tasks) if demand.num_tasks else (1, _NO_LIMIT)
    elif demand.num_tasks == 1 or (demand.num_tasks == demand.min_nodes == demand.max_nodes):
        least, most = 1, 1
    else:
        least, most = 1, _NO_LIMIT
    fit = cpus // demand.cpus_per_task
    if fit < least:
        return least, 0
    most = min(most, fit)
    if demand.num_tasks and rules.version >= (26, 5):
        most = min(most, demand.num_tasks)
    return least, most


def _limit_by_tasks(rules: NodeRules, shape: Shape, cores: int, cpus: int, least: int, most: int) -> tuple[int, int]:
    """gres_filter_sock_core() for generic resources that belong to no socket: (CPUs, cores) of the tasks alone."""
    demand = rules.demand
    per_core = min(shape.tpc, demand.threads_per_core or shape.tpc)
    most = most // least * least
    have = cores.bit_count()
    need = -(-most * demand.cpus_per_task // per_core)
    while need > have and most > least:
        most -= 1
        need = -(-most * demand.cpus_per_task // per_core)
    if most < 1 or need > have:
        return 0, cores
    usable = cpus
    if have > need and rules.select.unit != "socket":
        cores = _thin(cores, shape, have - need)
        usable = min(usable, cores.bit_count() * per_core)
    return min(usable, most * demand.cpus_per_task), cores


def _thin(cores: int, shape: Shape, extra: int) -> int:
    """Take `extra` cores away, each from the socket that has most, from its end."""
    mask = (1 << shape.cores) - 1
    for _ in range(extra):
        fullest = max(range(shape.sockets), key=lambda s: ((cores >> (s * shape.cores) & mask).bit_count(), -s))
        here = cores & (mask << (fullest * shape.cores))
        cores ^= 1 << (here.bit_length() - 1)
    return cores
