"""Commands that judge: check, compare, report."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from slurmtwin.campaign.kept_replications import KEPT
from slurmtwin.cli.file_commands import scenario_files, since_ns
from slurmtwin.cli.output import command, emit_json, json_text, say
from slurmtwin.contract.errors import ExitCode, InputError, ModelError
from slurmtwin.contract.manifest import write_atomic
from slurmtwin.contract.scenario import load_scenario

if TYPE_CHECKING:
    from slurmtwin.campaign.fault_judging import FaultGroup
    from slurmtwin_reports.html import Report, Section

KNOWN_DIFFERENCES = "scenarios/known-differences.yaml"
WORKLOADS = "scenarios/workloads"


def _progress(title: str) -> tuple[Callable[[int, int], None], Callable[[], None]]:
    """A bar on stderr when a person looks; (advance, close)."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    bar = Progress(console=console, transient=True, disable=not console.is_terminal)
    task = bar.add_task(title, total=None)
    bar.start()
    return (lambda done, total: bar.update(task, completed=done, total=total)), bar.stop


def _print(table: Any) -> None:
    """A rich table on stdout, plain when nobody looks at it."""
    from rich.console import Console

    console = Console()
    if not console.is_terminal:
        console = Console(width=200, no_color=True)
    console.print(table)


def _write_outputs(report: Report, html: str | None, junit: str | None, wall_s: float) -> None:
    from slurmtwin_reports.html import write_report
    from slurmtwin_reports.junit import junit_xml

    if junit:
        write_atomic(Path(junit), junit_xml(report.verdicts, wall_s))
    if html:
        write_report(html, report)
        say(f"report: {html}")


def _recorded_now(paths: tuple[str, ...], root: Path) -> Path:
    """A folder of recordings of these scenarios, made now. Raises ModelError when a run fails."""
    from slurmtwin.workload.resolve import resolve_jobs
    from slurmtwin.worlds.outside import literal_scenario
    from slurmtwin_e2e.record import Wanted, missing, record
    from slurmtwin_e2e.slurm_world import factor_of

    if not paths:
        raise InputError(
            "--live needs the scenarios to run", hint="slurmtwin check --live scenarios/workloads/serial.yaml"
        )
    wanted: list[Wanted] = []
    for path in scenario_files(paths, "scenarios"):
        scenario = literal_scenario(load_scenario(path), path.parent)
        jobs = list(resolve_jobs(scenario, path.parent))
        wanted += missing([(scenario, jobs)], [scenario.slurm.version], factor_of(scenario), 1, root)
    done = record(wanted, root, math.inf, say)
    if done.failed:
        raise ModelError(f"{len(done.failed)} of {len(wanted)} real runs failed: {done.failed[0]}")
    return root


def _not_held_against_twin(groups: Sequence[FaultGroup], sections: Sequence[Section]) -> list[Path]:
    """Recorded scenarios whose phases were not judged, told with the reason."""
    why: dict[str, list[Path]] = {}
    for group, section in zip(groups, sections, strict=True):
        if section.fault is not None and section.fault.why_not:
            why.setdefault(section.fault.why_not, []).append(group.path)
    for reason, paths in why.items():
        say(f"phases of {len(paths)} scenarios are not held against the twin: {reason}")
    return [path for paths in why.values() for path in paths]


JUDGING: Final = (
    "slurmtwin.campaign.fault_judging", "slurmtwin.campaign.judging", "slurmtwin.worlds.pod_observer",
    "slurmtwin.worlds.pod_world", "slurmtwin_reports.checks", "slurmtwin_reports.conformance",
    "slurmtwin_reports.faults.section", "slurmtwin_reports.html", "slurmtwin_reports.judge", "pandas",
)  # fmt: skip
"""What judging needs of the program beside campaign.pool.READY; Arrow asks pandas whether a list is one of its own."""


