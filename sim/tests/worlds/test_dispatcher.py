"""Who sends jobs to which cluster: what it heard, when, and what that costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Dispatch, Scenario
from slurmtwin.worlds.dispatcher import Dispatcher
from slurmtwin.worlds.twin import TwinOptions, run_scenario


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
            "jobs": [{"submit": "1s", "count": 8, "every": "1s", "run": "300s", "time": "10"}],
            "dispatch": {"clusters": ["a", "b"], "policy": policy, **dispatch},
        },
    })  # fmt: skip


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
