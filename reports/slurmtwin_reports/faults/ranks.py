"""One joint test: do the recorded spans of K repetitions lie among their replications as replications would?

Each recorded span has a place in 0..1 among the replications made from its own recorded starts: the share below it to
the share not above it, one N + 1-th where nothing ties. If twin and recording are alike the K places, put together,
are uniform; the Cramér-von Mises distance from that is held against the distance of K members drawn at random from
the same pools, each the recorded span or one of its replications with equal chance (Monte Carlo).

So it is a permutation test: its size is at most the level whatever the ties. A tie spreads a span evenly over its
places: spans that are the same in twin and recording (a whole second, an end that never comes) have distance 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    Ints = np.ndarray[Any, np.dtype[np.int64]]
    Floats = np.ndarray[Any, np.dtype[np.float64]]

LEVEL: Final = 0.05
POWER: Final = 0.8
NULL_DRAWS: Final = 19_999
POWER_DRAWS: Final = 400
PLAN_DRAWS: Final = 1_999
MOST_REPETITIONS: Final = 12
"""Beyond that a phase needs another parameter or a timer phase that the recording shows, not more recordings."""
GRID: Final = 64
PART: Final = 1_024
"""Drawn sets whose sums are worked out at a time."""
DIGITS: Final = 9
"""Distances are rounded before they are compared: sums may differ in the last bit between machines."""


def places(values: Ints, pool: Ints, itself: int) -> Floats:
    """Cumulative distribution, on GRID points of 0..1, of each value's place in a sorted pool.

    itself: 1 where the values are no members of the pool and join it, 0 where they are.
    """
    import numpy as np

    size = len(pool) + itself
    below = np.searchsorted(pool, values, side="left")
    upto = np.searchsorted(pool, values, side="right") + itself
    points = (np.arange(GRID) + 0.5) * (size / GRID)
    spread = (points[None, :] - below[:, None]) / (upto - below)[:, None]
    return np.asarray(np.clip(spread, 0.0, 1.0))


def place(value: int, pool: Ints) -> float:
    """The middle of a recorded span's places among its replications, 0 to 1."""
    return float((pool < value).mean() + (pool <= value).mean()) / 2


def distance(cumulative: Floats) -> Floats:
    """Cramér-von Mises' distance from uniform of mean distributions (array [.., GRID])."""
    import numpy as np

    uniform = (np.arange(GRID) + 0.5) / GRID
    return np.asarray(np.round(((cumulative - uniform) ** 2).mean(axis=-1), DIGITS))


def _drawn(tables: list[Floats], draws: int, draw: np.random.Generator) -> Floats:
    """Distances of `draws` sets with one member drawn from each pool; worked out part by part, in the cache."""
    import numpy as np

    picks = [draw.integers(0, len(table), draws) for table in tables]
    out = np.empty(draws)
    for begin in range(0, draws, PART):
        part = slice(begin, begin + PART)
        total = tables[0][picks[0][part]]
        more = np.empty_like(total)
        for table, picked in zip(tables[1:], picks[1:], strict=True):
            total += table.take(picked[part], axis=0, out=more, mode="clip")
        out[part] = distance(total / len(tables))
    return out


def p_value(observed: Ints, pools: Ints, draw: np.random.Generator, draws: int = NULL_DRAWS) -> float:
    """(1 + drawn sets at least as far from uniform as the K observed spans) / (1 + draws); pools is [K, N]."""
    import numpy as np

    tables = []
    for value, pool in zip(observed, pools, strict=True):
        joined = np.sort(np.append(pool, value))
        tables.append(places(joined, joined, 0))
    own = [table[(pool < value).sum()] for table, value, pool in zip(tables, observed, pools, strict=True)]
    far = distance(np.mean(own, axis=0))
    at_least = int((_drawn(tables, draws, draw) >= far).sum())
    return (1 + at_least) / (draws + 1)


def power(changed: Ints, pools: Ints, draw: np.random.Generator, draws: int = NULL_DRAWS) -> float:
    """Share of sets of K spans drawn from `changed` [K, N'] that the test rejects against `pools` [K, N].

    The null distances are drawn from the pools alone, once for all sets: the one member more is left out.
    """
    import numpy as np

    ordered = [np.sort(pool) for pool in pools]
    null = np.sort(_drawn([places(pool, pool, 0) for pool in ordered], draws, draw))
    picks = draw.integers(0, changed.shape[1], (POWER_DRAWS, changed.shape[0]))
    found = [places(changed[k][picks[:, k]], pool, 1) for k, pool in enumerate(ordered)]
    far = distance(np.mean(found, axis=0))
    at_least = len(null) - np.searchsorted(null, far, side="left")
    return float(((1 + at_least) / (draws + 1) <= LEVEL).mean())


def repetitions_needed(variants: Sequence[Ints], pools: Ints, draw: np.random.Generator) -> int | None:
    """At how many repetitions the power against each of `variants` reaches POWER; None: not at MOST_REPETITIONS.

    More repetitions are taken to be like those there are, one after the other: another timer phase may help or not.
    """
    for count in range(len(pools) + 1, MOST_REPETITIONS + 1):
        like = [place % len(pools) for place in range(count)]
        if all(power(changed[like], pools[like], draw, PLAN_DRAWS) >= POWER for changed in variants):
            return count
    return None
