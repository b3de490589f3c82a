"""The benchmark workloads start as in the plain model: 1,000 one-CPU nodes, 26.05 defaults, the real node choice."""

from __future__ import annotations

import re

import pytest
from mini_cluster import MiniCluster
from plain_model import PlainJob, PlainSlurm

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.selection.select_nodes import Selection
from slurmtwin.workload.synthetic import synthetic

NODES = 1000


def plainly_chosen(free: int, count: int) -> int:
    """slurm.md 1.3 "cons_tres default placement": the tightest run of nodes that suffices, else the longest."""
    if count == 1:
        return free & -free  # 26.05: a job of at most one node gets the first
    taken = 0
    while True:
        runs = [(run.start(), run.end()) for run in re.finditer("1+", bin(free)[:1:-1])]
        enough = [run for run in runs if run[1] - run[0] >= count]
        best = min(enough, key=size) if enough else max(runs, key=size)
        for node in range(*best)[:count]:
            taken, free, count = taken | 1 << node, free ^ 1 << node, count - 1
        if not count:
            return taken


def size(run: tuple[int, int]) -> int:
    """Nodes of a run (first, behind the last)."""
    return run[1] - run[0]


def workload(name: str) -> list[PlainJob]:
    """The synthetic workload; Slurm keeps limits in whole minutes."""
    w = synthetic(name)
    rows = zip(w.submit_s, w.size, w.run_s, w.limit_s, strict=True)
    return [PlainJob(i, at, size, run, -(-limit // 60) * 60) for i, (at, size, run, limit) in enumerate(rows, 1)]


def twin(jobs: list[PlainJob]) -> dict[int, tuple[int, int]]:
    """The model's schedulers and node selection."""
    c = MiniCluster("SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU", nodes=NODES, passes=False, keep=False)
    c.ctld.selection = Selection(c.ctld)
    c.passes = True
    c.ctld.background.start()  # type: ignore[attr-defined]
    c.scheduler.start()
    for job in jobs:
        c.at(
            job.submit_s,
            lambda j=job: c.submit(
                j.number, cpus_min=j.nodes, tasks=j.nodes, ntasks=j.nodes, limit_s=j.limit_s, run_s=j.run_s
            ),
        )
    c.run()
    return {number: (ns // SECOND, held) for ns, number, _task, held, _by in c.started}


@pytest.mark.parametrize(
    "name",
    [
        "w500",
        "o500",
        pytest.param("w5000", marks=[pytest.mark.bench, pytest.mark.slow, pytest.mark.timeout(3600)]),
        pytest.param("o5000", marks=[pytest.mark.bench, pytest.mark.slow, pytest.mark.timeout(7200)]),
    ],
)
def test_the_benchmark_workload_starts_as_in_the_plain_model(name: str) -> None:
    """Every start second and every node set is equal."""
    jobs = workload(name)
    found = twin(jobs)
    assert found == PlainSlurm(NODES, plainly_chosen).run(jobs)
