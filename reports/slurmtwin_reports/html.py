"""One HTML file that opens from a mail: verdicts first, then each scenario, twin beside real.

No script, nothing loaded from elsewhere (the page's own policy forbids it), equal input gives equal bytes.
Every text from a file is escaped by the template engine; only our own SVG and CSS go in as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import resources
from itertools import groupby, product
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.manifest import Manifest, write_atomic
from slurmtwin_reports import figures
from slurmtwin_reports.conformance import ONE_STEP, Conformance, pool
from slurmtwin_reports.coverage import Covered, coverage_context
from slurmtwin_reports.faults.case import FaultCase
from slurmtwin_reports.faults.rank_histogram import calibration_figures, calibration_line
from slurmtwin_reports.faults.section import fault_context, sharpness, suite_counts, suite_rows
from slurmtwin_reports.history import History
from slurmtwin_reports.job_table import JobTable, job_table
from slurmtwin_reports.metrics import number, summary
from slurmtwin_reports.tables import percent, scenario_rows
from slurmtwin_reports.verdict import FINDINGS, Outcome, Verdict

MOST_OPEN: Final = 3
MOST_LANES: Final = 6
"""Recordings of one fault scenario that have lanes, beside its twin, in a report of more scenarios than are open."""
MOST_BYTES: Final = 4_900_000
"""Of the whole page, in UTF-8. Cells and rows have no end tags: HTML does not need them, and there are 100,000."""
TONES: Final = {
    "agree": "good", "holds": "good", "differ": "bad", "broken": "bad", "unknown": "hold", "done": "good",
    "partly": "known",
}  # fmt: skip
METRICS: Final = (
    ("Jobs", "jobs", "n"), ("Started", "started", "n"), ("Mean wait, s", "mean_wait_s", "n"),
    ("Median wait, s", "median_wait_s", "n"), ("95th percentile of waits, s", "p95_wait_s", "n"),
    ("Longest wait, s", "max_wait_s", "n"), ("Waits over 60 s, %", "share_wait_over_60s", "%"),
    ("Started by backfill, %", "share_by_backfill", "%"), ("Mean bounded slowdown", "mean_bounded_slowdown", "n"),
    ("Utilisation, first to last start, %", "utilisation_loaded", "%"),
    ("Utilisation, whole run, %", "utilisation", "%"), ("Makespan, s", "makespan_s", "n"),
    ("Goodput, %", "goodput", "%"), ("Requeues", "requeues", "n"),
)  # fmt: skip


@dataclass(slots=True)
class Section:
    """One scenario of a report: pairs (twin, real), or single runs when nothing real stands beside them."""

    scenario: str
    version: str = ""
    title: str = ""
    verdicts: Sequence[Verdict] = ()
    pairs: Sequence[tuple[History, History]] = ()
    runs: Sequence[History] = ()
    conformance: Conformance | None = None
    fault: FaultCase | None = None
    """A fault scenario on Kubernetes: it has lanes and phases instead of waits and queues."""
    drawn: Mapping[str, Any] | None = None
    """What the template needs of its runs, where those are left out (without_runs())."""


@dataclass(slots=True)
class Report:
    """A whole report. `verdicts` may hold more than the sections' (stale known differences)."""

    title: str
    sections: Sequence[Section] = ()
    verdicts: Sequence[Verdict] = ()
    note: str = ""
    coverage: Sequence[Covered] = ()
    """The coverage page's entries; none: it is left out."""
    footer: str = field(default="Made by slurmtwin. Nothing in this file is loaded from elsewhere.")


_URGENCY: Final = {Outcome.BROKEN: 0, Outcome.DIFFER: 0, Outcome.UNKNOWN: 1}
"""Order of the verdict table: what a reader must look at comes first, all else as it was checked."""


def write_report(path: Path | str, report: Report) -> int:
    """Write the file; returns its size in bytes."""
    text = render(report)
    write_atomic(Path(path), text)
    return len(text.encode())


