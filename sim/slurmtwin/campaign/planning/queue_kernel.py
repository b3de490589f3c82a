"""A quick model of Slurm's queue: first come first served with planned backfill, compiled by numba.

It is the guide of a search, never the judge: it knows CPUs, memory, partitions, limits and node outages, and leaves
out priorities, quotas, latencies, cores and switches. All times are whole seconds. A replay that takes the twin
minutes takes it about a second; how far the two lie apart is measured anew in every plan.

Rules (slurm.md 1, 2): at each arrival and each end jobs start in order until one does not fit, which closes its
partition; every BACKFILL_S a pass goes over the whole queue: what fits now without touching a promise starts, and the
first jobs that do not fit get a promise of nodes at the earliest time that the running jobs' limits allow.
"""

from __future__ import annotations

import heapq
from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

Array = Any
"""A numpy array of int64 unless said otherwise."""

Int = Any
"""An int64."""

BACKFILL_S: Final = 30
"""bf_interval."""
PROMISES: Final = 10
"""Jobs that get a promise in one pass."""
MOST_TESTED: Final = 500
"""bf_max_job_test."""
REMEMBERED: Final = 24
"""Refusals that a pass compares later jobs with."""
FAR: Final = 1 << 60


class Jobs(NamedTuple):
    """The jobs in submit order, one array per column."""

    submit: Array
    run: Array
    limit: Array
    nodes: Array
    """Nodes with `cpus` each; 0: `cpus` single CPUs wherever they are free."""
    cpus: Array
    memory: Array
    """MiB on each node (nodes > 0) or for each CPU (nodes == 0); -1: all that its nodes have."""
    whole: Array
    """1: takes all CPUs of its nodes."""
    partition: Array
    offset: Array
    """Where its nodes stand in the table of allocations; one entry more than jobs."""


class Machines(NamedTuple):
    """The nodes, one array per column, and which partition has which node."""

    cpus: Array
    memory: Array
    member: Array
    """uint8, partitions x nodes."""


class Outages(NamedTuple):
    """Times when a node goes or comes back, in order of time."""

    at: Array
    node: Array
    up: Array
    """1: the node is back; 0: it goes."""
    kill: Array
    """1: what runs on it is lost and waits again; 0: it is drained."""


class State(NamedTuple):
    """What changes while the model runs."""

    free_cpus: Array
    free_memory: Array
    usable: Array
    """How many outages a node is in; 0: none."""
    first: Array
    """The earliest promise on each node, FAR for none."""
    spare_cpus: Array
    """What a job that lasts beyond it may take."""
    spare_memory: Array
    later_cpus: Array
    """Free CPUs of the nodes at the moment that is looked at."""
    later_memory: Array
    rooms: Array
    """What a job could have of each node at that moment: CPUs, or 1 where it wants whole shares of nodes."""
    chosen: Array
    chosen_cpus: Array
    held_node: Array
    held_cpus: Array
    held_count: Array
    """Per job: how many nodes it holds; 0: it does not run."""
    held_last: Array
    """Per job: how many nodes it held when it ran last."""
    start: Array
    """First start; -1: none."""
    until: Array
    """When a running job's limit ends."""
    epoch: Array
    """Counts the starts of a job: an end of an earlier start does not count."""


