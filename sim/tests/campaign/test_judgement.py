"""The twin's search for the fewest nodes, with a twin that answers by a rule; a plan for a design."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from slurmtwin.campaign.planning.guide import Guide
from slurmtwin.campaign.planning.judgement import Judgement
from slurmtwin.campaign.planning.plan_design import with_design
from slurmtwin.campaign.planning.plan_work import Bench, Work
from slurmtwin.campaign.planning.shapes import cluster_of
from slurmtwin.campaign.planning.target import parse_target
from slurmtwin.campaign.planning.trace import PlanTrace, plan_trace
from slurmtwin.contract.errors import InputError
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds.replay import replay_scenario, trace_of

JOBS = 40
Waits = Callable[[int], float]


class RuledGuide:
    """Every job waits 3600 s over the number of nodes, times a factor."""

    def __init__(self, guide: Guide, waits: Waits) -> None:
        self.cluster, self.targets = guide.cluster, guide.targets
        self._waits = waits

    def waits(self, columns: Any, counts: tuple[int, ...]) -> Any:
        return np.full(len(columns), self._waits(sum(counts)))


class RuledBench:
    """The twin: its waits by a rule; remembers what it was asked."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits
        self.asked: list[int] = []

    def all(self, works: Sequence[Work]) -> list[Any]:
        self.asked += [sum(work.counts) for work in works]
        return [np.full(work.leading, self._waits(sum(work.counts))) for work in works]


def _planned(folder: Path) -> tuple[PlanTrace, Guide]:
    path = folder / "t.swf"
    rows = (f"{k} {k * 500} -1 100 1 -1 -1 1 200 -1 1 1 1 -1 -1 -1 -1 -1" for k in range(1, JOBS + 1))
    path.write_text("\n".join(rows) + "\n")
    cluster = cluster_of(replay_scenario(["20x1"]), folder)
    conf, _ = cluster_conf(cluster.scenario, folder)
    trace = plan_trace(trace_of(path, "swf"), path, "swf", conf)
    return trace, Guide(cluster, tuple(p.name for p in conf.partitions), (parse_target("mean wait < 100s"),))


def _judgement(folder: Path, quick: Waits, twin: Waits, judge_s: float = 1e6) -> tuple[Judgement, RuledBench]:
    trace, guide = _planned(folder)
    bench = RuledBench(twin)
    return Judgement(
        trace, cast("Guide", RuledGuide(guide, quick)), cast("Bench", bench), judge_s, lambda _: None
    ), bench  # fmt: skip


@pytest.mark.parametrize("factor", [0.2, 0.5, 0.9, 1.0, 1.1, 1.6])
def test_the_twin_s_fewest_is_found_however_far_it_lies_from_the_quick_model_s(tmp_path: Path, factor: float) -> None:
    """Quick waits 36000/n s meet 100 s from 361 nodes on; the twin's are `factor` times that. Few looks are enough."""
    judgement, bench = _judgement(tmp_path, lambda n: 36000 / n, lambda n: factor * 36000 / n)
    fewest = int(36000 * factor / 100) + 1
    assert judgement.settle(361) == fewest
    assert len(bench.asked) <= 12
    points = {n: p["met"] for n, p in judgement.points.items()}
    assert points[fewest]
    assert not points[fewest - 1]


def test_no_count_up_to_twice_the_quick_model_s_is_no_answer(tmp_path: Path) -> None:
    """A twin whose jobs always wait too long."""
    judgement, _ = _judgement(tmp_path, lambda n: 36000 / n, lambda _: 1000.0)
    assert judgement.settle(361) is None


def test_a_part_without_the_burst_does_not_make_a_count_enough(tmp_path: Path) -> None:
    """The leading part meets the target by far; of the whole trace the quick model says that it is missed.

    A judgement that takes the part's figure for the whole would call 300 nodes enough.
    """

    class Bursty(RuledGuide):
        def waits(self, columns: Any, counts: tuple[int, ...]) -> Any:
            return np.where(np.arange(len(columns)) < JOBS // 2, 10.0, 400.0)

    trace, guide = _planned(tmp_path)
    bench = RuledBench(lambda _: 10.0)
    judgement = Judgement(trace, cast("Guide", Bursty(guide, float)), cast("Bench", bench), 0.005, lambda _: None)
    judgement.look((300,))
    point = judgement.points[300]
    assert point["jobs"] < JOBS // 2
    assert point["figures"][0]["twin_s"] == 10.0
    assert point["figures"][0]["judged_s"] > 100
    assert not point["met"]


def test_a_design_s_settings_stand_below_the_cluster_s_own(tmp_path: Path) -> None:
    """What slurm.conf says holds; the rest comes from the design, which is named with its grade."""
    scenario = replay_scenario(["4x8"])
    slurm = scenario.slurm.model_copy(update={"conf": {**scenario.slurm.conf, "KillWait": 7}})
    made, design = with_design(scenario.model_copy(update={"slurm": slurm}), "gke-statefulsets")
    assert made.slurm.conf["SlurmdTimeout"] == 30
    assert made.slurm.conf["KillWait"] == 7
    assert design["name"] == "gke-statefulsets"
    assert design["grade"] == "B"
    assert "KillWait" not in design["slurm_conf"]
    with pytest.raises(InputError, match="no design"):
        with_design(scenario, "none")
