"""Rank histograms (Talagrand diagrams) of all phases: is the twin calibrated, or are its intervals merely wide?

Where twin and recording are draws of one law, the place of a recorded span among its replications is uniform over
0..1, and so is the p of a phase. Tenths that are full at both ends tell intervals that are too narrow, full ones in the
middle intervals that are too wide, a full side a twin that is early or late: over all phases, where none alone tells.
Spans that tie with many replications stand in the middle of those; phases of one scenario are not independent, so no
test of uniformity is made of it. After Hamill 2001 (Interpretation of rank histograms) and Talts et al. 2018
(simulation-based calibration).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from slurmtwin_reports.svg import Chart, Linear

TENTHS: Final = 10
FEWEST: Final = 30
"""Values below which tenths show chance alone."""


def tenths(values: Iterable[float]) -> list[int]:
    """How many of these numbers lie in each tenth of 0..1; 1 belongs to the last."""
    counts = [0] * TENTHS
    for value in values:
        counts[min(int(value * TENTHS), TENTHS - 1)] += 1
    return counts


def rank_histograms(rows: Sequence[dict[str, Any]]) -> dict[str, list[int]]:
    """Of the suite's rows (section.py), without claims: tenths of `places`, one a recorded span, and of `p`."""
    phases = [row for row in rows if not row["claim"]]
    return {
        "places": tenths(place for row in phases for place in row["places"]),
        "p": tenths(row["p"] for row in phases if row["p"] is not None),
    }


def calibration_line(rows: Sequence[dict[str, Any]]) -> str:
    """The outer tenths of places and the lowest fifth of p in words; empty where there are too few phases."""
    found = rank_histograms(rows)
    places, p = found["places"], found["p"]
    if sum(p) < FEWEST or not sum(places):
        return ""
    outer, low = (places[0] + places[-1]) / sum(places), sum(p[:2]) / sum(p)
    return (
        f"Of {sum(places)} recorded spans {100 * outer:.0f} % lie in the lowest or highest tenth of their "
        f"replications, of {sum(p)} p-values {100 * low:.0f} % below .2 (of a twin that is right: 20 % each)."
    )


def calibration_figures(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Of places and of p, as SVG; none where there are too few phases."""
    found = rank_histograms(rows)
    if sum(found["p"]) < FEWEST:
        return []
    return [
        rank_histogram(found["places"], "place of a recorded span among its replications"),
        rank_histogram(found["p"], "p of a phase"),
    ]


def rank_histogram(counts: Sequence[int], label: str) -> str:
    """The figure as SVG: a block for each tenth, and how high a twin that is right has them."""
    even = sum(counts) / len(counts)
    high = max(*counts, even) * 1.1
    chart = Chart(Linear(0.0, 1.0, label), Linear(0.0, high), f"Rank histogram, {label}", height=170)
    points = [(tenth / len(counts), float(count)) for tenth, count in enumerate(counts)]
    chart.steps([*points, (1.0, float(counts[-1]))], "shade s2", close=True)
    chart.level(even, "a twin that is right")
    return chart.text()
