"""`study`: many runs and one question."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmtwin.cli.output import command, emit_json, emit_rows, say
from slurmtwin.contract.errors import ExitCode

if TYPE_CHECKING:
    from slurmtwin.campaign.campaign import Campaign, Progress, Split
    from slurmtwin.campaign.study_file import LoadedStudy

EVERY_S = 30.0
"""Without a terminal a line of progress comes this often."""
QUICK_SEEDS = 4


@click.command()
@click.argument("file")
@click.option("--out", required=True, help="Folder of the results; what is there already is not run again.")
@click.option("--workers", type=click.IntRange(0), default=0, help="Processes here; 0: one per processor.")
@click.option("--scheduler", default="", metavar="ADDRESS", help="Run on the workers of a Dask scheduler instead.")
@click.option("--shard", default="1/1", metavar="I/N", help="Only every N-th run, for job arrays and indexed Jobs.")
@click.option("--only", default="", metavar="KEY", help="One run again, in this process.")
@click.option("--retry-failed", is_flag=True, help="Run again what failed.")
@click.option("--seeds", type=click.IntRange(1), help="Replications, instead of the file's count.")
@click.option("--quick", is_flag=True, help=f"{QUICK_SEEDS} replications: a first look in a few minutes.")
@click.option("--report", help="Write what the study says as one offline HTML file.")
@click.option("--keep", metavar="DIR", help="Write it for the documentation: DIR/NAME.md, .html and tables as CSV.")
@command("study")
def study(
    file: str, out: str, workers: int, scheduler: str, shard: str, only: str, retry_failed: bool, seeds: int | None,
    quick: bool, report: str | None, keep: str | None, as_json: bool,
) -> ExitCode:  # fmt: skip
    """Run a study FILE: its designs at every level of its factors with every seed; goes on where it stopped."""
    from slurmtwin.campaign.campaign import Split, parse_shard, run_campaign
    from slurmtwin.campaign.study_file import load_study

    loaded = load_study(file)
    if quick and seeds is None:
        seeds = min(QUICK_SEEDS, loaded.study.seeds.count)
    split = Split(workers=workers, scheduler=scheduler, shard=parse_shard(shard), only=only)
    campaign = run_campaign(loaded, Path(out), split, seeds, retry_failed, Teller().tell)
    campaign = _until_narrow(loaded, Path(out), split, seeds, campaign)
    document = _document(campaign, file, out)
    if campaign.results is not None and not only:
        _write_findings(loaded, Path(out), campaign.results, report, keep, seeds)
    if as_json:
        emit_json("study", document)
    else:
        emit_rows(("", ""), [(name, document[name]) for name in ("runs", "ran", "kept", "complete")])
    for failure in document["failed"]:
        say(f"failed: {failure['what']}: {failure['error']}; again: {failure['again']}")
    if campaign.failed:
        return ExitCode.FINDING
    return ExitCode.FINE if campaign.results is not None or split.shard[1] > 1 or only else ExitCode.UNKNOWN


def _until_narrow(
    loaded: LoadedStudy, out: Path, split: Split, seeds: int | None, campaign: Campaign
) -> Campaign:  # fmt: skip
    """More seeds, a quarter more each time, until every half-width is narrow enough or the file's `most` is reached."""
    from slurmtwin.campaign.campaign import run_campaign
    from slurmtwin_reports.study_statistics import StudyTable, widest

    asked = loaded.study.seeds
    count = seeds or asked.count
    while seeds is None and count < asked.most and campaign.results is not None and not split.only:
        share, where = widest(StudyTable(campaign.results), loaded.study.metrics)
        if share <= asked.half_width:
            break
        count = min(asked.most, count + max(2, count // 4))
        say(f"half-width {share:.1%} in {where}: {count} seeds")
        more = run_campaign(loaded, out, split, count, progress=Teller().tell)
        more.ran += campaign.ran
        campaign = more
    return campaign


def _write_findings(
    loaded: LoadedStudy,
    out: Path,
    results: list[dict[str, Any]],
    report: str | None,
    keep: str | None,
    seeds: int | None,
) -> None:
    """The tables of the study in its folder, and the page where one is asked for."""
    import json
    import shlex
    import sys

    from slurmtwin.campaign.planning.plan_files import write_tables
    from slurmtwin_reports.study_report import StudyFindings, write_study_report

    kept = out / "sensitivity.json"
    sensitivity = json.loads(kept.read_text(encoding="utf-8"))["rows"] if kept.exists() else []
    findings = StudyFindings(loaded.study.model_dump(mode="json", by_alias=True), results, sensitivity)
    write_tables(out / "tables", findings.tables())
    if report:
        write_study_report(Path(report), findings, " ".join(["slurmtwin", *map(shlex.quote, sys.argv[1:])]))
        say(f"report: {report}")
    if keep:
        from slurmtwin_reports.study_markdown import write_kept

        fewer = f" --seeds {seeds}" if seeds is not None else ""
        again = f"slurmtwin study {loaded.path} --out {loaded.study.name}{fewer} --keep {keep}"
        say(f"kept: {write_kept(Path(keep), findings, again)}")


def _document(campaign: Campaign, file: str, out: str) -> dict[str, Any]:
    from slurmtwin.campaign.result_store import replay_command

    failed = [
        {"what": f"{case.design} {case.point} seed {case.seed}".replace("  ", " "), "error": why,
         "again": replay_command(file, out, case)}
        for case, why in campaign.failed
    ]  # fmt: skip
    return {
        "runs": campaign.total, "ran": campaign.ran, "kept": campaign.kept,
        "complete": campaign.results is not None, "failed": failed, "out": out,
    }  # fmt: skip


class Teller:
    """Progress with the time left: a bar on a terminal, else a line now and then."""

    def __init__(self) -> None:
        from rich.console import Console

        self._console = Console(stderr=True)
        self._next_s = time.monotonic() + EVERY_S

    def tell(self, progress: Progress) -> None:
        """Called after each run."""
        left = "" if progress.left_s is None else f", {_span(progress.left_s)} left"
        failed = f", {progress.failed} failed" if progress.failed else ""
        text = f"{progress.done}/{progress.total} runs{failed}{left}"
        if self._console.is_terminal:
            end = "\n" if progress.done == progress.total else "\r"
            self._console.print(f"{text:<60}", end=end, highlight=False)
        elif time.monotonic() >= self._next_s or progress.done == progress.total:
            say(text)
            self._next_s = time.monotonic() + EVERY_S


def _span(seconds: float) -> str:
    """A wall time in words a person reads: `40 s`, `12 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
