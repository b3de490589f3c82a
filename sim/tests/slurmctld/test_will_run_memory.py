"""Remembered will-run answers change nothing: whole workloads on nodes that jobs share, with and without them."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mini_cluster import MiniCluster

from slurmtwin.models.slurmctld.selection.select_nodes import Selection

pytestmark = pytest.mark.property

NODES = """SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
NodeName=a[0-5] CPUs=4 RealMemory=4000
NodeName=b[0-2] CPUs=8 RealMemory=4000 Weight=2
"""


def starts(seed: int, version: str, text: str, remembered: bool) -> list[tuple[int, int, int | None, int, str]]:
    """A crowded workload with batches of equal jobs."""
    draw = random.Random(seed)
    c = MiniCluster(NODES + text, version, 9, passes=False, keep=False)
    c.ctld.selection = selection = Selection(c.ctld)
    if not remembered:
        selection._plugin.remembers = lambda _query: False  # type: ignore[method-assign]
    c.passes = True
    c.ctld.background.start()  # type: ignore[attr-defined]
    c.scheduler.start()
    at = number = 0
    for _ in range(draw.randint(3, 12)):
        at += draw.choice((0, 1, draw.randint(1, 600)))
        tasks = draw.choice((1, 1, 2, 3, 4, 8, 20))
        more = {"ntasks": tasks, "tasks": tasks, "cpus_min": tasks}
        if draw.random() < 0.3:
            more["ntasks_per_node"] = min(4, tasks)
        limit_s = 60 * draw.choice((1, 5, 10, 60, 120))
        for _ in range(draw.choice((1, 2, 12))):
            number += 1
            run_s = max(1, int(limit_s * draw.choice((1.0, draw.random()))))
            c.at(at, lambda n=number, t=limit_s, r=run_s, m=more: c.submit(n, nodes=1, limit_s=t, run_s=r, **m))
    c.run()
    assert len(c.started) == number
    return c.started


@pytest.mark.timeout(600)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    version=st.sampled_from(["22.05", "24.11", "26.05"]),
    text=st.sampled_from(["", "SchedulerParameters=bf_busy_nodes", "SchedulerParameters=bf_window_linear=60"]),
)
def test_remembered_answers_start_the_same_jobs_on_the_same_nodes(seed: int, version: str, text: str) -> None:
    """Every start is the one that asking anew gives."""
    assert starts(seed, version, text, True) == starts(seed, version, text, False)
