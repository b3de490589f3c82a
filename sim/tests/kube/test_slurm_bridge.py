"""slurm-bridge in the twin: Slurm chooses the nodes of pods, and what becomes of both when either side fails."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.models.slurm_bridge.rest import EXTERNAL_JOBS
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.history import rows_of_events
from slurmtwin_reports.phases import span

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
PLAYED = (
    "x18-bridge",
    "x23-bridge-after-submit",
    "x30-bridge-job-list",
    "x80-node-deleted",
    "x81-job-cancelled",
    "x81-slurm-job",
    "x82-dead-kubelet",
)
FIRST = EXTERNAL_JOBS + 1


def play(
    pods: list[dict[str, Any]], nodes: int = 2, faults: list[dict[str, Any]] | None = None, **more: Any
) -> list[Event]:
    """Pods on so many machines without slurmd, in turn worker2, worker3 ..."""
    last = nodes + 1
    document = {
        "schema": "slurmtwin/scenario/1", "name": "bridge",
        "cluster": {"workers": [{"count": 1}, {"count": nodes}]},
        "slurm": {
            "version": "26.05", "conf": {"SlurmdTimeout": 30},
            "nodes": [{"NodeName": f"worker[2-{last}]", "CPUs": 2, "RealMemory": 4000, "State": "EXTERNAL"}],
            "partitions": [{"PartitionName": "p", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE"}],
        },
        "pods": {"operator": "slurm-bridge", "bridged": pods, **more.pop("section", {})},
        "faults": faults or [], "budget": {"max_time": "600s"}, **more,
    }  # fmt: skip
    run = run_scenario(Scenario.model_validate(document), FAULTS, TwinOptions(seed=1, keep=True))
    return run.kept or []


def at(rows: list[Event], kind: Kind, **said: Any) -> list[float]:
    """Seconds of the rows of a kind whose columns and details hold those values."""
    out = []
    for row in rows:
        about = (json.loads(row.detail) if row.detail else {}) | {"node": row.node, "job": row.job_id}
        if row.kind is kind and row.actor != "collector" and said.items() <= about.items():
            out.append(row.t_ns / SECOND)
    return out


def gone(rows: list[Event], app: str) -> list[float]:
    """When pods of a line had left the API server, as the collector saw it."""
    return [
        r.t_ns / SECOND for r in rows if r.kind is Kind.POD_DELETED and r.detail and json.loads(r.detail)["app"] == app
    ]


@pytest.mark.parametrize("name", PLAYED)
@pytest.mark.parametrize("seed", [1, 2])
def test_the_phases_of_a_scenario_lie_within_their_predictions(name: str, seed: int) -> None:
    """What the source says of slurm-bridge, and what its users met, happens in the twin as predicted."""
    one = load_scenario(FAULTS / f"{name}.yaml")
    rows = list(rows_of_events(run_scenario(one, FAULTS, TwinOptions(seed=seed, keep=True)).kept or []))
    for phase in one.expect.phases:
        found = span(rows, phase)
        assert found.started, phase.name
        assert (found.length_ns is None) is phase.absent, phase.name
        if found.length_ns is not None:
            assert phase.low <= found.length_ns <= (phase.high or found.length_ns), phase.name


def test_a_pod_runs_where_its_external_job_is_and_ends_it() -> None:
    """Submit, start, bind, run; the job is cancelled when the pod has ended, and its node is free at once."""
    rows = play([{"name": "web", "at": "10s", "run": "30s"}])
    submitted, started = at(rows, Kind.JOB_SUBMITTED, job=FIRST)[0], at(rows, Kind.JOB_STARTED, job=FIRST)[0]
    bound = at(rows, Kind.POD_SCHEDULED, app="web", node="worker2")[0]
    ended = at(rows, Kind.CONTAINER_ENDED, app="web", reason="Completed")[0]
    job_ended = at(rows, Kind.JOB_ENDED, job=FIRST, state="CANCELLED")[0]
    assert 10 < submitted < started < bound < ended < job_ended < ended + 4
    assert at(rows, Kind.JOB_COMPLETED, job=FIRST) == [job_ended]


def test_a_gang_is_one_job_with_a_node_for_each_pod() -> None:
    """Three pods of a group wait for three nodes, and no pod starts before."""
    rows = play(
        [
            {"name": "one", "at": "10s", "run": "40s"},
            {"name": "gang", "at": "20s", "gang": 3, "run": "30s"},
        ],
        nodes=3,
    )
    assert len(at(rows, Kind.JOB_SUBMITTED)) == 2
    nodes = [r.node for r in rows if r.kind is Kind.JOB_STARTED and r.job_id == FIRST + 1]
    assert nodes == ["worker[2-4]"]
    bound = at(rows, Kind.POD_SCHEDULED, app="gang")
    assert len(bound) == 3
    assert min(bound) > at(rows, Kind.JOB_ENDED, job=FIRST)[0]
    assert len(at(rows, Kind.JOB_ENDED, job=FIRST + 1)) == 1


def test_a_shared_job_takes_what_its_pod_asks_for() -> None:
    """With exclusive false two pods of one CPU have one node at the same time; else each has a whole one."""
    line = {"name": "web", "at": "10s", "count": 2, "every": "1s", "run": "60s", "cpu": "1"}
    shared = play([{**line, "exclusive": False}], nodes=1)
    alone = play([line], nodes=1)
    assert max(at(shared, Kind.JOB_STARTED)) < min(at(shared, Kind.JOB_ENDED))
    assert max(at(alone, Kind.JOB_STARTED)) > min(at(alone, Kind.JOB_ENDED))


def test_a_deleted_pod_keeps_its_job_until_it_has_ended() -> None:
    """The grace of a pod that the user deletes belongs to its job (28818e2, after issue 16)."""
    rows = play(
        [{"name": "web", "at": "10s", "run": "300s", "grace": "20s", "stubborn": True}],
        faults=[{"at": "60s", "kind": "pod.delete", "target": "web"}],
    )
    ended = at(rows, Kind.CONTAINER_ENDED, app="web")[0]
    assert ended == pytest.approx(80, abs=1)
    assert ended < at(rows, Kind.JOB_ENDED, job=FIRST)[0] < ended + 3
    assert gone(rows, "web")


def test_a_bridge_that_is_away_harms_no_pod_and_starts_none() -> None:
    """Both processes stand still for a minute: what runs goes on, what comes waits, and jobs end late."""
    rows = play(
        [
            {"name": "early", "at": "10s", "run": "50s"},
            {"name": "late", "at": "50s", "run": "20s"},
        ],
        faults=[{"at": "40s", "kind": "process.freeze", "target": "operator", "lasts": "60s"}],
    )
    assert at(rows, Kind.CONTAINER_ENDED, app="early")[0] < 65
    assert at(rows, Kind.JOB_ENDED, job=FIRST)[0] > 100
    assert at(rows, Kind.JOB_SUBMITTED, job=FIRST + 1)[0] > 100
    assert not at(rows, Kind.POD_DELETING, app="early")


def test_a_cordon_drains_the_slurm_node_and_its_end_resumes_it() -> None:
    """kubectl cordon reaches Slurm by the watch, not by the poll; pods go elsewhere meanwhile."""
    rows = play(
        [{"name": "web", "at": "40s", "run": "30s"}],
        faults=[{"at": "20s", "kind": "kube_node.cordon", "target": "worker2", "lasts": "60s"}],
    )
    assert 20 < at(rows, Kind.NODE_DRAINED, node="worker2")[0] < 21
    assert 80 < at(rows, Kind.NODE_RESUMED, node="worker2")[0] < 86
    assert at(rows, Kind.POD_SCHEDULED, app="web", node="worker3")


def test_a_pending_job_that_names_a_deleted_node_cannot_be_changed_and_still_runs() -> None:
    """update_job() refuses it, which is an error of each attempt; Slurm starts it on a node that is left."""
    rows = play(
        [
            {"name": "first", "at": "10s", "count": 2, "run": "60s"},
            {"name": "last", "at": "20s", "run": "10s"},
        ],
        nodes=3,
        faults=[
            {"at": "5s", "kind": "kube_node.cordon", "target": "worker4"},
            {"at": "40s", "kind": "node.delete", "target": "worker4"},
        ],
    )
    assert at(rows, Kind.NODE_DELETED, node="worker4")
    ended = min(at(rows, Kind.JOB_ENDED, job=job)[0] for job in (FIRST, FIRST + 1))
    assert at(rows, Kind.JOB_STARTED, job=FIRST + 2)[0] > ended
    assert at(rows, Kind.POD_SCHEDULED, app="last")[0] < at(rows, Kind.JOB_STARTED, job=FIRST + 2)[0] + 12


def test_jobs_of_users_do_not_run_on_nodes_without_slurmd() -> None:
    """State=EXTERNAL is for external jobs alone (select_nodes())."""
    rows = play([], workload={"jobs": [{"id": 1, "submit": "10s", "run": "5s"}]})
    assert at(rows, Kind.JOB_REJECTED, job=1)
    assert not at(rows, Kind.JOB_STARTED)


def test_a_pod_that_no_node_can_hold_is_never_submitted() -> None:
    """Fewer nodes pass the other filters than it has pods: no external job."""
    rows = play([{"name": "web", "at": "10s", "run": "5s", "memory": "64Gi"}])
    assert not at(rows, Kind.JOB_SUBMITTED)


def test_the_same_run_has_the_same_rows() -> None:
    """Replications differ, runs do not."""
    one = load_scenario(FAULTS / "x23-bridge-after-submit.yaml")
    hashes = [run_scenario(one, FAULTS, TwinOptions(seed=1, replication=r)).event_hash for r in (0, 0, 1)]
    assert hashes[0] == hashes[1] != hashes[2]


def test_what_the_bridge_has_not_is_refused() -> None:
    """Switches are the reference operator's, and a node without slurmd is a machine of the cluster."""
    with pytest.raises(UnsupportedError, match="no switches"):
        play([], section={"switches": {"recheck": True}})
    with pytest.raises(InputError, match="worker2"):
        play([], nodes=2, cluster={"workers": [{"count": 1}]})


