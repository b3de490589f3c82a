"""One backfill cycle over the arrays of a compiled run.

The rules are those of plain_planner.py, node_space.py, uniform_search.py and selection/uniform.py, which are written to
be read. Here they stand in few functions with few arguments, for each call of compiled code costs as much as the work
in it: a cycle tests some hundred records, each against ten places of the map.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from slurmtwin.models.slurmctld.compiled import forms
from slurmtwin.models.slurmctld.compiled import layout as at
from slurmtwin.models.slurmctld.compiled.bitmaps import after, bits_of, choose, common, meets
from slurmtwin.models.slurmctld.compiled.events import emit, write_hostlist
from slurmtwin.models.slurmctld.compiled.jit import compiled, ones
from slurmtwin.models.slurmctld.compiled.layout import Array, Core, Int, Rows
from slurmtwin.models.slurmctld.compiled.life import stamp_job, start
from slurmtwin.models.slurmctld.compiled.node_map import (
    BEGIN,
    END,
    GROWS,
    LEFT,
    MOST,
    PICKED,
    SLOT_FIELDS,
    TRY,
    mend,
    overlaps,
    reserve,
)
from slurmtwin.models.slurmctld.node_space import FAR_S
from slurmtwin.models.slurmctld.tables import INFINITE_S

_FAR: Final = FAR_S
_LONGEST: Final = INFINITE_S
_FIRST_WINDOW: Final = 30
_MOST_PER_GROUP: Final = 201
_NONE: Final = -1


class Plan(NamedTuple):
    """What a cycle works on."""

    slots: Array
    free: Rows
    """Unreserved nodes of each slot."""
    freed: Rows
    """Nodes free once the first k running jobs are gone."""
    alive: Array
    tries: Array
    runs: Array
    """Runs of consecutive nodes: first, size."""
    rows: Rows
    """The nodes of one try, and those chosen."""
    order: Array
    """The queue as it was when the cycle began."""


# --- when and where a job fits: uniform_search.py


@compiled
def _chosen_of(k: int, wanted: int, freed: Rows, rows: Rows, runs: Array) -> None:
    for i in range(rows.shape[1]):
        rows[LEFT, i] = rows[TRY, i] & freed[k, i]
    choose(rows, LEFT, wanted, runs, rows, PICKED)


@compiled
def _widened_s(window_s: int, needed_s: int, linear_s: int) -> Int:
    """uniform_search.widened_s()."""
    enough_s = min(needed_s, _LONGEST + 1)
    if linear_s:
        return window_s + linear_s * max(1, -(-(enough_s - window_s) // linear_s))
    window_s *= 2
    while window_s < enough_s:
        window_s *= 2
    return window_s


@compiled
def _leave(place: int, edge: int, total: int, running: Array, nodes: Rows, rows: Rows) -> tuple[int, int]:
    """One group of jobs that end, up to the first from `edge` on: (last that held nodes of the try or -1, next)."""
    here = edge
    while here < total and not meets(nodes, running[here, 1], rows, TRY):
        here += 1
    if here < total:
        return here, here + 1
    here = edge - 1
    while here >= place and not meets(nodes, running[here, 1], rows, TRY):
        here -= 1
    return (here if here >= place else -1), total


@compiled
def _leave_many(place: int, total: int, until_s: int, jobs: int, running: Array, nodes: Rows,
                rows: Rows) -> tuple[int, int, bool]:  # fmt: skip
    """The same for a group that may be too large: False when it ends untested."""
    last, removed = -1, 0
    while place < total:
        if not meets(nodes, running[place, 1], rows, TRY):
            place += 1
            continue
        last = place
        place += 1
        if place >= jobs or running[place, 0] > until_s:
            break
        removed += 1
        if removed > _MOST_PER_GROUP:
            return last, place, False
    return last, place, True


@compiled
def _will_run(wanted: int, start_s: int, until_s: int, s: Array, running: Array, nodes: Rows, freed: Rows, rows: Rows,
              runs: Array) -> Int:  # fmt: skip
    """Expected start on the nodes of the try, those chosen in their row; -1: none."""
    count, now_s, jobs = abs(wanted), s[at.NOW_S], s[at.RUNNING_JOBS]
    # a job that ends in the very second tried is gone only since 26.05 (_build_cr_job_list())
    first = after(running, 0, jobs, start_s if s[at.LATEST] else start_s - 1)
    total = after(running, 0, jobs, until_s) if until_s else jobs
    if start_s <= now_s and common(freed, 0, rows, TRY) >= count:
        _chosen_of(0, wanted, freed, rows, runs)
        return now_s
    if (first or start_s > now_s) and common(freed, first, rows, TRY) >= count:
        _chosen_of(first, wanted, freed, rows, runs)
        return now_s
    if common(freed, total, rows, TRY) < count:
        return _NONE
    place = first
    while place < total and not meets(nodes, running[place, 1], rows, TRY):
        place += 1
    if place >= total:
        return _NONE
    window_s = _FIRST_WINDOW
    base_s = running[place, 0] + window_s - running[place, 0] % window_s
    while place < total:
        over = min(after(running, 0, jobs, base_s + window_s) - 1, total)
        if over - place < _MOST_PER_GROUP:
            last, place = _leave(place, max(place, over), total, running, nodes, rows)
            tested = True
        else:
            last, place, tested = _leave_many(place, total, base_s + window_s, jobs, running, nodes, rows)
        if last < 0:
            return _NONE
        if not tested:
            continue
        if common(freed, place, rows, TRY) >= count:
            _chosen_of(place, wanted, freed, rows, runs)
            if s[at.LATEST]:
                while last >= first and not meets(nodes, running[last, 1], rows, PICKED):
                    last -= 1
                last = max(last, first)
            end_s = running[last, 0]
            return end_s if end_s > now_s else max(end_s + s[at.KILL_WAIT] + s[at.OVER_TIME], now_s + 1)
        if place >= total:
            return _NONE
        window_s = _widened_s(window_s, running[place, 0] - base_s, s[at.LINEAR])
    return _NONE


# --- the cycle: plain_planner.py


@compiled
def _had_nodes(tried: int, length_s: int, count: int, size: int, core: Core, work: Plan) -> bool:
    """Some try cut short had as many unreserved nodes as the job needs, free or not."""
    slots, free, rows = work.slots, work.free, work.rows
    for number in range(tried):
        start_s = work.tries[number]
        for i in range(rows.shape[1]):
            rows[TRY, i] = core.masks[at.ALL, i]
        for place in range(after(slots, END, size, start_s), size):
            if slots[place, BEGIN] > start_s + length_s:
                break
            for i in range(rows.shape[1]):
                rows[TRY, i] &= free[place, i]
        if bits_of(rows, TRY) >= count:
            return True
    return False


@compiled
def _first_alive(number: int, known: int, size: int, core: Core, work: Plan) -> int:
    """First length from `number` on for which some job may still start now; `known`: none."""
    slots, free, rows, alive, masks = work.slots, work.free, work.rows, work.alive, core.masks
    now_s = core.s[at.NOW_S]
    place = after(slots, END, size, now_s)
    for i in range(rows.shape[1]):
        rows[LEFT, i] = masks[at.ALL, i] & ~masks[at.HELD, i]
    total = bits_of(rows, LEFT)
    for length in range(number, known):
        over_s = now_s + alive[length, 0]
        if place < size and slots[place, BEGIN] <= over_s:
            while place < size and slots[place, BEGIN] <= over_s:
                for i in range(rows.shape[1]):
                    rows[LEFT, i] &= free[place, i]
                place += 1
            total = bits_of(rows, LEFT)
        if total >= alive[length, 1]:
            return length
    return known


@compiled
def _lengths(core: Core, alive: Array) -> int:
    """Lengths of pending jobs with the fewest nodes wanted for so long; how many."""
    s, jobs, lengths = core.s, core.jobs, core.lengths
    known = s[at.LENGTHS]
    for i in range(known):
        lengths[i, 1] = at.NEVER
    for i in range(s[at.HEAD], s[at.HEAD] + s[at.PENDING_JOBS]):
        job = core.pending[i]
        place = jobs[job, at.LENGTH_PLACE]
        lengths[place, 1] = min(lengths[place, 1], jobs[job, at.FEWEST])
    found = 0
    for i in range(known):
        place = lengths[i, 2]
        if lengths[place, 1] != at.NEVER:
            alive[found, 0], alive[found, 1] = lengths[place, 0], lengths[place, 1]
            found += 1
    return found


@compiled
def _fill(core: Core, freed: Rows) -> None:
    """Nodes free once the first k running jobs are gone."""
    s, masks, running, nodes = core.s, core.masks, core.running, core.nodes
    if s[at.FREED] == s[at.USAGE_VERSION]:
        return
    s[at.FREED] = s[at.USAGE_VERSION]
    for i in range(masks.shape[1]):
        freed[0, i] = masks[at.ALL, i] & ~masks[at.HELD, i]
    for place in range(s[at.RUNNING_JOBS]):
        job = running[place, 1]
        for i in range(masks.shape[1]):
            freed[place + 1, i] = freed[place, i] | nodes[job, i]


@compiled
def _idle(core: Core, rows: Rows) -> int:
    """Nodes of the try that are idle, into masks[FREE]; how many. Fewer than expected when a job is past its end."""
    masks = core.masks
    total = 0
    for i in range(rows.shape[1]):
        masks[at.FREE, i] = rows[TRY, i] & ~(masks[at.HELD, i] | masks[at.LEAVING, i])
        total += ones(masks[at.FREE, i])
    return total


@compiled
def _refuse(job: int, core: Core) -> None:
    """The attempt to start failed (start_attempt.py): the reason changes, the stamps do not."""
    s, jobs = core.s, core.jobs
    if jobs[job, at.REASON] != at.RESOURCES:
        jobs[job, at.REASON] = at.RESOURCES
        emit(forms.PENDING_RESOURCES, jobs[job, at.ID], 0, 0, s, core.rows)


@compiled
def _start_record(place: int, core: Core, work: Plan) -> None:
    """The record starts on idle nodes of the try, masks[FREE] (Selection._place_plainly())."""
    masks = core.masks
    job = core.pending[core.s[at.HEAD] + place]
    choose(masks, at.FREE, core.jobs[job, at.WANTED], work.runs, masks, at.CHOSEN)
    start(place, forms.STARTED_BY_BACKFILL, core)
    stamp_job(core.s)


@compiled
def _tell(job: int, start_s: int, core: Core, rows: Rows) -> None:
    s, jobs = core.s, core.jobs
    if not jobs[job, at.PLANNED_START]:
        write_hostlist(rows[PICKED], abs(jobs[job, at.WANTED]), s, core.text, core.name)
        emit(forms.PLANNED, jobs[job, at.ID], start_s * at.NS - s[at.EPOCH], 0, s, core.rows)
    jobs[job, at.PLANNED_START] = start_s


@compiled
def plan_all(core: Core, work: Plan) -> tuple[int, int, int, bool]:
    """One cycle: (jobs tested, jobs started, second until which it holds, some nodes are planned)."""
    s, jobs, masks, running = core.s, core.jobs, core.masks, core.running
    slots, free, freed, rows, runs, tries, alive = (
        work.slots, work.free, work.freed, work.rows, work.runs, work.tries, work.alive
    )  # fmt: skip
    now_s, waiting, words = s[at.NOW_S], s[at.PENDING_JOBS], masks.shape[1]
    window_s, resolution_s, most_tested = s[at.WINDOW], s[at.RESOLUTION], s[at.MAX_TEST]
    latest, exact = s[at.LATEST], waiting > most_tested
    for i in range(waiting):
        work.order[i] = core.pending[s[at.HEAD] + i]
    slots[0, BEGIN] = now_s // resolution_s * resolution_s
    slots[0, END] = (now_s + window_s) // resolution_s * resolution_s
    for i in range(words):
        free[0, i] = masks[at.ALL, i]
    size = records = 1
    _fill(core, freed)
    jobs_running = s[at.RUNNING_JOBS]
    mend(0, size, size, jobs_running, slots, free, running, freed)
    known = _lengths(core, alive)
    first_alive = tested = started = 0
    planned = full = False
    valid_s = _FAR
    for record in range(waiting):
        if tested >= most_tested or full:
            break
        job = work.order[record]
        wanted, length_s = jobs[job, at.WANTED], jobs[job, at.LENGTH]
        count = abs(wanted)
        bound_s, reached, tried, began, kept_s = _FAR, 0, 0, False, 0
        start_s = now_s
        place = after(slots, END, size, start_s)
        if place < size:
            bound_s = slots[place, END]
        while True:
            last = size - 1
            if slots[last, END] < start_s:
                bound_s = min(bound_s, slots[last, END] + resolution_s - window_s)
                break
            # on to the slot behind which more nodes are free: that one bounds the try
            over_s, later_s, ahead = start_s + length_s, 0, place
            while ahead < last:
                if slots[ahead, GROWS]:
                    if slots[ahead, MOST] >= count or slots[ahead, BEGIN] > over_s:
                        later_s = slots[ahead, END]
                        break
                    if exact:
                        tries[tried] = start_s
                        tried += 1
                    start_s = slots[ahead, END]
                    over_s = start_s + length_s
                    place = ahead + 1
                elif slots[ahead, BEGIN] > over_s:
                    break
                ahead += 1
            # the nodes unreserved in all slots of the try
            gone = after(running, 0, jobs_running, later_s) if later_s else jobs_running
            total = 0
            for i in range(words):
                rows[TRY, i] = masks[at.ALL, i]
            fits = True
            while place <= last and slots[place, BEGIN] <= over_s:
                total = 0
                for i in range(words):
                    nodes = rows[TRY, i] & free[place, i]
                    rows[TRY, i] = nodes
                    total += ones(nodes & freed[gone, i])
                place += 1
                if later_s and total < count:
                    fits = False
                    break
            if not fits:
                if exact:
                    tries[tried] = start_s
                    tried += 1
            else:
                if place <= last:
                    if not later_s and place + 1 < last:
                        later_s = slots[place + 1, END]
                    if start_s <= now_s:
                        bound_s = min(bound_s, slots[place, BEGIN] - length_s)
                if bits_of(rows, TRY) >= count:
                    reached = 1
                    found_s = _will_run(wanted, start_s, later_s, s, running, core.nodes, freed, rows, runs)
                    if found_s >= 0:
                        tried_s = start_s
                        start_s = max(found_s, tried_s)
                        begin_s = start_s // resolution_s * resolution_s
                        end_s = (start_s + length_s + resolution_s - 1) // resolution_s * resolution_s
                        if start_s > now_s:
                            if overlaps(begin_s, end_s, size, slots, free, rows):
                                later_s = start_s + (resolution_s if start_s == tried_s and latest else 0)
                                start_s = later_s
                                place = after(slots, END, size, start_s)
                                continue
                        else:
                            bound_s = min(bound_s, now_s + 1)
                            later_s = 0
                            if meets(rows, PICKED, masks, at.LEAVING):
                                start_s = now_s + 1
                                begin_s = start_s // resolution_s * resolution_s
                                end_s = (start_s + length_s + resolution_s - 1) // resolution_s * resolution_s
                            elif _idle(core, rows) >= count:
                                began = True
                                break
                            else:
                                _refuse(job, core)
                            if overlaps(begin_s, end_s, size, slots, free, rows):
                                place = after(slots, END, size, start_s)
                                continue
                        if not (later_s and start_s > later_s):
                            if start_s > now_s + window_s:
                                bound_s = min(bound_s, start_s - window_s)
                            elif records >= s[at.MAX_RECORDS]:
                                full = True
                            else:
                                if end_s >= slots[size - 1, END]:
                                    bound_s = min(bound_s, slots[size - 1, END] + resolution_s - window_s)
                                size, used = reserve(
                                    begin_s, end_s, size, s, slots, free, rows, running, freed
                                )  # fmt: skip
                                records += used
                                kept_s = start_s
                            break
            if not later_s:
                break
            start_s = later_s
            place = after(slots, END, size, start_s)
        if began:
            _start_record(record - started, core, work)
            started += 1
            tested += 1
            first_alive = 0
            _fill(core, freed)
            jobs_running = s[at.RUNNING_JOBS]
            mend(0, size, size, jobs_running, slots, free, running, freed)
            known = _lengths(core, alive)
            continue
        if full:
            break
        if kept_s:
            _tell(job, kept_s, core, rows)
            planned = True
        if not reached and _had_nodes(tried, length_s, count, size, core, work):
            reached = 1
        tested += reached
        valid_s = min(valid_s, bound_s)
        if planned:
            first_alive = _first_alive(first_alive, known, size, core, work)
            if first_alive == known:
                break
    for i in range(s[at.RUNNING_JOBS]):
        if running[i, 0] < valid_s:
            valid_s = max(running[i, 0], now_s + 1)
    return tested, started, valid_s, planned


def workspace(core: Core) -> Plan:
    """Room for the cycles of a run."""
    s, words = core.s, core.masks.shape[1]
    plans = min(int(s[at.MAX_TEST]), len(core.pending)) + 1
    slots = min(2 * plans + 1, int(s[at.MAX_RECORDS]) + 2)
    s[at.FREED] = -1
    return Plan(
        slots=np.zeros((slots, SLOT_FIELDS), np.int64), free=np.zeros((slots, words), np.uint64),
        freed=np.zeros((len(core.running) + 1, words), np.uint64),
        alive=np.zeros((len(core.lengths) + 64, 2), np.int64), tries=np.zeros(2 * slots + 2, np.int64),
        runs=np.zeros((words * 32 + 1, 2), np.int64), rows=np.zeros((3, words), np.uint64),
        order=np.zeros(len(core.pending), np.int64),
    )  # fmt: skip
