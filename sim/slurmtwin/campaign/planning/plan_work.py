"""The parts of a plan that do not need each other, over worker processes. Answers come in the order asked."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, cast

import numpy as np

from slurmtwin.campaign.planning.guide import Guide
from slurmtwin.campaign.planning.judge import twin_waits
from slurmtwin.campaign.planning.outages import What, parse_rate
from slurmtwin.campaign.planning.power_saving import powered
from slurmtwin.campaign.planning.search import MOST, fewest
from slurmtwin.campaign.planning.shapes import Counts
from slurmtwin.campaign.planning.target import classes_of
from slurmtwin.campaign.planning.trace import PlanTrace
from slurmtwin.campaign.planning.trace_jobs import TraceColumns
from slurmtwin.campaign.pool import default_workers, end_with_parent, worker_context


@dataclass(frozen=True, slots=True)
class Work:
    """One part: `twin` and `waits` on given counts; `shape` and `what-if` search a count, `sample` its crossing;
    `power`: what power saving would leave running."""

    kind: str
    counts: Counts
    leading: int = 0
    number: int = 0
    change: str = ""


_held: tuple[PlanTrace, Guide] | None = None


def _begin(trace: PlanTrace, guide: Guide) -> None:
    global _held
    _held = (trace, guide)
    end_with_parent()


def _do(work: Work) -> Any:
    assert _held is not None
    return do(work, *_held)


def do(work: Work, trace: PlanTrace, guide: Guide) -> Any:
    """Compute one part."""
    if work.kind == "twin":
        return twin_waits(guide, trace.first(work.leading), work.counts)
    if work.kind == "waits":
        return guide.waits(trace.columns, work.counts)
    if work.kind == "power":
        return powered(trace, guide, work.counts)
    if work.kind == "sample":
        columns, counted = trace.resampled(guide.seed, work.number)
        return guide.crossing(columns, counted, work.counts[0], step=1)
    if work.kind == "shape":
        return _of_shape(trace, guide, work.number)
    return _what_if(trace, guide, work)


def _of_shape(trace: PlanTrace, guide: Guide, place: int) -> dict[str, Any]:
    """The fewest of one shape, the others as they are today."""
    today = guide.cluster.today

    def meets(count: int) -> bool:
        counts = tuple(count if i == place else n for i, n in enumerate(today))
        return sum(counts) > 0 and guide.meets(trace.columns, trace.counted, counts)

    most = MOST * sum(today)
    found = fewest(meets, today[place], 0, most, look_above=False)
    return {"shape": guide.cluster.shapes[place].name, "today": today[place], "fewest": found, "tried_up_to": most}


def _what_if(trace: PlanTrace, guide: Guide, work: Work) -> dict[str, Any]:
    """The fewest under another assumption, and the targets' figures of the count that was enough without it."""
    columns, guide = _assumed(trace.columns, guide, work.change)
    waits = guide.waits(columns, work.counts)[trace.counted == 1]
    names = classes_of(columns)[trace.counted == 1]
    figures = [target.figure(waits, names) for target in guide.targets]
    guess = sum(work.counts)
    nodes = fewest(
        lambda n: guide.meets(columns, trace.counted, guide.cluster.counts(n)), guess, 1, MOST * guess, look_above=False
    )
    return {"nodes": nodes, "figures_s": [None if not math.isfinite(found) else found for found in figures]}


def _assumed(columns: TraceColumns, guide: Guide, change: str) -> tuple[TraceColumns, Guide]:
    """`limit*2`, `run/2`, `outages*0` or `+drain mtbf 30d repair 8h`."""
    if change.startswith("+"):
        what, _, rate = change[1:].partition(" ")
        return columns, replace(guide, rates=[*guide.rates, parse_rate(rate, cast(What, what))])
    name, factor = change[:-2], float(change[-1])
    times = 1 / factor if change[-2] == "/" else factor
    if name == "limit":
        return replace(columns, limit=np.maximum(columns.run, (columns.limit * times).astype(np.int64))), guide
    if name == "run":
        run = np.maximum(1, (columns.run * times).astype(np.int64))
        return replace(columns, run=run, limit=np.maximum(columns.limit, run)), guide
    rates = [replace(rate, between_s=rate.between_s / times) for rate in guide.rates] if times else []
    return columns, replace(guide, rates=rates)


class Bench:
    """The processes, for as long as the plan is made; with one worker everything runs here."""

    def __init__(self, trace: PlanTrace, guide: Guide, workers: int = 0) -> None:
        self._held = (trace, guide)
        self._workers = workers or default_workers()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Bench:
        if self._workers > 1:
            self._pool = ProcessPoolExecutor(self._workers, worker_context(), _begin, self._held)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=True, cancel_futures=True)

    def all(self, works: Sequence[Work], say: Callable[[str], None] = lambda _: None) -> list[Any]:
        """The answers, in order."""
        if self._pool is None:
            return [do(work, *self._held) for work in works]
        futures = [self._pool.submit(_do, work) for work in works]
        out = []
        for done, future in enumerate(futures, 1):
            out.append(future.result())
            if done % 10 == 0:
                say(f"{done}/{len(futures)} parts done")
        return out