@click.command()
@click.argument("paths", nargs=-1)
@click.option("--report", "html", metavar="FILE", help="Write the report as one HTML file.")
@click.option("--junitxml", metavar="FILE", help="Write the verdicts as JUnit XML.")
@click.option("--verdicts", metavar="FILE", help="Write the document of --json to a file, too.")
@click.option("--known", default=KNOWN_DIFFERENCES, show_default=True, help="Accepted differences.")
@click.option("--recordings", default="scenarios/recordings", show_default=True)
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True)
@click.option("--workers", type=click.IntRange(0), default=0, help="Processes; 0: one per processor.")
@click.option("--out", help="Keep the twin's runs below this folder.")
@click.option("--all", "every", is_flag=True, help="Print every verdict, not one row per scenario.")
@click.option("--plans", is_flag=True, help="Replay recorded passes of the operator instead (default: all recordings).")
@click.option("--core", "core", default="", metavar="COMMAND", help="With --plans: a core that speaks JSON lines.")
@click.option("--replicate", is_flag=True, help="Make the replications of fault scenarios that are not kept, or that "
              "today's twin would make otherwise: some minutes. Without it their phases stay unknown.")  # fmt: skip
@click.option("--anew", is_flag=True, help="With --replicate: make all of them, kept or not.")
@click.option("--kept", default=str(KEPT), show_default=True, metavar="FOLDER", help="Where replications are kept.")
@click.option("--cache", metavar="FOLDER", help="Batches that are being made [default: the user's cache folder].")
@click.option("--recorded-since", "since", type=click.DateTime(("%Y-%m-%dT%H:%M",)), help="Judge only fault "
              "scenarios, by the recordings made since then (UTC): a fresh set.")  # fmt: skip
@click.option("--live", is_flag=True, help="Run real Slurm now, once for each scenario and in its version, instead of "
              "reading recordings. Needs Docker and PATHs.")  # fmt: skip
@command("check")
def check(
    paths: tuple[str, ...], html: str | None, junitxml: str | None, verdicts: str | None, known: str,
    recordings: str, seed: int, workers: int, out: str | None, every: bool, live: bool, plans: bool,
    core: str, replicate: bool, anew: bool, kept: str, cache: str | None, since: datetime | None, as_json: bool,
) -> ExitCode:  # fmt: skip
    """Judge scenarios (files or folders; default: all shipped) in the twin, beside their recordings."""
    if plans:
        from slurmtwin.cli.plan_replay import replay_plans

        return replay_plans(paths or (recordings,), core, as_json)
    from slurmtwin.campaign.fault_judging import FaultOptions, find_fault_groups, judge_faults
    from slurmtwin.campaign.judging import comparable, find_cases, judge_cases
    from slurmtwin.campaign.pool import make_ready
    from slurmtwin.campaign.replications import default_cache, prune
    from slurmtwin_reports.coverage import load_coverage
    from slurmtwin_reports.faults.rank_histogram import calibration_line, rank_histograms
    from slurmtwin_reports.faults.section import suite_counts, suite_line, suite_rows
    from slurmtwin_reports.judge import make_report
    from slurmtwin_reports.known_differences import load_known_differences
    from slurmtwin_reports.tables import (
        conformance_rows,
        conformance_table,
        scenario_table,
        verdict_dicts,
        verdict_table,
    )
    from slurmtwin_reports.verdict import exit_code

    began = time.monotonic()
    make_ready(JUDGING)
    accepted = load_known_differences(Path(known))
    with tempfile.TemporaryDirectory(prefix="slurmtwin-check-") as scratch:
        root = _recorded_now(paths, Path(out or scratch) / "real") if live else Path(recordings)
        kind_only: list[Path] = []
        files = scenario_files(paths, "scenarios")
        begin_ns = since_ns(since)
        groups = find_fault_groups(files, root, begin_ns)
        files = [path for path in files if path not in {group.path for group in groups}]
        if not paths:
            files, kind_only = comparable(files)
            if kind_only:
                say(f"{len(kind_only)} scenarios of a Kubernetes cluster are for --world kind: nothing to compare here")
        cases = [] if since else find_cases(files, root)
        advance, close = _progress("running the twin")
        try:
            sections = judge_cases(
                cases, Path(out or scratch), seed, workers, advance, drawn=html is not None, kept=out is not None
            )
            folder = Path(cache) if cache else default_cache()
            how = FaultOptions(
                seed=seed, workers=workers, cache=folder, kept=Path(kept), make=replicate, anew=anew, progress=advance,
                since_ns=begin_ns, drawn=html is not None, sections=len(cases) + len(groups),
            )  # fmt: skip
            faults = judge_faults(groups, how)
        finally:
            close()
        prune(folder)
        kind_only += _not_held_against_twin(groups, faults)
        sections += faults
        report = make_report("slurmtwin check", sections, accepted, complete=not paths, ages=since is None)
        if html and not paths:
            report.coverage = load_coverage()
        code = exit_code(report.verdicts)
        wall_s = time.monotonic() - began
        _write_outputs(report, html, junitxml, wall_s)
        figures = [s.conformance for s in report.sections if s.conformance is not None]
        phases = suite_rows([(s.scenario, s.version, s.fault) for s in report.sections if s.fault is not None])
        document = {
            "verdicts": verdict_dicts(report.verdicts), "conformance": conformance_rows(figures),
            "code": int(code), "wall_s": round(wall_s, 3), "seed": seed, "report": html,
            "not_compared": [str(path) for path in kind_only],
            "phases": phases, "phase_counts": suite_counts(phases), "rank_histograms": rank_histograms(phases),
        }  # fmt: skip
        if verdicts:
            write_atomic(Path(verdicts), json_text("check", document))
        if as_json:
            emit_json("check", document)
        else:
            _print(verdict_table(report.verdicts) if every else scenario_table(report.verdicts))
            if figures:
                click.echo()
                _print(conformance_table(figures))
            if phases:
                click.echo()
                click.echo("\n".join(filter(None, (suite_line(phases), calibration_line(phases)))))
    return code


