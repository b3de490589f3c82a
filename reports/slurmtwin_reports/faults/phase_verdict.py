"""The verdict of a phase (DESIGN 5): agree, differ or unknown, and why.

differ: the recorded spans are no draw from the replications (ranks.py), or the scenario's milestones are out of order.
agree: they may be one, and were the named parameter half or double, this many repetitions would tell with power 80 %.
unknown: anything else. So a verdict can fail, and a vague model cannot pass.
A claim of kind has no parameter and no vote: it holds or is broken (claims.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.phases import Phase
from slurmtwin_reports.faults import ranks
from slurmtwin_reports.faults.claims import claim_found
from slurmtwin_reports.faults.measurement import NEVER, NO_START, measured, recorded_span, spans, stream, words
from slurmtwin_reports.faults.order import OrderFound, milestone_order
from slurmtwin_reports.faults.replicated import Repetition
from slurmtwin_reports.verdict import Outcome, Verdict

if TYPE_CHECKING:
    import numpy as np

    Times = np.ndarray[Any, np.dtype[np.int64]]

MIN_REPETITIONS: Final = 3
MIN_REPLICATIONS: Final = 200
HALF: Final = 0.5
DOUBLE: Final = 2.0
SHARP: Final = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseVerdict:
    """One phase of one scenario, judged."""

    phase: Phase
    outcome: Outcome
    reason: str
    recordings: tuple[str, ...] = ()
    """Their names, in the order of all that follows."""
    recorded: tuple[int, ...] = ()
    """Spans in ns; measurement.NEVER and NO_START for none."""
    errors: tuple[int, ...] = ()
    """Half-widths of the recorded spans, ns."""
    intervals: tuple[tuple[int, int], ...] = ()
    """2.5th and 97.5th percentile of each repetition's replications as measured, ns."""
    places: tuple[float, ...] = ()
    """Where each recorded span lies among its replications, 0 to 1 (ranks.place())."""
    p: float | None = None
    half: float | None = None
    """Power against the parameter halved; None where it was not asked for."""
    double: float | None = None
    needed: int | None = None
    """Repetitions at which both powers would reach 80 %, where they do not; None: more than ranks.MOST_REPETITIONS."""
    sharp: bool | None = None
    """Are the intervals hardly wider than with calibrated durations held at their medians? None: not known."""
    sharp_each: bool | None = None
    """Is every repetition's?"""
    width_of_bound: float | None = None
    """Widths of all intervals, as a share of what they may be together: up to 1 is sharp. None: not known."""
    broken: int = 0
    """Of a claim: recordings that break it, and one more where replications do."""

    def row(self, scenario: str, version: str) -> Verdict:
        """As a row of the verdict table; size is how far outside its interval a recorded span lies at most, in s."""
        if self.phase.is_claim:
            return Verdict(
                scenario=scenario, version=version, subject=f"claim {self.phase.name}", outcome=self.outcome,
                reason=self.reason, size=float(self.broken) if self.broken else None,
                unit="count" if self.broken else "", bar=0.0 if self.broken else None,
            )  # fmt: skip
        size = self.outside_s
        return Verdict(
            scenario=scenario, version=version, subject=f"phase {self.phase.name}", outcome=self.outcome,
            reason=self.reason, size=size, unit="" if size is None else "s", bar=None if size is None else 0.0,
        )  # fmt: skip

    @property
    def outside_s(self) -> float | None:
        """Seconds by which a recorded span lies outside the twin's interval at most; None where one is no time."""
        gaps = []
        for span, (low, high) in zip(self.recorded, self.intervals, strict=False):
            if {NEVER, NO_START} & {span, low, high}:
                return None
            gaps.append(max(low - span, span - high, 0) / SECOND)
        return max(gaps, default=None)


def judge_phases(
    phases: Sequence[Phase], repetitions: Sequence[Repetition], seed: int = 0
) -> tuple[list[PhaseVerdict], OrderFound]:
    """The verdicts of a scenario's phases, in their order, and what was found of the milestones' order."""
    if not repetitions or any(len(r.base) == 0 for r in repetitions):
        return [_unknown(phase, "the twin made no replications") for phase in phases], OrderFound(1.0)
    order = milestone_order(phases, repetitions, seed)
    return [_judge(place, phase, repetitions, order, seed) for place, phase in enumerate(phases)], order


def _unknown(phase: Phase, reason: str) -> PhaseVerdict:
    return PhaseVerdict(phase=phase, outcome=Outcome.UNKNOWN, reason=reason)


def _judge(place: int, phase: Phase, repetitions: Sequence[Repetition], order: OrderFound, seed: int) -> PhaseVerdict:
    import numpy as np

    observed = np.array([recorded_span(r.recorded[place]) for r in repetitions], dtype=np.int64)
    errors = tuple(r.recorded[place].error_ns for r in repetitions)
    made = [r.base if r.own is None else r.own for r in repetitions]
    pools = np.stack([
        _measured(r, times, place, seed, f"{phase.name}/base/{k}")
        for k, (r, times) in enumerate(zip(repetitions, made, strict=True))
    ])  # fmt: skip
    found: dict[str, Any] = {
        "phase": phase, "recordings": tuple(r.name for r in repetitions),
        "recorded": tuple(int(x) for x in observed), "errors": errors,
        "intervals": tuple(_interval(pool) for pool in pools),
        "places": tuple(ranks.place(span, pool) for span, pool in zip(observed, pools, strict=True)),
    }  # fmt: skip
    if phase.is_claim:
        outcome, reason, broken = claim_found(phase, repetitions, place)
        return PhaseVerdict(outcome=outcome, reason=reason, broken=broken, **found)
    p = ranks.p_value(observed, pools, stream(seed, f"{phase.name}/null"))
    found |= {"p": p, **_sharpness(repetitions, place, errors)}
    if p <= ranks.LEVEL:
        return PhaseVerdict(outcome=Outcome.DIFFER, reason=_rejected(observed, pools, p), **found)
    if order.broken and phase.name in order.phases:
        reason = f"milestones out of order (p {order.p:.2g}): recorded {order.pair}, hardly ever so in the twin"
        return PhaseVerdict(outcome=Outcome.DIFFER, reason=reason, **found)
    found |= _powers(phase, place, repetitions, pools, seed)
    outcome, reason = _agreed(
        phase, len(repetitions), pools.shape[1], p, found["half"], found["double"], found["needed"]
    )
    return PhaseVerdict(outcome=outcome, reason=reason, **found)


