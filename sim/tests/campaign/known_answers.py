"""Plans whose true answer theory knows: M/M/c, an overloaded queue, an idle one. Says how often the truth lies inside.

    python sim/tests/campaign/known_answers.py --cases 100 [--twin 5] [--jobs 8000] [--looks 1]
    python sim/tests/campaign/known_answers.py --first 20 --cases 10 --table known_answers.csv   # a portion, kept

A case is a trace of one-CPU jobs with exponential gaps and run times, seeds 0, 1, 2 ...; the truth is the least c with
P(wait > bound) below 5 % by Erlang C. `--twin N` lets the twin judge the first N cases of each kind too.

How narrow an interval is, is a matter of how much was seen. Where that of one trace is more than a tenth of the answer,
more traces of the same queue are looked at, 16, 64, 256 and 1,024 at most: shares of late jobs are averaged over them,
and the crossing's error is a jackknife's. Each look is paid for out of the 5 % (SPENT, Bonferroni): whenever the
looking ends, the interval holds the truth with 95 %.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from slurmtwin.campaign.planning.guide import Guide
from slurmtwin.campaign.planning.interval import NARROW, crossing, whole
from slurmtwin.campaign.planning.judge import twin_waits
from slurmtwin.campaign.planning.plan import answer_of
from slurmtwin.campaign.planning.search import fewest
from slurmtwin.campaign.planning.shapes import Cluster, cluster_of
from slurmtwin.campaign.planning.target import parse_target
from slurmtwin.campaign.planning.trace import PlanTrace, plan_trace
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds.replay import replay_scenario, trace_of

KINDS = ("mmc", "overloaded", "idle")
JOBS = 50_000
LOOKS = (1, 16, 64, 256, 1024)
"""Traces that each look has, those of the looks before among them."""
SPENT = (0.025, 0.00625, 0.00625, 0.00625, 0.00625)
"""Chance of error that each look may use up: 5 % in all."""
SERVICE_S = 3_600.0
BOUND_S = 600.0
RESAMPLES = 30


@dataclass(frozen=True)
class Case:
    """Offered load in erlangs, today's nodes, and the true answer."""

    kind: str
    seed: int
    offered: float
    today: int
    truth: int


@dataclass(frozen=True)
class Found:
    """What the plan says of a case."""

    case: Case
    nodes: int
    low: int
    high: int
    traces: int

    @property
    def narrow(self) -> bool:
        return self.width <= NARROW

    @property
    def inside(self) -> bool:
        return self.low <= self.case.truth <= self.high

    @property
    def width(self) -> float:
        return (self.high - self.low) / self.nodes


def late(servers: int, offered: float) -> float:
    """P(wait > BOUND_S) in M/M/c (Erlang C); 1 where the queue grows for ever."""
    if offered >= servers:
        return 1.0
    blocking = 1.0
    for k in range(1, servers + 1):
        blocking = offered * blocking / (k + offered * blocking)
    waits = blocking / (1 - offered / servers * (1 - blocking))
    return waits * math.exp(-(servers - offered) * BOUND_S / SERVICE_S)


def case_of(kind: str, seed: int) -> Case:
    """The case of a seed: loads and today's nodes are drawn, the truth is computed."""
    draw = np.random.default_rng([KINDS.index(kind), seed])
    if kind == "idle":
        offered, today = float(draw.uniform(0.2, 2.0)), int(draw.integers(40, 80))
    else:
        today = int(draw.integers(30, 81))
        offered = today * float(draw.uniform(0.6, 0.95) if kind == "mmc" else draw.uniform(1.05, 1.6))
    truth = next(c for c in range(1, 1000) if late(c, offered) < 0.05)
    return Case(kind, seed, offered, today, truth)


def queue(case: Case, jobs: int, trace: int = 0) -> tuple[Any, Any]:
    """When jobs come and how long they run, whole seconds; `trace` 0 is the one that is planned on."""
    draw = np.random.default_rng([7, KINDS.index(case.kind), case.seed, *([trace] if trace else [])])
    submit = np.cumsum(draw.exponential(SERVICE_S / case.offered, jobs)).astype(np.int64)
    return submit, np.maximum(1, np.round(draw.exponential(SERVICE_S, jobs))).astype(np.int64)


def planned(case: Case, folder: Path, jobs: int = JOBS) -> tuple[PlanTrace, Guide, Cluster]:
    """The case's trace, ready to plan."""
    submit, run = queue(case, jobs)
    path = folder / "case.swf"
    rows = zip(submit.tolist(), run.tolist(), strict=True)
    path.write_text(
        "".join(f"{i} {s} -1 {r} 1 -1 -1 1 {r + 60} -1 1 1 1 -1 -1 -1 -1 -1\n" for i, (s, r) in enumerate(rows, 1))
    )
    cluster = cluster_of(replay_scenario([f"{case.today}x1"]), folder)
    conf, _ = cluster_conf(cluster.scenario, folder)
    trace = plan_trace(trace_of(path, "swf"), path, "swf", conf)
    guide = Guide(cluster, tuple(p.name for p in conf.partitions), (parse_target("p95 wait < 10m"),), seed=case.seed)
    return trace, guide, cluster