@njit(cache=True)
def _room(
    single: bool, wanted: Int, memory: Int, whole: bool, cpus: Int, free: Int, all_cpus: Int, all_memory: Int
) -> Int:
    """CPUs that a job can have on a node with `cpus` and `free` memory: 0 when the node will not do.

    `single` is a job that takes CPUs wherever they are. Plain numbers: to hand the tables over costs more than this.
    """
    if memory < 0 and free < all_memory:
        return 0
    if whole:
        return all_cpus if cpus >= all_cpus and free >= memory and all_cpus >= wanted else 0
    if not single:
        return wanted if cpus >= wanted and free >= memory else 0
    if memory > 0:
        cpus = min(cpus, free // memory)
    return max(0, cpus)


@njit(cache=True)
def _choose(jobs: Jobs, machines: Machines, state: State, j: Int, now: Int, later: bool) -> int:
    """Put the first nodes that will do into `chosen`; how many, or 0 when they are too few."""
    all_cpus, all_memory, member = machines.cpus, machines.memory, machines.member[jobs.partition[j]]
    free_cpus = state.later_cpus if later else state.free_cpus
    free_memory = state.later_memory if later else state.free_memory
    usable, first, spare_cpus, spare_memory = state.usable, state.first, state.spare_cpus, state.spare_memory
    chosen, chosen_cpus = state.chosen, state.chosen_cpus
    nodes, wanted, memory, whole = jobs.nodes[j], jobs.cpus[j], jobs.memory[j], jobs.whole[j] != 0
    until = now + jobs.limit[j]
    found = 0
    left = wanted
    for i in range(all_cpus.size):
        cpus = free_cpus[i]
        if cpus <= 0 or usable[i] or not member[i]:
            continue
        free = free_memory[i]
        if until > first[i]:
            cpus = min(cpus, spare_cpus[i])
            free = min(free, spare_memory[i])
        room = _room(nodes == 0, wanted, memory, whole, cpus, free, all_cpus[i], all_memory[i])
        if room <= 0:
            continue
        chosen[found] = i
        if nodes:
            chosen_cpus[found] = room
            found += 1
            if found == nodes:
                return found
        else:
            take = min(room, left)
            chosen_cpus[found] = take
            found += 1
            left -= take
            if left == 0:
                return found
    return 0


@njit(cache=True)
def _held_memory(nodes: Int, memory: Int, cpus: Int, all_memory: Int) -> Int:
    """MiB that a job (its `nodes` and `memory`) holds on a node where it has so many CPUs."""
    if memory < 0:
        return all_memory
    return memory if nodes else memory * cpus


@njit(cache=True)
def _begin(jobs: Jobs, machines: Machines, state: State, j: Int, count: Int, now: Int, heap: Any) -> None:
    """Start job j on the chosen nodes."""
    base = jobs.offset[j]
    for k in range(count):
        i, cpus = state.chosen[k], state.chosen_cpus[k]
        memory = _held_memory(jobs.nodes[j], jobs.memory[j], cpus, machines.memory[i])
        state.held_node[base + k] = i
        state.held_cpus[base + k] = cpus
        state.free_cpus[i] -= cpus
        state.free_memory[i] -= memory
        if now + jobs.limit[j] > state.first[i]:
            state.spare_cpus[i] -= cpus
            state.spare_memory[i] -= memory
    state.held_count[j] = state.held_last[j] = count
    if state.start[j] < 0:
        state.start[j] = now
    state.until[j] = now + jobs.limit[j]
    state.epoch[j] += 1
    heapq.heappush(heap, (now + min(jobs.run[j], jobs.limit[j]), np.int64(j), state.epoch[j]))


@njit(cache=True)
def _release(jobs: Jobs, machines: Machines, state: State, j: Int) -> None:
    base = jobs.offset[j]
    for k in range(state.held_count[j]):
        i, cpus = state.held_node[base + k], state.held_cpus[base + k]
        state.free_cpus[i] += cpus
        state.free_memory[i] += _held_memory(jobs.nodes[j], jobs.memory[j], cpus, machines.memory[i])
    state.held_count[j] = 0


@njit(cache=True)
def _main_pass(jobs: Jobs, machines: Machines, state: State, queue: Array, size: Int, now: Int, heap: Any) -> Int:
    """Start in order; a job that does not fit closes its partition. The queue's new size."""
    parts = machines.member.shape[0]
    closed = np.zeros(parts, np.uint8)
    shut = 0
    kept = 0
    for place in range(size):
        j = queue[place]
        if shut < parts and not closed[jobs.partition[j]]:
            count = _choose(jobs, machines, state, j, now, False)
            if count:
                _begin(jobs, machines, state, j, count, now, heap)
                continue
            closed[jobs.partition[j]] = 1
            shut += 1
        if shut == parts and kept == place:
            return size  # nothing has moved
        queue[kept] = j
        kept += 1
    return kept


@njit(cache=True)
def _promise(jobs: Jobs, machines: Machines, state: State, j: Int, ends: Array, running: Array, count: Int) -> bool:
    """Promise job j the nodes it can have first, as the running jobs' limits end."""
    all_cpus, all_memory, member = machines.cpus, machines.memory, machines.member[jobs.partition[j]]
    later_cpus, later_memory, rooms = state.later_cpus, state.later_memory, state.rooms
    usable, first, spare_cpus, spare_memory = state.usable, state.first, state.spare_cpus, state.spare_memory
    held_node, held_cpus, held_count, offset = state.held_node, state.held_cpus, state.held_count, jobs.offset
    per_job, job_nodes = jobs.memory, jobs.nodes
    nodes, wanted, memory, whole, limit = jobs.nodes[j], jobs.cpus[j], jobs.memory[j], jobs.whole[j] != 0, jobs.limit[j]
    needed = nodes if nodes else wanted
    total = 0
    when = ends[0] if count else 0
    for i in range(all_cpus.size):
        cpus, free = state.free_cpus[i], state.free_memory[i]
        later_cpus[i], later_memory[i] = cpus, free
        room = 0
        if cpus > 0 and not usable[i] and member[i]:
            if when + limit > first[i]:
                cpus, free = min(cpus, spare_cpus[i]), min(free, spare_memory[i])
            room = _room(nodes == 0, wanted, memory, whole, cpus, free, all_cpus[i], all_memory[i])
        rooms[i] = min(room, 1) if nodes else room
        total += rooms[i]
    place = 0
    while place < count:
        when = ends[place]
        until = when + BACKFILL_S
        while place < count and ends[place] <= until:
            when = ends[place]
            r = running[place]
            base = offset[r]
            for k in range(held_count[r]):
                i, cpus = held_node[base + k], held_cpus[base + k]
                later_cpus[i] += cpus
                later_memory[i] += _held_memory(job_nodes[r], per_job[r], cpus, all_memory[i])
                if usable[i] or not member[i]:
                    continue
                cpus, free = later_cpus[i], later_memory[i]
                if when + limit > first[i]:
                    cpus, free = min(cpus, spare_cpus[i]), min(free, spare_memory[i])
                room = _room(nodes == 0, wanted, memory, whole, cpus, free, all_cpus[i], all_memory[i])
                room = min(room, 1) if nodes else room
                total += room - rooms[i]
                rooms[i] = room
            place += 1
        if total < needed:
            continue
        found = _choose(jobs, machines, state, j, when, True)  # rooms may have shrunk as `when` came nearer to promises
        if found:
            for k in range(found):
                i, cpus = state.chosen[k], state.chosen_cpus[k]
                spare_cpus[i] = min(spare_cpus[i], later_cpus[i]) - cpus
                spare_memory[i] = min(spare_memory[i], later_memory[i]) - _held_memory(
                    nodes, memory, cpus, all_memory[i]
                )
                first[i] = min(first[i], when)
            return True
    return False


@njit(cache=True)
def _hopeless(jobs: Jobs, j: Int, refused: Array, count: Int) -> bool:
    """Whether a job that asks for no more was refused in this pass already: room only shrinks within a pass."""
    all_nodes, all_cpus, limits, wholes = jobs.nodes, jobs.cpus, jobs.limit, jobs.whole
    memories, partitions = jobs.memory, jobs.partition
    nodes, cpus, limit, whole = all_nodes[j], all_cpus[j], limits[j], wholes[j]
    memory, partition = memories[j], partitions[j]
    for k in range(count):
        r = refused[k]
        if (
            all_nodes[r] <= nodes and (all_nodes[r] > 0) == (nodes > 0)
            and all_cpus[r] <= cpus and limits[r] <= limit and wholes[r] <= whole
            and memories[r] <= memory and (memories[r] < 0) == (memory < 0)
            and partitions[r] == partition
        ):  # fmt: skip
            return True
    return False


@njit(cache=True)
def _last_that_fits(jobs: Jobs, machines: Machines, state: State, queue: Array, size: Int, now: Int) -> int:
    """The last place in the queue whose job would fit now if nobody had a promise; -1 for none."""
    refused = np.empty(REMEMBERED, np.int64)
    failures = 0
    last = -1
    for place in range(min(size, MOST_TESTED)):
        j = queue[place]
        if _hopeless(jobs, j, refused, min(failures, REMEMBERED)):
            continue
        if _choose(jobs, machines, state, j, now, False):
            last = place
        else:
            refused[failures % REMEMBERED] = j
            failures += 1
    return last


@njit(cache=True)
def _backfill(jobs: Jobs, machines: Machines, state: State, queue: Array, size: Int, now: Int, heap: Any) -> Int:
    """One pass over the queue; its new size. Promises matter only to who could start behind them."""
    last = _last_that_fits(jobs, machines, state, queue, size, now)
    if last < 0:
        return size
    count = 0
    running = np.empty(len(heap) + size, np.int64)
    for entry in heap:
        j = entry[1]
        if state.held_count[j] and entry[2] == state.epoch[j]:
            running[count] = j
            count += 1
    ends = np.empty(running.size, np.int64)
    for k in range(count):
        ends[k] = max(state.until[running[k]], now + 1)
    order = np.argsort(ends[:count], kind="mergesort")
    running[:count] = running[:count][order]
    ends[:count] = ends[:count][order]
    state.first[:] = FAR
    state.spare_cpus[:] = FAR
    state.spare_memory[:] = FAR
    kept = promises = failures = 0
    refused = np.empty(REMEMBERED, np.int64)
    for place in range(size):
        j = queue[place]
        if place <= last:
            known = _hopeless(jobs, j, refused, min(failures, REMEMBERED))
            found = 0 if known else _choose(jobs, machines, state, j, now, False)
            if found:
                _begin(jobs, machines, state, j, found, now, heap)
                k = count
                while k > 0 and ends[k - 1] > state.until[j]:
                    ends[k] = ends[k - 1]
                    running[k] = running[k - 1]
                    k -= 1
                ends[k] = state.until[j]
                running[k] = j
                count += 1
                continue
            if not known:
                refused[failures % REMEMBERED] = j
                failures += 1
            if promises < PROMISES:
                promises += 1
                _promise(jobs, machines, state, j, ends, running, count)
        queue[kept] = j
        kept += 1
    state.first[:] = FAR
    state.spare_cpus[:] = FAR
    state.spare_memory[:] = FAR
    return kept


@njit(cache=True)
def _insert(queue: Array, size: Int, j: Int) -> Int:
    """Put a job back at its place by submit order."""
    k = size
    while k > 0 and queue[k - 1] > j:
        queue[k] = queue[k - 1]
        k -= 1
    queue[k] = j
    return size + 1


@njit(cache=True)
def _ever_fits(jobs: Jobs, machines: Machines, state: State, j: Int) -> bool:
    """Whether the empty cluster could run the job: else slurmctld refuses it."""
    for i in range(machines.cpus.size):
        state.later_cpus[i] = machines.cpus[i]
        state.later_memory[i] = machines.memory[i]
    kept = state.usable.copy()
    state.usable[:] = 0
    found = _choose(jobs, machines, state, j, 0, True)
    state.usable[:] = kept
    return found > 0


@njit(cache=True)
def _outage(
    jobs: Jobs, machines: Machines, state: State, node: Int, up: bool, kill: bool, heap: Any, queue: Array, size: Int
) -> tuple[int, int]:
    """A node goes or comes back: (queue's new size, jobs killed)."""
    if up:
        state.usable[node] -= 1
        return size, 0
    state.usable[node] += 1
    killed = 0
    if kill:
        for entry in heap:
            j = entry[1]
            if not state.held_count[j] or entry[2] != state.epoch[j]:
                continue
            base = jobs.offset[j]
            for k in range(state.held_count[j]):
                if state.held_node[base + k] == node:
                    _release(jobs, machines, state, j)
                    state.epoch[j] += 1
                    size = _insert(queue, size, j)
                    killed += 1
                    break
    return size, killed


@njit(cache=True)
def simulate(
    jobs: Jobs, machines: Machines, outages: Outages, counted: Array, bound: Int, most: Int
) -> tuple[Array, int, Array, Array]:
    """(first start of each job in seconds, -1: refused or not reached; jobs lost to outages; the nodes each job held
    last, from its offset on; how many).

    It ends early once more than `most` of the counted jobs (uint8 per job) have waited longer than `bound` seconds:
    a search needs no more of a cluster that is too small.
    """
    n, nodes = jobs.submit.size, machines.cpus.size
    slots = jobs.offset[n]
    state = State(
        machines.cpus.copy(), machines.memory.copy(), np.zeros(nodes, np.int64), np.full(nodes, FAR, np.int64),
        np.full(nodes, FAR, np.int64), np.full(nodes, FAR, np.int64), np.zeros(nodes, np.int64),
        np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64), np.zeros(nodes, np.int64),
        np.zeros(slots, np.int64), np.zeros(slots, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64),
        np.full(n, -1, np.int64), np.zeros(n, np.int64), np.zeros(n, np.int64),
    )  # fmt: skip
    queue = np.empty(n + 1, np.int64)
    heap = [(np.int64(0), np.int64(0), np.int64(-1))]
    heap.pop()
    size = arrived = out = lost = late = 0
    oldest = 0
    last_backfill, backfill = -BACKFILL_S, FAR
    while arrived < n or size or heap:
        now: Int = FAR
        if arrived < n:
            now = min(now, jobs.submit[arrived])
        if heap:
            now = min(now, heap[0][0])
        if out < outages.at.size:
            now = min(now, outages.at[out])
        now = min(now, backfill)
        if now == FAR:
            break  # what is left can never start
        while oldest < arrived and jobs.submit[oldest] + bound < now:
            if counted[oldest] and (state.start[oldest] < 0 or state.start[oldest] - jobs.submit[oldest] > bound):
                late += 1
            oldest += 1
        if late > most:
            break
        changed = False
        while heap and heap[0][0] <= now:
            entry = heapq.heappop(heap)
            if state.held_count[entry[1]] and entry[2] == state.epoch[entry[1]]:
                _release(jobs, machines, state, entry[1])
                changed = True
        while out < outages.at.size and outages.at[out] <= now:
            size, killed = _outage(
                jobs,
                machines,
                state,
                outages.node[out],
                outages.up[out] == 1,
                outages.kill[out] == 1,
                heap,
                queue,
                size,
            )
            lost += killed
            out += 1
            changed = True
        while arrived < n and jobs.submit[arrived] <= now:
            if _ever_fits(jobs, machines, state, arrived):
                queue[size] = arrived
                size += 1
                changed = True
            arrived += 1
        if changed and size:
            size = _main_pass(jobs, machines, state, queue, size, now, heap)
        if backfill <= now:
            last_backfill, backfill = now, FAR
            if size:
                size = _backfill(jobs, machines, state, queue, size, now, heap)
        if changed and size:
            backfill = min(backfill, max(now + 1, last_backfill + BACKFILL_S))
    return state.start, lost, state.held_node, state.held_last
