"""What Slurm's pods rest on fails and comes back: names, keys, images, disks, the operator's own pod, other pods."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.adapters.carrying import Carrying, elected_in_ns
from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.worlds.twin import TwinOptions, run_scenario

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
OWN_PODS = {"workers": "pods", "scale_source": "replicas"}


def play(name: str, **changed: Any) -> list[Event]:
    """The rows of a scenario file, changed: dotted keys say where."""
    folder = FAULTS if (FAULTS / f"{name}.yaml").exists() else FAULTS.parent / "operator"
    document = load_scenario(folder / f"{name}.yaml").model_dump(mode="json", by_alias=True)
    for where, value in changed.items():
        part, _, key = where.partition("__")
        if key:
            document[part][key] = value
        else:
            document[part] = value
    run = run_scenario(Scenario.model_validate(document), FAULTS, TwinOptions(seed=1, keep=True))
    return run.kept or []


def times(rows: list[Event], kind: Kind, **said: Any) -> list[float]:
    """Seconds of the rows of that kind whose columns and details hold those values."""
    found = []
    for row in rows:
        about = {**(json.loads(row.detail) if row.detail else {}), "node": row.node, "job": row.job_id}
        if row.kind is kind and said.items() <= (about | {"actor": row.actor}).items():
            found.append(row.t_ns / SECOND)
    return found


def test_a_slurmd_finds_its_controller_at_its_first_query_after_the_outage() -> None:
    """Recorded in x88: 0.8 to 5.3 s; before it, none; and a submit waits as long."""
    rows = play("x88-dns-outage")
    cleared = times(rows, Kind.FAULT_CLEARED)[0]
    started = [t for t in times(rows, Kind.SLURMD_STARTED, node="w-2") if t > 31]
    assert cleared < started[0] < cleared + 6
    assert cleared < times(rows, Kind.JOB_SUBMITTED, job=2)[0] <= cleared + 5


def test_who_is_connected_goes_on_without_names() -> None:
    """No ping fails, no job is lost, and a worker that stays registered runs jobs afterwards."""
    rows = play("x88-dns-outage")
    assert not times(rows, Kind.JOB_REQUEUED)
    assert not [r for r in rows if r.kind is Kind.NODE_NOT_RESPONDING and r.node != "w-2"]


def test_an_old_token_is_refused_until_the_key_is_back() -> None:
    """Observer and operator, each at once; slurmctld starts anew with each key."""
    rows = play("x21-key-rotated")
    injected, cleared = times(rows, Kind.FAULT_INJECTED)[0], times(rows, Kind.FAULT_CLEARED)[0]
    assert times(rows, Kind.CLIENT_REFUSED, asked="nodes")[0] == injected
    assert not [t for t in times(rows, Kind.ACTION_ISSUED, actor="operator") if injected < t < cleared]
    assert len(times(rows, Kind.SLURMCTLD_STARTED)) == 3


def test_an_operator_makes_a_token_of_the_new_key_within_twelve_minutes() -> None:
    """The key stays: the drain comes with the first pass behind the next token; a back-off of 5 ms x 2^n."""
    scale = {"at": "20s", "kind": "operator.scale", "target": "workers", "count": 1}
    jobs = [{"id": 1, "submit": "1s", "run": "1500s", "time": "60", "nodelist": "w-0"}]
    faults = [{"at": "10s", "kind": "jwt.rotate"}, scale]
    rows = play("x21-key-rotated", faults=faults, workload={"jobs": jobs}, budget={"max_time": "1450s"})
    drained = times(rows, Kind.NODE_DRAINED)
    assert 700 < drained[0] < 1440


@pytest.mark.parametrize(("budget", "taken"), [("unavailable", 1), ("chosen-only", 3)])
def test_a_bad_image_takes_the_budget_or_the_whole_set(budget: str, taken: int) -> None:
    """X38: the switch alone makes the difference."""
    document = {"operator": "slinky", "slurmctld_process": "supervised", "slurmd_process": "supervised",
                "switches": {"update_budget": budget}}  # fmt: skip
    rows = play("x38-bad-image-budget", pods=document)
    gone = [t for t in times(rows, Kind.POD_DELETING, actor="apiserver", app="slurmd") if t > 15]
    assert len(gone) == taken


def test_a_plain_template_without_an_image_stops_at_its_first_pod() -> None:
    """A StatefulSet's rolling update waits for the pod that cannot start; that pod is deleted and comes back."""
    faults = [{"at": "20s", "kind": "image.pull_fails", "target": "slurmd", "lasts": "60s"}]
    rows = play("x52-failed-pods", faults=faults)
    gone = [t for t in times(rows, Kind.POD_DELETING, actor="apiserver", app="slurmd") if 20 < t < 79]
    assert len(gone) == 1
    assert times(rows, Kind.CONTAINER_WAITING, app="slurmd")
    assert [t for t in times(rows, Kind.CONTAINER_STARTED, app="slurmd", actor="apiserver") if t > 80]


