"""Where a run's warm-up ends: MSER-5 (White 1997; White, Cobb and Spratt 2000).

The series is averaged in batches of five; the cut is the one that leaves the mean with the least standard error.
A cut in the second half says that the series never settled: it is refused. The rule chooses a cut, no interval.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

BATCH: Final = 5
FEWEST_LEFT: Final = 5
"""Batches behind a cut: fewer tell nothing of a mean's error."""
LEAST_SHARE: Final = 0.1
"""Of the batches, left behind any cut: the last few of a long series agree now and then by chance."""


def mser5(values: Sequence[float]) -> int | None:
    """How many leading values to drop; None when the best cut lies in the second half, or there are too few values."""
    count = len(values) // BATCH
    if count < 2 * FEWEST_LEFT:
        return None
    means = [sum(values[i * BATCH : (i + 1) * BATCH]) / BATCH for i in range(count)]
    best, place = float("inf"), 0
    total = squares = 0.0
    shift = means[-1]  # sums of small numbers: the variance of a flat series must not drown in its mean
    left, fewest = 0, max(FEWEST_LEFT, int(LEAST_SHARE * count))
    for cut in range(count - 1, -1, -1):
        value = means[cut] - shift
        total += value
        squares += value * value
        left += 1
        if left < fewest:
            continue
        error = max(0.0, squares - total * total / left) / (left * left)
        if error <= best:  # of equal cuts the earliest
            best, place = error, cut
    return place * BATCH if place <= count // 2 else None
