"""A plan's parts: targets, search, shapes, resampling, outages, the replay check."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.campaign.planning.costs import with_costs
from slurmtwin.campaign.planning.judge import affordable
from slurmtwin.campaign.planning.outages import draw_outages, parse_rate, tried_again, twin_faults
from slurmtwin.campaign.planning.replay_check import replay_check
from slurmtwin.campaign.planning.search import by_sweep, fewest
from slurmtwin.campaign.planning.shapes import Cluster, cluster_of
from slurmtwin.campaign.planning.target import classes_of, parse_target, quantile, wait_table
from slurmtwin.campaign.planning.trace import PlanTrace, plan_trace
from slurmtwin.campaign.planning.trace_jobs import columns_of, fits_some_node
from slurmtwin.contract.errors import InputError
from slurmtwin.workload.recorded_waits import recorded_waits_s
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds.replay import replay_scenario, trace_of


def _swf(path: Path, rows: list[tuple[int, ...]]) -> Path:
    """Rows (submit, wait, run, processors, limit)."""
    lines = [
        f"{i} {s} {w} {r} {p} -1 -1 {p} {limit} -1 1 1 1 -1 -1 -1 -1 -1"
        for i, (s, w, r, p, limit) in enumerate(rows, 1)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


def _planned(tmp_path: Path, rows: list[tuple[int, ...]], growth: float = 0.0) -> tuple[PlanTrace, Cluster]:
    path = _swf(tmp_path / "t.swf", rows)
    cluster = cluster_of(replay_scenario(["4x8x32G", "2x4x16G"]), tmp_path)
    conf, _ = cluster_conf(cluster.scenario, tmp_path)
    return plan_trace(trace_of(path, "swf"), path, "swf", conf, growth), cluster


@pytest.mark.parametrize(
    ("text", "share", "group", "bound"),
    [
        ("p95 wait < 1h", 0.95, "", 3600), ("mean wait<10m", None, "", 600),
        ("median  wait of 1 CPU < 90s", 0.5, "1 CPU", 90),
        ("p99.5 wait of 9-64 CPUs < 2d", 0.995, "9-64 CPUs", 172_800),
    ],
)  # fmt: skip
def test_a_target_says_figure_class_and_bound(text: str, share: float | None, group: str, bound: float) -> None:
    """Spaces do not matter."""
    target = parse_target(text)
    assert (target.quantile, target.group, target.bound_s) == (share, group, bound)


@pytest.mark.parametrize(
    "text",
    ["", "p95 wait", "p95 wait > 1h", "p0 wait < 1h", "max wait < 1h", "p95 wait < 0s", "p95 wait of big < 1h"],
)
def test_a_wrong_target_is_refused(text: str) -> None:
    """With the forms that there are."""
    with pytest.raises(InputError):
        parse_target(text)


def test_a_job_that_never_starts_waits_for_ever() -> None:
    """One of ten: the p95 is infinite, the median is not."""
    waits = np.array([1.0] * 9 + [math.inf])
    assert quantile(waits, 0.95) == math.inf
    assert quantile(waits, 0.5) == 1
    assert quantile(np.array([1.0, 2.0, 3.0]), 0.25) == 1.5
    row = wait_table(waits, np.array(["1 CPU"] * 10, dtype=object))[0]
    assert (row["never"], row["p95_s"], row["mean_s"]) == (1, None, 1.0)


@given(st.integers(1, 400), st.integers(1, 600))
def test_bisection_finds_what_a_sweep_finds(threshold: int, guess: int) -> None:
    """Wherever the search begins."""
    assert fewest(lambda n: n >= threshold, guess, 1, 1000) == threshold == by_sweep(lambda n: n >= threshold, 1, 500)


def test_a_count_that_misses_just_above_moves_the_answer() -> None:
    """100 meets, 101 misses by an anomaly, 102 on meet: 102, as the sweep says."""

    def meets(count: int) -> bool:
        return count >= 100 and count != 101

    assert fewest(meets, 100, 1, 1000) == 102 == by_sweep(meets, 1, 200)


def test_no_count_is_no_answer() -> None:
    """Not even the largest."""
    assert fewest(lambda _: False, 5, 1, 64) is None
    assert by_sweep(lambda _: False, 1, 8) is None


def test_more_nodes_never_take_one_of_another_shape(tmp_path: Path) -> None:
    """Counts in today's mix grow one by one; today's total gives today's counts."""
    cluster = cluster_of(replay_scenario(["20x80", "48x12", "7x4"]), tmp_path)
    assert cluster.counts(75) == (20, 48, 7)
    before = cluster.counts(0)
    for total in range(1, 200):
        now = cluster.counts(total)
        assert sum(now) == total
        assert all(a <= b for a, b in zip(before, now, strict=True))
        before = now


