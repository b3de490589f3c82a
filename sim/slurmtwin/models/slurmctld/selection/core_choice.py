"""Tasks over nodes and cores inside a node: cons_tres dist_tasks.c (slurm.md 1.3 "Core choice in a node")."""

from __future__ import annotations

from collections.abc import Sequence

from slurmtwin.models.slurmctld.selection.demand import Demand
from slurmtwin.models.slurmctld.selection.shapes import Shape


def task_count(demand: Demand, nodes: int, min_cpus: int, version: tuple[int, int]) -> int:
    """Tasks to lay out: _get_task_count(), in 22.05 the head of dist_tasks_compute_c_b()."""
    cpus = max(nodes * max(demand.ntasks_per_node, 1), min_cpus, nodes * demand.pn_min_cpus)
    if version < (23, 2):
        if demand.cpus_per_task == 1:
            return max(cpus, 1)
        tasks = nodes * demand.ntasks_per_node if demand.ntasks_per_node else cpus // demand.cpus_per_task
    elif version < (26, 5) and demand.num_tasks and demand.tasks_set:
        tasks = demand.num_tasks
    elif demand.ntasks_per_node:
        tasks = nodes * demand.ntasks_per_node
    elif demand.num_tasks and demand.tasks_set:
        tasks = demand.num_tasks
    else:
        tasks = cpus // demand.cpus_per_task
    return max(tasks, 1)


def cpus_per_node(
    demand: Demand, avail: Sequence[int], tpc: Sequence[int], tasks: int, version: tuple[int, int]
) -> list[int] | None:
    """CPUs each node gives, in node order: one task per node, then rounds that fill whole cores.

    None: the tasks do not fit (ESLURM_BAD_TASK_COUNT, newer than 22.05; there they oversubscribe).
    """
    step = demand.cpus_per_task
    nodes = len(avail)
    cpus = [0] * nodes
    count = [0] * nodes
    placed = 0
    for n in range(min(nodes, tasks)):
        if avail[n]:
            placed += 1
            count[n] = 1
            cpus[n] = min(step, avail[n])
    limit = demand.ntasks_per_node or 1 << 30

    def add(n: int, force: bool) -> bool:
        nonlocal placed
        if not force and (avail[n] - cpus[n] < step or count[n] >= limit):
            return False
        placed += 1
        count[n] += 1
        cpus[n] = min(cpus[n] + step, avail[n])
        return True

    for n in range(nodes):  # fill the cores that are already taken
        for _ in range(cpus[n] % tpc[n] // step):
            if placed >= tasks or not add(n, False):
                break
    force = version < (23, 2) and all(c >= a for c, a in zip(cpus, avail, strict=True))
    while placed < tasks:
        room = False
        before = placed
        for n in range(nodes):
            for _ in range(max(tpc[n] // step, 1)):
                if placed >= tasks or not add(n, force):
                    break
                room = room or avail[n] - cpus[n] >= step
            if placed >= tasks:
                break
        if placed >= tasks:
            break
        if not room:
            if version >= (23, 2):
                return None
            if force and placed == before:
                break
            force = True
    return cpus


def choose_cores(
    demand: Demand, shape: Shape, free: int, cpus: int, per_core: int, unit: str, block: bool
) -> tuple[int, int]:
    """(cores, CPUs) the job gets in a node out of `free` cores, for `cpus` CPUs.

    CR_CPU packs the socket that fits best; CR_Core and CR_Socket go round the sockets (block: best fit) and
    charge whole cores or sockets.
    """
    if unit == "cpu" or block:
        cores = _best_fit(shape, free, cpus, per_core)
    else:
        cores = _round_robin(demand, shape, free, cpus, per_core)
    if unit == "cpu":
        return cores, cpus
    if unit == "socket":
        mask = (1 << shape.cores) - 1
        whole = 0
        for socket in range(shape.sockets):
            here = mask << (socket * shape.cores)
            if cores & here:
                whole |= here
        cores = whole
    return cores, cores.bit_count() * shape.tpc


def _sockets(shape: Shape, free: int) -> list[int]:
    mask = (1 << shape.cores) - 1
    return [free & (mask << (s * shape.cores)) for s in range(shape.sockets)]


def _best_fit(shape: Shape, free: int, cpus: int, per_core: int) -> int:
    """_block_sync_core_bitmap() of a node with one board: the socket with the fewest free cores that suffices."""
    sockets = _sockets(shape, free)
    need = -(-cpus // per_core)
    taken = 0
    while cpus > 0:
        best, best_size, best_suffices = -1, 0, False
        for place, here in enumerate(sockets):
            size = here.bit_count()
            suffices = size >= need
            if (
                best_size == 0
                or (suffices and not best_suffices)
                or (suffices and size < best_size)
                or (not suffices and size > best_size)
            ):
                best, best_size, best_suffices = place, size, suffices
        if best_size == 0:
            break
        here = sockets[best]
        while here and cpus > 0:
            low = here & -here
            taken |= low
            here ^= low
            cpus -= min(cpus, per_core)
        sockets[best] = 0 if cpus <= 0 else here
    return taken


def _round_robin(demand: Demand, shape: Shape, free: int, cpus: int, per_core: int) -> int:
    """_cyclic_sync_core_bitmap(): tasks of several CPUs packed on a socket first, then one core per socket in turn."""
    sockets = _sockets(shape, free)
    taken = 0
    step = demand.cpus_per_task
    if step > 1:
        for place, here in enumerate(sockets):
            budget = here.bit_count() * per_core
            budget -= budget % step
            while here and budget > 0 and cpus > 0:
                low = here & -here
                taken |= low
                here ^= low
                budget = 0 if budget < per_core else budget - per_core
                cpus = 0 if cpus < per_core else cpus - per_core
            sockets[place] = here
    while cpus > 0:
        before = cpus
        for place, here in enumerate(sockets):
            if here and cpus > 0:
                low = here & -here
                taken |= low
                sockets[place] = here ^ low
                cpus = 0 if cpus < per_core else cpus - per_core
        if cpus == before:
            break
    return taken
