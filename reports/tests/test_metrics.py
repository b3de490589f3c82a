"""Metrics worked out by hand on small histories, and laws that hold on generated ones."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmtwin_reports.history import History
from slurmtwin_reports.job_table import job_table
from slurmtwin_reports.metrics import (
    busy_steps,
    job_frame,
    job_rows,
    mean_level,
    number,
    quantile,
    queue_steps,
    summary,
    waits_by_class,
)
from slurmtwin_reports.testing import a_history, in_order, job_story, queue_run, row

S = 1_000_000_000


def requeued() -> History:
    """One job that ran 10 s on 4 CPUs, was requeued and ran 20 s; one that ran once for 30 s."""
    return a_history(in_order(
        job_story(1, 0, 100, 130, "n1", 2),
        [
            row(0, "job.submitted", 2), row(5, "job.started", 2, "n2", value=4, unit="cpu", by="backfill"),
            row(15, "job.ended", 2, state="NODE_FAIL"), row(15, "job.requeued", 2, reason="node_fail"),
            row(16, "job.completed", 2), row(140, "job.started", 2, "n2", value=4, unit="cpu", by="main"),
            row(160, "job.ended", 2, state="COMPLETED"), row(161, "job.completed", 2),
        ],
    ), jobs={1: {"job_id": 1, "user": "ann", "partition": "long"}, 2: {"job_id": 2, "user": "bob"}})  # fmt: skip


def test_the_job_table_tells_each_attempt() -> None:
    """A requeued job has two attempts; its wait counts to the first start."""
    record = job_table(requeued()).records[(2, -1)]
    assert [(a.start_ns // S, (a.end_ns or 0) // S, a.state) for a in record.attempts] == [
        (5, 15, "NODE_FAIL"), (140, 160, "COMPLETED"),
    ]  # fmt: skip
    assert (record.wait_ns, record.requeues, record.state) == (5 * S, 1, "COMPLETED")


def test_job_rows_are_one_per_job() -> None:
    """job_rows gives restarts, starter, nodes and classes by name."""
    rows = {r["job"]: r for r in job_rows(job_table(requeued()))}
    assert rows["2"]["restarts"] == 1
    assert (rows["1"]["wait_ns"], rows["1"]["nodes"], rows["1"]["started_by"]) == (100 * S, "n1", "main")
    assert (rows["1"]["partition"], rows["2"]["partition"], rows["1"]["size"]) == ("long", "batch", "2-8 CPUs")


def test_the_job_frame_has_nullable_times() -> None:
    """A job that never started has null times, not NaN in floats."""
    frame = job_frame(job_table(a_history([row(0, "job.submitted", 1)])))
    assert str(frame["start_ns"].dtype) == "Int64"
    assert frame["start_ns"].isna().all()


def test_summary_worked_by_hand() -> None:
    """Used: 2 x 30 + 4 x 10 + 4 x 20 = 180 CPU s, of which 40 were lost to the node."""
    found = summary(job_table(requeued()), 8)
    assert found["states"] == {"COMPLETED": 2}
    assert found["mean_wait_s"] == 52.5
    assert found["share_wait_over_60s"] == 0.5
    assert found["share_by_backfill"] == 0.5
    assert (found["requeues"], found["restarts"]) == (1, 1)
    assert found["lost_cpu_s"] == 40.0
    assert found["goodput"] == pytest.approx(140 / 180)
    assert found["makespan_s"] == 160.0
    assert found["utilisation"] == pytest.approx(180 / (8 * 160))
    assert found["utilisation_loaded"] == pytest.approx((40 + 60) / (8 * 135))
    assert found["mean_bounded_slowdown"] == pytest.approx(130 / 30)


def test_waits_by_class_are_sorted_and_complete() -> None:
    """Every started job is in exactly one class; names are sorted."""
    assert waits_by_class(job_table(requeued()), "user") == {"ann": [100 * S], "bob": [5 * S]}


def test_busy_and_queue_steps_follow_the_rows() -> None:
    """CPUs in use and jobs waiting change where the rows say so, and nowhere else."""
    table = job_table(requeued())
    assert [(t // S, v) for t, v in busy_steps(table)] == [(5, 4), (15, 0), (100, 2), (130, 0), (140, 4), (160, 0)]
    assert [(t // S, v) for t, v in queue_steps(table)] == [(0, 2), (5, 1), (15, 2), (100, 1), (140, 0)]


def test_eligible_is_when_the_hold_ends() -> None:
    """A held job is eligible from its release, one with a dependency from when the reason goes."""
    table = job_table(a_history([
        row(0, "job.submitted", 1), row(0, "job.held", 1, reason="JobHeldUser"), row(7, "job.released", 1),
        row(0, "job.submitted", 2), row(1, "job.pending", 2, reason="Dependency"),
        row(9, "job.pending", 2, reason="Priority"),
    ]))  # fmt: skip
    assert [table.records[(j, -1)].eligible_ns for j in (1, 2)] == [7 * S, 9 * S]


def test_suspended_time_is_not_busy() -> None:
    """A job suspended for 10 of its 30 s used 20 s of CPU."""
    table = job_table(a_history([
        row(0, "job.submitted", 1), row(0, "job.started", 1, "n1", value=1, unit="cpu", by="main"),
        row(10, "job.suspended", 1), row(20, "job.resumed", 1), row(30, "job.ended", 1, state="COMPLETED"),
    ]))  # fmt: skip
    assert summary(table, 1)["utilisation"] == pytest.approx(2 / 3)


def test_array_tasks_inherit_the_submit_time() -> None:
    """Tasks submitted by one row wait from that row."""
    table = job_table(a_history(
        [row(3, "job.submitted", 9), row(8, "job.started", 9, "n1", value=1, unit="cpu", by="main", array_task=4)],
        jobs={9: {"job_id": 9, "array": "4-5"}},
    ))  # fmt: skip
    assert list(table.records) == [(9, 4), (9, 5)]
    assert table.records[(9, 4)].wait_ns == 5 * S
    assert table.records[(9, 5)].state == "PENDING"


@pytest.mark.property
@settings(max_examples=100, deadline=None)
@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=60), st.floats(0, 1))
def test_quantile_is_numpys(values: list[int], q: float) -> None:
    """Our quantile equals numpy's default."""
    import numpy as np

    expected = float(np.quantile(np.asarray(values, dtype=float), q))
    assert quantile(values, q) == pytest.approx(expected, rel=1e-9, abs=1e-3)