def test_a_cluster_with_other_counts_is_a_scenario(tmp_path: Path) -> None:
    """New nodes have their shape's line and partitions; a shape of none is gone."""
    cluster = cluster_of(replay_scenario(["4x8x32G", "2x4x16G"]), tmp_path)
    conf, _ = cluster_conf(cluster.with_counts((6, 0)), tmp_path)
    assert [(n.cpus, n.real_memory_mib) for n in conf.nodes] == [(8, 32768)] * 6
    assert set(conf.partitions[0].nodes) == {n.name for n in conf.nodes}
    assert sorted(cluster.names((6, 0))) == sorted(n.name for n in conf.nodes)


def test_recorded_waits_are_those_of_the_reader_s_numbers(tmp_path: Path) -> None:
    """SWF numbers from 0 are moved by one, as its reader moves them; sacct counts from Eligible."""
    path = tmp_path / "t.swf"
    path.write_text(
        "; head\n0 10 5 1 1 -1 -1 1 9 -1 1 1 1 -1 -1 -1 -1 -1\n1 11 -1 1 1 -1 -1 1 9 -1 1 1 1 -1 -1 -1 -1 -1\n"
    )
    assert recorded_waits_s(path, "swf") == {1: 5}
    assert [job.job_id for job in trace_of(path, "swf")] == [1, 2]
    dump = tmp_path / "t.sacct"
    dump.write_text(
        "JobIDRaw|Submit|Eligible|Start|Elapsed\n"
        "7|2024-01-01T00:00:00|2024-01-01T00:01:00|2024-01-01T00:03:00|10\n"
        "8|2024-01-01T00:00:00|Unknown|Unknown|0\n"
    )
    assert recorded_waits_s(dump, "sacct") == {7: 120}
    assert recorded_waits_s(dump, "events") == {}


def test_gaps_are_named(tmp_path: Path) -> None:
    """A hole of three days after four."""
    rows = [(k * 600, 0, 600, 1, 900) for k in range(144 * 4)]
    rows += [(rows[-1][0] + 3 * 86_400 + k * 600, 0, 600, 1, 900) for k in range(144)]
    trace, _ = _planned(tmp_path, rows)
    assert any(note.startswith("gap: nothing was submitted for 3.0 days from day 4.0") for note in trace.notes)


def test_the_days_that_fill_the_cluster_are_not_counted(tmp_path: Path) -> None:
    """Jobs of two days each, one every ten minutes: demand grows for two days and is level from then on."""
    trace, _ = _planned(tmp_path, [(k * 600, 0, 2 * 86_400, 1, 2 * 86_400) for k in range(144 * 12)])
    assert 1.8 * 86_400 <= trace.warm_up_s <= 2.2 * 86_400
    assert int(trace.counted.sum()) == sum(1 for k in range(144 * 12) if k * 600 >= trace.warm_up_s)
    assert any(note.startswith("warm-up: the first") for note in trace.notes)