def test_a_controller_without_an_image_comes_back_when_somebody_deletes_its_pod() -> None:
    """An ordered StatefulSet leaves the broken pod (kubernetes.md 6.18): the end of the fault deletes it."""
    faults = [{"at": "20s", "kind": "image.pull_fails", "target": "slurmctld", "lasts": "60s"}]
    rows = play("x52-failed-pods", faults=faults)
    started = times(rows, Kind.SLURMCTLD_STARTED)
    assert not [t for t in started if 20 < t < 80]
    assert [t for t in started if 80 < t < 90]


def test_a_full_disk_evicts_the_pod_and_keeps_others_off_the_machine() -> None:
    """X71, X52: the replacement goes to another machine."""
    rows = play("x52-failed-pods")
    ended = times(rows, Kind.POD_ENDED, app="slurmd")
    before = [r.node for r in rows if r.kind is Kind.CONTAINER_STARTED and "w-0" in str(r.detail)]
    assert ended
    assert len(set(before)) == 2


def test_a_disk_without_a_threshold_fills_unseen() -> None:
    """kind's kubelets have none: nothing happens."""
    rows = play("x52-failed-pods", cluster={"workers": [{"count": 3}]})
    assert not times(rows, Kind.POD_ENDED, app="slurmd")


@pytest.mark.parametrize(("now_s", "held_s", "wait_s"), [(2, 15, 15), (20, 15, 0), (2, 0, 0)])
def test_a_new_leader_waits_a_whole_lease_since_its_own_first_look(now_s: int, held_s: int, wait_s: int) -> None:
    """kubernetes.md 6.11; a lease that was given back, or is over, is free."""
    carrying = Carrying(lease_ns=15 * SECOND)
    assert elected_in_ns(now_s * SECOND, held_s * SECOND, carrying) == wait_s * SECOND
    assert elected_in_ns(now_s * SECOND, held_s * SECOND, Carrying()) == 0
    looks = iter([4 * SECOND] * 5)
    carrying = Carrying(lease_ns=15 * SECOND, look=lambda: next(looks))
    assert elected_in_ns(now_s * SECOND, held_s * SECOND, carrying) == (wait_s and 16) * SECOND, (
        "the fourth look behind"
    )


def cut_while_scaled(target: str) -> tuple[list[float], float]:
    """(drains of a scale-in at 20 s, end of the cut) with that target cut off from 15 s on."""
    cut = {"at": "15s", "kind": "network.cut", "target": target, "lasts": "60s"}
    scale = {"at": "20s", "kind": "operator.scale", "target": "workers", "count": 1}
    rows = play("x23-crash-after-actions", faults=[cut, scale])
    return times(rows, Kind.NODE_DRAINED), times(rows, Kind.FAULT_CLEARED)[0]


@pytest.mark.parametrize("target", ["slurmrestd", "operator"])
def test_nothing_is_drained_while_operator_and_slurm_do_not_reach_each_other(target: str) -> None:
    """And at once, or with the next pass, when they do."""
    drained, healed = cut_while_scaled(target)
    assert healed < drained[0] < healed + 70


def test_a_killed_operator_acts_again_after_its_lease() -> None:
    """Recorded in op-operator-killed: 19.2, 19.6 and 19.5 s from the kill to the next action."""
    rows = play("op-operator-killed")
    killed = times(rows, Kind.FAULT_INJECTED)[1]
    again = next(t for t in times(rows, Kind.ACTION_ISSUED, actor="operator") if t > killed)
    assert 17 <= again - killed <= 23


@pytest.mark.parametrize("actions", [1, 2, 3, 4, 5, 6])
def test_a_crash_after_any_action_changes_no_outcome(actions: int) -> None:
    """X23: one victim, drained and deleted after its job; no job is lost."""
    scale = {"at": "15s", "kind": "operator.scale", "target": "workers", "count": 1}
    crash = {"at": "14s", "kind": "process.signal", "target": "operator", "signal": "KILL", "actions": actions}
    rows = play("x23-crash-after-actions", faults=[crash, scale])
    acts = [t for t in times(rows, Kind.ACTION_ISSUED, actor="operator") if t > 14]
    assert len(acts) <= actions or acts[actions] - acts[actions - 1] > 2  # a new process goes on
    assert {r.node for r in rows if r.kind is Kind.NODE_DRAINED} == {"w-0"}
    assert len([t for t in times(rows, Kind.POD_DELETING, actor="apiserver", app="slurmd") if t > 15]) == 1
    assert not times(rows, Kind.JOB_REQUEUED)