@click.command()
@click.argument("run_a")
@click.argument("run_b")
@click.option("--max-regression", default="5%", show_default=True, help="Largest accepted worsening of B, e.g. 5%.")
@command("compare")
def compare(run_a: str, run_b: str, max_regression: str, as_json: bool) -> ExitCode:
    """Paired differences of two runs, or of two folders of runs; exit 1 when B is surely worse than allowed."""
    from slurmtwin_reports.compare import compare_paths
    from slurmtwin_reports.known_differences import parse_size
    from slurmtwin_reports.tables import comparison_table

    allowed = parse_size(max_regression)
    result = compare_paths(run_a, run_b)
    code = result.exit_code(allowed)
    if as_json:
        emit_json("compare", {
            "changes": [c.to_dict() for c in result.changes], "paired": result.paired,
            "unpaired": list(result.unpaired),
            "identical": result.identical, "max_regression": allowed, "code": int(code),
            "regressions": [c.metric for c in result.regressions(allowed)],
        })  # fmt: skip
    else:
        _print(comparison_table(result))
        if result.unpaired:
            say(f"without a partner: {', '.join(result.unpaired)}")
    return code


@click.command()
@click.argument("runs", nargs=-1, required=True)
@click.option("--out", "html", default="out/report.html", show_default=True, help="The HTML file.")
@command("report")
def report(runs: Sequence[str], html: str, as_json: bool) -> ExitCode:
    """One HTML report of run folders, judged by their properties."""
    from slurmtwin_reports.compare import find_runs
    from slurmtwin_reports.judge import judge_runs, make_report
    from slurmtwin_reports.load import load_run
    from slurmtwin_reports.tables import verdict_dicts
    from slurmtwin_reports.verdict import exit_code

    folders = [folder for text in runs for folder in find_runs(text)]
    sections = [judge_runs([load_run(folder)]) for folder in folders]
    document = make_report("slurmtwin report", sections, complete=False)
    _write_outputs(document, html, None, 0.0)
    code = exit_code(document.verdicts)
    if as_json:
        emit_json("report", {"verdicts": verdict_dicts(document.verdicts), "report": html, "code": int(code)})
    return code
