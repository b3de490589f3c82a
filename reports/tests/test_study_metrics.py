"""The figures of a study's run against hand-worked cases, and the warm-up rule against series of known bias."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.manifest import Manifest
from slurmtwin_reports.history import History, history_of
from slurmtwin_reports.study_metrics import CUTS, UNSETTLED, run_figures
from slurmtwin_reports.warm_up import mser5

S = 1_000_000_000


def _history(jobs: list[tuple[int, int, int]], more: list[Event] | None = None) -> History:
    """Jobs (submit, start, end) in seconds on one CPU each, and other events."""
    events = list(more or [])
    for number, (submit, start, end) in enumerate(jobs, 1):
        events.append(Event(submit * S, Kind.JOB_SUBMITTED, "slurmctld", number))
        events.append(Event(start * S, Kind.JOB_STARTED, "slurmctld", number, "n1", 1, "cpu", '{"by":"main"}'))
        events.append(Event(end * S, Kind.JOB_ENDED, "slurmctld", number, None, None, None, '{"state":"COMPLETED"}'))
    events.sort(key=lambda e: e.t_ns)
    cluster: dict[str, Any] = {}
    return history_of(Manifest("twin", "t", "", 0, parameters=cluster), events)


def test_figures_of_three_jobs_by_hand() -> None:
    """Waits 0, 10 and 20 s of runs of 10 s: mean 10, p95 19, slowdowns 1, 2 and 3."""
    found = run_figures(_history([(0, 0, 10), (0, 10, 20), (10, 30, 40)]))["figures"]["0"]
    assert found["mean_wait_s"] == 10
    assert found["p95_wait_s"] == pytest.approx(19)
    assert found["mean_bounded_slowdown"] == 2
    assert found["goodput"] == 1
    assert found["mean_wait_s:1 CPU"] == 10
    assert found["unstarted"] == 0


def test_a_cut_leaves_out_the_jobs_submitted_before_it() -> None:
    """At a cut of 0.5 of a span of 10 s, what was submitted from 5 s on is left."""
    found = run_figures(_history([(0, 100, 110), (5, 6, 16), (10, 12, 22)]))["figures"]
    assert found["0.5"]["jobs"] == 2
    assert found["0.5"]["mean_wait_s"] == 1.5
    assert sorted(found) == sorted(f"{cut:g}" for cut in CUTS)


def test_downtime_counts_while_no_slurmctld_serves() -> None:
    """Down from 20 to 50 s, frozen from 60 to 70 s; after the last submit nobody submits."""
    rows = [
        Event(0, Kind.SLURMCTLD_STARTED, "slurmctld", None, "c1"),
        Event(20 * S, Kind.SLURMCTLD_CRASHED, "slurmctld", None, "c1"),
        Event(50 * S, Kind.SLURMCTLD_STARTED, "slurmctld", None, "c1"),
        Event(60 * S, Kind.FAULT_INJECTED, "fault", detail='{"fault":{"kind":"slurmctld.freeze","target":"c1"}}'),
        Event(70 * S, Kind.FAULT_INJECTED, "fault", detail='{"fault":{"kind":"slurmctld.thaw","target":"c1"}}'),
        Event(95 * S, Kind.SLURMCTLD_CRASHED, "slurmctld", None, "c1"),
    ]
    found = run_figures(_history([(0, 1, 2), (100, 101, 102)], rows))["figures"]["0"]
    assert found["submission_downtime_s"] == 45


def _waits(values: list[float]) -> History:
    return _history([(10 * i, 10 * i + round(v), 10 * i + round(v) + 10) for i, v in enumerate(values)])


def test_a_run_that_never_settles_says_so() -> None:
    """Waits that grow to the end: no cut within the first half helps."""
    assert run_figures(_waits([float(i) for i in range(400)]))["cut"] == UNSETTLED


def test_the_cut_lies_behind_the_transient() -> None:
    """The first quarter waits 1,000 s too long: the cut is the next of CUTS."""
    values = [1000.0] * 100 + [float(20 + i % 3) for i in range(300)]
    assert run_figures(_waits(values))["cut"] == 0.3


def test_mser5_removes_the_bias_of_an_autoregressive_series() -> None:
    """AR(1) of mean 0 begun at 100: the mean of 2,000 values is 0.5 too high; behind the cut under a tenth of that is
    left over 200 series, and a tenth of the values is thrown away at most on average.
    """
    whole, behind, cuts = [], [], []
    for seed in range(200):
        noise = np.random.default_rng(seed).standard_normal(1999)
        values = [100.0]
        for step in noise.tolist():
            values.append(0.9 * values[-1] + step)
        cut = mser5(values)
        assert cut is not None
        cuts.append(cut)
        whole.append(float(np.mean(values)))
        behind.append(float(np.mean(values[cut:])))
    assert np.mean(whole) == pytest.approx(0.5, abs=0.05)
    assert abs(np.mean(behind)) < 0.05
    assert 25 <= np.mean(cuts) <= 200


def test_mser5_keeps_a_settled_series_whole() -> None:
    """Nothing to cut, and a flat series has no cut at all."""
    assert mser5([5.0] * 100) == 0
    assert mser5([1.0, 2.0] * 5) is None


def test_hours_of_worker_pods_and_the_length_of_each_shrinking() -> None:
    """Two pods from 0 s; one goes 30 s after a scale-in at 60 s, the other stays to the end at 3600 s; the next
    scaling, at 3000 s, asks for its machine in vain. A pod that is not a worker counts for nothing."""

    def pod(at: int, kind: Kind, name: str, app: str = "slurmd") -> Event:
        return Event(at * S, kind, "collector", detail=f'{{"app":"{app}","pod":"s/{name}"}}', pod_uid=name)

    def scale(at: int, count: int) -> Event:
        fault = f'{{"fault":{{"kind":"operator.scale","count":{count}}}}}'
        return Event(at * S, Kind.FAULT_INJECTED, "fault", detail=fault)

    rows = [
        pod(0, Kind.POD_CREATED, "a"), pod(0, Kind.POD_CREATED, "b"), pod(0, Kind.POD_CREATED, "c", "slurmctld"),
        scale(60, 1), pod(90, Kind.POD_DELETED, "b"), scale(3000, 0),
    ]  # fmt: skip
    found = run_figures(_history([(0, 0, 3600)], rows), "none")["figures"]["0"]
    assert found["pod_hours"] == pytest.approx(1 + 90 / 3600)
    assert found["scale_in_s"] == 30
    assert found["service_missed_hours"] == pytest.approx((30 + 600) / 3600)
    assert "pod_hours" not in run_figures(_history([(0, 0, 10)]), "none")["figures"]["0"]
