"""Plans whose true answer theory knows: M/M/c, an overloaded queue, an idle one. Says how often the truth lies inside.

    python sim/tests/campaign/known_answers.py --cases 100 [--twin 5] [--jobs 8000]
    python sim/tests/campaign/known_answers.py --first 20 --cases 10 --table known_answers.csv   # a portion, kept

A case is a trace of one-CPU jobs with exponential gaps and run times, seeds 0, 1, 2 ...; the truth is the least c with
P(wait > bound) below 5 % by Erlang C. `--twin N` lets the twin judge the first N cases of each kind too. How narrow an
interval can be is a matter of the trace's length, `--jobs`: where it is more than a tenth of the answer, and more than
one node, the case is planned again on a trace twice as long, DOUBLINGS times at most.
"""

from __future__ import annotations

import argparse
import math
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slurmtwin.campaign.planning.guide import Guide
from slurmtwin.campaign.planning.interval import NARROW
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
DOUBLINGS = 2
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
    jobs: int

    @property
    def narrow(self) -> bool:
        return self.width <= NARROW

    @property
    def one_node(self) -> bool:
        """Two neighbours: no whole counts lie closer, and of few nodes one is more than a tenth."""
        return self.high - self.low <= 1

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


def planned(case: Case, folder: Path, jobs: int = JOBS) -> tuple[PlanTrace, Guide, Cluster]:
    """The case's trace, ready to plan."""
    draw = np.random.default_rng([7, KINDS.index(case.kind), case.seed])
    submit = np.cumsum(draw.exponential(SERVICE_S / case.offered, jobs)).astype(np.int64)
    run = np.maximum(1, np.round(draw.exponential(SERVICE_S, jobs))).astype(np.int64)
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


def find(case: Case, with_twin: bool = False, jobs: int = JOBS, doublings: int = DOUBLINGS) -> Found:
    """The plan of a case, on a trace long enough for a narrow interval or as long as is allowed."""
    found = _find(case, with_twin, jobs)
    if found.narrow or found.one_node or not doublings:
        return found
    return find(case, with_twin, 2 * jobs, doublings - 1)


def _find(case: Case, with_twin: bool, jobs: int) -> Found:
    """The search, its interval, and the twin's word where that is asked for."""
    with tempfile.TemporaryDirectory() as scratch:
        trace, guide, cluster = planned(case, Path(scratch), jobs)
        count = fewest(lambda n: guide.meets(trace.columns, trace.counted, cluster.counts(n)), case.today)
        assert count is not None
        samples = []
        for number in range(RESAMPLES):
            columns, counted = trace.resampled(guide.seed, number)
            samples.append(guide.crossing(columns, counted, count, step=1))
        nodes = count
        if with_twin:
            chosen = trace.counted == 1
            names = np.array(["1 CPU"] * int(chosen.sum()), dtype=object)

            def met(n: int) -> bool:
                return guide.targets[0].met(twin_waits(guide, trace, cluster.counts(n))[chosen], names)

            nodes = fewest(met, count, look_above=False, step=1) or count
        answer = answer_of(guide, trace, nodes, count, samples)
    return Found(case, nodes, answer["low"], answer["high"], jobs)


def _keep(path: Path, number: int, found: Found) -> None:
    """Put a case's row into the table, in order of the cases."""
    rows: dict[int, str] = {}
    if path.exists():
        rows = {int(line.split(",")[0]): line for line in path.read_text().splitlines()[1:]}
    case = found.case
    rows[number] = (
        f"{number},{case.kind},{case.seed},{case.offered:.3f},{case.today},{case.truth},{found.nodes},{found.low},"
        f"{found.high},{'inside' if found.inside else 'outside'},{found.width:.4f},{found.jobs}"
    )
    head = "case,kind,seed,load,today,truth,plan,low,high,verdict,width,jobs"
    path.write_text("\n".join([head, *(rows[number] for number in sorted(rows))]) + "\n")


def main(arguments: list[str]) -> int:
    """Print one line per case and the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=100)
    parser.add_argument("--twin", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=JOBS)
    parser.add_argument("--doublings", type=int, default=DOUBLINGS)
    parser.add_argument("--first", type=int, default=0, help="begin with this case: all of them in portions")
    parser.add_argument("--table", type=Path, help="keep a row per case here, in place of one that is there")
    given = parser.parse_args(arguments)
    found = []
    for number in range(given.first, given.first + given.cases):
        kind, seed = KINDS[number % 3], number // 3
        found.append(find(case_of(kind, seed), seed < given.twin, given.jobs, given.doublings))
        one = found[-1]
        print(  # noqa: T201
            f"{number:3d} {kind:10s} load {one.case.offered:6.2f} truth {one.case.truth:3d} plan {one.nodes:3d} "
            f"[{one.low}, {one.high}] {'inside' if one.inside else 'OUTSIDE'} width {one.width:.1%}, {one.jobs} jobs",
            flush=True,
        )
        if given.table:
            _keep(given.table, number, one)
    inside = sum(one.inside for one in found)
    narrow = sum(one.narrow for one in found)
    neighbours = sum(one.one_node and not one.narrow for one in found)
    print(  # noqa: T201
        f"inside {inside} of {len(found)}; interval at most 10 % of the answer in {narrow}, two neighbouring counts of "
        f"fewer than ten nodes in {neighbours}"
    )
    return 0 if inside >= 0.9 * len(found) and narrow + neighbours == len(found) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