def test_task_affinity_alone_fails_the_launch() -> None:
    """X79: with task/none the second job shares the CPU that is left."""
    conf = {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core_Memory", "SlurmdTimeout": 30}
    document = load_scenario(FAULTS / "x79-exclusive-pod.yaml").model_dump(mode="json", by_alias=True)["slurm"]
    rows = play("x79-exclusive-pod", slurm={**document, "conf": conf})
    assert not times(rows, Kind.NODE_DRAINED)
    assert len(times(rows, Kind.SCRIPT_STARTED)) == 2
    assert times(rows, Kind.CPU_OVERBOOKED)


def test_a_job_without_a_limit_meets_the_end_of_the_machine() -> None:
    """The kernel's score takes slurmd of a BestEffort pod before the job that grew; a limit is met much sooner."""
    assert 50 < times(play("s1-machine-runs-out"), Kind.CONTAINER_ENDED, app="slurmd", actor="apiserver")[0] < 140
    limited = play("s1-machine-runs-out", pods={"memory": "200Mi"})
    assert times(limited, Kind.SCRIPT_ENDED, job=1)[0] < 30


def test_a_stubborn_pod_uses_its_grace_up() -> None:
    """X77: another one leaves at once."""
    slow = play("x77-overlap")
    quick = play("x76-node-lock")
    for rows, low, high in ((slow, 25, 27), (quick, 0, 2)):
        asked = times(rows, Kind.POD_DELETING, actor="apiserver", app="other")[0]
        ended = times(rows, Kind.CONTAINER_ENDED, actor="apiserver", app="other")[0]
        assert low <= ended - asked <= high


def test_a_container_whose_pod_went_while_the_kubelet_was_away_is_stopped_and_removed() -> None:
    """It ignores SIGTERM, so the sandbox goes only behind the SIGKILL (found by the soak)."""
    others = [{"name": "web", "at": "5s", "node": "worker2", "stubborn": True}]
    faults = [
        {"at": "20s", "kind": "process.signal", "target": "kubelet@worker2"},
        {"at": "22s", "kind": "pod.delete", "target": "other:web", "grace": "0s"},
    ]
    rows = play("x79-exclusive-pod", pods={"others": others}, faults=faults, workload={"jobs": []}, after="60s")
    assert times(rows, Kind.POD_DELETED, app="other")
    assert times(rows, Kind.RUN_ENDED)


@pytest.mark.parametrize(
    ("switches", "said"), [({"colour": "red"}, "no switch is called"), ({"prune": "always"}, "pods.switches.prune")]
)
def test_a_switch_that_is_none_is_refused(switches: dict[str, str], said: str) -> None:
    """By name."""
    with pytest.raises(InputError, match=said):
        play("x33-slinky", pods={"operator": "slinky", "switches": switches})


def test_a_fault_of_an_operator_needs_one() -> None:
    """Before anything is deleted."""
    with pytest.raises(InputError, match="no operator runs here"):
        play("x1-controller-crash", faults=[{"at": "20s", "kind": "pod.delete", "target": "operator"}])


def test_workers_of_a_design_with_a_jitter_register_one_by_one() -> None:
    """Soperator's wait up to 30 s at random; Slinky's do not."""
    spans = {}
    for design in ("soperator", "slinky"):
        slurm = load_scenario(FAULTS / "x33-slinky.yaml").model_dump(mode="json", by_alias=True)["slurm"]
        nodes = [{"NodeName": "w-[0-7]", "CPUs": 1, "RealMemory": 200}]
        pods = {"operator": design, "switches": OWN_PODS, "slurmd_process": "supervised"}
        rows = play("x33-slinky", pods=pods, faults=[], slurm={**slurm, "nodes": nodes}, after="60s")
        started = times(rows, Kind.SLURMD_STARTED)
        assert len(started) == 8
        spans[design] = max(started) - min(started)
    assert spans["slinky"] < 5 < 15 < spans["soperator"] < 35


def test_a_set_begins_with_as_many_workers_as_it_is_given() -> None:
    """None, one, or one per node."""
    for count, made in ((0, 0), (1, 1), (None, 2)):
        pods = {"operator": "slinky", "replicas": count}
        rows = play("x33-slinky", pods=pods, faults=[], workload={"jobs": []})
        assert len(times(rows, Kind.POD_CREATED, actor="apiserver", app="slurmd")) == made