def test_a_job_of_a_higher_partition_takes_the_node_of_a_pod() -> None:
    """Preemption across the two worlds: the external job goes at once, its pod when the bridge looks next."""
    document = load_scenario(FAULTS / "x81-slurm-job.yaml").model_dump(mode="json", by_alias=True)
    document["slurm"]["conf"] |= {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    document["slurm"]["partitions"].append(
        {"PartitionName": "high", "Nodes": "ALL", "MaxTime": "INFINITE", "PriorityTier": 10, "State": "UP"}
    )
    document["pods"]["bridged"][0]["time"] = "60"
    document["workload"]["jobs"][0]["partition"] = "high"
    rows = run_scenario(Scenario.model_validate(document), FAULTS, TwinOptions(seed=1, keep=True)).kept or []
    preempted = at(rows, Kind.JOB_ENDED, job=FIRST, state="PREEMPTED")[0]
    started = at(rows, Kind.SCRIPT_STARTED, job=1)[0]
    assert preempted < started < gone(rows, "web")[0] < preempted + 55


def test_the_job_of_a_gang_stays_while_one_of_its_pods_still_stops() -> None:
    """A pod that is Terminating holds the nodes of its group, whatever the others do."""
    rows = play(
        [{"name": "gang", "at": "10s", "gang": 2, "run": "300s", "grace": "20s", "stubborn": True}],
        faults=[
            {"at": "40s", "kind": "pod.delete", "target": "gang:gang-1"},
            {"at": "50s", "kind": "pod.delete", "target": "gang:gang-0"},
        ],
    )
    ends = at(rows, Kind.CONTAINER_ENDED, app="gang")
    assert ends == pytest.approx([60, 70], abs=1)
    assert ends[1] < at(rows, Kind.JOB_ENDED, job=FIRST)[0] < ends[1] + 3
