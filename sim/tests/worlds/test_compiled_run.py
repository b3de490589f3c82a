"""Compiled code plays plain runs with the twin's own events, and leaves every other run to the twin."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plain_cases import case, cluster, crowd, difference, played

from slurmtwin.contract.clock import MINUTE, SECOND
from slurmtwin.contract.cluster import ClusterConf, PartitionConf
from slurmtwin.contract.events import hash_line
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Budget, Dispatch, Host, Scenario, Workload
from slurmtwin.models.slurmctld.compiled import plain_settings
from slurmtwin.models.slurmctld.compiled.plain_settings import odd_cost, odd_partition, odd_setting
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.workload.synthetic import synthetic
from slurmtwin.worlds.calibration import load_host_costs
from slurmtwin.worlds.replay import replay_scenario
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

core = pytest.importorskip("slurmtwin.models.slurmctld.compiled.core", reason="numba is not installed")
pytestmark = [
    pytest.mark.property, pytest.mark.timeout(900), pytest.mark.usefixtures("compiled_once"),
]  # fmt: skip  # the first run on a machine compiles


def assert_equal(scenario: Scenario, jobs: list[JobRequest], costs: HostCosts | None = None) -> None:
    """Both cores give the same events; the first that differs is shown."""
    assert difference(scenario, jobs, costs) == ""


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(number=st.integers(0, 10**9))
def test_every_event_of_a_generated_plain_run_is_the_twins(number: int) -> None:
    """Rows, their order, the engine's count of events and the end: over loads, widths, limits and settings."""
    assert_equal(*case(number))


@pytest.mark.parametrize(
    "conf",
    [
        {"OverTimeLimit": 2},
        {"MinJobAge": 20},
        {"KillWait": 5},
        {"Epilog": "/bin/true", "Prolog": "/bin/true"},
        {"PriorityType": "priority/basic"},
    ],
)
def test_settings_of_the_cluster_count_for_both(conf: dict[str, Any]) -> None:
    """What the compiled core takes from slurm.conf, one setting at a time."""
    for seed in range(4):
        assert_equal(cluster(40, **conf), list(crowd(seed, 40)))


@pytest.mark.parametrize("name", ["w2000", "o1000"])
def test_every_event_of_the_benchmark_workloads_is_the_twins(name: str) -> None:
    """1,000 nodes, 26.05's default scheduler settings."""
    assert_equal(cluster(1000), list(synthetic(name).requests()))


@pytest.mark.parametrize(
    "name", ["submit_rpc_ns", "launch_ns", "exit_notice_ns", "epilog_ns", "kill_ns", "backfill_waiting_ns"]
)
def test_one_nanosecond_more_of_a_cost_is_seen(name: str) -> None:
    """The comparison can fail: with a cost that only one core knows of, the events differ."""
    costs = load_host_costs("26.05")[0].on_many_machines()
    jobs = list(crowd(5, 40))
    more = replace(costs, **{name: getattr(costs, name) + 1})
    compiled = played(cluster(40), jobs, "compiled", more)
    assert compiled.manifest.parameters["core"]["name"] == "compiled"
    assert compiled.event_hash != played(cluster(40), jobs, "twin", costs).event_hash
    assert_equal(cluster(40), jobs, more)


