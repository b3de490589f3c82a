"""One run against another, or two folders of runs: paired differences with intervals.

Two runs pair job by job; folders pair run by run (scenario, seed, replication), which common random numbers
make sharp. Intervals are 95 % bootstrap intervals of the mean difference (scipy, BCa, fixed seed), so the same
files give the same numbers. Jobs of one run influence each other: an interval over jobs says how uneven the
change is, not how it would vary over other workloads; only runs do that.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import ExitCode, InputError, Where
from slurmtwin_reports.history import History
from slurmtwin_reports.job_table import JobTable, job_table
from slurmtwin_reports.load import load_run
from slurmtwin_reports.metrics import bounded_slowdown, summary

LESS_IS_BETTER: Final = (
    "mean_wait_s", "median_wait_s", "p95_wait_s", "max_wait_s", "mean_bounded_slowdown", "makespan_s", "lost_cpu_s",
    "requeues",
)  # fmt: skip
MORE_IS_BETTER: Final = ("utilisation", "utilisation_loaded", "goodput")
RESAMPLES: Final = 2_000
FEW: Final = 2_000
"""Above so many pairs the mean is normal enough, and the bootstrap costs memory."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One metric of B against A. `low` and `high` bound the mean difference at 95 %; None for a single pair."""

    metric: str
    a: float
    b: float
    low: float | None
    high: float | None
    pairs: int
    judged: bool = True
    """False: shown, but no regression is read from it."""

    @property
    def difference(self) -> float:
        """B minus A."""
        return self.b - self.a

    @property
    def worsening(self) -> float:
        """By what share B is worse than A; negative when better, infinite when A is 0 and B is not."""
        change = self.difference if self.metric.split(" ")[0] in LESS_IS_BETTER else -self.difference
        if change == 0:
            return 0.0
        return change / abs(self.a) if self.a else math.copysign(math.inf, change)

    @property
    def is_sure(self) -> bool:
        """The interval does not hold 0, or there is none and the values differ."""
        if self.low is None or self.high is None:
            return self.difference != 0
        return self.low > 0 or self.high < 0

    def regressed(self, max_regression: float) -> bool:
        """Surely worse, and by more than the share allowed."""
        return self.judged and self.is_sure and self.worsening > max_regression

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; an infinite worsening is null."""
        worse = self.worsening if math.isfinite(self.worsening) else None
        return {
            "metric": self.metric, "a": self.a, "b": self.b, "difference": self.difference, "low": self.low,
            "high": self.high, "pairs": self.pairs, "worsening": worse,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What compare found. `identical`: every paired run has the same event hash."""

    changes: tuple[Change, ...]
    paired: int
    unpaired: tuple[str, ...]
    """Jobs or runs that have no partner, first few in words."""
    identical: bool

    def regressions(self, max_regression: float) -> list[Change]:
        """The metrics that are worse than allowed."""
        return [c for c in self.changes if c.regressed(max_regression)]

    def exit_code(self, max_regression: float) -> ExitCode:
        """1 past the allowed regression, else 0."""
        return ExitCode.FINDING if self.regressions(max_regression) else ExitCode.FINE


def find_runs(path: Path | str) -> list[Path]:
    """The run folder itself, or every run folder below it, sorted. Raises InputError when there is none."""
    path = Path(path)
    if (path / "manifest.json").exists():
        return [path]
    found = sorted(p.parent for p in path.rglob("manifest.json"))
    if not found:
        raise InputError("no run folder here (none has a manifest.json)", Where(str(path)))
    return found


def compare_paths(a: Path | str, b: Path | str) -> Comparison:
    """Compare two run folders, or two folders of run folders. Raises InputError for what is neither."""
    return compare([load_run(p) for p in find_runs(a)], [load_run(p) for p in find_runs(b)])


def compare(a: Sequence[History], b: Sequence[History]) -> Comparison:
    """Compare single runs job by job, several run by run. Raises InputError when nothing pairs."""
    if len(a) == 1 and len(b) == 1:
        return _by_job(a[0], b[0])
    return _by_run(a, b)


