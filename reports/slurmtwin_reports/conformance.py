"""Twin against real: n repetitions of the real thing, one twin run started from each one's recorded times.

The bar (DESIGN 5): median start error <= 1 s, p95 <= one backfill interval, per-class mean wait within 5 %,
node sets >= 99 % equal; each or at most 1.5 times what the real runs differ by among themselves. Times compare
as intervals: an error counts from where the two measurement intervals stop touching.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin_reports.difference import ALL, ClassGap, Difference, Side, difference
from slurmtwin_reports.history import History
from slurmtwin_reports.metrics import number, quantile, summary
from slurmtwin_reports.verdict import Outcome, Verdict

MEDIAN_BAR_NS: Final = SECOND
WAIT_BAR: Final = 0.05
GRAIN_NS: Final = SECOND
"""slurmctld acts in whole seconds (slurm.md 0 "background loop tick"): means closer than that are equal, which
widens the 5 % only for classes that wait less than 20 s in the mean."""
MISS_BAR: Final = 0.01
CONGESTED: Final = (("utilisation_loaded", 0.85), ("share_wait_over_60s", 0.6), ("share_by_backfill", 0.15))
"""What the real runs of a workload must reach to count as congested."""
ONE_STEP: Final = "one step"
POOLED: Final = "congested, no faults"
SPREAD_FACTOR: Final = 1.5
CLASS_JOBS: Final = 20
"""A class with fewer jobs has no mean wait worth comparing."""


@dataclass(slots=True)
class Conformance:
    """The outcome for one scenario and version: verdicts, pooled differences, and figures of the real runs."""

    scenario: str
    version: str
    verdicts: list[Verdict]
    twin: Difference
    real: Difference
    """Among the real repetitions themselves."""
    repetitions: int
    real_summary: dict[str, Any]
    jobs: int
    """Jobs of one repetition."""
    bf_interval_ns: int
    faults: int = 0
    one_step: tuple[int, int] = (0, 0)
    """(real starts the twin would have made equally from the recorded state, all of them), where replayed."""

    @property
    def is_congested(self) -> bool:
        """The real runs were as busy as the bar for free runs asks: utilisation, long waits, starts by backfill."""
        return all((self.real_summary.get(name) or 0) >= least for name, least in CONGESTED)

    def row(self) -> dict[str, Any]:
        """The scenario's row of the table of figures; seconds and shares."""
        starts = len(self.twin.errors_ns)
        worst = max((g.relative for n, g in self.twin.classes.items() if _counts(n, g)), default=None)
        return {
            "scenario": self.scenario, "version": self.version, "repetitions": self.repetitions,
            "jobs": self.jobs, "starts": starts,
            "median_start_error_s": _s(quantile(self.twin.errors_ns, 0.5)),
            "p95_start_error_s": _s(quantile(self.twin.errors_ns, 0.95)),
            "real_median_start_error_s": _s(quantile(self.real.errors_ns, 0.5)),
            "real_p95_start_error_s": _s(quantile(self.real.errors_ns, 0.95)),
            "same_nodes": _equal(self.twin.other_nodes, starts),
            "real_same_nodes": _equal(self.real.other_nodes, len(self.real.errors_ns)),
            "worst_class_wait_gap": worst,
            "one_step": _equal(self.one_step[1] - self.one_step[0], self.one_step[1]),
            "real_utilisation": self.real_summary.get("utilisation_loaded"),
            "real_share_wait_over_60s": self.real_summary.get("share_wait_over_60s"),
            "real_share_by_backfill": self.real_summary.get("share_by_backfill"),
        }  # fmt: skip


def judge(pairs: Sequence[tuple[History, History]]) -> Conformance:
    """Verdicts of one scenario from (twin, real) pairs, one per real repetition. Raises InputError without a pair."""
    if not pairs:
        raise InputError("nothing to compare: no real run of the scenario is recorded")
    twins = [Side.of(twin) for twin, _ in pairs]
    reals = [Side.of(real) for _, real in pairs]
    pooled, spread = Difference(), Difference()
    for twin, real in zip(twins, reals, strict=True):
        pooled.merge(difference(twin, real))
    for a, b in combinations(reals, 2):
        spread.merge(difference(a, b))
    first = reals[0].history
    facts = first.facts or twins[0].history.facts
    cut = next((text for twin, real in zip(twins, reals, strict=True) if (text := _cut(twin, real))), "")
    bf_interval_ns = facts.bf_interval_ns if facts else 30 * SECOND
    judgement = _Judgement(first.scenario, first.version, len(pairs), pooled, spread, cut)
    judgement.judge_all(bf_interval_ns)
    cpus = sum(facts.node_cpus.values()) if facts else None
    return Conformance(
        first.scenario, first.version, judgement.verdicts, pooled, spread, len(pairs),
        mean_summary([summary(r.table, cpus) for r in reals]), len(reals[0].table.records), bf_interval_ns,
        max(side.faults for side in (*twins, *reals)),
    )  # fmt: skip