def test_jobs_that_no_node_can_hold_are_left_out_and_named(tmp_path: Path) -> None:
    """One of forty wants 9 CPUs on a node of 8 at most; where half do, the shapes are wrong and nothing is planned."""
    rows = [(k * 3600, 0, 60, 1, 120) for k in range(40)]
    few = _swf(tmp_path / "few.swf", rows)
    cluster = cluster_of(replay_scenario(["4x8x32G"]), tmp_path)
    conf, _ = cluster_conf(cluster.scenario, tmp_path)
    requests = list(trace_of(few, "swf"))
    columns = columns_of(requests, conf)
    large = replace(columns, cpus=np.where(columns.number == 7, 9, columns.cpus), nodes=np.ones(40, np.int64))
    assert np.flatnonzero(~fits_some_node(large, conf)).tolist() == [6]
    hungry = replace(columns, memory=np.where(columns.number > 20, 40_000, 100))
    assert int(fits_some_node(hungry, conf).sum()) == 20
    dump = tmp_path / "t.sacct"
    lines = [f"{k}|2024-01-01T0{k}:00:00|2024-01-01T0{k}:00:00|2024-01-01T0{k}:00:00|00:01:00|COMPLETED|1|1|64G"
             for k in range(1, 6)]  # fmt: skip
    dump.write_text("\n".join(["JobIDRaw|Submit|Eligible|Start|Elapsed|State|ReqCPUS|ReqNodes|ReqMem", *lines]) + "\n")
    with pytest.raises(InputError, match="5 of 5 jobs fit no node"):
        plan_trace(trace_of(dump, "sacct"), dump, "sacct", conf)


def test_growth_adds_jobs_of_the_same_kind_and_leaves_the_others(tmp_path: Path) -> None:
    """A fifth more, at the same time of another day; the added ones have no recorded wait."""
    rows = [(k * 3600, 7, 60, 1 + k % 3, 120) for k in range(24 * 20)]
    trace, _ = _planned(tmp_path, rows, growth=0.2)
    added = len(trace.columns) - len(rows)
    assert 60 <= added <= 130
    assert int(np.isnan(trace.recorded_s).sum()) == added
    assert set((trace.columns.submit % 86_400).tolist()) == {h * 3600 for h in range(24)}
    less, _ = _planned(tmp_path, rows, growth=-0.5)
    assert 190 <= len(less.columns) <= 290


