"""A campaign: the runs of a study that have no result yet, computed somewhere, kept as they finish.

It can be stopped at any moment and begun again; it can be split in shards that share a folder or copy theirs
together. Whatever way it was split, results.jsonl has the same bytes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from slurmtwin.campaign.case_run import Result
from slurmtwin.campaign.cases import Case, cases
from slurmtwin.campaign.executors import Answers, in_processes, in_this_process, on_dask
from slurmtwin.campaign.pool import default_workers
from slurmtwin.campaign.result_store import ResultStore
from slurmtwin.campaign.study_file import LoadedStudy
from slurmtwin.contract.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Split:
    """How the work is spread: processes here, a Dask scheduler, one part of several, one run alone."""

    workers: int = 0
    """0: one per processor."""
    scheduler: str = ""
    shard: tuple[int, int] = (1, 1)
    """(i, n): the cases whose number leaves i - 1 when divided by n."""
    only: str = ""
    """The key of a single run, or its beginning."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a campaign is."""

    done: int
    total: int
    failed: int
    left_s: float | None
    """Wall seconds still to go at the pace so far; None before the first run is done."""


@dataclass(slots=True)
class Campaign:
    """What came of it."""

    total: int
    """Cases of the whole study."""
    ran: int = 0
    kept: int = 0
    """Results of this part that were there before."""
    failed: list[tuple[Case, str]] = field(default_factory=list)
    """Every failed run of the study's cases seen, with its error."""
    results: list[Result] | None = None
    """All results in order, or None while some are missing (another shard's)."""


def parse_shard(text: str) -> tuple[int, int]:
    """`2/3` -> (2, 3). Raises InputError."""
    part, slash, whole = text.partition("/")
    if slash and part.isdigit() and whole.isdigit() and 1 <= int(part) <= int(whole) <= 1_000_000:
        return int(part), int(whole)
    raise InputError(f"not a shard: {text!r}", hint="I/N with I from 1 to N, for example 2/3")


def run_campaign(
    loaded: LoadedStudy, out: Path, split: Split | None = None, seeds: int | None = None,
    retry_failed: bool = False, progress: Callable[[Progress], None] | None = None,
) -> Campaign:  # fmt: skip
    """Run what is missing of a study into `out`. Raises InputError for a wrong study or folder."""
    split = split or Split()
    wanted = list(cases(loaded, seeds))
    part = _part(wanted, split)
    store = ResultStore(out)
    store.open(loaded)
    todo = part if split.only else list(store.missing(part, retry_failed))
    campaign = Campaign(total=len(wanted), kept=len(part) - len(todo))
    began = time.monotonic()
    failures = 0
    for case, result in _answers(loaded, todo, split):
        store.put(case, result)
        campaign.ran += 1
        failures += result["status"] == "failed"
        if progress:
            left = (time.monotonic() - began) / campaign.ran * (len(todo) - campaign.ran)
            progress(Progress(campaign.kept + campaign.ran, len(part), failures, left))
    campaign.results = store.write_all(wanted)
    found = campaign.results or [r for case in part if (r := store.get(case)) is not None]
    by_key = {case.key: case for case in wanted}
    campaign.failed = [(by_key[r["key"]], r["error"]) for r in found if r["status"] == "failed"]
    return campaign


def _part(wanted: list[Case], split: Split) -> list[Case]:
    if split.only:
        found = [case for case in wanted if case.key.startswith(split.only)]
        if len(found) != 1:
            raise InputError(f"{len(found)} runs of this study have a key that begins with {split.only!r}")
        return found
    place, count = split.shard
    return [case for case in wanted if case.index % count == place - 1]


def _answers(loaded: LoadedStudy, todo: Iterable[Case], split: Split) -> Answers:
    todo = list(todo)
    if split.scheduler:
        return on_dask(loaded, todo, split.scheduler)
    workers = min(split.workers or default_workers(), len(todo))
    if workers <= 1 or split.only:
        return in_this_process(loaded, todo)
    return in_processes(loaded, todo, workers)
