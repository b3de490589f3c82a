"""The quick model: hand-worked cases, theory, and the twin beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurmtwin.campaign.planning.queue_kernel import FAR, Jobs, Machines, Outages, simulate

NEVER = 1 << 40


def _start(
    rows: list[tuple[int, int, int, int, int]], cpus: list[int], outages: list[tuple[int, int, int, int]] | None = None
) -> tuple[list[int], int]:
    """First starts of jobs (submit, run, limit, nodes, cpus) on nodes of so many CPUs, and jobs lost."""
    table = np.array(rows, np.int64).reshape(-1, 5)
    zeros = np.zeros(len(table), np.int64)
    rooms = np.where(table[:, 3] > 0, table[:, 3], np.minimum(table[:, 4], len(cpus)))
    offset = np.concatenate(([0], np.cumsum(np.minimum(rooms, len(cpus))))).astype(np.int64)
    columns = [np.ascontiguousarray(c) for c in table.T]
    jobs = Jobs(*columns, zeros, zeros, zeros, offset)
    machines = Machines(np.array(cpus, np.int64), np.full(len(cpus), FAR, np.int64), np.ones((1, len(cpus)), np.uint8))
    gone: Any = np.array(outages or [], np.int64).reshape(-1, 4)
    out = Outages(*(np.ascontiguousarray(c) for c in gone.T))
    start, lost, _, _ = simulate(jobs, machines, out, np.ones(len(table), np.uint8), NEVER, NEVER)
    return start.tolist(), lost


def test_jobs_start_in_order_as_long_as_they_fit() -> None:
    """Two nodes of one CPU: two at once, the third when the first ends."""
    assert _start([(0, 100, 100, 1, 1), (0, 200, 200, 1, 1), (5, 10, 10, 1, 1)], [1, 1])[0] == [0, 0, 100]


def test_a_short_job_is_backfilled_and_a_long_one_is_not() -> None:
    """A wide job waits for node 1 until 100; behind it 50 s fit before that, 200 s do not."""
    rows = [(0, 100, 100, 1, 1), (1, 100, 100, 2, 1), (2, 200, 200, 1, 1), (3, 50, 50, 1, 1)]
    start, _ = _start(rows, [1, 1])
    assert start[1] == 100
    assert start[2] == 200
    assert 3 <= start[3] <= 3 + 30


def test_a_job_beyond_the_promise_may_take_what_the_promised_job_leaves() -> None:
    """A node of 4 CPUs: 3 are taken until 100, a job of 2 is promised 100; one CPU is spare for any time."""
    rows = [(0, 100, 100, 1, 3), (1, 50, 50, 1, 2), (2, 1000, 1000, 1, 1)]
    start, _ = _start(rows, [4])
    assert start[1] == 100
    assert 2 <= start[2] <= 2 + 30


def test_single_cpus_are_taken_from_several_nodes() -> None:
    """Six CPUs wherever they are, on two nodes of four."""
    assert _start([(0, 10, 10, 0, 6), (0, 10, 10, 0, 2), (0, 10, 10, 0, 1)], [4, 4])[0] == [0, 0, 10]


def test_what_the_empty_cluster_cannot_run_is_refused() -> None:
    """Five CPUs on one node of four."""
    assert _start([(0, 10, 10, 1, 5), (0, 10, 10, 1, 4)], [4])[0] == [-1, 0]


def test_a_dead_node_loses_its_job_and_a_drained_one_does_not() -> None:
    """Gone from 50 to 80. The first start counts as the wait; the second job waits longer when the first runs again."""
    rows = [(0, 100, 100, 1, 1), (10, 10, 10, 1, 1)]
    assert _start(rows, [1], [(50, 0, 0, 1), (80, 0, 1, 1)]) == ([0, 180], 1)
    assert _start(rows, [1], [(50, 0, 0, 0), (80, 0, 1, 0)]) == ([0, 100], 0)


@pytest.mark.parametrize(("servers", "load"), [(1, 0.6), (5, 0.8), (20, 0.9)])
def test_waits_of_mmc_are_erlangs(servers: int, load: float) -> None:
    """The mean wait of 200,000 jobs lies within 10 % of Erlang C."""
    draw = np.random.default_rng(servers)
    n, service = 200_000, 1000.0
    submit = np.cumsum(draw.exponential(service / servers / load, n)).astype(np.int64)
    run = np.maximum(1, draw.exponential(service, n)).astype(np.int64)
    rows = np.column_stack([submit, run, run + 1000, np.ones(n), np.ones(n)]).astype(int).tolist()
    start, _ = _start(rows, [1] * servers)
    mean = float(np.mean(np.array(start) - submit))
    offered = servers * load
    blocking = 1.0
    for k in range(1, servers + 1):
        blocking = offered * blocking / (k + offered * blocking)
    waiting = blocking / (1 - load * (1 - blocking))
    assert mean == pytest.approx(waiting * service / (servers * (1 - load)), rel=0.10)


def test_an_early_end_changes_no_answer() -> None:
    """Once too many jobs are late the rest is not looked at: every start that is given is the true one."""
    rows = [(k, 100, 100, 1, 1) for k in range(50)]
    whole, _ = _start(rows, [1])
    table = np.array(rows, np.int64)
    zeros = np.zeros(50, np.int64)
    jobs = Jobs(*(np.ascontiguousarray(c) for c in table.T), zeros, zeros, zeros, np.arange(51, dtype=np.int64))
    machines = Machines(np.array([1], np.int64), np.array([FAR], np.int64), np.ones((1, 1), np.uint8))
    none = np.zeros(0, np.int64)
    early, _, _, _ = simulate(jobs, machines, Outages(none, none, none, none), np.ones(50, np.uint8), 150, 10)
    known = early >= 0
    assert 1 <= int(known.sum()) < 50
    assert early[known].tolist() == np.array(whole)[known].tolist()


@pytest.mark.oracle
@pytest.mark.parametrize("memory", ["", "16G"])
def test_the_quick_model_lies_near_the_twin(tmp_path: Path, memory: str) -> None:
    """400 jobs of several sizes at high load: mean waits within a tenth of each other.

    Where jobs name no memory each takes all of its nodes; with memory named they share nodes.
    """
    from slurmtwin.campaign.planning.guide import Guide
    from slurmtwin.campaign.planning.judge import twin_waits
    from slurmtwin.campaign.planning.shapes import cluster_of
    from slurmtwin.campaign.planning.target import parse_target
    from slurmtwin.campaign.planning.trace import plan_trace
    from slurmtwin.workload.slurm_conf import cluster_conf
    from slurmtwin.worlds.replay import replay_scenario, trace_of

    path = tmp_path / "t.swf"
    draw = np.random.default_rng(3)
    submit = np.cumsum(draw.exponential(110, 400)).astype(int)
    run = np.maximum(30, draw.exponential(1500, 400)).astype(int)
    size = 2 ** draw.integers(0, 5, 400)
    lines = [
        f"{i + 1} {s} -1 {r} {c} -1 -1 {c} {2 * r} {1 << 20 if memory else -1} 1 1 1 -1 -1 -1 -1 -1"
        for i, (s, r, c) in enumerate(zip(submit, run, size, strict=True))
    ]
    path.write_text("\n".join(lines) + "\n")
    cluster = cluster_of(replay_scenario([f"9x8x{memory}" if memory else "14x8"]), tmp_path)
    conf, _ = cluster_conf(cluster.scenario, tmp_path)
    trace = plan_trace(trace_of(path, "swf"), path, "swf", conf)
    guide = Guide(cluster, tuple(p.name for p in conf.partitions), (parse_target("p95 wait < 1h"),))
    quick = guide.waits(trace.columns, cluster.today)
    real = twin_waits(guide, trace, cluster.today)
    assert real.mean() > 300
    assert quick.mean() == pytest.approx(real.mean(), rel=0.1)