def render(report: Report) -> str:
    """The HTML text."""
    from jinja2 import Environment, PackageLoader
    from markupsafe import Markup

    folder = resources.files("slurmtwin_reports") / "templates"
    environment = Environment(loader=PackageLoader("slurmtwin_reports"), autoescape=True, keep_trailing_newline=True)
    environment.filters["num"] = number
    environment.filters["pct"] = percent
    environment.globals |= {"chip": chip, "sharpness": sharpness}
    page, section, fault, covered = (
        environment.get_template(name) for name in ("report.html", "section.html", "fault.html", "coverage.html")
    )
    coverage = {**coverage_context(report.coverage), "open": not report.sections} if report.coverage else None

    def draw(context: dict[str, Any]) -> str:
        drawn = dict(context)
        if context["fault"]:
            figures = {name: Markup(context["fault"][name]) for name in ("timeline", "intervals")}  # noqa: S704
            drawn["fault"] = Markup(fault.render(f={**context["fault"], **figures}))  # noqa: S704  # escaped there
        return Markup(section.render(s=drawn))  # noqa: S704  # escaped there

    verdicts = list(report.verdicts) or [v for s in report.sections for v in s.verdicts]
    count = len(report.sections)
    said = report.note or (lede(verdicts, count) if count or not report.coverage else "")
    phases = [
        {**row, "anchor": f"run-{i}"}
        for i, s in enumerate(report.sections, 1)
        if s.fault
        for row in suite_rows([(s.scenario, s.version, s.fault)])
    ]
    anchors = {(s.scenario, s.version): f"run-{i}" for i, s in enumerate(report.sections, 1)}
    rows = sorted(scenario_rows(verdicts), key=lambda row: _URGENCY.get(row["verdict"], 2))
    for row in rows:
        row["anchor"] = anchors.get((row["scenario"], row["version"]), "")
        row["fine"] = row["verdict"] not in FINDINGS
    contexts = [_section(s, f"run-{i}", i, count) for i, s in enumerate(report.sections, 1)]
    around = partial(
        page.render, title=report.title, lede=said, tiles=tiles(verdicts), rows=rows,
        css=Markup((folder / "report.css").read_text(encoding="utf-8")),  # noqa: S704  # our own file
        known=[v for v in verdicts if v.known], verdict_hint=_hint(report), footer=report.footer,
        figures=_conformance_rows(report.sections), phases=phases, phase_counts=suite_counts(phases),
        calibration_line=calibration_line(phases),
        calibration=[Markup(svg) for svg in calibration_figures(phases)],  # noqa: S704  # made by us
        coverage=Markup(covered.render(c=coverage)) if coverage else "",  # noqa: S704  # escaped there
    )  # fmt: skip
    empty = around(sections=[""] * count)
    return around(sections=fitted(contexts, draw, MOST_BYTES - _size(empty)))


def _size(text: str) -> int:
    return len(text.encode("utf-8"))


