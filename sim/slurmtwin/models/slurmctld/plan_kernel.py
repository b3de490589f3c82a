"""The inner loop of plain_planner.py on machine words, compiled by numba: the same plans, some thirty times as fast.

A bitmap of nodes is a row of 64-bit words, lowest node first. Every function mirrors one of plain_planner.py,
node_space.py, uniform_search.py or selection/uniform.py, which are written to be read; a test proves them equal.
The module is imported only once a run has planned so much that compiling (or loading what was compiled) pays.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numba import njit

from slurmtwin.models.slurmctld.node_space import FAR_S
from slurmtwin.models.slurmctld.tables import INFINITE_S

Int = Any
"""An int64."""
Array = Any
"""A numpy array of int64."""
Row = Any
"""A bitmap: a row of uint64."""
Rows = Any


class Map(NamedTuple):
    """A NodeSpace of state[SLOTS] slots, in arrays with room for more."""

    begin: Array
    end: Array
    free: Rows
    grows: Array
    """Whether nodes become free behind the slot."""
    most: Array
    """How many nodes can be free in it at most by its end, running jobs considered."""


class Running(NamedTuple):
    """The running jobs by expected end."""

    ends: Array
    held: Rows
    guesses: Array
    """When a job that is past its end is taken to go."""
    freed: Rows
    """One row more than jobs: nodes free once the first k are gone; plan() fills it."""


class Workspace(NamedTuple):
    """What functions write their answers to."""

    chosen: Row
    free: Row
    starts: Array
    sizes: Array
    """Runs of consecutive nodes."""


DONE, START, KEPT, SKIPPED, LATER = range(5)
"""What came of a record: the map is full; it fits now and is to be started; it got a reservation; none; not yet
decided. plan() comes back with DONE at the end of the cycle and with START."""

SLOTS, RECORDS, TESTED, VALID_UNTIL, RESERVED, ALIVE, RECORD, REFUSED, BOUND, REACHED, TRIED = range(11)
"""Places of the state: slots of the map, records it used, jobs tested, bound of the outcome, reservations made,
first length still alive, record to go on with, record whose start was refused (-1: none); of the present record its
bound, whether it counts as tested, tries cut short."""
STATE_SIZE: Final = 11

NOW, WINDOW, RESOLUTION, LINEAR, ALL_RELEVANT, LATEST, MOST_TESTED, MOST_RECORDS, EXACT = range(9)
"""Places of the settings."""
SETTINGS_SIZE: Final = 9

EVERYWHERE, COMPLETING, IDLE, ALL, USABLE = range(5)
"""Rows of the masks; plan() leaves in USABLE what the record to be started may use."""
MASK_ROWS: Final = 5

_FAR: Final = FAR_S
_LONGEST: Final = INFINITE_S
_FIRST_WINDOW: Final = 30
_MOST_PER_GROUP: Final = 201


@njit(cache=True)
def _bits(word: Any) -> Int:
    """Set bits of one word."""
    word = word - ((word >> np.uint64(1)) & np.uint64(0x5555555555555555))
    word = (word & np.uint64(0x3333333333333333)) + ((word >> np.uint64(2)) & np.uint64(0x3333333333333333))
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@njit(cache=True)
def _count(row: Row) -> int:
    total = 0
    for word in row:
        total += _bits(word)
    return total


@njit(cache=True)
def _count_both(one: Row, other: Row) -> int:
    total = 0
    for i in range(one.size):
        total += _bits(one[i] & other[i])
    return total


@njit(cache=True)
def _meet(one: Row, other: Row) -> bool:
    for i in range(one.size):  # noqa: SIM110  numba has no any()
        if one[i] & other[i]:
            return True
    return False


@njit(cache=True)
def _after(ends: Array, size: int, unix_s: int) -> int:
    """bisect_right() in the first `size` of them."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if unix_s < ends[middle]:
            high = middle
        else:
            low = middle + 1
    return low


# --- node choice: selection/uniform.py


@njit(cache=True)
def _set_range(row: Row, begin: int, count: int) -> None:
    for node in range(begin, begin + count):
        row[node >> 6] |= np.uint64(1) << np.uint64(node & 63)


