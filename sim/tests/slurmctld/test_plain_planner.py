"""The bitmap shortcuts answer exactly what the general path answers, with the real node selection."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mini_cluster import EPOCH_S, MiniCluster

from slurmtwin.contract.events import Event, Kind
from slurmtwin.models.slurmctld import backfill
from slurmtwin.models.slurmctld.compiled_planner import CompiledPlanner
from slurmtwin.models.slurmctld.parts import Placement, Refusal
from slurmtwin.models.slurmctld.selection.select_nodes import Selection
from slurmtwin.models.slurmctld.uniform_search import UniformSearch

pytestmark = pytest.mark.property

CONS_TRES = "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\n"

PARAMS = (
    "",
    "SchedulerParameters=bf_resolution=1,bf_window_linear=1",
    "SchedulerParameters=bf_window=10,bf_max_job_test=5",
    "SchedulerParameters=bf_node_space_size=8,bf_interval=5",
)


def real(nodes: int, version: str, passes: bool = True, params: str = "", keep: bool = False) -> MiniCluster:
    """The mini cluster with the real node selection."""
    c = MiniCluster(CONS_TRES + params, version, nodes, passes=False, keep=keep)
    c.ctld.selection = Selection(c.ctld)
    if passes:
        c.passes = True
        c.ctld.background.start()  # type: ignore[attr-defined]
        c.scheduler.start()
    return c


def starts(
    seed: int, version: str, general: bool, params: str, compiled: bool = False
) -> list[tuple[int, int, int | None, int, str]]:
    """The starts of crowded()."""
    return crowded(seed, version, general, params, compiled).started


def crowded(
    seed: int, version: str, general: bool, params: str, compiled: bool = False, every: bool = False,
    keep: bool = False,
) -> MiniCluster:  # fmt: skip
    """A random crowded workload; general: no shortcut at all; compiled: plan_kernel.py from the first cycle on;
    every: each cycle is run, also one that must find what the last one found, as _attempt_backfill() is."""
    draw = random.Random(seed)
    nodes = draw.randint(3, 40)
    c = real(nodes, version, params=params, keep=keep)
    if every:
        c.scheduler.backfill._state = lambda: (object(),)  # type: ignore[method-assign]
    if general:
        c.scheduler.backfill.prune = False
        c.ctld.selection.uniform = lambda _job, _part: None  # type: ignore[method-assign]
    if compiled:
        c.scheduler.backfill._planner = CompiledPlanner(c.ctld, c.scheduler.queue)
    else:
        c.scheduler.backfill._compiled = True
    at = 0
    for number in range(1, draw.randint(10, 60)):
        at += draw.choice((0, 1, draw.randint(1, 90), draw.randint(1, 600)))
        size = min(nodes, draw.choice((1, 1, 2, 3, draw.randint(1, nodes))))
        limit_s = 60 * draw.choice((1, 2, 5, 10, 15, 30, 60, 120))
        run_s = max(1, int(limit_s * draw.choice((1.0, draw.random()))))
        c.at(at, lambda n=number, k=size, t=limit_s, r=run_s: c.submit(n, nodes=k, limit_s=t, run_s=r, ntasks=k))
    c.run()
    return c


@pytest.mark.timeout(900)  # the first run on a machine compiles
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 10**6),
    version=st.sampled_from(["24.11", "26.05"]),
    params=st.sampled_from(PARAMS),
)
def test_kept_plans_start_the_same_jobs_on_the_same_nodes(seed: int, version: str, params: str) -> None:
    """Every start of the plain planner, compiled or not, is the general cycle's, over whole workloads."""
    general = starts(seed, version, True, params)
    assert starts(seed, version, False, params) == general
    assert starts(seed, version, False, params, compiled=True) == general


def rows(c: MiniCluster, cycles: bool = True) -> list[Event]:
    """The run's events, with or without those of backfill cycles."""
    c.sink._flush()
    assert c.sink.kept is not None
    return [event for event in c.sink.kept if cycles or event.kind is not Kind.SCHED_BACKFILL_CYCLE]


@pytest.mark.timeout(900)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), version=st.sampled_from(["24.11", "26.05"]), params=st.sampled_from(PARAMS))
@example(seed=2, version="26.05", params="SchedulerParameters=bf_window=10,bf_max_job_test=5")
def test_a_cycle_is_left_out_when_it_would_find_what_the_last_one_found(seed: int, version: str, params: str) -> None:
    """Slurm runs every cycle that _more_work() asks for: nothing but their rows may be missing where some are left out.

    And how long a cycle holds is counted from the present end of the map (backfill.c makes a new map in each), whether
    or not its plans are older: so both planners leave out the same cycles.
    """
    every = crowded(seed, version, False, params, every=True, keep=True)
    plain = crowded(seed, version, False, params, keep=True)
    compiled = crowded(seed, version, False, params, compiled=True, keep=True)
    assert rows(plain, False) == rows(every, False)
    assert rows(plain) == rows(compiled)


@settings(max_examples=200, deadline=None)
@given(seed=st.integers(0, 10**9), version=st.sampled_from(["24.11", "26.05"]))
def test_the_bitmap_search_is_will_run(seed: int, version: str) -> None:
    """Expected start and nodes equal Selection.will_run() for random running jobs, windows and node sets.

    slurm.md 2.2 "Expected start"
    """
    draw = random.Random(seed)
    nodes = draw.randint(2, 60)
    c = real(nodes, version, passes=False)
    for number in range(1, 25):
        size = draw.randint(1, max(1, nodes // 4))
        c.submit(number, nodes=size, limit_s=60 * draw.randint(1, 90), ntasks=size)
    for job in c.ctld.jobs.values():
        part = job.parts[0]
        found = c.ctld.selection.select_nodes(job, part, c.ctld.nodes.avail, c.ctld.now_s())
        if isinstance(found, Placement):
            c.lifecycle.start(job, part, found, "main")
    everything = (1 << nodes) - 1
    selection = c.ctld.selection
    search = UniformSearch(list(c.ctld.running.values()), everything, 0, version == "24.11", selection.guess_end)
    now_s = EPOCH_S
    for number in range(100, 130):
        size = draw.randint(1, nodes)
        job = c.job(number, nodes=size, ntasks=size)
        uniform = selection.uniform(job, job.parts[0])
        assert uniform is not None
        usable = draw.getrandbits(nodes) | draw.getrandbits(nodes)
        start_s = now_s + draw.choice((0, draw.randint(0, 6000)))
        until_s = draw.choice((0, start_s + draw.randint(1, 4000)))
        now_only = draw.random() < 0.1
        slow = selection.will_run(job, job.parts[0], usable, now_s, start_s, until_s, now_only)
        fast = search.will_run(usable, uniform[0], uniform[1], now_s, start_s, until_s, now_only)
        assert fast == (None if isinstance(slow, Refusal) else slow)


def test_what_one_slurmctld_tested_counts_for_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is killed each hour tests too little alone: compiled code is loaded by what all of them tested."""
    monkeypatch.setattr(backfill, "_COMPILED", "never loaded")
    monkeypatch.setattr(backfill.BackfillAgent, "left_to_test", 1)
    used: list[bool] = []
    for _life in range(2):
        c = real(4, "26.05", passes=False)
        for number in range(1, 9):
            c.submit(number, nodes=3, limit_s=600, ntasks=3)
        for _ in c.scheduler.backfill._cycle():
            pass
        used.append(isinstance(c.scheduler.backfill._planner, CompiledPlanner))
    assert used == [False, True]
