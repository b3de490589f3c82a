"""The map of one backfill cycle: slots of time with their unreserved nodes (node_space.py)."""

from __future__ import annotations

from typing import Final

import numpy as np

from slurmtwin.models.slurmctld.compiled import layout as at
from slurmtwin.models.slurmctld.compiled.bitmaps import after, common
from slurmtwin.models.slurmctld.compiled.jit import compiled
from slurmtwin.models.slurmctld.compiled.layout import Array, Rows

BEGIN, END, GROWS, MOST = range(4)
"""Fields of a slot of the map: its seconds, whether nodes become free behind it, how many can be free at most by its
end."""
SLOT_FIELDS: Final = 4
TRY, PICKED, LEFT = range(3)
"""Places of Plan.rows: nodes of the present try, those chosen among them, room to work in."""


@compiled
def _split(place: int, at_s: int, size: int, slots: Array, free: Rows) -> None:
    for i in range(size, place + 1, -1):
        for field in range(SLOT_FIELDS):
            slots[i, field] = slots[i - 1, field]
        for word in range(free.shape[1]):
            free[i, word] = free[i - 1, word]
    slots[place + 1, BEGIN], slots[place + 1, END] = at_s, slots[place, END]
    slots[place, END] = at_s
    for word in range(free.shape[1]):
        free[place + 1, word] = free[place, word]


@compiled
def mend(low: int, high: int, size: int, jobs: int, slots: Array, free: Rows, running: Array, freed: Rows) -> None:
    """GROWS and MOST of these slots."""
    for place in range(max(0, low), min(high, size)):
        more = np.uint64(0)
        if place + 1 < size:
            for i in range(free.shape[1]):
                more |= free[place + 1, i] & ~free[place, i]
        slots[place, GROWS] = more != 0
        slots[place, MOST] = common(free, place, freed, after(running, 0, jobs, slots[place, END]))


@compiled
def reserve(start_s: int, end_s: int, size: int, s: Array, slots: Array, free: Rows, rows: Rows, running: Array,
             freed: Rows) -> tuple[int, int]:  # fmt: skip
    """NodeSpace.reserve() of the chosen nodes: (slots now, records used by it)."""
    used = 0
    start_s = max(start_s, slots[0, BEGIN])
    end_s = max(end_s, start_s + s[at.RESOLUTION])
    first = after(slots, END, size, start_s - 1)
    if first == size:
        return size, 0
    before = max(0, first - 1)
    if slots[first, END] > start_s:
        _split(first, start_s, size, slots, free)
        size += 1
        used += 1
    last = first + 1
    most = -1
    while last < size:
        if end_s < slots[last, END]:
            _split(last, end_s, size, slots, free)
            size += 1
            used += 1
        for i in range(free.shape[1]):
            free[last, i] &= ~rows[PICKED, i]
        if slots[last, END] == end_s:
            most = last + 1
            break
        last += 1
    if most < 0 or most >= size:
        most = size - 1
    for place in range(before, most):
        differ = np.uint64(0)
        for i in range(free.shape[1]):
            differ |= free[place, i] ^ free[place + 1, i]
        if not differ:
            slots[place, END] = slots[place + 1, END]
            for i in range(place + 1, size - 1):
                for field in range(SLOT_FIELDS):
                    slots[i, field] = slots[i + 1, field]
                for word in range(free.shape[1]):
                    free[i, word] = free[i + 1, word]
            size -= 1
            break
    mend(before - 1, last + 2, size, s[at.RUNNING_JOBS], slots, free, running, freed)
    return size, used


@compiled
def overlaps(start_s: int, end_s: int, size: int, slots: Array, free: Rows, rows: Rows) -> bool:
    for place in range(after(slots, END, size, start_s), size):
        if slots[place, BEGIN] >= end_s:
            break
        lacking = np.uint64(0)
        for i in range(free.shape[1]):
            lacking |= rows[PICKED, i] & ~free[place, i]
        if lacking:
            return True
    return False
