"""The model equals textbook FCFS, EASY and conservative backfill where Slurm's settings make it one of them.

More than 5,000 generated cases, every start second and node set equal. Slurm gets exact times: bf_resolution=1,
bf_window_linear=1 (running jobs leave one by one), a window of 30 days, and a decision at every event; times of
one case lie more than a minute apart, as Slurm looks at ends within one minute together (slurm.md 2.2
"Precision loss").
"""

from __future__ import annotations

import random
from functools import lru_cache
from itertools import pairwise

import pytest
from mini_cluster import MiniCluster, conf_of
from textbook import Conservative, Easy, Fcfs, Job, Textbook

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster import ClusterConf
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import Job as ModelJob
from slurmtwin.models.slurmctld.tables import bits

pytestmark = pytest.mark.oracle

EXACT = "SchedulerParameters=bf_resolution=1,bf_window=43200,bf_window_linear=1"
SETTINGS: dict[type[Textbook], str] = {
    Fcfs: "SchedulerType=sched/builtin",
    Easy: EXACT + ",bf_job_part_count_reserve=1",
    Conservative: EXACT,
}
BATCH = 56
BATCHES = 30


@lru_cache(maxsize=64)
def conf(text: str, nodes: int) -> ClusterConf:
    return conf_of(text, "26.05", nodes)


def generated(seed: int) -> tuple[int, list[Job]]:
    """A machine of 2 to 9 nodes and up to 18 jobs that crowd it."""
    draw = random.Random(seed)
    nodes = draw.randint(2, 9)
    jobs, at = [], 0
    for number in range(1, draw.randint(6, 18) + 1):
        at += draw.choice((0, 0, 0, draw.randint(61, 40_000)))
        limit = draw.randint(1_000, 150_000)
        run = draw.choice((limit, draw.randint(61, limit)))
        jobs.append(Job(number, at, draw.randint(1, nodes), run, limit))
    return nodes, jobs


def crowded(oracle: Textbook) -> bool:
    """Two ends lie within a minute: Slurm may look at them together."""
    ends = sorted({e for j in oracle.jobs if j.start is not None for e in (j.start + j.run, j.start + j.limit)})
    return any(b - a <= 61 for a, b in pairwise(ends))


class EventDriven(MiniCluster):
    """A decision at every instant with an arrival or an end: one main pass, then one backfill cycle."""

    def __init__(self, text: str, nodes: int) -> None:
        super().__init__(nodes=nodes, passes=False, keep=False, conf=conf(text, nodes))
        self._asked = False

    def ask(self) -> None:
        if not self._asked:
            self._asked = True
            self.env.call_at(self.env.now_ns, self._decide, None, 2)

    def _decide(self, _argument: object) -> None:
        self._asked = False
        self.scheduler.run_pass()
        if self.scheduler.backfill.enabled:
            self.scheduler.backfill.run_cycle()

    def arrive(self, job: ModelJob) -> ModelJob:
        self.ask()
        return super().arrive(job)


def model(text: str, nodes: int, jobs: list[Job]) -> dict[int, tuple[int, tuple[int, ...]]]:
    """The model's starts."""
    cluster = EventDriven(text, nodes)
    end = cluster.lifecycle.end

    def end_and_ask(job: ModelJob, state: JobState, reason: str = "") -> None:
        end(job, state, reason)
        cluster.ask()

    cluster.lifecycle.end = end_and_ask  # type: ignore[method-assign]
    for job in jobs:
        cluster.at(job.submit, lambda j=job: cluster.submit(j.number, nodes=j.nodes, limit_s=j.limit, run_s=j.run))
    cluster.run()
    return {n: (ns // SECOND, tuple(bits(held))) for ns, n, _task, held, _by in cluster.started}


@pytest.mark.parametrize("batch", range(BATCHES))
@pytest.mark.parametrize("kind", [Fcfs, Easy, Conservative])
def test_every_start_is_the_textbooks(kind: type[Textbook], batch: int) -> None:
    """56 cases a batch, 5,040 in all: FCFS is sched/builtin, EASY one reservation, conservative all of them.

    slurm.md 2.2 "sched/builtin"
    slurm.md 2.2 "Kind of backfill"
    """
    checked = seed = 0
    while checked < BATCH:
        seed += 1
        nodes, jobs = generated(seed * 1_000_003 + batch)
        oracle = kind(nodes, jobs)
        expected = oracle.run()
        if kind is not Fcfs and crowded(oracle):
            continue
        found = model(SETTINGS[kind], nodes, jobs)
        assert found == expected, (nodes, [(j.submit, j.nodes, j.run, j.limit) for j in jobs])
        checked += 1


@pytest.mark.parametrize("kind", [Fcfs, Easy, Conservative])
def test_the_three_differ_from_each_other(kind: type[Textbook]) -> None:
    """The oracles would notice one being taken for another."""
    others = [k for k in (Fcfs, Easy, Conservative) if k is not kind]
    for other in others:
        differences = 0
        for seed in range(200):
            nodes, jobs = generated(seed)
            first = kind(nodes, jobs).run()
            nodes, jobs = generated(seed)
            differences += first != other(nodes, jobs).run()
        assert differences > 10
