"""A trace made ready for planning: what the jobs ask, what they waited, where it has gaps and where it warms up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slurmtwin.campaign.planning.target import classes_of
from slurmtwin.campaign.planning.trace_jobs import TraceColumns, columns_of, fits_some_node
from slurmtwin.contract.errors import InputError
from slurmtwin.engine.random_streams import generator
from slurmtwin.workload.recorded_waits import recorded_waits_s

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import ClusterConf
    from slurmtwin.contract.jobs import JobRequest
    from slurmtwin.workload.trace_file import JobStream

DAY_S: Final = 86_400
GAP_S: Final = 2 * DAY_S
"""No submission for so long: the trace has a hole, or the cluster was closed."""
HOUR_S: Final = 3_600
LONG_TRACE_S: Final = 28 * DAY_S
"""From so long on whole weeks are drawn, else whole days."""
LEAST_BLOCKS: Final = 8
MOST_REFUSED: Final = 0.05
"""Of more jobs that no node can hold, the shapes are not those of the trace."""


@dataclass(frozen=True, slots=True)
class PlanTrace:
    """The jobs with what is known of them."""

    requests: tuple[JobRequest, ...]
    columns: TraceColumns
    recorded_s: Any
    """Recorded wait of each job, NaN where the trace does not say."""
    counted: Any
    """uint8: 1 for jobs behind the warm-up."""
    warm_up_s: int
    account: dict[str, Any]
    notes: tuple[str, ...] = field(default=())

    @property
    def span_s(self) -> int:
        """First to last submission."""
        return int(self.columns.submit[-1] - self.columns.submit[0])

    def first(self, count: int) -> PlanTrace:
        """The leading jobs alone."""
        if count >= len(self.columns):
            return self
        places = np.arange(count)
        return PlanTrace(
            self.requests[:count], self.columns.take(places), self.recorded_s[:count], self.counted[:count],
            self.warm_up_s, self.account, self.notes,
        )  # fmt: skip

    def resampled(self, seed: int, number: int) -> tuple[TraceColumns, Any]:
        """A trace like this one: its days (or weeks) drawn anew with replacement; (columns, counted).

        Blocks keep what goes on within them: bursts, the daily and the weekly cycle. The last one goes on at the
        trace's begin, so every moment has the same chance to be drawn.
        """
        draw = generator(seed, number, "plan.blocks")
        begin, span, length = int(self.columns.submit[0]), self.span_s + 1, self.block_s
        count = self.blocks
        when = self.columns.submit - begin
        places, submits = [], []
        for position, block in enumerate(draw.integers(0, count, count)):
            since = (when - int(block) * length) % span
            inside = np.flatnonzero(since < min(length, span - position * length))
            places.append(inside)
            submits.append(begin + position * length + since[inside])
        drawn = self.columns.take(np.concatenate(places), np.concatenate(submits))
        counted = (drawn.submit - begin >= self.warm_up_s).astype(np.uint8)
        return drawn, counted

    @property
    def blocks(self) -> int:
        """How many blocks a drawn trace is put together from."""
        return -(-(self.span_s + 1) // self.block_s)

    @property
    def block_s(self) -> int:
        """Length of a block: a week of a long trace, a day, or an eighth of a trace of few days."""
        if self.span_s >= LONG_TRACE_S:
            return 7 * DAY_S
        return DAY_S if self.span_s >= LEAST_BLOCKS * DAY_S else max(1, (self.span_s + 1) // LEAST_BLOCKS)


def plan_trace(
    stream: JobStream, path: Path, form: str, conf: ClusterConf, growth: float = 0.0, seed: int = 0
) -> PlanTrace:
    """Read a trace for planning; `growth` 0.2 adds a fifth of its jobs again. Raises InputError without jobs."""
    requests = list(stream)
    if not requests:
        raise InputError(f"{path}: the trace has no jobs")
    notes: list[str] = []
    waits = recorded_waits_s(path, form)
    known = np.array([waits.get(job.job_id, np.nan) for job in requests], float)
    if growth:
        requests, known = _grown(requests, known, growth, seed)
        notes.append(f"{growth:+.0%} jobs: each is there again with that chance, a whole number of days away")
    columns = columns_of(requests, conf)
    fits = fits_some_node(columns, conf)
    if not fits.all():
        notes.append(_refused(columns, fits, path))
        columns = columns.take(np.flatnonzero(fits))
    by_number = {job.job_id: place for place, job in enumerate(requests)}
    order = np.array([by_number[number] for number in columns.number.tolist()])
    requests = [requests[place] for place in order]
    known = known[order]
    warm_up_s = _warm_up_s(columns)
    notes += _gap_notes(columns.submit)
    if warm_up_s:
        notes.append(
            f"warm-up: the first {warm_up_s / DAY_S:.1f} days fill the cluster and are not counted (MSER-5 on demand)"
        )
    unsupported = sum(1 for job in requests if job.array or job.dependency or job.after_job)
    if unsupported:
        notes.append(f"{unsupported} jobs are arrays or wait for others: the quick model takes each as one plain job")
    counted = (columns.submit - columns.submit[0] >= warm_up_s).astype(np.uint8)
    return PlanTrace(tuple(requests), columns, known, counted, warm_up_s, stream.account.as_dict(), tuple(notes))


def _refused(columns: TraceColumns, fits: Any, path: Path) -> str:
    """What is said of jobs that slurmctld would refuse. Raises InputError where they are more than a few."""
    number, first = int((~fits).sum()), int(np.flatnonzero(~fits)[0])
    memory = int(columns.memory[first])
    one = f"the first is job {columns.number[first]}: {columns.cpus[first]} CPUs and {memory} MiB on a node"
    if number > MOST_REFUSED * len(columns):
        hint = "name CPUs and memory of a node: --nodes 100x64x256G, or --slurm-conf FILE"
        raise InputError(f"{path}: {number} of {len(columns)} jobs fit no node of today's shapes; {one}", hint=hint)
    return f"{number} jobs fit no node of today's shapes, however many there are, and are left out; {one}"


def _warm_up_s(columns: TraceColumns) -> int:
    """When demand has settled: MSER-5 on the CPUs, hour by hour, that would run if every job began at once.

    Demand depends on the trace alone, so every candidate is judged by the same jobs.
    """
    from slurmtwin_reports.warm_up import mser5

    begin = int(columns.submit[0])
    hours = int(columns.submit[-1] - begin) // HOUR_S + 1
    change = np.zeros(hours + 1)
    cpus = columns.total_cpus
    first = (columns.submit - begin) // HOUR_S
    last = np.minimum((columns.submit + columns.run - begin) // HOUR_S, hours)
    np.add.at(change, first, cpus)
    np.add.at(change, last, -cpus)
    cut = mser5(np.cumsum(change)[:hours].tolist())
    return 0 if cut is None else cut * HOUR_S


def _gap_notes(submit: Any) -> list[str]:
    gaps = np.diff(submit)
    notes = []
    for place in np.flatnonzero(gaps >= GAP_S)[:5]:
        day = (int(submit[place]) - int(submit[0])) / DAY_S
        notes.append(f"gap: nothing was submitted for {gaps[place] / DAY_S:.1f} days from day {day:.1f} on")
    return notes


def _grown(requests: Sequence[JobRequest], known: Any, growth: float, seed: int) -> tuple[list[JobRequest], Any]:
    """More (or fewer) jobs of the same kind: copies at the same time of another day, or jobs left out."""
    from dataclasses import replace

    draw = generator(seed, 0, "plan.growth")
    chance = draw.random(len(requests))
    if growth < 0:
        kept = [place for place in range(len(requests)) if chance[place] >= -growth]
        return [requests[place] for place in kept], known[kept]
    begin_ns, end_ns = requests[0].submit_ns, requests[-1].submit_ns
    day_ns = DAY_S * 10**9
    days = max(1, (end_ns - begin_ns) // day_ns)
    number = max(job.job_id for job in requests)
    out, waits = list(requests), known.tolist()
    whole, rest = int(growth), growth - int(growth)
    for place, job in enumerate(requests):
        for _ in range(whole + (chance[place] < rest)):
            number += 1
            moved = (job.submit_ns - begin_ns + int(draw.integers(0, days)) * day_ns) % (days * day_ns)
            out.append(replace(job, job_id=number, submit_ns=begin_ns + moved, cancel_ns=None))
            waits.append(float("nan"))
    order = sorted(range(len(out)), key=lambda i: (out[i].submit_ns, out[i].job_id))
    return [out[i] for i in order], np.array(waits)[order]


def demand(trace: PlanTrace) -> dict[str, float]:
    """Offered CPUs on average over the counted span, and the most that would run at once."""
    columns = trace.columns
    work = float((columns.total_cpus * columns.run)[trace.counted == 1].sum())
    span = max(1, trace.span_s - trace.warm_up_s)
    return {"jobs": float(len(columns)), "days": trace.span_s / DAY_S, "mean_cpus": work / span}


def classes(trace: PlanTrace) -> Any:
    """The size class of each job."""
    return classes_of(trace.columns)
