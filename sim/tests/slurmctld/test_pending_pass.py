"""One backfill cycle over 100,000 pending jobs: `nox -s bench` (bar: 1 s of one core)."""

from __future__ import annotations

from typing import Any

import pytest
from mini_cluster import MiniCluster

from slurmtwin.models.slurmctld.compiled_planner import CompiledPlanner
from slurmtwin.models.slurmctld.plain_planner import PlainPlanner
from slurmtwin.models.slurmctld.selection.select_nodes import Selection
from slurmtwin.workload.synthetic import synthetic

CONS_TRES = "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n"


@pytest.mark.bench
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("planner", [PlainPlanner, CompiledPlanner])
def test_a_cycle_over_100000_pending_jobs(benchmark: Any, planner: type[PlainPlanner]) -> None:
    """The first cycle behind a main pass, 1,000 one-CPU nodes, default settings; jobs tested are in extra_info."""
    c = MiniCluster(CONS_TRES, nodes=1000, passes=False, keep=False)
    c.ctld.selection = Selection(c.ctld)
    w = synthetic("w100000")
    for number, (size, limit_s) in enumerate(zip(w.size, w.limit_s, strict=True), 1):
        minutes_s = -(-limit_s // 60) * 60
        c.submit(number, cpus_min=size, tasks=size, ntasks=size, limit_s=minutes_s, run_s=minutes_s)
    c.scheduler.run_pass(full=True)
    planning = planner(c.ctld, c.scheduler.queue)
    assert planning.fits()
    benchmark.pedantic(planning.cycle, rounds=1)
    benchmark.extra_info.update(pending=len(c.scheduler.queue), tested=planning.tested, started=planning.started)
