"""The twin as a world: budgets, run folder, the end of a run, closed-loop users, why (worlds/)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import slurmtwin
from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import EnvironmentMissingError, InputError
from slurmtwin.contract.events import Kind
from slurmtwin.contract.manifest import read_manifest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.worlds.calibration import HOST_COSTS_FILE, host_costs, load_host_costs
from slurmtwin.worlds.registry import find_world, world_names
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin.worlds.why import explain


def a_scenario(**more: Any) -> Scenario:
    """Three jobs on two nodes."""
    document: dict[str, Any] = {
        "schema": "slurmtwin/scenario/1",
        "name": "small",
        "slurm": {
            "conf": {"SelectType": "select/linear"},
            "nodes": [{"NodeName": "n[1-2]", "CPUs": 1, "RealMemory": 1000}],
            "partitions": [{"PartitionName": "main", "Nodes": "ALL", "Default": "YES", "State": "UP"}],
        },
        "workload": {
            "jobs": [{"id": n, "submit": f"{n}s", "run": "60s", "nodes": "2", "time": "5"} for n in (1, 2, 3)]
        },
    }
    return Scenario.model_validate({**document, **more})


def test_the_same_seed_gives_the_same_events_and_a_folder_changes_nothing(tmp_path: Path) -> None:
    """DESIGN 7: same bytes; the sink only watches."""
    first = run_scenario(a_scenario(), options=TwinOptions(seed=3))
    second = run_scenario(a_scenario(), options=TwinOptions(seed=3, folder=tmp_path / "run", keep=True))
    assert first.event_hash == second.event_hash
    assert first.event_count == second.event_count


def test_a_run_folder_holds_events_jobs_scenario_and_manifest(tmp_path: Path) -> None:
    """contract/manifest.py names the files of a run folder."""
    run = run_scenario(a_scenario(), options=TwinOptions(folder=tmp_path))
    manifest = read_manifest(tmp_path)
    assert manifest.results["event_hash"] == run.event_hash
    assert manifest.parameters["cluster"]["nodes"] == [{"names": "n[1-2]", "cpus": 1}]
    assert len(run.events) == run.event_count
    assert list(run.jobs["state"]) == ["COMPLETED"] * 3
    assert len((tmp_path / "jobs.jsonl").read_text().splitlines()) == 3
    assert json.loads((tmp_path / "scenario.resolved.json").read_text())["name"] == "small"


@pytest.mark.parametrize(
    ("budget", "why"), [({"max_events": 12}, "max_events"), ({"max_time": "30s"}, "max_time"), ({}, "done")]
)
def test_a_budget_ends_a_run_cleanly_and_says_so(budget: dict[str, Any], why: str) -> None:
    """The last row names the reason."""
    run = run_scenario(a_scenario(budget=budget), options=TwinOptions(keep=True))
    assert run.stop_reason == why
    assert run.kept is not None
    assert run.kept[-1].detail == f'{{"why":"{why}"}}'


def test_a_job_that_is_held_for_ever_does_not_keep_the_run_going() -> None:
    """The run ends when nothing can move any more."""
    jobs = [{"submit": "1s", "run": "10s", "nodes": "1"}, {"submit": "1s", "run": "10s", "nodes": "1", "hold": True}]
    run = run_scenario(a_scenario(workload={"jobs": jobs}), options=TwinOptions(keep=True))
    assert run.stop_reason == "done"
    assert run.manifest.results["simulated_ns"] < 60 * SECOND


def test_a_user_who_waits_for_a_job_thinks_and_then_submits() -> None:
    """JobRequest.after_job: submitted think_ns after the other job's end."""
    from slurmtwin.contract.jobs import JobRequest

    jobs = [
        JobRequest(job_id=1, submit_ns=SECOND, run_ns=20 * SECOND, nodes_min=1),
        JobRequest(job_id=2, submit_ns=2 * SECOND, run_ns=5 * SECOND, nodes_min=1, after_job=1, think_ns=30 * SECOND),
    ]
    run = run_scenario(a_scenario(), options=TwinOptions(keep=True), jobs=jobs)
    assert run.kept is not None
    done = next(e.t_ns for e in run.kept if e.job_id == 1 and e.kind is Kind.JOB_COMPLETED)
    submitted = next(e.t_ns for e in run.kept if e.job_id == 2 and e.kind is Kind.JOB_SUBMITTED)
    assert submitted - done == 30 * SECOND + load_host_costs("26.05")[0].submit_rpc_ns


def test_slurmtwin_run_gives_frames(tmp_path: Path) -> None:
    """`slurmtwin.run(scenario, seed).events` is a pandas frame."""
    run = slurmtwin.run(a_scenario(), 1)
    assert {"kind", "t_ns", "job_id"} <= set(run.events.columns)
    assert list(run.jobs["job_id"]) == [1, 2, 3]


def test_why_tells_the_reasons_and_the_refused_candidates_and_changes_nothing() -> None:
    """Job 2 waits for job 1, which holds both nodes; the traced run has the plain run's hash."""
    answer = explain(a_scenario(), ".", 2)
    assert answer.wait_ns is not None
    assert answer.wait_ns > 50 * SECOND
    assert [span.reason for span in answer.spans] == ["Resources"]
    refused = [a for a in answer.attempts if a.outcome == "busy"]
    assert refused[0].held_by == (1,)
    assert "n[1-2]" in answer.to_text()
    assert answer.to_dict()["job_id"] == 2


def test_why_of_a_job_that_is_not_there_is_an_input_error() -> None:
    """The message names the job."""
    with pytest.raises(InputError, match="job 9 is not in the workload"):
        explain(a_scenario(), ".", 9)


def test_worlds_are_found_by_name() -> None:
    """The twin is always there; an unknown name says which are known; an absent package is a missing environment."""
    assert find_world("twin") is run_scenario
    assert "slurm" in world_names()
    with pytest.raises(InputError, match="no world is called"):
        find_world("moon")


def test_a_world_whose_package_is_absent_is_a_missing_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exit code 4, not a traceback."""
    from slurmtwin.worlds import registry

    monkeypatch.setitem(registry.KNOWN, "far", "no_such_package.world:run")
    with pytest.raises(EnvironmentMissingError, match="far"):
        find_world("far")


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_host_costs_of_every_version_are_complete(version: str) -> None:
    """Every field is named in the file, with an origin."""
    _, origin = load_host_costs(version)
    assert origin
    assert HOST_COSTS_FILE.is_file()


def test_noise_draws_host_costs_from_their_spread() -> None:
    """host.noise: launch times differ from job to job and from seed to seed, never between equal seeds."""
    noisy = a_scenario(host={"noise": True})
    hashes = [run_scenario(noisy, options=TwinOptions(seed=seed)).event_hash for seed in (1, 1, 2)]
    assert hashes[0] == hashes[1] != hashes[2]
    assert run_scenario(a_scenario(), options=TwinOptions(seed=1)).event_hash != hashes[0]


@pytest.mark.parametrize("entry", [{}, {"launch": 1, "warp": 2}])
def test_host_costs_with_missing_or_unknown_names_are_refused(entry: dict[str, Any]) -> None:
    """A cost that is not given is not guessed."""
    with pytest.raises(InputError, match=r"missing|unknown"):
        host_costs(entry)