def test_resampled_traces_keep_the_days_whole(tmp_path: Path) -> None:
    """Each whole day of a drawn trace is some day of the trace, job by job; equal numbers give equal draws."""
    rows = [(d * 86_400 + k * 60 * (d + 1), 0, 60, 1 + d, 120) for d in range(12) for k in range(20)]
    rows.append((12 * 86_400 - 1, 0, 60, 12, 120))
    trace, _ = _planned(tmp_path, rows)
    drawn, _counted = trace.resampled(1, 3)
    again, _ = trace.resampled(1, 3)
    assert drawn.submit.tolist() == again.submit.tolist()
    days = {d: sorted((s % 86_400, c) for s, _, _, c, _ in rows if s // 86_400 == d) for d in range(12)}
    for day in range(12):
        of_day = drawn.submit // 86_400 == day
        found = sorted(zip((drawn.submit[of_day] % 86_400).tolist(), drawn.cpus[of_day].tolist(), strict=True))
        assert found in days.values()


def test_every_moment_of_a_trace_is_drawn_as_often(tmp_path: Path) -> None:
    """A span of 10.4 days, one job an hour: drawn traces have as many jobs as the trace, on average and nearly each."""
    trace, _ = _planned(tmp_path, [(k * 3600, 0, 60, 1, 120) for k in range(250)])
    sizes = [len(trace.resampled(7, number)[0]) for number in range(50)]
    assert 245 <= sum(sizes) / len(sizes) <= 255


def test_outages_of_a_node_do_not_depend_on_how_many_there_are() -> None:
    """Node 3 goes at the same times among 5 and among 50; each goes before it is back."""
    rate = parse_rate("mtbf 10d repair 4h", "fail")
    few, many = (draw_outages([rate], n, 100 * 86_400, 1) for n in (5, 50))
    assert [row for row in few if row[1] == 3] == [row for row in many if row[1] == 3]
    assert few == sorted(few)
    faults = twin_faults(few[:2], [f"n{k}" for k in range(5)])
    assert {fault.kind for fault in faults} <= {"slurmd.kill_group", "slurmd.start"}
    with pytest.raises(InputError):
        parse_rate("now and then", "fail")


def test_while_slurmctld_is_away_no_node_starts_a_job() -> None:
    """All nodes at once, for as long as it takes; what runs goes on; the twin kills one daemon and starts it."""
    rows = draw_outages([parse_rate("mtbf 10d repair 1h", "controller")], 3, 40 * 86_400, 1)
    assert {row[0]: [r[1] for r in rows if r[0] == row[0]] for row in rows} == {row[0]: [0, 1, 2] for row in rows}
    assert {row[3] for row in rows} == {2}
    faults = twin_faults(rows, ["a", "b", "c"])
    assert len(faults) == len(rows) / 3
    assert {fault.kind for fault in faults} == {"slurmctld.kill", "slurmctld.start"}


def test_who_cannot_submit_tries_again_once_slurmctld_is_back(tmp_path: Path) -> None:
    """Away from 1000 s to 1600 s: what came then comes at 1610 s; what came before or after is left alone."""
    trace, _ = _planned(tmp_path, [(s, 0, 60, 1, 120) for s in (900, 1000, 1300, 1599, 1605, 1700)])
    first = trace.requests[0].submit_ns // 10**9
    shift = first - 900
    rows = [(1000 + shift, node, 0, 2) for node in range(2)] + [(1600 + shift, node, 1, 2) for node in range(2)]
    found = [job.submit_ns // 10**9 - shift for job in tried_again(trace.requests, rows)]
    assert found == [900, 1610, 1610, 1610, 1610, 1700]
    assert tried_again(trace.requests, [(1000 + shift, 0, 0, 1)]) == list(trace.requests)


def _check(replayed: list[float], recorded: list[float]) -> dict[str, Any]:
    names = np.array(["1 CPU"] * len(replayed), dtype=object)
    return replay_check(np.array(replayed), np.array(recorded), names, (parse_target("p95 wait < 1h"),))


def test_a_replay_that_meets_the_record_supports_a_plan() -> None:
    """Ten per cent off everywhere."""
    found = _check([100.0 * k for k in range(50)], [110.0 * k for k in range(50)])
    assert found["supported"] is True
    assert found["explained"] == pytest.approx(10 / 11)


@pytest.mark.parametrize(
    ("replayed", "says"),
    [([0.0] * 50, "0% of the recorded waiting"), ([5000.0 - 100 * k for k in range(50)], "explained")],
)
def test_waits_that_capacity_does_not_explain_leave_a_plan_unsupported(replayed: list[float], says: str) -> None:
    """No waiting in the replay, or the same waits for other jobs."""
    found = _check(replayed, [100.0 * k for k in range(50)])
    assert found["supported"] is False
    assert says in found["why"]


def test_a_trace_without_recorded_waits_is_unchecked() -> None:
    """Neither supported nor not."""
    assert _check([1.0] * 4, [math.nan] * 4)["supported"] is None


def test_costs_need_one_price_for_each_shape() -> None:
    """Two shapes at 1 and 2 an hour; half busy at 100 to 300 watts."""
    document: dict[str, Any] = {
        "shapes": ["8x1M", "4"], "today": {"counts": [1, 2]}, "answer": {"counts": [2, 2], "counts_95": [2, 3]},
        "demand": {"mean_cpus": 8.0},
    }  # fmt: skip
    with_costs(document, [1.0, 2.0], ["100/300", "100/300"])
    assert document["costs"][0]["per_year"] == 5 * 8766
    assert document["costs"][0]["mwh_per_year"] == pytest.approx(3 * 200 * 8766 / 1e6)
    with pytest.raises(InputError, match="one for each shape"):
        with_costs(document, [1.0], [])


def test_the_twin_judges_less_of_a_trace_that_queues(tmp_path: Path) -> None:
    """A hundred jobs that start at once cost 0.45 ms each; where they all wait for the last, the queue costs more."""
    trace, _ = _planned(tmp_path, [(k, 0, 10, 1, 20) for k in range(100)])
    none, all_wait = np.zeros(100), 1000.0 - np.arange(100)
    assert affordable(trace, none, 1.0) == 100
    assert affordable(trace, none, 0.0228) == 50
    assert affordable(trace, all_wait, 0.0228) < 30


def test_classes_are_those_of_the_reports(tmp_path: Path) -> None:
    """By CPUs asked for, over all nodes."""
    trace, _ = _planned(tmp_path, [(k, 0, 10, p, 20) for k, p in enumerate((1, 2, 8, 9, 64, 65, 600))])
    assert classes_of(trace.columns).tolist() == [
        "1 CPU", "2-8 CPUs", "2-8 CPUs", "9-64 CPUs", "9-64 CPUs", "65-512 CPUs", "over 512 CPUs",
    ]  # fmt: skip
