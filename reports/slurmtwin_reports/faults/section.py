"""What the report's template needs of a fault scenario: two figures, the table of phases, the causes of milestones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from slurmtwin.contract.clock import SECOND, format_duration
from slurmtwin.contract.phases import Phase
from slurmtwin_reports.faults.case import FaultCase, causes_of
from slurmtwin_reports.faults.measurement import recorded_span, words
from slurmtwin_reports.faults.milestones import Mark
from slurmtwin_reports.faults.phase_figure import phase_intervals
from slurmtwin_reports.faults.phase_verdict import PhaseVerdict
from slurmtwin_reports.faults.timeline import moment, timeline


def fault_context(case: FaultCase, name: str = "", most: int | None = None) -> dict[str, Any]:
    """JSON-like values for templates/fault.html; `timeline` and `intervals` are SVG, made by us.

    name: the section's, its own on a page. most: of the recordings the last so many have lanes and causes, or all.
    """
    real = case.recordings
    late = real if most is None else real[-most:]
    shown = replace(case, runs=[*(run for run in case.runs if run.is_twin), *late])
    return {
        "timeline": timeline(shown, name), "drawn": len(late), "left_out": len(real) - len(late),
        "intervals": phase_intervals(case) if case.phases else "",
        "rows": [_row(case, number) for number in range(len(case.phases))],
        "causes": [line for number in range(len(case.phases)) for line in _causes(shown, number)],
        "has_twin": any(run.is_twin for run in case.runs), "judged": bool(case.verdicts), "why_not": case.why_not,
    }  # fmt: skip


def _row(case: FaultCase, number: int) -> dict[str, Any]:
    phase = case.phases[number]
    verdict = case.verdicts[number] if case.verdicts else None
    reals = [run.marks[number] for run in case.recordings]
    return {
        "name": phase.name, "rests_on": phase.rests_on, "parameter": phase.parameter, "source": phase.source,
        "predicted": predicted(phase),
        "recorded": [f"{words(recorded_span(m))}{_error(m.error_ns, m.end)}" for m in reals],
        "twin": _twin(verdict), "power": _power(verdict),
        "sharp": "" if verdict is None else sharpness(verdict.sharp, verdict.width_of_bound),
        "verdict": str(verdict.outcome) if verdict else "", "reason": verdict.reason if verdict else "",
    }  # fmt: skip


def sharpness(sharp: bool | None, width_of_bound: float | None) -> str:
    """In words: "yes", or "no" and how many times its bound the interval is wide."""
    if sharp is not False:
        return "yes" if sharp else ""
    if width_of_bound is None:
        return "no"
    return f"no, {width_of_bound:.0f} x" if width_of_bound >= 100 else f"no, {width_of_bound:.3g} x"


def predicted(phase: Phase) -> str:
    """The prediction in words."""
    if phase.absent:
        return "none"
    return f"{format_duration(phase.low)} .. {format_duration(phase.high) if phase.high is not None else 'any'}"


def _error(error_ns: int, end: Mark | None) -> str:
    return "" if end is None else f" ± {max(error_ns / SECOND, 0.05):.1f}"


def _twin(verdict: PhaseVerdict | None) -> list[str]:
    return [] if verdict is None else [f"{words(low)} .. {words(high)}" for low, high in verdict.intervals]


def _power(verdict: PhaseVerdict | None) -> str:
    if verdict is None or verdict.half is None or verdict.double is None:
        return ""
    return f"{100 * verdict.half:.0f}, {100 * verdict.double:.0f}"


def _causes(case: FaultCase, number: int) -> list[dict[str, Any]]:
    """The end of a phase in each run, with the chain that led to it."""
    out = []
    for run in case.runs:
        end = run.marks[number].end
        if end is not None and 0 <= end.seq < len(run.rows):
            row = run.rows[end.seq]
            chain = [moment(run, cause) for cause in causes_of(run.rows, row)]
            out.append({"phase": case.phases[number].name, "run": run.name, "end": moment(run, row), "chain": chain})
    return out


def suite_rows(cases: Sequence[tuple[str, str, FaultCase]]) -> list[dict[str, Any]]:
    """One row for each phase and claim that was judged, over (scenario, version, case): for the report and --json."""
    return [
        {
            "scenario": scenario, "version": version, "phase": one.phase.name, "parameter": one.phase.parameter,
            "claim": one.phase.is_claim, "verdict": str(one.outcome), "p": one.p,
            "power_half": one.half, "power_double": one.double, "sharp": one.sharp, "sharp_each": one.sharp_each,
            "width_of_bound": None if one.width_of_bound is None else round(one.width_of_bound, 3),
            "recordings": list(one.recordings), "recorded_s": [words(ns) for ns in one.recorded],
            "places": [round(place, 3) for place in one.places],
            "twin_s": [[words(ns) for ns in interval] for interval in one.intervals],
        }
        for scenario, version, case in cases
        for one in case.verdicts
    ]  # fmt: skip


def suite_counts(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """How many phases agree, differ, stay unknown and are sharp, of how many; beside them claims held and broken."""
    phases, claims = ([row for row in rows if row["claim"] is wanted] for wanted in (False, True))
    out = {word: sum(row["verdict"] == word for row in phases) for word in ("agree", "differ", "unknown")}
    out |= {word: sum(row[word] is True for row in phases) for word in ("sharp", "sharp_each")}
    out["phases"] = len(phases)
    held = {f"claims_{word}": sum(row["verdict"] == word for row in claims) for word in ("holds", "broken", "unknown")}
    return {**out, **held, "scenarios": len({row["scenario"] for row in phases})}


def suite_line(rows: Sequence[dict[str, Any]]) -> str:
    """The counts in one line of text."""
    n = suite_counts(rows)
    share = f" ({100 * n['agree'] / n['phases']:.1f} %)" if n["phases"] else ""
    return (
        f"Phases of {n['scenarios']} fault scenarios: {n['agree']} of {n['phases']} agree{share}, {n['differ']} "
        f"differ, {n['unknown']} unknown; {n['sharp']} sharp, {n['sharp_each']} in each repetition. Claims of kind: "
        f"{n['claims_holds']} hold, {n['claims_broken']} broken, {n['claims_unknown']} unknown."
    )
