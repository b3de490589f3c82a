"""The interval of a plan: the crossing between two counts, its spread, and what few blocks are worth."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmtwin.campaign.planning.interval import crossing, interval, used_up
from slurmtwin.campaign.planning.target import parse_target


def test_the_crossing_lies_where_the_targets_are_just_met() -> None:
    """Used up twice at 4 and half at 5: in the middle, for waits fall geometrically."""
    assert crossing(lambda n: [2.0 if n < 5 else 0.5], 5) == pytest.approx(4.5)
    assert crossing(lambda n: [4.0 if n < 5 else 0.5], 5) == pytest.approx(4 + 2 / 3)


def test_of_several_targets_the_hardest_decides() -> None:
    """One that is met below already has no say; nor has a class without jobs."""
    assert crossing(lambda n: [(0.9, 8.0, math.nan)[k] if n < 5 else 0.5 for k in range(3)], 5) == pytest.approx(4.75)


def test_a_queue_that_grows_for_ever_below_needs_the_whole_node() -> None:
    """Nothing to interpolate on."""
    assert crossing(lambda n: [math.inf if n < 5 else 0.5], 5) == 5


@pytest.mark.parametrize(
    ("waits", "text", "used"),
    [
        ([0.0] * 90 + [7200.0] * 10, "p95 wait < 1h", 2.0), ([0.0] * 100, "p95 wait < 1h", 0.1),
        ([0.0, 600.0], "mean wait < 10m", 0.5), ([1.0, math.inf], "mean wait < 10m", math.inf),
    ],
)  # fmt: skip
def test_what_is_used_up_of_a_target(waits: list[float], text: str, used: float) -> None:
    """Late jobs over those allowed; where none is late half a job; a mean over its bound."""
    target = parse_target(text)
    assert used_up(np.array(waits), target.quantile, target.bound_s) == pytest.approx(used)
    assert math.isnan(used_up(np.array([]), target.quantile, target.bound_s))


SAMPLES = st.lists(st.floats(0.01, 400), min_size=2, max_size=40)


@settings(deadline=None)  # the first case imports SciPy
@given(st.integers(2, 300), st.floats(0.001, 1), SAMPLES, st.integers(8, 60))
def test_the_answer_lies_in_its_interval(found: int, rest: float, samples: list[float], blocks: int) -> None:
    """And what is enough with 95 % confidence between the answer and the upper end."""
    bounds = interval(found, found, found - 1 + rest, samples, blocks)
    assert 1 <= bounds["low"] <= found <= bounds["nodes_95"] <= bounds["high"]


def test_equal_samples_leave_one_count() -> None:
    """No spread, no interval, whatever the crossing."""
    bounds = interval(7, 7, 6.2, [6.2] * 10, 9)
    assert (bounds["low"], bounds["high"], bounds["longer_for_narrow"]) == (7, 7, None)


def test_fewer_blocks_make_a_wider_interval() -> None:
    """Student's t: the spread of 8 days is known less well than that of 60."""
    samples = [float(99 + k % 5) for k in range(30)]
    few, many = (interval(100, 100, 99.5, samples, blocks) for blocks in (8, 60))
    assert few["high"] - few["low"] > many["high"] - many["low"]
    assert few["standard_error"] == pytest.approx(many["standard_error"] * math.sqrt(8 / 7 * 59 / 60))


def test_a_small_count_on_its_edge_has_both_neighbours() -> None:
    """3.01 nodes are needed, give or take 0.05: 3 or 4. Whole counts alone would say 4, and be sure of it."""
    samples = [3.01 + 0.05 * math.sin(k) for k in range(30)]
    bounds = interval(4, 4, 3.01, samples, 40)
    assert (bounds["low"], bounds["high"]) == (3, 4)


def test_a_wide_interval_says_how_long_a_trace_would_narrow_it() -> None:
    """Its width goes with one over the root of the length: twice as wide as wanted, four times as long."""
    samples = list(np.linspace(85, 115, 30))
    bounds = interval(100, 100, 99.5, samples, 30)
    width = bounds["high"] - bounds["low"]
    assert bounds["longer_for_narrow"] == pytest.approx((width / 10) ** 2, rel=0.1)
    assert interval(100, 100, 99.5, [20.0, 500.0] * 10, 30)["longer_for_narrow"] is None


def test_the_twin_s_count_scales_the_spread() -> None:
    """Twice the quick model's nodes, the same spread as a share of them; the same part of a node left over."""
    samples = [49.5 + k % 3 for k in range(30)]
    one, two = interval(50, 50, 49.5, samples, 20), interval(100, 50, 49.5, samples, 20)
    assert two["standard_error"] / two["crossing"] == pytest.approx(one["standard_error"] / one["crossing"])
    assert two["crossing"] == pytest.approx(99.5)


def test_bursts_that_ask_for_three_times_as_much_leave_a_lower_end() -> None:
    """A third to three times as many: the interval spreads by factors and ends above nothing."""
    bounds = interval(104, 104, 103.7, [35.0, 60.0, 104.0, 180.0, 312.0] * 4, 13)
    assert 5 <= bounds["low"] <= 104 / 3
    assert bounds["high"] >= 312
