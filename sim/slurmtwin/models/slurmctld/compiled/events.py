"""Events as they happen: rows of numbers, node names as text (engine/event_sink.py, tables.py NodeTable.hostlist())."""

from __future__ import annotations

import numpy as np

from slurmtwin.models.slurmctld.compiled import layout as at
from slurmtwin.models.slurmctld.compiled.jit import compiled
from slurmtwin.models.slurmctld.compiled.layout import Array, Bytes, Row


@compiled
def emit(form: int, job_id: int, value: int, number: int, s: Array, rows: Array) -> None:
    """One event now; the text that was written since the last one is its node."""
    place = s[at.ROWS_USED]
    rows[place, at.ROW_TIME] = s[at.NOW]
    rows[place, at.ROW_FORM] = form
    rows[place, at.ROW_JOB] = job_id
    rows[place, at.ROW_VALUE] = value
    rows[place, at.ROW_NUMBER] = number
    rows[place, at.ROW_TEXT] = s[at.TEXT_USED]
    s[at.ROWS_USED] = place + 1


@compiled
def _write_number(number: int, digits: int, text: Bytes, here: int) -> int:
    left = number // 10
    needed = 1
    while left:
        left //= 10
        needed += 1
    end = here + max(digits, needed)
    for place in range(end - 1, here - 1, -1):
        text[place] = 48 + number % 10
        number //= 10
    return end


@compiled
def write_host(node: int, s: Array, text: Bytes, name: Bytes) -> None:
    """The name of one node."""
    here = s[at.TEXT_USED]
    for i in range(name.size):
        text[here + i] = name[i]
    s[at.TEXT_USED] = _write_number(s[at.FIRST_NUMBER] + node, s[at.DIGITS], text, here + name.size)


@compiled
def write_hostlist(nodes: Row, count: int, s: Array, text: Bytes, name: Bytes) -> None:
    """The canonical hostlist of `count` nodes."""
    if count == 1:
        write_host(lowest(nodes), s, text, name)
        return
    here = s[at.TEXT_USED]
    for i in range(name.size):
        text[here + i] = name[i]
    here += name.size
    text[here] = 91
    here += 1
    begin = -1
    first, digits = s[at.FIRST_NUMBER], s[at.DIGITS]
    size = nodes.size * 64
    node = 0
    while node <= size:
        word = nodes[node >> 6] >> np.uint64(node & 63) if node < size else np.uint64(0)
        if begin < 0:
            if node >= size:
                break
            if not word:
                node = (node | 63) + 1
                continue
            if not word & np.uint64(1):
                node += 1
                continue
            begin = node
            node += 1
        elif word & np.uint64(1):
            node += 1
        else:
            here = _write_number(first + begin, digits, text, here)
            if node - begin > 1:
                text[here] = 45
                here = _write_number(first + node - 1, digits, text, here + 1)
            text[here] = 44
            here += 1
            begin = -1
    text[here - 1] = 93
    s[at.TEXT_USED] = here


@compiled
def lowest(nodes: Row) -> int:
    """Index of the first node."""
    for i in range(nodes.size):
        word = nodes[i]
        if word:
            place = 0
            while not word & np.uint64(1):
                word >>= np.uint64(1)
                place += 1
            return i * 64 + place
    return -1
