"""The joint test on generated data whose truth is known: its size, its power, and ties."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin_reports.faults import ranks
from slurmtwin_reports.faults.measurement import stream

REPLICATIONS = 200
Draw = Callable[[np.random.Generator, int], Any]
"""(generator, how many) -> spans in seconds."""


def timer(draw: np.random.Generator, many: int) -> Any:
    """A timer of 40 to 50 s."""
    return draw.uniform(40, 50, many)


def whole_seconds(draw: np.random.Generator, many: int) -> Any:
    """0, 1 or 2 s: nearly all ties."""
    return draw.integers(0, 3, many).astype(float)


def rarely_two(draw: np.random.Generator, many: int) -> Any:
    """0 s, in one of ten cases 2 s."""
    return 2.0 * (draw.random(many) < 0.1)


def ns(seconds: Any) -> Any:
    """Whole nanoseconds."""
    return np.round(seconds * 1e9).astype(np.int64)


@pytest.mark.parametrize("law", [timer, whole_seconds, rarely_two])
@pytest.mark.parametrize("count", [3, 10])
def test_the_size_is_five_percent_at_most(law: Draw, count: int) -> None:
    """Spans drawn from the twin's own law are rejected in 5 % of 400 cases, give or take three standard errors."""
    draw = np.random.default_rng([7, count])
    rejected = 0
    for case in range(400):
        pools = ns(np.stack([law(draw, REPLICATIONS) for _ in range(count)]))
        seen = ns(law(draw, count))
        rejected += ranks.p_value(seen, pools, stream(case, "null"), 999) <= ranks.LEVEL
    assert rejected / 400 <= 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
    if law is timer:
        assert rejected / 400 >= 0.05 - 3 * (0.05 * 0.95 / 400) ** 0.5


@pytest.mark.once
@pytest.mark.parametrize(("shared", "low", "high"), [(True, 0.1, 0.25), (False, 0.017, 0.083)], ids=["one", "own"])
def test_replications_that_share_their_noise_reject_too_often(shared: bool, low: float, high: float) -> None:
    """120 recordings held against the same 200 draws: what those miss of the law adds up, as if 120 had found it.

    The variance of a sum of places grows by 120 in 200; with draws of their own the size is 5 % (three standard errors
    of 400 cases).
    """
    draw = np.random.default_rng(11)
    rejected = 0
    for case in range(400):
        common = draw.uniform(40, 50, REPLICATIONS)
        pools = np.stack([common if shared else draw.uniform(40, 50, REPLICATIONS) for _ in range(120)])
        seen = draw.uniform(40, 50, 120)
        rejected += ranks.p_value(ns(seen), ns(pools), stream(case, "null"), 499) <= ranks.LEVEL
    assert low < rejected / 400 < high


def test_ties_lie_evenly_over_their_places() -> None:
    """Spans that are equal in twin and recording have distance 0; without ties a place is one N-th wide."""
    pool = np.full(8, 5, dtype=np.int64)
    assert ranks.distance(ranks.places(pool, pool, 0)[0]) == 0
    steps = np.arange(8, dtype=np.int64)
    found = ranks.places(steps, steps, 0)
    assert (found[3][: 3 * ranks.GRID // 8] == 0).all()
    assert (found[3][4 * ranks.GRID // 8 :] == 1).all()


@pytest.mark.parametrize("part", [1, 7, 1_000_000])
def test_draws_do_not_depend_on_how_many_are_worked_out_at_a_time(part: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Part by part is a matter of speed alone: not a bit of a distance differs."""
    drawn = np.random.default_rng(1).integers(0, SECOND, (3, 41))
    tables = [ranks.places(np.sort(pool), np.sort(pool), 0) for pool in drawn]
    before = ranks._drawn(tables, 500, stream(1, "parts"))
    monkeypatch.setattr(ranks, "PART", part)
    assert (ranks._drawn(tables, 500, stream(1, "parts")) == before).all()


def test_power_rises_with_repetitions() -> None:
    """A twin 4 s off on a 10 s wide timer is told more surely by each further repetition."""
    draw = np.random.default_rng(3)
    found = []
    for count in (3, 6, 12):
        pools = ns(np.stack([timer(draw, REPLICATIONS) for _ in range(count)]))
        found.append(ranks.power(pools + 4 * SECOND, pools, stream(1, "power")))
    assert found[0] < found[1] < found[2]
    assert found[2] > ranks.POWER


def test_the_number_of_repetitions_that_would_do_is_told() -> None:
    """Three of a shift by 4 s in 10 do not, a few more do; against the twin itself no number does."""
    pools = np.stack([np.random.default_rng(k).integers(0, 10 * SECOND, 200) for k in range(3)])
    shifted = pools + 4 * SECOND
    assert ranks.power(shifted, pools, stream(1, "power")) < ranks.POWER
    needed = ranks.repetitions_needed([shifted], pools, stream(1, "needed"))
    assert needed is not None
    assert 4 <= needed <= 8
    assert ranks.repetitions_needed([shifted, pools], pools, stream(1, "needed")) is None


def test_power_against_the_twin_itself_is_the_size() -> None:
    """What is not changed is rejected in about 5 % of cases."""
    draw = np.random.default_rng(4)
    pools = ns(np.stack([timer(draw, REPLICATIONS) for _ in range(3)]))
    assert ranks.power(pools, pools, stream(1, "power")) <= 0.05 + 3 * (0.05 * 0.95 / ranks.POWER_DRAWS) ** 0.5
