"""Rows for the terminal (rich) and for --json, from the same data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from slurmtwin_reports.compare import Comparison
from slurmtwin_reports.conformance import Conformance
from slurmtwin_reports.metrics import number
from slurmtwin_reports.verdict import FINDINGS, Outcome, Verdict

STYLES: Final = {
    Outcome.AGREE: "green", Outcome.HOLDS: "green", Outcome.DIFFER: "bold red", Outcome.BROKEN: "bold red",
    Outcome.UNKNOWN: "yellow",
}  # fmt: skip
WORST: Final = (Outcome.AGREE, Outcome.HOLDS, Outcome.UNKNOWN, Outcome.DIFFER, Outcome.BROKEN)


def verdict_dicts(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """The `verdicts` list of `check --json`."""
    return [v.to_dict() for v in verdicts]


def scenario_rows(verdicts: Iterable[Verdict]) -> list[dict[str, Any]]:
    """One row per scenario and version: the worst verdict (accepted ones count as fine), its reason, counts."""
    groups: dict[tuple[str, str], list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault((verdict.scenario, verdict.version), []).append(verdict)
    rows = []
    for (scenario, version), members in groups.items():
        worst = max(members, key=_rank)
        known = sum(bool(v.known) for v in members)
        good = sum(v.outcome in (Outcome.AGREE, Outcome.HOLDS) for v in members)
        fine = _rank(worst) <= 1
        reason = f"{good} of {len(members)} verdicts good" if fine else f"{worst.subject}: {worst.reason}"
        others = sum(_rank(v) > 1 for v in members) - 1
        if others > 0:
            reason += f"; {others} more of {len(members)} verdicts {'is' if others == 1 else 'are'} not good"
        outcome = _summary_word(members) if fine else worst.outcome
        rows.append({"scenario": scenario, "version": version, "verdict": str(outcome), "reason": reason,
                     "verdicts": len(members), "known": known})  # fmt: skip
    return rows


def _rank(verdict: Verdict) -> int:
    return 0 if verdict.known else WORST.index(verdict.outcome)


def _summary_word(members: Sequence[Verdict]) -> Outcome:
    """agree as soon as something was compared with the real thing; holds when only properties were judged."""
    return Outcome.AGREE if any(v.outcome in (Outcome.AGREE, Outcome.DIFFER) for v in members) else Outcome.HOLDS


def _word(outcome: Outcome, known: bool) -> Text:
    return Text(f"{outcome}*" if known else str(outcome), style="cyan" if known else STYLES[outcome])


def scenario_table(verdicts: Iterable[Verdict]) -> Table:
    """`check`'s table: one row per scenario with verdict and reason."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("scenario", "Slurm", "verdict", "reason"):
        table.add_column(name, overflow="fold")
    for row in scenario_rows(verdicts):
        known = row["known"] > 0 and row["verdict"] not in FINDINGS
        table.add_row(Text(row["scenario"]), row["version"], _word(Outcome(row["verdict"]), known), Text(row["reason"]))
    return table


def verdict_table(verdicts: Iterable[Verdict]) -> Table:
    """Every verdict, one row each."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("scenario", "Slurm", "world", "phase or property", "verdict", "reason"):
        table.add_column(name, overflow="fold")
    for v in verdicts:
        reason = f"{v.reason} [known: {v.known}]" if v.known else v.reason
        table.add_row(
            Text(v.scenario), v.version, v.world, Text(v.subject), _word(v.outcome, bool(v.known)), Text(reason)
        )
    return table


def conformance_rows(results: Iterable[Conformance]) -> list[dict[str, Any]]:
    """The table of figures against the real thing, one row per scenario and version."""
    return [r.row() for r in results]


def conformance_table(results: Iterable[Conformance]) -> Table:
    """The same as a terminal table: twin error beside the real runs' own."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("scenario", "Slurm"):
        table.add_column(name, overflow="fold")
    for name in ("reps", "jobs", "median s", "(real)", "p95 s", "(real)", "nodes %", "(real)", "wait gap %"):
        table.add_column(name, justify="right")
    for row in conformance_rows(results):
        table.add_row(
            Text(row["scenario"]), row["version"], str(row["repetitions"]), str(row["jobs"]),
            number(row["median_start_error_s"]), number(row["real_median_start_error_s"]),
            number(row["p95_start_error_s"]), number(row["real_p95_start_error_s"]),
            percent(row["same_nodes"]), percent(row["real_same_nodes"]), percent(row["worst_class_wait_gap"]),
        )  # fmt: skip
    return table


def comparison_table(result: Comparison) -> Table:
    """`compare`'s table: A, B, the difference with its 95 % interval, and how much worse that is."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("metric")
    for name in ("A", "B", "B - A", "95 % interval", "pairs", "worse by"):
        table.add_column(name, justify="right")
    for c in result.changes:
        bounds = f"{number(c.low)} .. {number(c.high)}" if c.low is not None else ""
        worse = percent(c.worsening) + " %" if c.difference else ""
        table.add_row(c.metric, number(c.a), number(c.b), number(c.difference), bounds, str(c.pairs), worse)
    return table


def percent(share: float | None) -> str:
    """A share as percent without its sign, `-` for nothing."""
    return "-" if share is None else number(100 * share)
