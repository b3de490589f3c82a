"""Bitmaps over the node table as Python ints: runs of consecutive bits, the lowest of them, erosion.

Every function costs a few integer operations per run or per doubling, never one per node.
"""

from __future__ import annotations

from collections.abc import Iterator

_FEW_RUNS = 64


def lowest(bitmap: int, count: int) -> int:
    """The `count` lowest set bits (all of them if there are no more)."""
    if count <= 0:
        return 0
    if count == 1:
        return bitmap & -bitmap
    total = bitmap.bit_count()
    if count >= total:
        return bitmap
    if total - count == 1:
        return bitmap ^ (1 << (bitmap.bit_length() - 1))
    low, high = 0, bitmap.bit_length()
    while low < high:
        middle = (low + high) >> 1
        if (bitmap & ((1 << middle) - 1)).bit_count() < count:
            low = middle + 1
        else:
            high = middle
    return bitmap & ((1 << low) - 1)


def highest(bitmap: int) -> int:
    """The highest set bit alone; 0 for none."""
    return 1 << (bitmap.bit_length() - 1) if bitmap else 0


def runs(bitmap: int) -> Iterator[int]:
    """Maximal runs of consecutive set bits, ascending, each as a bitmap."""
    while bitmap:
        low = bitmap & -bitmap
        run = bitmap & ~(bitmap + low)
        yield run
        bitmap ^= run


def erode(bitmap: int, length: int) -> int:
    """Positions at which `length` set bits begin (length >= 1)."""
    done = 1
    while done < length and bitmap:
        step = min(done, length - done)
        bitmap &= bitmap >> step
        done += step
    return bitmap


def shortest_run(bitmap: int, at_least: int) -> int:
    """The shortest run of at least that many bits, the first of equals; 0 when none is long enough."""
    at_least = max(at_least, 1)
    if bitmap.bit_count() < at_least:
        return 0
    windows = erode(bitmap, at_least)
    starts = windows & ~(windows << 1)
    if not starts:
        return 0
    if starts.bit_count() <= _FEW_RUNS:
        best, best_size = 0, 0
        for run in runs(windows):
            size = run.bit_count()
            if not best or size < best_size:
                best, best_size = run, size
                if size == 1:
                    break
        return ((1 << (best_size + at_least - 1)) - 1) << ((best & -best).bit_length() - 1)
    size = 1
    while True:
        hit = starts & ~(windows >> size)
        if hit:
            return ((1 << (size + at_least - 1)) - 1) << ((hit & -hit).bit_length() - 1)
        size += 1


def longest_run(bitmap: int) -> int:
    """The longest run, the first of equals; 0 for an empty bitmap."""
    if not bitmap:
        return 0
    size, windows = 1, bitmap
    doubled: list[tuple[int, int]] = []
    while wider := windows & windows >> size:
        doubled.append((size, windows))
        size, windows = size * 2, wider
    for more, beside in reversed(doubled):
        if wider := windows & beside >> size:
            size, windows = size + more, wider
    return ((1 << size) - 1) << ((windows & -windows).bit_length() - 1)