def find(case: Case, with_twin: bool = False, jobs: int = JOBS, looks: int = len(LOOKS)) -> Found:
    """The plan of a case, on as many traces as a narrow interval asks for or as are allowed."""
    with tempfile.TemporaryDirectory() as scratch:
        trace, guide, cluster = planned(case, Path(scratch), jobs)
    count = fewest(lambda n: guide.meets(trace.columns, trace.counted, cluster.counts(n)), case.today)
    assert count is not None
    samples = []
    for number in range(RESAMPLES):
        columns, counted = trace.resampled(guide.seed, number)
        samples.append(guide.crossing(columns, counted, count, step=1))
    nodes = _by_twin(trace, guide, cluster, count) if with_twin else count
    answer = answer_of(guide, trace, nodes, count, samples, 1 - SPENT[0])
    found = Found(case, nodes, answer["low"], answer["high"], 1)
    first = max(1, found.low - 2)
    counts = range(first, found.high + 3)
    rows: list[list[float]] = []
    for traces, spent in list(zip(LOOKS, SPENT, strict=True))[1:looks]:
        if found.narrow:
            break
        rows += [_used(case, trace, guide, number, counts) for number in range(len(rows), traces)]
        found = Found(case, *pooled(np.array(rows), first, 1 - spent), traces)
    return found


def _by_twin(trace: PlanTrace, guide: Guide, cluster: Cluster, count: int) -> int:
    """The fewest by the twin, searched from the quick model's."""
    chosen = trace.counted == 1
    names = np.array(["1 CPU"] * int(chosen.sum()), dtype=object)

    def met(n: int) -> bool:
        return guide.targets[0].met(twin_waits(guide, trace, cluster.counts(n))[chosen], names)

    return fewest(met, count, look_above=False, step=1) or count


def _used(case: Case, trace: PlanTrace, guide: Guide, number: int, counts: Sequence[int]) -> list[float]:
    """What another trace of the queue, as long as the first, uses up of the target at each count."""
    submit, run = queue(case, len(trace.columns), number)
    columns = replace(trace.columns, submit=submit, run=run, limit=run + 60)
    counted = (submit - submit[0] >= trace.warm_up_s).astype(np.uint8)
    return [guide.used(columns, counted, count)[0] for count in counts]


def pooled(used: Any, first: int, confidence: float) -> tuple[int, int, int]:
    """The answer and its interval in whole counts, from several traces (`crossed`)."""
    middle, low, high = crossed(used, first, confidence)
    return whole(middle), whole(low), whole(high)


def crossed(used: Any, first: int, confidence: float) -> tuple[float, float, float]:
    """Where several traces together just meet the target, and its interval; one trace a row of `used`.

    A row is what of the target is used up at the counts from `first` on. Shares of late jobs are averaged, not
    crossings: their mean has no bias however short a trace is. The error is that of the crossing's logarithm when each
    trace is left out in turn, with Student's t. Raises ValueError when the crossing is not among the counts.
    """
    from scipy.special import stdtrit

    def place(mean: Any) -> float:
        count = first + int(np.argmax(mean < 1))
        if mean[count - first] >= 1 or count == first:
            raise ValueError(f"the crossing is not among the counts from {first} on: {mean}")
        return crossing(lambda n: [float(mean[n - first])], count)

    traces, total = len(used), used.sum(axis=0)
    middle = place(total / traces)
    left_out = np.log([place((total - row) / (traces - 1)) for row in used])
    error = math.sqrt((traces - 1) / traces * float(((left_out - left_out.mean()) ** 2).sum()))
    half = float(stdtrit(traces - 1, (1 + confidence) / 2)) * error
    return middle, middle * math.exp(-half), middle * math.exp(half)


def _keep(path: Path, number: int, found: Found) -> None:
    """Put a case's row into the table, in order of the cases."""
    rows: dict[int, str] = {}
    if path.exists():
        rows = {int(line.split(",")[0]): line for line in path.read_text().splitlines()[1:]}
    case, spent = found.case, SPENT[LOOKS.index(found.traces)]
    rows[number] = (
        f"{number},{case.kind},{case.seed},{case.offered:.3f},{case.today},{case.truth},{found.nodes},{found.low},"
        f"{found.high},{'inside' if found.inside else 'outside'},{found.width:.4f},{found.traces},{spent}"
    )
    head = "case,kind,seed,load,today,truth,plan,low,high,verdict,width,traces,spent"
    path.write_text("\n".join([head, *(rows[number] for number in sorted(rows))]) + "\n")


def main(arguments: list[str]) -> int:
    """Print one line per case and the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--twin", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--looks", type=int, default=len(LOOKS), help="1: one trace alone")
    parser.add_argument("--first", type=int, default=0, help="begin with this case: all of them in portions")
    parser.add_argument("--table", type=Path, help="keep a row per case here, in place of one that is there")
    given = parser.parse_args(arguments)
    found = []
    for number in range(given.first, given.first + given.cases):
        kind, seed = KINDS[number % 3], number // 3
        found.append(find(case_of(kind, seed), seed < given.twin, given.jobs, given.looks))
        one = found[-1]
        print(  # noqa: T201
            f"{number:3d} {kind:10s} load {one.case.offered:6.2f} truth {one.case.truth:3d} plan {one.nodes:3d} "
            f"[{one.low}, {one.high}] {'inside' if one.inside else 'OUTSIDE'} width {one.width:.1%}, "
            f"{one.traces} traces",
            flush=True,
        )
        if given.table:
            _keep(given.table, number, one)
    inside = sum(one.inside for one in found)
    narrow = sum(one.narrow for one in found)
    print(f"inside {inside} of {len(found)}; interval at most 10 % of the answer in {narrow}")  # noqa: T201
    return 0 if inside >= 0.9 * len(found) and narrow == len(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
