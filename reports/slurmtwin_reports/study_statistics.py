"""What the results of a study say: means with intervals, paired differences, where the better design changes.

Runs of one point and seed share their jobs, so designs are compared in pairs, at the latest warm-up cut that any of
them asks for. Intervals are Student's over seeds; differences of many metrics and points are judged together by
Benjamini and Hochberg's rule, so that at most 5 % of what is called a difference is none.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from slurmtwin_reports.study_metrics import CUTS, UNSETTLED

FALSE_SHARE: Final = 0.05
MORE_IS_BETTER: Final = ("goodput", "utilisation")
Result = dict[str, Any]
Point = tuple[tuple[str, str], ...]
"""(factor, level) in the file's order."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean over seeds and its 95 % interval; half is None for a single seed."""

    mean: float
    half: float | None
    count: int

    @property
    def relative(self) -> float | None:
        """Half-width as a share of the mean; 0 where both are 0."""
        if self.half is None:
            return None
        return self.half / abs(self.mean) if self.mean else (0.0 if self.half == 0 else math.inf)


@dataclass(frozen=True, slots=True)
class Difference:
    """A design against the reference at one point: the paired difference and whether it stands."""

    point: Point
    design: str
    metric: str
    reference: Estimate
    other: Estimate
    difference: Estimate
    p_value: float
    stands: bool = False
    variance_gain: float | None = None
    """Variance of an unpaired difference over that of the paired one: what common random numbers gave."""


def estimate(values: Sequence[float]) -> Estimate:
    """Mean and Student's 95 % half-width."""
    count = len(values)
    mean = math.fsum(values) / count
    if count < 2:
        return Estimate(mean, None, count)
    error = math.sqrt(math.fsum((v - mean) ** 2 for v in values) / (count - 1) / count)
    return Estimate(mean, _student(count - 1) * error, count)


def _student(freedom: int) -> float:
    from scipy import stats

    return float(stats.t.ppf(0.975, freedom))


class StudyTable:
    """The finished runs of a study: figures by point, design and seed."""

    def __init__(self, results: Sequence[Result]) -> None:
        self.done = [r for r in results if r["status"] == "done"]
        self.failed = len(results) - len(self.done)
        self.designs = list(dict.fromkeys(r["design"] for r in self.done))
        self.points: list[Point] = list(dict.fromkeys(point_of(r) for r in self.done))
        self._by = {(point_of(r), r["design"], r["seed"]): r for r in self.done}
        self._cut: dict[tuple[Point, int], float] = {}
        self.unsettled = 0
        """Runs whose waits never settle: they are read whole."""
        for r in self.done:
            key = (point_of(r), r["seed"])
            self.unsettled += r["cut"] == UNSETTLED
            asked = 0.0 if r["cut"] == UNSETTLED else float(r["cut"])
            self._cut[key] = max(self._cut.get(key, CUTS[0]), asked)

    def seeds(self, point: Point, designs: Sequence[str]) -> list[int]:
        """Seeds with which every one of these designs was run at a point."""
        found = [{s for p, d, s in self._by if p == point and d == design} for design in designs]
        return sorted(set.intersection(*found)) if found else []

    def value(self, point: Point, design: str, seed: int, metric: str) -> float | None:
        """One figure of one run, at the cut of its pair."""
        figures = self._by[(point, design, seed)]["figures"][f"{self._cut[(point, seed)]:g}"]
        found = figures.get(metric)
        return None if found is None else float(found)

    def values(self, point: Point, design: str, metric: str, seeds: Sequence[int]) -> list[float]:
        """The figures over seeds that have it."""
        return [v for seed in seeds if (v := self.value(point, design, seed, metric)) is not None]

    def estimate(self, point: Point, design: str, metric: str) -> Estimate | None:
        """Mean over the seeds of one design at one point; None where no run has the figure."""
        values = self.values(point, design, metric, self.seeds(point, [design]))
        return estimate(values) if values else None


def point_of(result: Result) -> Point:
    """The levels of a run."""
    return tuple(result["levels"].items())


def differences(table: StudyTable, reference: str, metrics: Sequence[str]) -> list[Difference]:
    """Every other design against the reference, at every point and in every metric, judged together."""
    found = []
    for point in table.points:
        for design in table.designs:
            if design == reference:
                continue
            for metric in metrics:
                one = _difference(table, point, reference, design, metric)
                if one is not None:
                    found.append(one)
    return _judged(found)


def _difference(table: StudyTable, point: Point, reference: str, design: str, metric: str) -> Difference | None:
    seeds = [
        s for s in table.seeds(point, [reference, design])
        if table.value(point, reference, s, metric) is not None and table.value(point, design, s, metric) is not None
    ]  # fmt: skip
    if not seeds:
        return None
    a, b = (table.values(point, d, metric, seeds) for d in (reference, design))
    change = estimate([y - x for x, y in zip(a, b, strict=True)])
    one, other = estimate(a), estimate(b)
    gain = None
    if change.half and one.half is not None and other.half is not None:
        gain = (one.half**2 + other.half**2) / change.half**2
    return Difference(point, design, metric, one, other, change, _p_value(change), variance_gain=gain)


def _p_value(change: Estimate) -> float:
    """Two-sided, of a mean difference of 0."""
    from scipy import stats

    if change.half is None:
        return 1.0
    if change.half == 0:
        return 0.0 if change.mean else 1.0
    error = change.half / _student(change.count - 1)
    return float(2 * stats.t.sf(abs(change.mean) / error, change.count - 1))