@njit(cache=True)
def _runs_of(work: Workspace) -> int:
    """Maximal runs of nodes of work.free, ascending, into starts and sizes; how many."""
    free, starts, sizes = work.free, work.starts, work.sizes
    runs, begin, nodes = 0, -1, free.size * 64
    node = 0
    while node < nodes:
        word = free[node >> 6] >> np.uint64(node & 63)
        if begin < 0:
            if not word:
                node = (node | 63) + 1
                continue
            node += _bits((word & (~word + np.uint64(1))) - np.uint64(1))
            begin = node
        else:
            zeros = ~word
            step = _bits((zeros & (~zeros + np.uint64(1))) - np.uint64(1))
            room = 64 - (node & 63)
            if step >= room:
                node += room
                continue
            node += step
            starts[runs], sizes[runs] = begin, node - begin
            runs += 1
            begin = -1
    if begin >= 0:
        starts[runs], sizes[runs] = begin, nodes - begin
        runs += 1
    return runs


@njit(cache=True)
def _choose(one: Row, other: Row, count: int, lowest: bool, work: Workspace) -> None:
    """best_fit(), or first_node() where `lowest`, among the nodes of both rows; there are enough."""
    free, chosen, sizes = work.free, work.chosen, work.sizes
    for i in range(free.size):
        free[i] = one[i] & other[i]
    chosen[:] = np.uint64(0)
    if lowest:
        for i in range(free.size):
            word = free[i]
            if word:
                chosen[i] = word & (~word + np.uint64(1))
                return
    runs = _runs_of(work)
    while count > 0:
        best, longest = -1, 0
        for run in range(runs):
            size = sizes[run]
            if size >= count and (best < 0 or size < sizes[best]):
                best = run
            if size > sizes[longest]:
                longest = run
        if best < 0:
            best = longest
        size = min(count, sizes[best])
        _set_range(chosen, work.starts[best], size)
        count -= size
        sizes[best] = 0


# --- expected starts: uniform_search.py