def _conformance_rows(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The pooled rows, one per version, then one per scenario; a pool of one scenario would only repeat it."""
    found = [(s.scenario, _with_one_step(s.conformance, s.verdicts)) for s in sections if s.conformance]
    pooled = [p for p in pool([c for _, c in found]) if sum(c.version == p.version for _, c in found) > 1]
    return [{**p.row(), "pooled": True} for p in pooled] + [{**c.row(), "scenario": name} for name, c in found]


def _with_one_step(result: Conformance, verdicts: Sequence[Verdict]) -> Conformance:
    """The one-step score as the section's verdict has it, where the conformance itself was not told."""
    step = next((v for v in verdicts if v.subject == ONE_STEP and v.outcome is not Outcome.UNKNOWN), None)
    if result.one_step[1] or step is None or step.size is None:
        return result
    starts = len(result.twin.errors_ns)
    return replace(result, one_step=(round((1 - step.size) * starts), starts))


def chip(word: object, known: object = "") -> Any:
    """A verdict word as a coloured chip; an accepted difference says so."""
    from markupsafe import Markup

    tone = "known" if known else TONES.get(str(word), "hold")
    return Markup('<span class="chip {}">{}{}</span>').format(tone, "known " if known else "", str(word))


def fitted(contexts: Sequence[dict[str, Any]], draw: Callable[[dict[str, Any]], str], room: int) -> list[str]:
    """The sections' texts in `room` bytes: the largest figures go first, of good sections before those with a known
    difference, of findings last; a fault scenario loses its timeline first, and its phases when nothing else is left.
    """
    texts = [draw(context) for context in contexts]
    size = sum(map(_size, texts))
    for needs_look, less in product(range(3), (_without_figures, _without_phases)):
        places = [i for i, context in enumerate(contexts) if _needs_look(context) == needs_look]
        for place in sorted(places, key=lambda i: -_size(texts[i])):
            if size <= room:
                return texts
            size -= _size(texts[place])
            texts[place] = draw(less(contexts[place]))
            size += _size(texts[place])
    return texts


def _needs_look(context: Mapping[str, Any]) -> int:
    """2: a finding; 1: a phase or property differs from a known cause; 0: nothing."""
    if context["verdict"] in FINDINGS:
        return 2
    return int(any(v.known and v.outcome in FINDINGS for v in context["verdicts"]))


def _without_figures(context: dict[str, Any]) -> dict[str, Any]:
    fault = context["fault"] and {**context["fault"], "timeline": "", "causes": []}
    return {**context, "figures": [], "key": [], "gantt_key": [], "fault": fault}


def _without_phases(context: dict[str, Any]) -> dict[str, Any]:
    return {**_without_figures(context), "fault": None}


def lede(verdicts: Sequence[Verdict], sections: int) -> str:
    """The outcome in one sentence."""
    findings = sum(v.is_finding for v in verdicts)
    unknowns = sum(v.outcome is Outcome.UNKNOWN and not v.known for v in verdicts)
    runs = f"{sections} scenario{'' if sections == 1 else 's'}"
    if not verdicts:
        return f"{runs}, nothing judged."
    if findings:
        return f"{runs}, {len(verdicts)} verdicts: {findings} {'is a finding' if findings == 1 else 'are findings'}."
    if unknowns:
        return f"{runs}, {len(verdicts)} verdicts: no finding, {unknowns} could not be judged."
    return f"{runs}, {len(verdicts)} verdicts: no finding."


def tiles(verdicts: Sequence[Verdict]) -> list[dict[str, Any]]:
    """Counts of verdicts by what they mean for the reader."""
    good = sum(v.outcome in (Outcome.AGREE, Outcome.HOLDS) for v in verdicts)
    unjudged = sum(v.outcome is Outcome.UNKNOWN and not v.known for v in verdicts)
    return [
        {"word": "agree or hold", "count": good, "tone": "good"},
        {"word": "findings", "count": sum(v.is_finding for v in verdicts), "tone": "bad"},
        {"word": "unknown", "count": unjudged, "tone": "hold"},
        {"word": "known differences", "count": sum(bool(v.known) for v in verdicts), "tone": "known"},
    ]


def _hint(report: Report) -> str:
    real = any(s.conformance is not None for s in report.sections)
    text = "One row per scenario and Slurm version, findings first; the worst verdict gives the reason."
    if real:
        text += " A phase compares the twin with recorded runs of unmodified Slurm; a property must hold in each run."
    return text


@dataclass(frozen=True, slots=True)
class _Run:
    """A history with its job table, walked once."""

    history: History
    table: JobTable

    @property
    def starts(self) -> int:
        return sum(len(r.attempts) for r in self.table.records.values())


def without_runs(section: Section, draw: bool, count: int = 1) -> Section:
    """The section as a process hands it to another one: its figures, where they are wanted, instead of its rows.

    count: sections of the report.
    """
    fault = section.fault
    if fault is not None:
        fault = replace(fault, runs=[replace(run, rows=()) for run in fault.runs])
    return replace(section, pairs=(), runs=(), fault=fault, drawn=_of_runs(section, count) if draw else {})


def _section(section: Section, anchor: str, place: int, count: int) -> dict[str, Any]:
    of_runs = section.drawn if section.drawn is not None else _of_runs(section, count)
    rows = scenario_rows(section.verdicts)
    findings = any(v.is_finding for v in section.verdicts)
    return {
        "scenario": section.scenario, "version": section.version, "title": section.title, "anchor": anchor,
        "open": count <= MOST_OPEN or place == 1 or findings, "verdict": rows[0]["verdict"] if rows else "",
        "verdicts": section.verdicts, **of_runs,
    }  # fmt: skip


def _of_runs(section: Section, count: int) -> dict[str, Any]:
    """The parts of a section that its rows are needed for, in a report of so many sections."""
    if section.fault is not None:
        return _of_fault(section, section.fault, MOST_LANES if count > MOST_OPEN else None)
    twins = [_Run(h, job_table(h)) for h in ([t for t, _ in section.pairs[:1]] or section.runs)]
    reals = [_Run(h, job_table(h)) for _, h in section.pairs]
    shown = [*twins, *reals]
    columns = ["twin", *(f"real {i}" for i in range(1, len(reals) + 1))] if reals else _names(twins)
    return {
        "narrow": len(columns) <= 2, "columns": columns, "key": _key(reals), "figures": _figures(section, twins, reals),
        "gantt_key": _gantt_key(shown[:2]), "metrics": _metrics(shown),
        "card": card([r.history.manifest for r in shown]), "fault": None,
    }  # fmt: skip


def _of_fault(section: Section, case: FaultCase, most: int | None) -> dict[str, Any]:
    return {
        "narrow": False, "key": [], "figures": [], "gantt_key": [], "metrics": [],
        "columns": [run.name for run in case.runs],
        "card": card([history.manifest for history in section.runs]),
        "fault": fault_context(case, f"{section.scenario}-{section.version}", most),
    }  # fmt: skip


def _names(runs: Sequence[_Run]) -> list[str]:
    return [f"{r.history.world} {i}" if len(runs) > 1 else r.history.world for i, r in enumerate(runs, 1)]


def _key(reals: Sequence[_Run]) -> list[dict[str, str]]:
    if not reals:
        return []
    key = [{"css": "twin", "word": "twin"}, {"css": "real", "word": "real Slurm"}]
    if len(reals) > 1:
        key += [{"css": "other", "word": "further real runs"}, {"css": "dash", "word": "real against real"}]
    return key


def _gantt_key(runs: Sequence[_Run]) -> list[dict[str, str]]:
    if any(r.starts > figures.MOST_JOBS for r in runs):
        return []
    key = [{"css": "c-main", "word": "started by the main loop"}, {"css": "c-fill", "word": "started by backfill"}]
    bad = any(a.state not in ("COMPLETED", "TIMEOUT", "") for r in runs for _, _, a in r.table.attempts())
    return key + ([{"css": "c-bad", "word": "failed, cancelled, preempted or requeued"}] if bad else [])


def _figures(section: Section, twins: Sequence[_Run], reals: Sequence[_Run]) -> list[dict[str, Any]]:
    from markupsafe import Markup

    facts = next((r.history.facts for r in (*reals, *twins) if r.history.facts), None)
    tracks = [figures.Track(r.table, "other") for r in reversed(reals[1:])]
    tracks += [figures.Track(r.table, "real") for r in reals[:1]]
    tracks += [figures.Track(r.table, "twin") for r in twins]
    drawn = [("Waits", "share of jobs that waited at most so long", figures.waits(tracks))]
    if section.conformance is not None:
        interval = facts.bf_interval_ns / 1e9 if facts else 30.0
        note = "share of starts, with the bars of median and p95"
        both = figures.start_errors(section.conformance.twin, section.conformance.real, interval)
        drawn.append(("Start error", note, both))
    capacity = sum(facts.node_cpus.values()) if facts else 0
    if capacity:
        drawn.append(("Utilisation", f"of {capacity} CPUs", figures.utilisation(tracks, capacity)))
    drawn.append(("Queue", "jobs waiting", figures.queue(tracks)))
    span = figures.span_s(tracks)
    sides = [("twin", twins[0]), ("real Slurm", reals[0])] if reals else [(r.history.world, r) for r in twins[:1]]
    for word, run in sides:
        if facts is None or not capacity:
            break
        count = len(facts.node_cpus)
        what = f"{count} nodes from top to bottom" if count > 1 else "one node"
        if run.starts > figures.MOST_JOBS:
            what += ", darker is fuller"
        svg = figures.gantt(run.table, facts, span, f"Nodes over time, {word}")
        drawn.append((f"Who ran where: {word}", what, svg))
    return [{"title": t, "note": n, "svg": Markup(s)} for t, n, s in drawn]  # noqa: S704  # svg.py escapes


def _metrics(runs: Sequence[_Run]) -> list[tuple[str, list[str]]]:
    found = [summary(r.table, sum(r.history.facts.node_cpus.values()) if r.history.facts else None) for r in runs]
    return [(name, [percent(s[key]) if form == "%" else number(s[key]) for s in found]) for name, key, form in METRICS]


def card(manifests: Sequence[Manifest]) -> list[tuple[str, list[tuple[str, int]]]]:
    """The run card: versions, seed, hashes, cost; one column per run, lines without any value left out.

    Each line is its name and its cells: a value, and how many runs beside each other have it.
    """
    lines: list[tuple[str, list[tuple[str, int]]]] = []

    def word(value: Any) -> str:
        if value in (None, ""):
            return "-"
        return f"{value:.6g}" if isinstance(value, float) else str(value)

    def line(name: str, values: Sequence[Any]) -> None:
        if any(v not in (None, "") for v in values):
            lines.append((name, [(text, len(list(same))) for text, same in groupby(word(v) for v in values)]))

    line("World", [m.world for m in manifests])
    line("Slurm", [m.software.get("slurm") or m.parameters.get("slurm_version") for m in manifests])
    line("Acceleration factor", [m.parameters.get("factor") for m in manifests])
    line("Seed", [m.seed for m in manifests])
    line("Replication", [m.replication for m in manifests])
    line("Scenario SHA-256", [m.scenario_sha256[:16] for m in manifests])
    line("Event hash", [str(m.results.get("event_hash", ""))[:16] for m in manifests])
    line("Events", [m.results.get("events") for m in manifests])
    line("Wall time, s", [m.resources.get("wall_s") for m in manifests])
    line("Events per second", [m.resources.get("events_per_s") for m in manifests])
    line("Peak memory, MB", [m.resources.get("max_rss_mb") for m in manifests])
    names = dict.fromkeys(name for m in manifests for name in m.software if name != "slurm")
    for name in names:
        line(name, [m.software.get(name) for m in manifests])
    line("Python", [m.environment.get("python") for m in manifests])
    line("Platform", [m.environment.get("platform") for m in manifests])
    return lines