def _by_job(a: History, b: History) -> Comparison:
    left, right = job_table(a), job_table(b)
    both = [k for k in left.records if k in right.records]
    if not both:
        raise InputError("the two runs have no job in common")
    waits: list[tuple[float, float]] = []
    slow: list[tuple[float, float]] = []
    for key in both:
        x, y = left.records[key], right.records[key]
        if x.wait_ns is not None and y.wait_ns is not None:
            waits.append((x.wait_ns / 1e9, y.wait_ns / 1e9))
        sx, sy = bounded_slowdown(x), bounded_slowdown(y)
        if sx is not None and sy is not None:
            slow.append((sx, sy))
    paired = (("mean_wait_s", waits), ("mean_bounded_slowdown", slow))
    changes = [_change(name, pairs) for name, pairs in paired if pairs]
    totals_a, totals_b = _summary(a, left), _summary(b, right)
    paired_names = [c.metric for c in changes]
    changes += [
        _change(name, [(totals_a[name], totals_b[name])])
        for name in (*LESS_IS_BETTER, *MORE_IS_BETTER)
        if name not in paired_names and totals_a.get(name) is not None and totals_b.get(name) is not None
    ]
    alone = [f"job {k[0]}" for k in (*left.records, *right.records) if (k in left.records) != (k in right.records)]
    same = bool(_hash(a)) and _hash(a) == _hash(b)
    return Comparison(changes=tuple(changes), paired=len(both), unpaired=tuple(alone[:5]), identical=same)


def _by_run(a: Sequence[History], b: Sequence[History]) -> Comparison:
    left, right = _named(a), _named(b)
    both = [name for name in left if name in right]
    if not both:
        raise InputError("no run of A has a partner in B (same scenario, seed and replication)")
    totals = [(_summary(left[n], job_table(left[n])), _summary(right[n], job_table(right[n]))) for n in both]
    changes = []
    for name in (*LESS_IS_BETTER, *MORE_IS_BETTER):
        pairs = [(x[name], y[name]) for x, y in totals if x.get(name) is not None and y.get(name) is not None]
        if pairs:
            changes.append(_change(name, pairs))
    alone = [" ".join(map(str, n)) for n in (*left, *right) if (n in left) != (n in right)]
    same = all(_hash(left[n]) and _hash(left[n]) == _hash(right[n]) for n in both)
    return Comparison(changes=tuple(changes), paired=len(both), unpaired=tuple(alone[:5]), identical=same)


def _named(runs: Sequence[History]) -> dict[tuple[str, int, int], History]:
    out: dict[tuple[str, int, int], History] = {}
    for run in runs:
        m = run.manifest
        name = (m.scenario, m.seed, m.replication)
        if name in out:
            which = f"{m.scenario} with seed {m.seed}, replication {m.replication}"
            raise InputError(f"two runs of {which}", Where(run.folder))
        out[name] = run
    return out


def _summary(history: History, table: JobTable) -> dict[str, Any]:
    return summary(table, sum(history.facts.node_cpus.values()) if history.facts else None)


def _hash(history: History) -> str:
    return str(history.manifest.results.get("event_hash", ""))


def _change(metric: str, pairs: Sequence[tuple[float, float]]) -> Change:
    a = math.fsum(x for x, _ in pairs) / len(pairs)
    b = math.fsum(y for _, y in pairs) / len(pairs)
    low, high = interval([y - x for x, y in pairs])
    return Change(metric=metric, a=a, b=b, low=low, high=high, pairs=len(pairs))


def interval(values: Sequence[float]) -> tuple[float | None, float | None]:
    """95 % interval of the mean: BCa bootstrap up to 2,000 values, normal above; None for a single value."""
    if len(values) < 2:
        return None, None
    if min(values) == max(values):
        return values[0], values[0]
    import numpy as np

    data = np.asarray(values)
    if len(values) > FEW:
        half = 1.959963984540054 * float(data.std(ddof=1)) / math.sqrt(len(values))
        return float(data.mean()) - half, float(data.mean()) + half
    from scipy import stats

    with np.errstate(all="ignore"):
        found = stats.bootstrap(
            (data,), np.mean, n_resamples=RESAMPLES, batch=200, method="BCa" if len(values) > 2 else "percentile",
            rng=np.random.default_rng(0),
        ).confidence_interval  # fmt: skip
    low, high = float(found.low), float(found.high)
    return (low, high) if math.isfinite(low) and math.isfinite(high) else (float(data.min()), float(data.max()))
