"""What happens when: the queue of timed events, and the background loop's looks.

Follows engine/environment.py and models/slurmctld/background.py, whose loop is steady since 24.11.
"""

from __future__ import annotations

from slurmtwin.models.slurmctld.compiled import layout as at
from slurmtwin.models.slurmctld.compiled.jit import compiled
from slurmtwin.models.slurmctld.compiled.layout import Array, Int

# --- timed events: s[place] is not needed, heap[0, 2] counts; the entries begin at 1


@compiled
def _before(heap: Array, one: int, other: int) -> bool:
    if heap[one, 0] != heap[other, 0]:
        return bool(heap[one, 0] < heap[other, 0])
    return bool(heap[one, 1] < heap[other, 1])


@compiled
def _swap(heap: Array, one: int, other: int) -> None:
    for field in range(4):
        heap[one, field], heap[other, field] = heap[other, field], heap[one, field]


@compiled
def _rise(heap: Array, place: int) -> None:
    while place > 1 and _before(heap, place, place >> 1):
        _swap(heap, place, place >> 1)
        place >>= 1


@compiled
def _sink(heap: Array, place: int) -> None:
    size = heap[0, 2]
    while 2 * place <= size:
        child = 2 * place
        if child < size and _before(heap, child + 1, child):
            child += 1
        if not _before(heap, child, place):
            return
        _swap(heap, place, child)
        place = child


@compiled
def push(heap: Array, first: int, second: int, third: int, fourth: int) -> None:
    """Another entry."""
    heap[0, 2] += 1
    size = heap[0, 2]
    heap[size, 0], heap[size, 1], heap[size, 2], heap[size, 3] = first, second, third, fourth
    _rise(heap, size)


@compiled
def pop(heap: Array) -> None:
    """The first entry goes."""
    size = heap[0, 2]
    _swap(heap, 1, size)
    heap[0, 2] = size - 1
    _sink(heap, 1)


@compiled
def call_at(at_ns: int, what: int, job: int, s: Array, heap: Array) -> Int:
    """Plan an event; its order, which names it."""
    s[at.ORDER] += 1
    push(heap, at_ns, s[at.ORDER], what, job)
    return s[at.ORDER]


@compiled
def cancel(order: int, heap: Array) -> None:
    """Forget a planned event."""
    size = heap[0, 2]
    for place in range(1, size + 1):
        if heap[place, 1] == order:
            _swap(heap, place, size)
            heap[0, 2] = size - 1
            if place < size:
                _sink(heap, place)
                _rise(heap, place)
            return


# --- the background loop


@compiled
def first_look(not_before_s: int, after_ns: int, s: Array) -> Int:
    """BackgroundLoop.first_look_ns()."""
    epoch, lag = s[at.EPOCH], s[at.LAG]
    unix = max(not_before_s * at.NS, epoch + after_ns + 1 - lag, epoch + s[at.ANCHOR] + 1)
    return (unix + at.NS - 1) // at.NS * at.NS - epoch + lag


@compiled
def has_come(look_ns: int, s: Array) -> bool:
    """BackgroundLoop.has_come()."""
    return bool(look_ns < s[at.NOW] or look_ns == s[at.NOW] == s[at.LOOKED])


@compiled
def arm(duty: int, not_before_s: int, s: Array) -> None:
    """BackgroundLoop.arm()."""
    if not_before_s >= s[at.ASKED + duty]:
        return
    now = s[at.NOW]
    if s[at.CURRENT] >= 0 and duty > s[at.CURRENT] and not_before_s <= s[at.NOW_S]:
        look = now
    else:
        look = first_look(not_before_s, now if now == s[at.LOOKED] else now - 1, s)
    if s[at.DUE + duty] <= look:
        return
    s[at.DUE + duty] = look
    s[at.ASKED + duty] = not_before_s
    if s[at.CURRENT] < 0 and look < s[at.LOOK_AT]:
        s[at.LOOK_AT] = look


@compiled
def next_s(last_s: int, interval_s: int, not_before_s: int, s: Array) -> Int:
    """Periodic.next_s()."""
    behind = max(not_before_s, s[at.NOW_S] + 1) - last_s
    return last_s + max(1, -(-behind // interval_s)) * interval_s


@compiled
def coming_s(last_s: int, interval_s: int, s: Array) -> Int:
    """Periodic.coming_s()."""
    behind = s[at.NOW_S] - last_s
    coming = last_s + max(1, -(-behind // interval_s)) * interval_s
    return coming + interval_s if has_come(coming * at.NS - s[at.EPOCH], s) else coming