def test_the_file_of_events_has_the_rows_that_were_hashed(tmp_path: Path) -> None:
    """Parquet and memory hold the same columns, and their text has the run's hash."""
    jobs = list(crowd(7, 65))
    runs = [
        run_scenario(cluster(65), ".", TwinOptions(folder=tmp_path / name, core=name), iter(jobs))  # type: ignore[arg-type]
        for name in ("compiled", "twin")
    ]
    compiled, twin = (run.events.drop(columns="run_id") for run in runs)
    assert compiled.equals(twin)
    assert (tmp_path / "compiled" / "jobs.jsonl").read_text() == (tmp_path / "twin" / "jobs.jsonl").read_text()
    kept = played(cluster(65), jobs, "compiled").kept
    assert kept is not None
    assert len("".join(map(hash_line, kept))) > 0
    assert [event.node for event in kept] == [node if isinstance(node, str) else None for node in compiled["node"]]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"begin_ns": 5 * SECOND}, "a job with begin_ns"),
        ({"dependency": "afterok:3"}, "a job with dependency"),
        ({"array": "0-3"}, "a job with array"),
        ({"run_ns": None}, "a job without a run time"),
        ({"ntasks": 500}, "a job that is larger"),
    ],
)
@pytest.mark.parametrize("place", [0, -2])
def test_a_job_that_is_not_plain_leaves_the_run_to_the_twin(
    change: dict[str, Any], why: str, place: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also late in a workload: the run begins anew, with the same events as if it had never been tried."""
    monkeypatch.setattr(core, "_CHUNK", 8)
    jobs = list(crowd(11, 40))
    assert len(jobs) > 20
    jobs[place] = replace(jobs[place], **{"nodes_min": None, "limit_ns": MINUTE, **change})
    tried = played(cluster(40), jobs, "compiled")
    assert tried.manifest.parameters["core"]["name"] == "twin"
    assert why in tried.manifest.parameters["core"]["why"]
    assert tried.event_hash == played(cluster(40), jobs, "twin").event_hash


@pytest.mark.parametrize(
    ("scenario", "why"),
    [
        (cluster(40, version="22.05", SelectType="select/cons_tres"), "Slurm 22.05"),
        (cluster(40, CompleteWait=10), "timers.complete_wait_ns"),
        (cluster(40, parameters="bf_max_job_user=2"), "scheduler.backfill.max_job_user"),
        (cluster(40, parameters="sched_interval=-1"), "full passes"),
        (cluster(40, PriorityWeightJobSize=100), "priorities"),
        (replay_scenario(["40x4"]), "several CPUs"),
        (replay_scenario(["40x1", "2x1"]), "names"),
        (cluster(40).model_copy(update={"workload": Workload(dispatch=Dispatch(clusters=["all"]))}), "a dispatcher"),
        (cluster(40).model_copy(update={"budget": Budget(max_events=10**9)}), "a budget"),
    ],
)
def test_a_cluster_that_is_not_plain_is_the_twins(scenario: Scenario, why: str) -> None:
    """The manifest says which core ran, and why."""
    run = played(scenario, list(crowd(3, 40)), "compiled")
    assert run.manifest.parameters["core"]["name"] == "twin"
    assert why in run.manifest.parameters["core"]["why"]


def test_short_runs_are_the_twins() -> None:
    """Compiled code has to be loaded first."""
    run = played(cluster(40), list(crowd(3, 40)), "auto")
    assert run.manifest.parameters["core"] == {"name": "twin", "why": "no more than 2000 jobs"}


# --- the list of what compiled code knows is closed

CONF = cluster_conf(cluster(2))[0]
OTHER = {bool: lambda value: not value, int: lambda value: value + 7, str: lambda value: value + "x"}
"""Another value of the same type."""


def other(value: Any) -> Any:
    """A value that differs; of sets and tuples one with an unknown member."""
    if isinstance(value, (frozenset, tuple)):
        return type(value)([*value, "x"])
    return OTHER[type(value)](value)


def with_other(section: str, name: str) -> ClusterConf:
    """The default configuration with one setting changed."""
    first, _, second = section.partition(".")
    part = getattr(CONF, first)
    if second:
        inner = getattr(part, second)
        return replace(
            CONF, **{first: replace(part, **{second: replace(inner, **{name: other(getattr(inner, name))})})}
        )
    return replace(CONF, **{first: replace(part, **{name: other(getattr(part, name))})})


def settings_of(section: str) -> list[str]:
    """Names of a section's settings."""
    part: Any = CONF
    for word in section.split("."):
        part = getattr(part, word)
    return [field.name for field in fields(part) if field.name != "backfill"]


@pytest.mark.parametrize(
    ("section", "name"), [(section, name) for section in plain_settings.CLOSED for name in settings_of(section)]
)
def test_a_setting_is_known_or_refused(section: str, name: str) -> None:
    """Compiled code is refused any setting that is not the default, but those it is named to know."""
    known = plain_settings.READ.get(section, set()) | plain_settings.UNSEEN.get(section, set())
    assert odd_setting(with_other(section, name), CONF) == (None if name in known else f"{section}.{name}")


def test_what_is_named_exists() -> None:
    """No name of the list is left over from a setting that is gone."""
    for table in (plain_settings.READ, plain_settings.UNSEEN):
        for section, names in table.items():
            assert names <= set(settings_of(section))
    assert {field.name for field in fields(PartitionConf)} >= plain_settings.PARTITION_UNSEEN
    assert {f.name for f in fields(HostCosts)} >= plain_settings.COSTS_READ | plain_settings.COSTS_UNSEEN


def test_every_section_of_a_configuration_is_closed_or_judged() -> None:
    """A new section of the configuration is nobody's until the list names it."""
    parts = {*plain_settings.CLOSED, *plain_settings.JUDGED, *plain_settings.EMPTY} - {"scheduler.backfill"}
    assert {field.name for field in fields(ClusterConf)} == parts | {"version", "nodes", "partitions"}


@pytest.mark.parametrize("name", [field.name for field in fields(PartitionConf)])
def test_an_option_of_a_partition_is_unseen_or_refused(name: str) -> None:
    """Any option that may matter leaves the run to the twin."""
    part = CONF.partitions[0]
    changed = odd_partition(replace(part, **{name: other(getattr(part, name))}))
    assert changed == (None if name in plain_settings.PARTITION_UNSEEN else f"partition option {name}")


@pytest.mark.parametrize("name", [field.name for field in fields(HostCosts)])
def test_a_host_cost_is_charged_or_refused(name: str) -> None:
    """Any cost that compiled code does not charge leaves the run to the twin."""
    costs = HostCosts()
    changed = odd_cost(replace(costs, **{name: other(getattr(costs, name))}))
    known = plain_settings.COSTS_READ | plain_settings.COSTS_UNSEEN
    assert changed == (None if name in known else f"host cost {name}")


def test_every_way_to_run_is_looked_at() -> None:
    """compiled_run.scenario_reason() was written for these; one more must be put there first."""
    assert set(Scenario.model_fields) == {
        "schema_", "name", "title", "source", "cluster", "slurm", "pods", "workload", "faults", "host", "expect",
        "budget", "after",
    }  # fmt: skip
    assert set(Workload.model_fields) == {"jobs", "file", "generate", "dispatch", "users", "services"}
    assert set(Budget.model_fields) == {"max_events", "max_time", "wall_limit"}
    assert set(Host.model_fields) == {"factor", "noise"}
    assert {field.name for field in fields(TwinOptions)} == {
        "seed", "replication", "tie_seed", "folder", "keep", "times", "costs", "durations", "scaled", "core", "watch",
        "on_start", "operator", "still",
    }  # fmt: skip
    assert {field.name for field in fields(StartTimes)} == {
        "epoch_ns", "slurmctld_ns", "slurmd_ns", "submit_ns", "fault_ns", "fault_err_ns", "lease_ns", "pod_node",
        "workers_ns", "members", "pings", "full_pass_ns", "cycle_ns", "look_ns", "clock_lag_ns", "rest_ns", "made_ns",
        "container_ns", "relist_ns", "sync_ns", "image_ns", "round_ns", "poll_ns", "told_ns", "controller_ns",
        "standby_ns", "entered_ns", "probed_ns", "anew_ns", "script_ns", "taken_back", "swept_ns", "called_ns",
        "host_load", "commented", "runs_beside", "stopped_ns", "bursts_ns",
    }  # fmt: skip