def pool(results: Sequence[Conformance], name: str = POOLED) -> list[Conformance]:
    """One row per Slurm version over its congested scenarios without faults, judged by the same bar as one workload.

    Versions of which no scenario is congested are left out; sorted by version.
    """
    groups: dict[str, list[Conformance]] = {}
    for result in results:
        if result.is_congested and not result.faults:
            groups.setdefault(result.version, []).append(result)
    out = []
    for version, members in sorted(groups.items()):
        twin, real = Difference(), Difference()
        for member in members:
            twin.merge(member.twin)
            real.merge(member.real)
        repetitions = min(m.repetitions for m in members)
        judgement = _Judgement(name, version, repetitions, twin, real, "")
        longest = max(m.bf_interval_ns for m in members)
        judgement.judge_all(longest)
        jobs = sum(m.jobs for m in members)
        weighted = {key: sum(m.jobs * m.real_summary.get(key, 0) for m in members) / jobs for key, _ in CONGESTED}
        steps = (sum(m.one_step[0] for m in members), sum(m.one_step[1] for m in members))
        out.append(Conformance(
            name, version, judgement.verdicts, twin, real, repetitions, weighted, jobs, longest, 0, steps
        ))  # fmt: skip
    return out


def _cut(twin: Side, real: Side) -> str:
    """Why the two cannot be compared: one was ended before its time.

    A scenario's own max_time is no reason, unless jobs still moved in the other world after that.
    """
    for side, other in ((twin, real), (real, twin)):
        covers = side.ended == "max_time" and (other.ended == "max_time" or side.table.end_ns >= other.table.last_ns)
        if side.ended != "done" and not covers:
            return f"a {side.history.world} run was ended early ({side.ended or 'no run.ended row'})"
    return ""


