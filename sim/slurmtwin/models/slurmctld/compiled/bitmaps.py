"""Bitmaps of nodes: rows of 64-bit words, lowest node first; and the choice among free nodes (selection/uniform.py)."""

from __future__ import annotations

import numpy as np

from slurmtwin.models.slurmctld.compiled import layout as at
from slurmtwin.models.slurmctld.compiled.jit import compiled, ones
from slurmtwin.models.slurmctld.compiled.layout import Array, Core, Int, Rows


@compiled
def bits_of(rows: Rows, place: int) -> int:
    total = 0
    for i in range(rows.shape[1]):
        total += ones(rows[place, i])
    return total


@compiled
def common(one: Rows, place: int, other: Rows, other_place: int) -> int:
    total = 0
    for i in range(one.shape[1]):
        total += ones(one[place, i] & other[other_place, i])
    return total


@compiled
def meets(one: Rows, place: int, other: Rows, other_place: int) -> Int:
    met = np.uint64(0)
    for i in range(one.shape[1]):
        met |= one[place, i] & other[other_place, i]
    return met != 0


@compiled
def after(table: Array, field: int, size: int, unix_s: int) -> int:
    """bisect_right() in one field of the first rows."""
    low, high = 0, size
    while low < high:
        middle = (low + high) >> 1
        if unix_s < table[middle, field]:
            high = middle
        else:
            low = middle + 1
    return low


# --- node choice


@compiled
def _runs(free: Rows, place: int, runs: Array) -> int:
    """Maximal runs of nodes, ascending; how many."""
    found, begin, node, size = 0, -1, 0, free.shape[1] * 64
    while node < size:
        word = free[place, node >> 6] >> np.uint64(node & 63)
        if begin < 0:
            if not word:
                node = (node | 63) + 1
                continue
            node += ones((word & (~word + np.uint64(1))) - np.uint64(1))
            begin = node
        else:
            zeros = ~word
            step = ones((zeros & (~zeros + np.uint64(1))) - np.uint64(1))
            room = 64 - (node & 63)
            if step >= room:
                node += room
                continue
            node += step
            runs[found, 0], runs[found, 1] = begin, node - begin
            found += 1
            begin = -1
    if begin >= 0:
        runs[found, 0], runs[found, 1] = begin, size - begin
        found += 1
    return found


@compiled
def _take(begin: int, count: int, rows: Rows, place: int) -> None:
    node, last = begin, begin + count
    while node < last:
        many = min(64 - (node & 63), last - node)
        mask = ~np.uint64(0) if many == 64 else (np.uint64(1) << np.uint64(many)) - np.uint64(1)
        rows[place, node >> 6] |= mask << np.uint64(node & 63)
        node += many


@compiled
def choose(free: Rows, place: int, wanted: int, runs: Array, rows: Rows, into: int) -> None:
    """best_fit(), or first_node() for -1, among the nodes of a row; there are enough."""
    for i in range(rows.shape[1]):
        rows[into, i] = np.uint64(0)
    if wanted < 0:
        for i in range(rows.shape[1]):
            word = free[place, i]
            if word:
                rows[into, i] = word & (~word + np.uint64(1))
                return
    found = _runs(free, place, runs)
    count = wanted
    while count > 0:
        best, longest = -1, 0
        for run in range(found):
            size = runs[run, 1]
            if size >= count and (best < 0 or size < runs[best, 1]):
                best = run
            if size > runs[longest, 1]:
                longest = run
        if best < 0:
            best = longest
        taken = min(count, runs[best, 1])
        _take(runs[best, 0], taken, rows, into)
        runs[best, 1] = 0
        count -= taken


@compiled
def count_free(core: Core) -> int:
    """Nodes on which a job can start now, into masks[FREE]; how many."""
    masks = core.masks
    total = 0
    for i in range(masks.shape[1]):
        masks[at.FREE, i] = masks[at.ALL, i] & ~(masks[at.HELD, i] | masks[at.LEAVING, i])
        total += ones(masks[at.FREE, i])
    return total