@pytest.mark.property
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 1000), st.integers(5, 80), st.integers(1, 12))
def test_busy_time_is_the_sum_of_the_runs(seed: int, jobs: int, nodes: int) -> None:
    """The area under the utilisation curve equals CPUs x run time summed over the starts."""
    table = job_table(queue_run(jobs, nodes=nodes, seed=seed))
    steps = busy_steps(table)
    begin, end = steps[0][0], steps[-1][0]
    area = (mean_level(steps, begin, end) or 0) * (end - begin)
    assert area == pytest.approx(sum(a.cpus * a.busy_ns(table.end_ns) for _, _, a in table.attempts()), rel=1e-9)
    assert steps[-1][1] == 0
    assert max(level for _, level in steps) <= nodes * 8


@pytest.mark.property
@settings(max_examples=30, deadline=None)
@given(st.integers(1, 1000), st.integers(5, 80))
def test_littles_law_on_the_queue(seed: int, jobs: int) -> None:
    """Mean queue length x time = sum of waits (Little), exactly, as nobody is left waiting."""
    table = job_table(queue_run(jobs, seed=seed))
    steps = queue_steps(table)
    begin, end = steps[0][0], table.end_ns
    area = (mean_level(steps, begin, end) or 0) * (end - begin)
    assert area == pytest.approx(sum(r.wait_ns or 0 for r in table.records.values()), rel=1e-9, abs=10)


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (0, "0"), (1e-5, "0"), (0.0004, "0.0004"), (1.23456, "1.235"), (1458.2, "1458"), (3e7, "30000000")],
)
def test_numbers_for_people_have_no_exponent(value: float | None, text: str) -> None:
    """Four significant digits, never 1.46e+03."""
    assert number(value) == text
