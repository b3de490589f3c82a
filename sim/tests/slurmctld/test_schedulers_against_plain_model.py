"""The fast schedulers start every job when and where the plain, unoptimised model does."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mini_cluster import MiniCluster, lowest
from plain_model import PlainJob, PlainSlurm

from slurmtwin.contract.clock import SECOND

pytestmark = pytest.mark.property

LIMITS = (60, 120, 300, 600, 1800, 3600, 7200)

_JOB = st.tuples(
    st.integers(0, 200),
    st.integers(1, 8),
    st.sampled_from(LIMITS),
    st.floats(0.01, 1.0),
)


def workload(rows: list[tuple[int, int, int, float]], most_nodes: int) -> list[PlainJob]:
    """Jobs that arrive one after the other with these gaps."""
    jobs, at_s = [], 0
    for number, (gap, nodes, limit_s, share) in enumerate(rows, 1):
        at_s += gap
        jobs.append(PlainJob(number, at_s, min(nodes, most_nodes), max(1, int(limit_s * share)), limit_s))
    return jobs


def twin_starts(
    jobs: list[PlainJob], text: str, nodes: int, prune: bool = True, message: bool = True
) -> dict[int, tuple[int, int]]:
    """What the model's schedulers do with the same jobs."""
    cluster = MiniCluster(text, nodes=nodes, choose=lowest, keep=False)
    cluster.scheduler.backfill.prune = prune
    cluster.epilog_message = message
    for job in jobs:
        cluster.at(
            job.submit_s,
            lambda j=job: cluster.submit(j.number, nodes=j.nodes, limit_s=j.limit_s, run_s=j.run_s),
        )
    cluster.run()
    assert all(ns % SECOND == 0 for ns, *_ in cluster.started)
    return {number: (ns // SECOND, held) for ns, number, _task, held, _by in cluster.started}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(rows=st.lists(_JOB, min_size=1, max_size=40), nodes=st.integers(1, 8), message=st.booleans())
def test_generated_workloads_start_as_in_the_plain_model(
    rows: list[tuple[int, int, int, float]], nodes: int, message: bool
) -> None:
    """With the default settings every start second and node set is equal."""
    jobs = workload(rows, nodes)
    expected = PlainSlurm(nodes, lowest, pass_at_end=message).run(jobs)
    assert twin_starts(jobs, "", nodes, message=message) == expected


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    rows=st.lists(_JOB, min_size=1, max_size=40),
    nodes=st.integers(1, 8),
    resolution=st.sampled_from((1, 7, 60, 600)),
    window_min=st.sampled_from((1, 10, 60, 1440)),
    interval=st.sampled_from((1, 30, 97)),
    tests=st.sampled_from((1, 3, 500)),
    table=st.sampled_from((4, 9, 500)),
    reserve=st.sampled_from((0, 1, 2)),
    depth=st.sampled_from((0, 2, 100)),
)
def test_any_backfill_parameters_start_as_in_the_plain_model(
    rows: list[tuple[int, int, int, float]], nodes: int, resolution: int, window_min: int, interval: int, tests: int,
    table: int, reserve: int, depth: int,
) -> None:  # fmt: skip
    """bf_resolution, bf_window, bf_interval, caps and table size change both models alike."""
    jobs = workload(rows, nodes)
    model = PlainSlurm(
        nodes, lowest, interval_s=interval, resolution_s=resolution, window_s=window_min * 60, max_job_test=tests,
        table_size=table, reserve_first=reserve, depth=depth,
    )  # fmt: skip
    text = (
        f"SchedulerParameters=bf_interval={interval},bf_resolution={resolution},bf_window={window_min},"
        f"bf_max_job_test={tests},bf_node_space_size={table},bf_job_part_count_reserve={reserve},"
        f"default_queue_depth={depth}"
    )
    assert twin_starts(jobs, text, nodes) == model.run(jobs)
