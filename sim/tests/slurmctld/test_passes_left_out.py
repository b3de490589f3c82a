"""A full pass that would find what the last one found is left out: its row may be missing, nothing else.

slurmctld itself makes every pass (schedule(), job_scheduler.c): with all of them made, the other rows and the begins
of backfill's cycles, which go by what passes stamp, are the oracle.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mini_cluster import EPOCH_S, MiniCluster

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.models.slurmctld.selection.select_nodes import Selection
from slurmtwin.models.slurmctld.states import Reason

pytestmark = pytest.mark.property

NODES = """SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
NodeName=n[0-3] CPUs=4 CoresPerSocket=4 RealMemory=4000 Feature=old
NodeName=n[4-9] CPUs=8 CoresPerSocket=8 RealMemory=16000 Feature=new Weight=5
PartitionName=main Nodes=ALL Default=YES MaxTime=UNLIMITED State=UP
"""
OLD, ALL = 0b1111, 0b11_1111_1111
PARAMS = (
    "",
    "SchedulerParameters=sched_min_interval=20000000",
    "SchedulerParameters=bf_min_age_reserve=300",
    "SchedulerParameters=bf_min_prio_reserve=50",
    "SchedulerParameters=bf_max_job_test=3,default_queue_depth=4",
)


def request(draw: random.Random) -> dict[str, object]:
    """What one job asks for beside its time."""
    nodes = draw.choice((1, 1, 2, 4, 10))
    more: dict[str, object] = {"nodes": nodes, "ntasks": nodes * draw.choice((1, 3, 4, 8)), "nodes_max": 10}
    if draw.random() < 0.3:
        more["mem_per_cpu_mib"] = draw.choice((100, 900, 3000))
    if draw.random() < 0.3:
        more["constraint"] = draw.choice(("old", "new", "old|new"))
    if draw.random() < 0.15:
        more["nodelist"] = draw.choice(("n0", "n[4-5]"))
    if draw.random() < 0.2:
        more["exclusive"] = "node"
    if draw.random() < 0.2:
        more["licenses"] = (("a", 1),)
    return more | {"priority": draw.choice((1, 1, 100))}


def cluster(params: str, version: str, every: bool) -> tuple[MiniCluster, list[int]]:
    """(a cluster with the real node selection, when its backfill cycles begin); every: no pass is left out."""
    c = MiniCluster(f"{NODES}Licenses=a:1\n{params}", version, passes=False)
    c.ctld.selection = Selection(c.ctld)
    if every:
        c.scheduler._state = lambda: None  # type: ignore[method-assign]
    begins: list[int] = []
    agent = c.scheduler.backfill
    begin = agent._begin
    agent._begin = lambda: (begins.append(c.env.now_ns), begin())[1]  # type: ignore[method-assign]
    c.passes = True
    c.ctld.background.start()  # type: ignore[attr-defined]
    c.scheduler.start()
    return c, begins


def played(seed: int, version: str, params: str, every: bool) -> tuple[list[Event], list[int]]:
    """Rows but those of passes, and begins of cycles, of a random workload on machines that go and come."""
    draw = random.Random(seed)
    c, begins = cluster(params, version, every)
    at = 0.0
    for number in range(1, draw.randint(3, 25)):
        at += draw.choice((0, 1, draw.randint(1, 90), draw.randint(1, 900), 0.002))
        limit_s = 60 * draw.choice((1, 5, 30, 120, 600))
        run_s = max(1, int(limit_s * draw.choice((1.0, draw.random()))))
        asked = request(draw)
        if draw.random() < 0.1:
            asked["deadline_s"] = EPOCH_S + int(at) + limit_s + draw.randint(60, 2000)
        c.at(at, lambda n=number, t=limit_s, r=run_s, q=asked: c.submit(n, limit_s=t, run_s=r, **q))
    for _ in range(draw.randint(0, 3)):
        gone = draw.choice((OLD, ALL ^ OLD, draw.randrange(ALL)))
        at_s, told = draw.randint(1, 4000), draw.random() < 0.5
        c.at(at_s, lambda g=gone, t=told: set_avail(c, ALL & ~g, t))
        c.at(at_s + draw.randint(1, 2000), lambda t=told: set_avail(c, ALL, t))
    c.run(20_000)
    c.sink._flush()
    assert c.sink.kept is not None
    return [event for event in c.sink.kept if event.kind is not Kind.SCHED_MAIN_PASS], begins


def set_avail(c: MiniCluster, nodes: int, told: bool) -> None:
    """Machines are drained or come back; told: a pass is asked for."""
    c.ctld.nodes.avail = nodes
    if told:
        c.ctld.last_node_update_s = c.ctld.now_s()
        c.scheduler.queue_pass()


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), version=st.sampled_from(["22.05", "24.11", "26.05"]), params=st.sampled_from(PARAMS))
def test_nothing_but_rows_of_passes_is_missing(seed: int, version: str, params: str) -> None:
    """Jobs of CPUs, memory, features, named nodes, whole nodes and licences, on machines of two kinds."""
    assert played(seed, version, params, every=False) == played(seed, version, params, every=True)


def test_a_job_that_waits_for_a_week_costs_no_pass_a_minute() -> None:
    """Twenty tasks on machines of four and of eight CPUs: no bitmap shortcut knows it, and nothing changes."""
    made = []
    for every in (False, True):
        c, _ = cluster("", "26.05", every)
        for number in (1, 2, 3):
            c.submit(number, nodes=10, ntasks=20, limit_s=7 * 86_400, run_s=7 * 86_400)
        c.run(6 * 86_400)
        made.append(c.kinds().count(Kind.SCHED_MAIN_PASS))
    assert made[0] < 10
    assert made[1] > 6 * 1440


@pytest.mark.parametrize("every", [False, True])
def test_a_refusal_stamps_when_it_is_new_and_not_each_minute(every: bool) -> None:
    """The machines of a feature are drained: the pass that finds it out stamps, the next ones find the reason there.

    A backfill cycle begins after the submission and after the new reason, and then no more.
    """
    c, begins = cluster("", "26.05", every)
    c.at(5, lambda: c.submit(1, nodes=2, ntasks=8, constraint="old", limit_s=3600, run_s=3600))
    c.at(10, lambda: c.submit(2, nodes=2, ntasks=8, constraint="old", limit_s=3600, run_s=3600))
    c.at(20, lambda: c.submit(3, nodes=2, ntasks=8, constraint="old", limit_s=3600, run_s=3600))
    c.at(100, lambda: set_avail(c, ALL & ~OLD, told=False))
    c.run(3000)
    assert c.ctld.jobs[3].reason == Reason.NODE_NOT_AVAIL
    assert begins == [at_s * SECOND for at_s in (30, 60, 90, 120, 150)]


def test_a_refusal_that_stamps_nothing_leaves_the_stamp_of_the_submission() -> None:
    """All machines are taken: the job of 400 s is refused in that second, and backfill tries it at its look of then."""
    c, begins = cluster("", "26.05", False)
    c.submit(1, nodes=10, ntasks=40, limit_s=3600, run_s=3600)
    c.at(400, lambda: c.submit(2, nodes=2, ntasks=8, limit_s=3600, run_s=3600))
    c.run(3000)
    assert next(begin for begin in begins if begin > 300 * SECOND) == 400 * SECOND
