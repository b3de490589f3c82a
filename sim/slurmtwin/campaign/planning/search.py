"""The fewest that meet a target: by bisection, and by trying every count.

More nodes do not always mean shorter waits (Graham's anomalies): a count is the answer when it meets the targets, the
one below it does not, and so many counts above it meet them too. A sweep over all counts gives one more than the
largest that misses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

LARGEST: Final = 1_000_000
MOST: Final = 20
"""A search around a known count goes no further than so many times it: some waits no node can end."""
LOOK_ABOVE: Final = 0.02
"""Share of the answer that is tried above it, two counts at least."""
Meets = Callable[[int], bool]


def remembered(meets: Meets) -> Meets:
    """The same question asked once."""
    known: dict[int, bool] = {}

    def ask(count: int) -> bool:
        if count not in known:
            known[count] = meets(count)
        return known[count]

    return ask


def fewest(
    meets: Meets, guess: int, lowest: int = 1, largest: int = LARGEST, look_above: bool = True, step: int = 0
) -> int | None:
    """The fewest from `lowest` on; None when even `largest` misses. Equal answers give equal questions.

    step: how far from the guess the second count tried lies; 0: an eighth of it.
    """
    meets = remembered(meets)
    guess = min(max(guess, lowest), largest)
    low, high = _bracket(meets, guess, lowest, largest, step or max(1, guess // 8))
    if high is None:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if meets(middle):
            high = middle
        else:
            low = middle
    if not look_above:
        return high
    count = high
    while count <= min(largest, high + max(2, math.ceil(LOOK_ABOVE * high))):
        if not meets(count):
            high = count + 1
        count += 1
    return high if high <= largest else None


def _bracket(meets: Meets, guess: int, lowest: int, largest: int, step: int) -> tuple[int, int | None]:
    """(a count that misses or lowest - 1, one that meets or None), found by steps that double."""
    if meets(guess):
        high = guess
        while True:
            low = high - step
            if low < lowest:
                return lowest - 1, high
            if not meets(low):
                return low, high
            high, step = low, 2 * step
    low = guess
    while low < largest:
        high = min(largest, low + step)
        if meets(high):
            return low, high
        low, step = high, 2 * step
    return low, None


def by_sweep(meets: Meets, lowest: int, largest: int) -> int | None:
    """One more than the largest count that misses, every count tried; None when `largest` misses."""
    answer = lowest
    for count in range(lowest, largest + 1):
        if not meets(count):
            answer = count + 1
    return answer if answer <= largest else None