def _judged(found: list[Difference]) -> list[Difference]:
    from dataclasses import replace

    from scipy import stats

    if not found:
        return []
    adjusted = stats.false_discovery_control([d.p_value for d in found], method="bh")
    return [replace(d, stands=bool(p <= FALSE_SHARE)) for d, p in zip(found, adjusted, strict=True)]


@dataclass(frozen=True, slots=True)
class BreakEven:
    """Where along a numeric factor two designs change places."""

    factor: str
    others: Point
    """The levels of the other factors."""
    design: str
    metric: str
    value: float | None
    """None: one of them is better at every level."""
    low: float | None = None
    high: float | None = None
    better_below: str = ""
    equal_to: float | None = None
    """Up to this level the two are equal; beyond it `better_beyond` is better."""
    better_beyond: str = ""


def break_evens(table: StudyTable, reference: str, metrics: Sequence[str]) -> list[BreakEven]:
    """For each numeric factor, each other design and metric: where the mean difference passes 0.

    Straight between levels. The interval comes from drawing seeds anew (percentiles, fixed seed); it is left out
    when fewer than nine draws in ten pass 0 at all.
    """
    out = []
    for factor in _numeric_factors(table):
        groups: dict[Point, list[Point]] = {}
        for point in table.points:
            groups.setdefault(tuple(p for p in point if p[0] != factor), []).append(point)
        for others, points in groups.items():
            for design in table.designs if len(points) > 1 else ():
                if design != reference:
                    out += [_break_even(table, factor, others, points, reference, design, m) for m in metrics]
    return [found for found in out if found is not None]


def _numeric_factors(table: StudyTable) -> list[str]:
    """Factors whose levels are all numbers, two at least."""
    names = [name for name, _ in table.points[0]] if table.points else []
    return [
        name
        for name in names
        if len(levels := {dict(p)[name] for p in table.points}) > 1 and all(map(_is_number, levels))
    ]


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


def _break_even(
    table: StudyTable, factor: str, others: Point, points: list[Point], reference: str, design: str, metric: str
) -> BreakEven | None:
    import numpy as np

    ordered = sorted(points, key=lambda p: float(dict(p)[factor]))
    levels = [float(dict(p)[factor]) for p in ordered]
    seeds = sorted(set.intersection(*(set(table.seeds(p, [reference, design])) for p in ordered)))
    rows = []
    for point in ordered:
        pairs = [(table.value(point, reference, s, metric), table.value(point, design, s, metric)) for s in seeds]
        if not pairs or any(a is None or b is None for a, b in pairs):
            return None
        rows.append([b - a for a, b in pairs if a is not None and b is not None])
    data = np.array(rows)
    value = crossing(levels, data.mean(axis=1).tolist())
    if value is None:
        return _begin_to_differ(factor, others, design, metric, levels, rows, reference)
    draw = np.random.default_rng(0)
    found = [
        c for _ in range(500)
        if (c := crossing(levels, data[:, draw.integers(0, len(seeds), len(seeds))].mean(axis=1).tolist())) is not None
    ]  # fmt: skip
    first = next(mean for mean in data.mean(axis=1).tolist() if mean)
    better = design if (first > 0) == more_is_better(metric) else reference
    if len(found) < 450:
        return BreakEven(factor, others, design, metric, value, better_below=better)
    low, high = (float(v) for v in np.percentile(found, [2.5, 97.5]))
    return BreakEven(factor, others, design, metric, value, low, high, better)


def _begin_to_differ(
    factor: str, others: Point, design: str, metric: str, levels: list[float], rows: list[list[float]], reference: str
) -> BreakEven:
    """Without a change of sign: equal in every pair up to some level, perhaps, and apart from there on."""
    equal = [not any(row) for row in rows]
    if not equal[0] or all(equal):
        return BreakEven(factor, others, design, metric, None)
    place = equal.index(False)
    beyond = design if (math.fsum(rows[-1]) > 0) == more_is_better(metric) else reference
    return BreakEven(factor, others, design, metric, None, equal_to=levels[place - 1], better_beyond=beyond)


def more_is_better(metric: str) -> bool:
    """Whether a design is the better one where the metric is larger."""
    return metric.split(":")[0] in MORE_IS_BETTER


def crossing(levels: Sequence[float], values: Sequence[float]) -> float | None:
    """The first place where a line through the points goes from one sign to the other; None where it never does.

    A stretch at 0 lies between the two: its middle is taken. Equal designs that begin to differ do not change places.
    """
    last: tuple[float, float] | None = None
    flat: list[float] = []
    for x, y in zip(levels, values, strict=True):
        if y == 0:
            flat.append(x)
            continue
        if last is not None and last[1] * y < 0:
            return (flat[0] + flat[-1]) / 2 if flat else last[0] + (x - last[0]) * last[1] / (last[1] - y)
        last, flat = (x, y), []
    return None


def widest(table: StudyTable, metrics: Sequence[str]) -> tuple[float, str]:
    """The largest half-width, as a share of its mean, over points, designs and metrics; and where that is."""
    worst, where = 0.0, ""
    for point in table.points:
        for design in table.designs:
            for metric in metrics:
                found = table.estimate(point, design, metric)
                share = found.relative if found is not None else None
                if found is not None and (share is None or share > worst):
                    worst = math.inf if share is None else share
                    where = f"{metric} of {design} at {' '.join(f'{n}={v}' for n, v in point) or 'the only point'}"
    return worst, where
