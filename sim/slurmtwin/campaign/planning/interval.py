"""How sure a plan is: the count at which the targets are just met, in traces like this one, and the interval of it.

A count is whole, but what a trace needs is not: between the count that misses and the next one, which meets, lies the
crossing, interpolated on what of the target is used up. Crossings of traces drawn anew have a spread that whole counts
hide; the answer is the crossing rounded up, and so are the ends of its interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

CONFIDENCE: Final = 0.95
NARROW: Final = 0.10
"""An interval of at most this part of the answer is narrow."""
LONGEST: Final = 20.0
"""Traces so many times as long are still worth a word."""
SMALLEST: Final = 0.5
"""Part of a node: whatever needs less has the answer 1."""
Used = Callable[[int], Sequence[float]]
"""Of a count: what of each target is used up, below 1 where it is met."""


def met(used: Sequence[float]) -> bool:
    """Whether none of the targets is used up; one of a class without jobs never is."""
    return all(part < 1 or math.isnan(part) for part in used)


def crossing(used: Used, count: int) -> float:
    """Where the targets are just met: above count - 1, which misses, and at most `count`, which meets.

    Logarithms, for waits fall about geometrically with nodes.
    """
    places = []
    for below, here in zip(used(count - 1), used(count), strict=True):
        if below < 1 or math.isnan(below):
            continue  # met there already: another target decides
        rest = 1.0 if math.isinf(below) or here >= 1 else math.log(below) / (math.log(below) - math.log(here))
        places.append(count - 1 + max(rest, 1e-6))
    return max(places, default=float(count))


def interval(
    nodes: int, found: int, crossed: float, samples: Sequence[float | None], blocks: int, confidence: float = CONFIDENCE
) -> dict[str, Any]:
    """The 95 % interval of a count (or another `confidence`) and the count that is enough with 95 % confidence.

    nodes: the answer. found, crossed: the quick model's fewest and its crossing, whose samples these are; where the
    twin says another count, it has the same part of a node left over, and the same spread as a share of it: the spread
    is one of logarithms, for a burst multiplies what is needed, and no trace needs less than nothing.
    blocks: how many days or weeks were drawn. Their number makes the spread uncertain: Student's t with one degree
    less, and the variance of so few is too small by (blocks - 1) / blocks.
    """
    from scipy.special import stdtrit

    known = np.array([max(place, SMALLEST) for place in samples if place is not None], float)
    spread = float(np.log(known).std(ddof=1)) if known.size > 1 else 0.0
    error = spread * math.sqrt(blocks / (blocks - 1))
    middle = nodes - (found - crossed)
    half = float(stdtrit(blocks - 1, (1 + confidence) / 2)) * error
    sure = float(stdtrit(blocks - 1, CONFIDENCE)) * error
    low, high = whole(middle * math.exp(-half)), whole(middle * math.exp(half))
    return {
        "low": low, "high": high, "nodes_95": whole(middle * math.exp(sure)), "crossing": middle,
        "standard_error": middle * error, "blocks": blocks, "resamples": int(known.size),
        "met_in_resamples": float((known <= found).mean()) if known.size else None,
        "longer_for_narrow": _longer(high - low, half, nodes),
    }  # fmt: skip


def whole(nodes: float) -> int:
    """The count that a crossing asks for."""
    return max(1, math.ceil(nodes - 1e-9))


def _longer(width: int, half: float, nodes: int) -> float | None:
    """How many times as long a trace would make the interval narrow: its width goes with one over the root of it.

    None where it is narrow, where one node alone is more than that, and where nobody has so long a trace.
    """
    times = (2 * half / NARROW) ** 2
    return times if width > NARROW * nodes >= 1 and times <= LONGEST else None


def used_up(waits_s: Any, quantile: float | None, bound_s: float) -> float:
    """What of a target these waits use up: late jobs over those allowed, or the mean over its bound; NaN of no jobs.

    Of a quantile the share of late jobs, not the quantile itself: it moves little by little with every job. Never 0:
    half a job is late where none is.
    """
    if not waits_s.size:
        return float("nan")
    if quantile is None:
        return max(float(waits_s.mean()) / bound_s, 1e-9)
    late = float((waits_s >= bound_s).sum())
    return float(max(late, 0.5) / waits_s.size / (1 - quantile))
