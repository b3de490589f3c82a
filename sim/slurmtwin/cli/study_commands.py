"""`study`: many runs and one question."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurmtwin.cli.output import command, emit_json, emit_rows, say
from slurmtwin.contract.errors import ExitCode

if TYPE_CHECKING:
    from slurmtwin.campaign.campaign import Campaign, Progress

EVERY_S = 30.0
"""Without a terminal a line of progress comes this often."""


@click.command()
@click.argument("file")
@click.option("--out", required=True, help="Folder of the results; what is there already is not run again.")
@click.option("--workers", type=click.IntRange(0), default=0, help="Processes here; 0: one per processor.")
@click.option("--scheduler", default="", metavar="ADDRESS", help="Run on the workers of a Dask scheduler instead.")
@click.option("--shard", default="1/1", metavar="I/N", help="Only every N-th run, for job arrays and indexed Jobs.")
@click.option("--only", default="", metavar="KEY", help="One run again, in this process.")
@click.option("--retry-failed", is_flag=True, help="Run again what failed.")
@click.option("--seeds", type=click.IntRange(1), help="Replications, instead of the file's count.")
@command("study")
def study(
    file: str, out: str, workers: int, scheduler: str, shard: str, only: str, retry_failed: bool, seeds: int | None,
    as_json: bool,
) -> ExitCode:  # fmt: skip
    """Run a study FILE: its designs at every level of its factors with every seed; goes on where it stopped."""
    from slurmtwin.campaign.campaign import Split, parse_shard, run_campaign
    from slurmtwin.campaign.study_file import load_study

    loaded = load_study(file)
    split = Split(workers=workers, scheduler=scheduler, shard=parse_shard(shard), only=only)
    campaign = run_campaign(loaded, Path(out), split, seeds, retry_failed, _Teller().tell)
    document = _document(campaign, file, out)
    if as_json:
        emit_json("study", document)
    else:
        emit_rows(("", ""), [(name, document[name]) for name in ("runs", "ran", "kept", "complete")])
    for failure in document["failed"]:
        say(f"failed: {failure['what']}: {failure['error']}; again: {failure['again']}")
    if campaign.failed:
        return ExitCode.FINDING
    return ExitCode.FINE if campaign.results is not None or split.shard[1] > 1 or only else ExitCode.UNKNOWN


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


class _Teller:
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
