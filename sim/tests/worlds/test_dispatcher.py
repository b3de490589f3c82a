"""Who sends jobs to which cluster: what it heard, when, and what that costs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.manifest import Manifest
from slurmtwin.contract.scenario import COPY, Dispatch, Scenario
from slurmtwin.worlds.dispatcher import Dispatcher
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.history import history_of
from slurmtwin_reports.study_metrics import run_figures


def _job(number: int, cpus: int = 1, **more: Any) -> JobRequest:
    return JobRequest(job_id=number, submit_ns=0, run_ns=SECOND, ntasks=cpus, **more)


def _dispatcher(policy: str, staleness_s: int = 0, remembers: bool = False) -> Dispatcher:
    spec = Dispatch.model_validate(
        {"clusters": ["a", "b"], "policy": policy, "staleness": f"{staleness_s}s", "remembers": remembers}
    )
    return Dispatcher(spec, [8, 8])


def _sent(dispatcher: Dispatcher, count: int, at_s: int = 1, first: int = 1) -> list[str]:
    return [dispatcher.place(_job(first + k), at_s * SECOND + k).partition for k in range(count)]


def test_a_dispatcher_that_knows_all_fills_evenly() -> None:
    """Equal clusters take turns; who ended leaves room."""
    dispatcher = _dispatcher("least-loaded")
    assert _sent(dispatcher, 4) == ["a", "b", "a", "b"]
    dispatcher.over(2, 2 * SECOND)
    assert _sent(dispatcher, 1, 3, 9) == ["b"]


def test_a_stale_view_sends_all_to_the_cluster_that_looked_free() -> None:
    """Until it hears again; one that remembers what it sent itself does not."""
    dispatcher = _dispatcher("least-loaded", 60)
    assert _sent(dispatcher, 4) == ["a"] * 4
    assert _sent(dispatcher, 2, 61, 9) == ["b", "b"]
    assert _sent(_dispatcher("least-loaded", 60, remembers=True), 4) == ["a", "b", "a", "b"]


def test_a_user_has_a_home() -> None:
    """By the number in the name; a job that is too large for it goes where it fits."""
    dispatcher = _dispatcher("home")
    assert [dispatcher.place(_job(k, user=f"user{k}"), 0).partition for k in (1, 2, 3)] == ["b", "a", "b"]
    uneven = Dispatcher(Dispatch(clusters=["a", "b"], policy="home"), [8, 2])
    assert uneven.place(_job(9, 4, user="user1"), 0).partition == "a"


def test_a_job_that_names_its_partition_keeps_it() -> None:
    """Nobody sends it elsewhere."""
    assert _dispatcher("least-loaded").place(_job(1, partition="own"), 0).partition == "own"


def _scenario(policy: str, **dispatch: Any) -> Scenario:
    return Scenario.model_validate({
        "schema": "slurmtwin/scenario/1", "name": "two-clusters",
        "slurm": {
            "conf": {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core"},
            "nodes": [{"NodeName": "n[1-4]", "CPUs": 2, "CoresPerSocket": 2, "RealMemory": 1000}],
            "partitions": [
                {"PartitionName": "all", "Nodes": "n[1-4]", "Default": "YES"},
                {"PartitionName": "a", "Nodes": "n[1-2]"}, {"PartitionName": "b", "Nodes": "n[3-4]"},
            ],
        },
        "workload": {
            "jobs": [{"submit": "1s", "count": 8, "every": "1s", "run": "300s", "time": "10", "user": "user0"}],
            "dispatch": {"clusters": ["a", "b"], "policy": policy, **dispatch},
        },
    })  # fmt: skip


def _rows(scenario: Scenario, folder: Path) -> list[Event]:
    return list(run_scenario(scenario, folder, TwinOptions(keep=True)).kept or [])


def _at_s(rows: list[Event], kind: Kind, job: int) -> float | None:
    return next((row.t_ns / SECOND for row in rows if row.kind == kind and row.job_id == job), None)


def test_jobs_and_news_take_their_way(tmp_path: Path) -> None:
    """Twenty seconds to a cluster: each job begins so much later."""
    near = _rows(_scenario("least-loaded"), tmp_path)
    far = _rows(_scenario("least-loaded", delay="20s"), tmp_path)
    for job in range(1, 9):
        submitted = _at_s(near, Kind.JOB_SUBMITTED, job)
        assert submitted is not None
        assert _at_s(far, Kind.JOB_SUBMITTED, job) == pytest.approx(submitted + 20, abs=0.1)


def test_a_job_away_from_home_fetches_its_data(tmp_path: Path) -> None:
    """All users are at home in one cluster; those sent to the other run a minute longer."""
    rows = _rows(_scenario("least-loaded", away="60s"), tmp_path)
    lengths = {}
    for job in range(1, 9):
        start, end = _at_s(rows, Kind.JOB_STARTED, job), _at_s(rows, Kind.JOB_ENDED, job)
        assert start is not None
        assert end is not None
        lengths[job] = round((end - start) / 60)
    assert sorted(set(lengths.values())) == [5, 6]


def test_no_job_is_sent_over_a_cut_link(tmp_path: Path) -> None:
    """With one link cut all go the other way; with both, jobs wait for the first that is whole again."""
    one = _rows(_scenario("least-loaded", cuts=[{"cluster": "a", "at": "0s", "lasts": "1h"}]), tmp_path)
    assert {row.node for row in one if row.kind == Kind.JOB_STARTED} <= {"n3", "n4"}
    both = _scenario(
        "least-loaded",
        cuts=[{"cluster": "a", "at": "0s", "lasts": "200s"}, {"cluster": "b", "at": "0s", "lasts": "400s"}],
    )
    first = min(row.t_ns for row in _rows(both, tmp_path) if row.kind == Kind.JOB_SUBMITTED)
    assert 200 * SECOND <= first <= 201 * SECOND


def test_a_cluster_cut_off_for_too_long_has_its_jobs_run_twice(tmp_path: Path) -> None:
    """It worked on all the while: its jobs end there, and their copies, sent after 100 s, run in the other cluster."""
    cut = [{"cluster": "a", "at": "50s", "lasts": "2000s"}]
    rows = _rows(_scenario("least-loaded", cuts=cut, lost_after="100s"), tmp_path)
    there = {row.job_id for row in rows if row.kind == Kind.JOB_STARTED and row.node in ("n1", "n2")}
    assert len(there) == 4
    for job in there:
        assert job is not None
        sent, ended = _at_s(rows, Kind.JOB_SUBMITTED, job + COPY), _at_s(rows, Kind.JOB_ENDED, job)
        assert sent == pytest.approx(150, abs=1)
        assert ended is not None
        assert ended > 300
        assert _at_s(rows, Kind.JOB_ENDED, job + COPY) is not None
    assert {row.node for row in rows if row.kind == Kind.JOB_STARTED and (row.job_id or 0) >= COPY} <= {"n3", "n4"}
    figures = run_figures(history_of(_manifest(), rows), "none")["figures"]["0"]
    assert (figures["jobs"], figures["moved"], figures["run_twice"]) == (8, 4, 4)
    assert figures["lost_core_hours"] == pytest.approx(4 * 300 / 3600, rel=0.01)


def test_the_first_copy_goes_when_its_cluster_is_back_in_time(tmp_path: Path) -> None:
    """The link is whole again at 250 s, before the first copies end: they are cancelled, each job ends once."""
    cut = [{"cluster": "a", "at": "50s", "lasts": "200s"}]
    rows = _rows(_scenario("least-loaded", cuts=cut, lost_after="100s"), tmp_path)
    ends = {row.job_id: json.loads(row.detail or "{}")["state"] for row in rows if row.kind == Kind.JOB_ENDED}
    copied = [job % COPY for job in ends if job is not None and job >= COPY]
    assert len(copied) == 4
    assert {ends[job] for job in copied} == {"CANCELLED"}
    assert {ends[job + COPY] for job in copied} == {"COMPLETED"}
    figures = run_figures(history_of(_manifest(), rows), "none")["figures"]["0"]
    assert (figures["moved"], figures["run_twice"]) == (4, 0)
    assert figures["lost_core_hours"] == pytest.approx(4 * 245 / 3600, rel=0.05)
    assert figures["mean_turnaround_s"] > 400


def test_a_short_cut_costs_nothing(tmp_path: Path) -> None:
    """Shorter than `lost_after`: no job is sent again."""
    cut = [{"cluster": "a", "at": "50s", "lasts": "90s"}]
    rows = _rows(_scenario("least-loaded", cuts=cut, lost_after="100s"), tmp_path)
    assert all((row.job_id or 0) < COPY for row in rows)


def test_a_hundred_clusters_on_one_clock(tmp_path: Path) -> None:
    """Two hundred jobs over a hundred clusters of one node: every cluster has two, and no job waits."""
    names = [f"c{k:03}" for k in range(100)]
    scenario = Scenario.model_validate({
        "schema": "slurmtwin/scenario/1", "name": "hundred",
        "slurm": {
            "conf": {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core"},
            "nodes": [{"NodeName": "n[000-099]", "CPUs": 2, "CoresPerSocket": 2, "RealMemory": 1000}],
            "partitions": [{"PartitionName": name, "Nodes": f"n{name[1:]}"} for name in names],
        },
        "workload": {
            "jobs": [{"submit": "1s", "count": 200, "every": "1s", "run": "600s", "time": "20"}],
            "dispatch": {"clusters": names, "policy": "least-loaded", "delay": "50ms"},
        },
    })  # fmt: skip
    rows = _rows(scenario, tmp_path)
    starts = Counter(row.node for row in rows if row.kind == Kind.JOB_STARTED)
    assert set(starts.values()) == {2}
    assert len(starts) == 100
    assert max((_at_s(rows, Kind.JOB_STARTED, job) or 0) - job for job in range(1, 201)) < 70


def test_a_cut_of_a_cluster_that_is_none_is_refused(tmp_path: Path) -> None:
    """By its name."""
    scenario = _scenario("least-loaded", cuts=[{"cluster": "c", "at": "0s", "lasts": "1s"}])
    with pytest.raises(InputError, match="'c'"):
        run_scenario(scenario, tmp_path)


def _manifest() -> Manifest:
    return Manifest("twin", "t", "", 0, parameters={})


def _last_start_s(scenario: Scenario, folder: Path) -> float:
    run = run_scenario(scenario, folder, TwinOptions(keep=True))
    return max(row.t_ns for row in run.kept or [] if row.kind == Kind.JOB_STARTED) / SECOND


def test_stale_capacity_makes_jobs_wait_beside_free_cpus(tmp_path: Path) -> None:
    """Eight jobs fill eight CPUs at once when the view is fresh; a stale one queues half of them behind the others."""
    assert _last_start_s(_scenario("least-loaded"), tmp_path) < 60
    assert _last_start_s(_scenario("none"), tmp_path) < 60
    assert _last_start_s(_scenario("least-loaded", staleness="1h"), tmp_path) > 300


def test_clusters_that_share_nodes_are_refused(tmp_path: Path) -> None:
    """As is one that is not there."""
    for clusters, says in ((["all", "a"], "shares nodes"), (["a", "c"], "no partition 'c'")):
        scenario = _scenario("home", clusters=clusters)
        with pytest.raises(InputError, match=says):
            run_scenario(scenario, tmp_path)
