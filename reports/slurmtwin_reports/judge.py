"""A scenario judged as a whole: properties of each run, phases of twin against real, one section of a report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from slurmtwin_reports import conformance
from slurmtwin_reports.checks import run_checks
from slurmtwin_reports.history import History
from slurmtwin_reports.html import Report, Section
from slurmtwin_reports.known_differences import KnownDifference, apply_known
from slurmtwin_reports.verdict import FINDINGS, Outcome, Verdict


def judge_pairs(
    pairs: Sequence[tuple[History, History]], properties: Iterable[str] | None = None, title: str = ""
) -> Section:
    """The section of a scenario with (twin, real) pairs, one per real repetition."""
    names = None if properties is None else list(properties)
    found = conformance.judge(pairs)
    verdicts = list(found.verdicts)
    for side in (0, 1):
        verdicts += merge_repetitions([run_checks(pair[side], names) for pair in pairs])
    return Section(found.scenario, found.version, title, verdicts, pairs, (), found)


def judge_runs(runs: Sequence[History], properties: Iterable[str] | None = None, title: str = "") -> Section:
    """The section of a scenario of which only runs of one world exist: properties alone."""
    names = None if properties is None else list(properties)
    verdicts = merge_repetitions([run_checks(run, names) for run in runs])
    return Section(runs[0].scenario, runs[0].version, title, verdicts, (), runs)


def merge_repetitions(repetitions: Sequence[Sequence[Verdict]]) -> list[Verdict]:
    """One verdict per property over several runs: broken beats unknown beats holds; the reason says in how many."""
    out = []
    for same in zip(*repetitions, strict=True):
        worst = max(same, key=lambda v: (v.outcome in FINDINGS, v.outcome is Outcome.UNKNOWN))
        count = sum(v.outcome is worst.outcome for v in same)
        of = f"; in {count} of {len(same)} runs" if len(same) > 1 else ""
        out.append(replace(worst, reason=worst.reason + of))
    return out


def make_report(
    title: str,
    sections: Sequence[Section],
    known: Sequence[KnownDifference] = (),
    complete: bool = True,
    ages: bool = True,
    extra: Sequence[Verdict] = (),
) -> Report:
    """Hold every verdict against the known differences; stale entries and `extra` (one-step, ...) join the list.

    `complete` and `ages` are those of apply_known.
    """
    verdicts, ready = list(extra), []
    verdicts, stale = apply_known([v for s in sections for v in s.verdicts] + verdicts, known, complete, ages)
    place = 0
    for section in sections:
        count = len(section.verdicts)
        ready.append(replace(section, verdicts=verdicts[place : place + count]))
        place += count
    return Report(title, ready, [*verdicts, *stale])
