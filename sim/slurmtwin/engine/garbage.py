"""CPython's garbage collector while runs are played: it walks what a run made, not what was there before.

A collection takes as long as the heap it walks. The program and what it has read are some hundred thousand objects, a
run of a fault scenario leaves two thousand.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_THRESHOLDS: Final = (20_000, 5, 2)
"""Nearly all of a run is freed by reference count. Daemons that died are rings: a slurmctld that was killed is some ten
objects a node, old enough that full collections alone free it. So those are not rare; CPython itself makes none before
a quarter of the heap is new. What was there before the run is left alone.
"""
ROWS_LEFT: Final = 20_000
"""Worlds that are over are rings as well, and freeze() would keep them for good: they are freed before a run when those
since the last time had so many rows (80 runs of a fault scenario, 40 MB)."""


class _Heap:
    """What this process knows of its own heap."""

    set_apart = False
    rows_left = 0


def set_apart() -> None:
    """Whatever this process has read so far stays, and no collection walks it again. For worker processes."""
    if not _Heap.set_apart:
        gc.collect()
        gc.freeze()
        gc.set_threshold(*_THRESHOLDS)
        _Heap.set_apart = True


@contextmanager
def run_apart() -> Iterator[None]:
    """A run within: what was there before is not walked; dead worlds of runs before are freed."""
    if _Heap.rows_left >= ROWS_LEFT:
        _Heap.rows_left = 0
        gc.collect()
    thresholds = gc.get_threshold()
    gc.set_threshold(*_THRESHOLDS)
    if not _Heap.set_apart:
        gc.freeze()
    try:
        yield
    finally:
        if not _Heap.set_apart:
            gc.unfreeze()
        gc.set_threshold(*thresholds)


def left(rows: int) -> None:
    """A run with so many rows is over, and its world may be garbage."""
    _Heap.rows_left += rows
