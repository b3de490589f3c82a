"""What power saving leaves on: nodes that idle go off, jobs that come then wait for a boot."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from slurmtwin.campaign.planning.guide import Guide
from slurmtwin.campaign.planning.power_saving import BOOT_S, SUSPEND_S, stays_on
from slurmtwin.campaign.planning.shapes import cluster_of
from slurmtwin.campaign.planning.target import parse_target
from slurmtwin.campaign.planning.trace import plan_trace
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds.replay import replay_scenario, trace_of


def _on(rows: list[tuple[int, int, int, int]], end: int = 10**6, begin: int = 0) -> tuple[int, list[int]]:
    return stays_on(np.array(rows, np.int64).reshape(-1, 4), begin, end)


def test_a_node_is_on_from_its_boot_until_it_has_idled_long_enough() -> None:
    """One job of 100 s."""
    assert _on([(0, 1000, 1100, 0)]) == (BOOT_S + 100 + SUSPEND_S, [0])


def test_jobs_close_together_boot_a_node_once() -> None:
    """The second comes before the node goes off, the third long after; jobs side by side count once."""
    rows = [(0, 0, 100, 0), (0, 50, 800, 1), (0, 800 + SUSPEND_S, 2000, 2), (0, 90_000, 90_100, 3)]
    assert _on(rows) == (2000 + SUSPEND_S + BOOT_S + 100 + SUSPEND_S, [0, 3])


def test_each_node_goes_off_alone() -> None:
    """Two nodes with a job each; rows may come in any order."""
    one, booted = _on([(1, 500, 600, 1), (0, 0, 100, 0)])
    assert one == 2 * (BOOT_S + 100 + SUSPEND_S)
    assert sorted(booted) == [0, 1]


def test_only_the_span_that_counts_is_charged() -> None:
    """A job across the begin, one across the end; no jobs, nothing on."""
    assert _on([(0, 0, 1000, 0)], begin=900) == (400 + SUSPEND_S, [0])
    assert _on([(0, 1000, 9000, 0)], end=5000) == (4000, [0])
    assert _on([]) == (0, [])


def test_the_quick_model_says_which_node_had_which_job(tmp_path: Path) -> None:
    """Each job that started, on nodes of its own, as long as it ran; never more on a node than it has."""
    draw = np.random.default_rng(3)
    submit, run, cpus = np.sort(draw.integers(0, 4000, 80)), draw.integers(20, 900, 80), draw.integers(1, 13, 80)
    rows = list(zip(submit.tolist(), run.tolist(), cpus.tolist(), strict=True))
    path = tmp_path / "t.swf"
    path.write_text("".join(
        f"{i} {s} -1 {r} {p} -1 -1 {p} {r + 60} -1 1 1 1 -1 -1 -1 -1 -1\n" for i, (s, r, p) in enumerate(rows, 1)
    ))  # fmt: skip
    cluster = cluster_of(replay_scenario(["2x4", "1x8"]), tmp_path)
    conf, _ = cluster_conf(cluster.scenario, tmp_path)
    trace = plan_trace(trace_of(path, "swf"), path, "swf", conf)
    guide = Guide(cluster, ("all",), (parse_target("p95 wait < 1h"),))
    placed = guide.placements(trace.columns, (2, 1))
    waits = guide.waits(trace.columns, (2, 1))
    assert set(placed[:, 3].tolist()) == set(range(80)) == set(np.flatnonzero(np.isfinite(waits)).tolist())
    for _node, start, end, job in placed.tolist():
        assert start - trace.columns.submit[job] == waits[job]
        assert end - start == trace.columns.run[job]
    for node in range(3):
        mine = placed[placed[:, 0] == node]
        for at in mine[:, 1].tolist():
            assert int(((mine[:, 1] <= at) & (mine[:, 2] > at)).sum()) <= (4, 4, 8)[node]