def mean_summary(summaries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Mean of each number over the repetitions; what is not a number is left out."""
    out: dict[str, Any] = {}
    for name in summaries[0] if summaries else ():
        values = [s[name] for s in summaries if isinstance(s[name], int | float)]
        if values:
            out[name] = sum(values) / len(values)
    return out


@dataclass(slots=True)
class _Judgement:
    """Collects the verdicts of one scenario."""

    scenario: str
    version: str
    repetitions: int
    twin: Difference
    real: Difference
    cut: str
    verdicts: list[Verdict] = field(default_factory=list)

    def judge_all(self, bf_interval_ns: int) -> None:
        twin, real = self.twin, self.real
        p95_bar = bf_interval_ns if bf_interval_ns > 0 else MEDIAN_BAR_NS
        self._times("start error, median", twin.errors_ns, real.errors_ns, 0.5, MEDIAN_BAR_NS)
        self._times("start error, p95", twin.errors_ns, real.errors_ns, 0.95, p95_bar)
        self._times("run length error, median", twin.run_errors_ns, real.run_errors_ns, 0.5, MEDIAN_BAR_NS)
        starts, real_starts = len(twin.errors_ns), len(real.errors_ns)
        self._misses("starts on both sides", twin.missed, starts + twin.missed, real.missed, real_starts + real.missed)
        self._misses("node sets", twin.other_nodes, starts, real.other_nodes, real_starts)
        self._misses("final states", twin.other_states, twin.jobs, real.other_states, real.jobs)
        self._waits()
        if twin.milestone_errors_ns or twin.milestones_missed:
            self._milestones(p95_bar)

    def _add(self, subject: str, size: float, unit: str, bar: float, text: str, judged: bool = True) -> None:
        outcome = Outcome.AGREE if size <= bar else Outcome.DIFFER
        if self.cut or not judged:
            outcome, text = Outcome.UNKNOWN, self.cut or text
        self.verdicts.append(Verdict(
            scenario=self.scenario, version=self.version, subject=subject, outcome=outcome, reason=text,
            size=size, unit=unit, bar=bar,
        ))  # fmt: skip

    def _times(self, subject: str, errors: list[int], spread: list[int], q: float, bar_ns: int) -> None:
        size, among = quantile(errors, q), quantile(spread, q)
        if size is None:
            self._add(subject, 0, "s", bar_ns / 1e9, "no start to compare", judged=False)
            return
        bar = max(bar_ns, SPREAD_FACTOR * (among or 0))
        runs = f"{self.repetitions} run{'s' if self.repetitions > 1 else ''}"
        text = f"{number(size / 1e9)} s over {len(errors)} pairs in {runs}; bar {number(bar / 1e9)} s"
        if among is not None:
            text += f"; real against real {number(among / 1e9)} s"
        self._add(subject, size / 1e9, "s", bar / 1e9, text)

    def _misses(self, subject: str, missed: int, total: int, real_missed: int, real_total: int) -> None:
        if not total:
            self._add(subject, 0, "ratio", MISS_BAR, "nothing to compare", judged=False)
            return
        share = missed / total
        among = real_missed / real_total if real_total else None
        bar = max(MISS_BAR, SPREAD_FACTOR * (among or 0))
        text = f"{number(100 * (1 - share))} % of {total} equal; bar {number(100 * (1 - bar))} %"
        if among is not None:
            text += f"; real against real {number(100 * (1 - among))} %"
        # no share can exceed a bar of one or more: that is no verdict
        if bar >= 1:
            text = f"the real runs differ too much to judge by: {text}"
        self._add(subject, share, "ratio", bar, text, judged=bar < 1)

    def _waits(self) -> None:
        """The class that stands worst against its own bar decides."""
        subject = "mean wait, per class"
        judged = [(n, g) for n, g in self.twin.classes.items() if _counts(n, g)]
        few = len(self.twin.classes) - len(judged)
        worst: tuple[float, str, ClassGap, float] | None = None
        for name, gap in judged:
            among = self.real.classes.get(name)
            bar = max(WAIT_BAR, SPREAD_FACTOR * among.relative if among else 0.0, GRAIN_NS / max(gap.real_mean, 1.0))
            if worst is None or gap.relative / bar > worst[0]:
                worst = (gap.relative / bar, name, gap, bar)
        if worst is None:
            self._add(subject, 0, "ratio", WAIT_BAR, "no job started in both worlds", judged=False)
            return
        _, name, gap, bar = worst
        mine, real = (sum(p[i] for p in gap.pairs) / len(gap.pairs) / 1e9 for i in (0, 1))
        text = f"{name}: {number(mine)} s against {number(real)} s, {number(100 * gap.relative)} % apart"
        text += f"; bar {number(100 * bar)} %"
        text += f"; worst of {len(judged)} classes" + (f", {few} with under {CLASS_JOBS} jobs left out" if few else "")
        self._add(subject, gap.relative, "ratio", bar, text)

    def _milestones(self, bar_ns: int) -> None:
        """Fault milestones: none missing beyond what the real runs miss among themselves, errors within the p95 bar."""
        twin, real = self.twin, self.real
        pairs = max(1, self.repetitions * (self.repetitions - 1) // 2)
        allowed = SPREAD_FACTOR * real.milestones_missed / pairs
        missed = twin.milestones_missed / max(1, self.repetitions)
        text = f"{number(missed)} missing or extra per run; real against real {number(real.milestones_missed / pairs)}"
        self._add("milestones, presence", missed, "count", allowed, text)
        if not twin.milestone_errors_ns:
            return
        self._times("milestones, p95", twin.milestone_errors_ns, real.milestone_errors_ns, 0.95, bar_ns)


def judge_one_step(scenario: str, version: str, same: int, total: int) -> Verdict:
    """From the recorded state before each real start: did the twin pick the same job and node set (>= 99 %)?"""
    share = (total - same) / total if total else 0.0
    outcome = Outcome.UNKNOWN if not total else Outcome.AGREE if share <= MISS_BAR else Outcome.DIFFER
    reason = f"{same} of {total} starts: same job, same nodes; bar 99 %" if total else "no recorded start"
    return Verdict(scenario=scenario, version=version, subject=ONE_STEP, outcome=outcome, reason=reason,
                   size=share, unit="ratio", bar=MISS_BAR)  # fmt: skip


def _counts(name: str, gap: ClassGap) -> bool:
    return name == ALL or gap.jobs >= CLASS_JOBS


def _s(ns: float | None) -> float | None:
    return None if ns is None else ns / 1e9


def _equal(other: int, total: int) -> float | None:
    return 1 - other / total if total else None