def _measured(repetition: Repetition, times: Times, place: int, seed: int, name: str) -> Times:
    """Spans of replications, each end measured as the recording's own."""
    marks = repetition.recorded[place]
    ends = [
        measured(times[:, place, side], mark, repetition.epoch_ns, stream(seed, f"{name}/{side}"))
        for side, mark in enumerate((marks.start, marks.end))
    ]
    return spans(*ends)


def _powers(phase: Phase, place: int, repetitions: Sequence[Repetition], pools: Times, seed: int) -> dict[str, Any]:
    import numpy as np

    out: dict[str, Any] = {"half": None, "double": None, "needed": None}
    drawn = []
    for name, factor in (("half", HALF), ("double", DOUBLE)):
        times = [r.changed.get((phase.parameter, factor)) for r in repetitions]
        made = [t for t in times if t is not None and len(t)]
        if not phase.parameter or len(made) < len(repetitions):
            continue
        label = f"{phase.name}/{name}"
        many = min(len(t) for t in made)
        changed = np.stack([
            _measured(r, t[:many], place, seed, f"{label}/{k}")
            for k, (r, t) in enumerate(zip(repetitions, made, strict=True))
        ])  # fmt: skip
        out[name] = ranks.power(changed, pools, stream(seed, label))
        drawn.append(changed)
    if len(drawn) == 2 and min(out["half"], out["double"]) < ranks.POWER:
        out["needed"] = ranks.repetitions_needed(drawn, pools, stream(seed, f"{phase.name}/needed"))
    return out


def _agreed(
    phase: Phase,
    repetitions: int,
    replications: int,
    p: float,
    half: float | None,
    double: float | None,
    needed: int | None,
) -> tuple[Outcome, str]:
    fits = f"p {p:.2g}"
    if repetitions < MIN_REPETITIONS or replications < MIN_REPLICATIONS:
        few = f"{repetitions} repetitions, {replications} replications"
        return Outcome.UNKNOWN, f"{fits}, but {few}: {MIN_REPETITIONS} and {MIN_REPLICATIONS} are needed"
    if not phase.parameter:
        return Outcome.UNKNOWN, f"{fits}, but it names no parameter that could be halved and doubled"
    if half is None or double is None:
        return Outcome.UNKNOWN, f"{fits}, but there are no replications with {phase.parameter} halved and doubled"
    weak = [f"{word} ({100 * v:.0f} %)" for word, v in (("half", half), ("double", double)) if v < ranks.POWER]
    if weak:
        told = f"{repetitions} repetitions hardly tell {phase.parameter} at {', '.join(weak)}"
        would = f"{needed} would" if needed else f"{ranks.MOST_REPETITIONS} would not"
        return Outcome.UNKNOWN, f"{fits}, but {told}; {would}"
    power = f"power {100 * half:.0f} % against {phase.parameter} halved, {100 * double:.0f} % doubled"
    return Outcome.AGREE, f"{fits}; {power}"


def _rejected(observed: Times, pools: Times, p: float) -> str:
    shown = ", ".join(f"{words(int(x))} in {_range(pool)}" for x, pool in zip(observed, pools, strict=True))
    return f"p {p:.2g}: recorded {shown} (95 % of replications)"


def _range(pool: Times) -> str:
    low, high = _interval(pool)
    return f"{words(low)}..{words(high)}"


def _interval(pool: Times) -> tuple[int, int]:
    """2.5th and 97.5th percentile, whole members of the pool."""
    import numpy as np

    ordered = np.sort(pool)
    last = len(ordered) - 1
    return int(ordered[(25 * last) // 1000]), int(ordered[-(-975 * last // 1000)])


def _sharpness(repetitions: Sequence[Repetition], place: int, errors: Sequence[int]) -> dict[str, float | None]:
    """95 % interval <= 1.25 x its width with calibrated durations at their medians + 2 t_err: over all repetitions, and
    in each of them.

    A width of 200 replications is known to a tenth, and to a whole tick of a law on whole seconds. So of two equal laws
    one in some repetitions is wider by chance: the more are recorded, the surer. Their sum is not.
    """
    if any(one.still is None or not len(one.still) for one in repetitions):
        return {"sharp": None, "sharp_each": None, "width_of_bound": None}
    wide = [_width(one.base, place) for one in repetitions]
    most = [
        SHARP * _width(one.still, place) + 2 * error
        for one, error in zip(repetitions, errors, strict=True)
        if one.still is not None
    ]
    return {
        "sharp": sum(wide) <= sum(most), "sharp_each": all(w <= m for w, m in zip(wide, most, strict=True)),
        "width_of_bound": sum(wide) / sum(most) if sum(most) else None,
    }  # fmt: skip


def _width(times: Times, place: int) -> int:
    low, high = _interval(spans(times[:, place, 0], times[:, place, 1]))
    return high - low