@njit(cache=True)
def _widened_s(window_s: int, needed_s: int, linear_s: int) -> Int:
    """uniform_search.widened_s()."""
    enough_s = min(needed_s, _LONGEST + 1)
    if linear_s:
        return window_s + linear_s * max(1, -(-(enough_s - window_s) // linear_s))
    window_s *= 2
    while window_s < enough_s:
        window_s *= 2
    return window_s


@njit(cache=True)
def _will_run(
    usable: Row, count: int, lowest: bool, start_s: int, until_s: int, settings: Array, running: Running,
    work: Workspace,
) -> Int:  # fmt: skip
    """Expected start, its nodes in work.chosen; -1: none."""
    ends, held, freed = running.ends, running.held, running.freed
    now_s, total_jobs = settings[NOW], ends.size
    # a job that ends in the very second tried is gone only since 26.05 (_build_cr_job_list())
    first = _after(ends, total_jobs, start_s if settings[LATEST] else start_s - 1)
    total = _after(ends, total_jobs, until_s) if until_s else total_jobs
    if start_s <= now_s and _count_both(freed[0], usable) >= count:
        _choose(freed[0], usable, count, lowest, work)
        return now_s
    if (first or start_s > now_s) and _count_both(freed[first], usable) >= count:
        _choose(freed[first], usable, count, lowest, work)
        return now_s
    if _count_both(freed[total], usable) < count:
        return -1
    place, window_s, base_s = first, _FIRST_WINDOW, 0
    while place < total:
        last, removed, tested = -1, 0, True
        while place < total:
            if not _meet(held[place], usable):
                place += 1
                continue
            if not base_s:
                base_s = ends[place] + window_s - ends[place] % window_s
            last = place
            place += 1
            if place >= total_jobs or ends[place] > base_s + window_s:
                break
            removed += 1
            if removed > _MOST_PER_GROUP:
                tested = False
                break
        if last < 0:
            return -1
        if not tested:
            continue
        if _count_both(freed[place], usable) >= count:
            _choose(freed[place], usable, count, lowest, work)
            if not settings[ALL_RELEVANT]:
                while last >= first and not _meet(held[last], work.chosen):
                    last -= 1
                last = max(last, first)
            return ends[last] if ends[last] > now_s else running.guesses[last]
        if place >= total:
            return -1
        window_s = _widened_s(window_s, ends[place] - base_s, settings[LINEAR])
    return -1


# --- the map: node_space.py


@njit(cache=True)
def _split(place: int, at_s: int, space: Map, state: Array) -> None:
    begin, end, free, grows, most = space
    slots = state[SLOTS]
    for i in range(slots, place + 1, -1):
        begin[i], end[i] = begin[i - 1], end[i - 1]
        free[i] = free[i - 1]
        grows[i], most[i] = grows[i - 1], most[i - 1]
    begin[place + 1], end[place + 1] = at_s, end[place]
    end[place] = at_s
    free[place + 1] = free[place]
    state[SLOTS] += 1
    state[RECORDS] += 1


@njit(cache=True)
def _mend(low: int, high: int, space: Map, running: Running, state: Array) -> None:
    """grows and most of these slots."""
    end, free, ends = space.end, space.free, running.ends
    slots = state[SLOTS]
    for place in range(max(0, low), min(high, slots)):
        more = 0
        if place + 1 < slots:
            for i in range(free.shape[1]):
                if free[place + 1, i] & ~free[place, i]:
                    more = 1
                    break
        space.grows[place] = more
        space.most[place] = _count_both(free[place], running.freed[_after(ends, ends.size, end[place])])


@njit(cache=True)
def _reserve(start_s: int, end_s: int, nodes: Row, settings: Array, space: Map, running: Running, state: Array) -> None:
    """NodeSpace.reserve() without licences."""
    begin, end, free, grows, hints = space
    start_s = max(start_s, begin[0])
    end_s = max(end_s, start_s + settings[RESOLUTION])
    first = _after(end, state[SLOTS], start_s - 1)
    if first == state[SLOTS]:
        return
    before = max(0, first - 1)
    if end[first] > start_s:
        _split(first, start_s, space, state)
    last = first + 1
    most = -1
    while last < state[SLOTS]:
        if end_s < end[last]:
            _split(last, end_s, space, state)
        for i in range(nodes.size):
            free[last, i] &= ~nodes[i]
        if end[last] == end_s:
            most = last + 1
            break
        last += 1
    slots = state[SLOTS]
    if most < 0 or most >= slots:
        most = slots - 1
    for place in range(before, most):
        same = True
        for i in range(nodes.size):
            if free[place, i] != free[place + 1, i]:
                same = False
                break
        if same:
            end[place] = end[place + 1]
            for i in range(place + 1, slots - 1):
                begin[i], end[i] = begin[i + 1], end[i + 1]
                free[i] = free[i + 1]
                grows[i], hints[i] = grows[i + 1], hints[i + 1]
            state[SLOTS] -= 1
            break
    _mend(before - 1, last + 2, space, running, state)


@njit(cache=True)
def _overlaps(start_s: int, end_s: int, nodes: Row, space: Map, state: Array) -> bool:
    begin, end, free = space.begin, space.end, space.free
    for place in range(_after(end, state[SLOTS], start_s), state[SLOTS]):
        if begin[place] >= end_s:
            break
        for i in range(nodes.size):
            if nodes[i] & ~free[place, i]:
                return True
    return False


# --- the cycle: plain_planner.py


@njit(cache=True)
def _had_nodes(tries: Array, length_s: int, count: int, masks: Rows, space: Map, state: Array) -> bool:
    """Some try cut short had as many unreserved nodes as the job needs, free or not."""
    begin, end, free, avail = space.begin, space.end, space.free, masks[USABLE]
    for number in range(state[TRIED]):
        start_s = tries[number]
        avail[:] = masks[EVERYWHERE]
        for place in range(_after(end, state[SLOTS], start_s), state[SLOTS]):
            if begin[place] > start_s + length_s:
                break
            for i in range(avail.size):
                avail[i] &= free[place, i]
        if _count(avail) >= count:
            return True
    return False


@njit(cache=True)
def _nothing_can_start(alive: Array, masks: Rows, settings: Array, space: Map, state: Array) -> bool:
    """No job behind has as many idle, unreserved nodes over its whole length as it needs at least."""
    begin, end, free, left = space.begin, space.end, space.free, masks[USABLE]
    now_s, slots = settings[NOW], state[SLOTS]
    place = _after(end, slots, now_s)
    left[:] = masks[IDLE]
    for number in range(state[ALIVE], alive.shape[0]):
        over_s = now_s + alive[number, 0]
        while place < slots and begin[place] <= over_s:
            for i in range(left.size):
                left[i] &= free[place, i]
            place += 1
        if _count(left) >= alive[number, 1]:
            state[ALIVE] = number
            return False
    state[ALIVE] = alive.shape[0]
    return True


@njit(cache=True)
def _fill(everything: Row, running: Running) -> None:
    """running.freed."""
    held, freed = running.held, running.freed
    freed[0] = everything
    for job in range(held.shape[0]):
        for i in range(held.shape[1]):
            freed[0, i] &= ~held[job, i]
    for job in range(held.shape[0]):
        for i in range(held.shape[1]):
            freed[job + 1, i] = freed[job, i] | held[job, i]


@njit(cache=True)
def _next_try(place: int, start_s: int, length_s: int, count: int, settings: Array, space: Map, state: Array,
              tries: Array) -> tuple[int, int, int]:  # fmt: skip
    """(first slot, start, next try), on to the slot behind which more nodes are free: that one bounds the try."""
    begin, end, grows, most = space.begin, space.end, space.grows, space.most
    last, ahead = state[SLOTS] - 1, place
    while ahead < last:
        if grows[ahead]:
            if most[ahead] >= count or begin[ahead] > start_s + length_s:
                return place, start_s, end[ahead]
            if settings[EXACT]:
                tries[state[TRIED]] = start_s
                state[TRIED] += 1
            start_s = end[ahead]
            place = ahead + 1
        elif begin[ahead] > start_s + length_s:
            break
        ahead += 1
    return place, start_s, 0


@njit(cache=True)
def _scan(place: int, start_s: int, later_s: int, length_s: int, count: int, masks: Rows, settings: Array, space: Map,
          running: Running, state: Array, tries: Array) -> tuple[bool, int]:  # fmt: skip
    """The nodes unreserved in all slots of the try, into masks[USABLE]: (may be enough, next try)."""
    begin, end, free, avail = space.begin, space.end, space.free, masks[USABLE]
    ends, last = running.ends, state[SLOTS] - 1
    freed = running.freed[_after(ends, ends.size, later_s) if later_s else ends.size]
    avail[:] = masks[EVERYWHERE]
    while place <= last and begin[place] <= start_s + length_s:
        total = 0
        for i in range(avail.size):
            avail[i] &= free[place, i]
            total += _bits(avail[i] & freed[i])
        place += 1
        if later_s and total < count:
            if settings[EXACT]:
                tries[state[TRIED]] = start_s
                state[TRIED] += 1
            return False, later_s
    if place <= last:
        if not later_s and place + 1 < last:
            later_s = end[place + 1]
        if start_s <= settings[NOW]:
            state[BOUND] = min(state[BOUND], begin[place] - length_s)
    return True, later_s


@njit(cache=True)
def _with_start(record: int, tried_s: int, later_s: int, found_s: int, length_s: int, masks: Rows, settings: Array,
                space: Map, running: Running, state: Array, chosen: Row) -> tuple[int, int]:  # fmt: skip
    """(LATER, next try or 0), or what became of the record: started, reserved, skipped, or the map is full."""
    now_s, window_s, resolution_s = settings[NOW], settings[WINDOW], settings[RESOLUTION]
    start_s = max(found_s, tried_s)
    begin_s = start_s // resolution_s * resolution_s
    over_s = (start_s + length_s + resolution_s - 1) // resolution_s * resolution_s
    if start_s > now_s:
        if _overlaps(begin_s, over_s, chosen, space, state):
            return LATER, start_s + (resolution_s if start_s == tried_s and settings[LATEST] else 0)
    else:
        state[BOUND] = min(state[BOUND], now_s + 1)
        later_s = 0
        if _meet(chosen, masks[COMPLETING]):
            start_s = now_s + 1
            begin_s = start_s // resolution_s * resolution_s
            over_s = (start_s + length_s + resolution_s - 1) // resolution_s * resolution_s
        elif state[REFUSED] != record:
            return START, 0
        if _overlaps(begin_s, over_s, chosen, space, state):
            return LATER, start_s
    if later_s and start_s > later_s:
        return LATER, later_s
    if start_s > now_s + window_s:
        state[BOUND] = min(state[BOUND], start_s - window_s)
        return SKIPPED, 0
    if state[RECORDS] >= settings[MOST_RECORDS]:
        return DONE, 0
    if over_s >= space.end[state[SLOTS] - 1]:
        _bound_by_window(settings, space, state)
    _reserve(begin_s, over_s, chosen, settings, space, running, state)
    return KEPT, start_s


@njit(cache=True)
def _bound_by_window(settings: Array, space: Map, state: Array) -> None:
    bound_s = space.end[state[SLOTS] - 1] + settings[RESOLUTION] - settings[WINDOW]
    state[BOUND] = min(state[BOUND], bound_s)


@njit(cache=True)
def _test(record: int, count: int, length_s: int, lowest: bool, masks: Rows, settings: Array, space: Map,
          running: Running, state: Array, tries: Array, work: Workspace) -> tuple[int, int]:  # fmt: skip
    """One record: what became of it, and its expected start where it got a reservation."""
    start_s = settings[NOW]
    state[BOUND], state[REACHED], state[TRIED] = _FAR, 0, 0
    place = _after(space.end, state[SLOTS], start_s)
    if place < state[SLOTS]:
        state[BOUND] = space.end[place]
    while True:
        if space.end[state[SLOTS] - 1] < start_s:
            _bound_by_window(settings, space, state)
            return SKIPPED, 0
        place, start_s, later_s = _next_try(place, start_s, length_s, count, settings, space, state, tries)
        fits, later_s = _scan(
            place, start_s, later_s, length_s, count, masks, settings, space, running, state, tries
        )  # fmt: skip
        if fits and _count(masks[USABLE]) >= count:
            state[REACHED] = 1
            found_s = _will_run(masks[USABLE], count, lowest, start_s, later_s, settings, running, work)
            if found_s >= 0:
                outcome, later_s = _with_start(
                    record, start_s, later_s, found_s, length_s, masks, settings, space, running, state, work.chosen
                )
                if outcome != LATER:
                    return outcome, later_s
        if not later_s:
            return SKIPPED, 0
        start_s = later_s
        place = _after(space.end, state[SLOTS], start_s)


@njit(cache=True)
def plan(
    wanted: Array, lengths: Array, masks: Rows, settings: Array, state: Array, space: Map, running: Running,
    alive: Array, plans: Array, planned: Rows,
) -> int:  # fmt: skip
    """Plan the records from state[RECORD] on, in one cycle; DONE or START.

    wanted, lengths: per record its nodes, as uniform.wanted() has them, and its seconds. alive: (length, fewest
    nodes) of what may still start, by length. plans, planned: (record, expected start) and nodes of every
    reservation made so far, state[RESERVED] of them.
    """
    words = masks.shape[1]
    runs = words * 32 + 1
    work = Workspace(
        np.empty(words, np.uint64), np.empty(words, np.uint64), np.empty(runs, np.int64), np.empty(runs, np.int64)
    )
    tries = np.empty(space.begin.size + 1 if settings[EXACT] else 1, np.int64)  # each begins at another slot
    _fill(masks[ALL], running)
    _mend(0, state[SLOTS], space, running, state)
    for record in range(state[RECORD], wanted.size):
        if state[TESTED] >= settings[MOST_TESTED]:
            return DONE
        count, length_s, lowest = abs(wanted[record]), lengths[record], wanted[record] < 0
        outcome, start_s = _test(
            record, count, length_s, lowest, masks, settings, space, running, state, tries, work
        )  # fmt: skip
        if outcome == DONE:
            return DONE
        if outcome == START:
            state[RECORD] = record
            return START
        if outcome == KEPT:
            number = state[RESERVED]
            plans[number, 0], plans[number, 1] = record, start_s
            planned[number] = work.chosen
            state[RESERVED] += 1
        if not state[REACHED] and _had_nodes(tries, length_s, count, masks, space, state):
            state[REACHED] = 1
        state[TESTED] += state[REACHED]
        state[VALID_UNTIL] = min(state[VALID_UNTIL], state[BOUND])
        if state[RESERVED] and _nothing_can_start(alive, masks, settings, space, state):
            return DONE
    return DONE
