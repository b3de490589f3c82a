"""What a recording in pods fixes for its replications, and that each phase names a parameter that exists."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slurmtwin.campaign.recorded_starts import clock_lag_ns, kube_node
from slurmtwin.campaign.recordings import start_times
from slurmtwin.campaign.replications import Batch, Made, _prepare, run_twin
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.manifest import Manifest
from slurmtwin.contract.pod_durations import DURATIONS, RULES
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin_reports.load import load_run

FAULTS = sorted(Path("scenarios/faults").glob("*.yaml"))


def pod(t_s: int, pod_name: str, app: str, node: str) -> Event:
    """A pod.scheduled row."""
    detail = json.dumps({"app": app, "pod": f"ns/{pod_name}"})
    return Event(t_s * SECOND, Kind.POD_SCHEDULED, "apiserver", node=node, detail=detail)


def lease(t_s: int, node: str) -> Event:
    """A lease.renewed row."""
    return Event(t_s * SECOND, Kind.LEASE_RENEWED, "apiserver", node=node)


def test_places_and_lease_phases_are_those_before_the_fault() -> None:
    """What moved after the injection is for the twin to find out; a Deployment's pod is called by its app."""
    fault = {"at": "20s", "kind": "pod.delete", "target": "slurmd:w-0"}
    scenario = Scenario.model_validate(
        {"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": [{"NodeName": "w-0"}]}, "faults": [fault]}
    )
    rows = [
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"),
        pod(-4, "w-0", "slurmd", "dev-worker"), pod(-4, "slurmctld-5d9c-x7k2d", "slurmctld", "dev-worker3"),
        lease(8, "dev-worker"), lease(18, "dev-worker"), lease(17, "dev-control-plane"),
        Event(21 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault})),
        pod(22, "w-0", "slurmd", "dev-worker2"), lease(28, "dev-worker"),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    found = start_times(manifest, scenario, rows)
    assert found.pod_node == {"w-0": "worker1", "slurmctld": "worker3"}
    assert found.lease_ns == {"worker1": 18 * SECOND, "control-plane": 17 * SECOND}
    assert found.fault_ns == (21 * SECOND,)


@pytest.mark.parametrize(("kinds", "sweeps"), [(("ready", "unready", "ready"), 1), (("ready", "ready"), 0)])
def test_a_pod_that_is_ready_again_tells_of_a_sweep_if_it_had_been_taken_back(kinds: list[str], sweeps: int) -> None:
    """One that was made anew, and is ready for the first time, tells of none."""
    fault = {"at": "20s", "kind": "pod.delete", "target": "slurmd:w-0"}
    scenario = Scenario.model_validate(
        {"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": [{"NodeName": "w-0"}]}, "faults": [fault]}
    )
    said = json.dumps({"app": "slurmd", "pod": "ns/w-0"})
    rows = [
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"),
        *(Event(place * SECOND, Kind(f"pod.{kind}"), "collector", node="dev-worker", detail=said)
          for place, kind in enumerate(kinds)),
        Event(21 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault})),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    assert len(start_times(manifest, scenario, rows).swept_ns) == sweeps


@pytest.mark.parametrize(
    ("stopped_ms", "ordered"), [(None, (20_000, 12)), (20_005, (20_005, 1)), (17_000, (20_000, 12))]
)
def test_a_takeover_is_ordered_when_its_primary_ends_or_two_seconds_before_its_call_is_back(
    stopped_ms: int | None, ordered: tuple[int, int]
) -> None:
    """The backup answers when it has given the primary SHUTDOWN_WAIT; when it stood by before is known as well."""
    fault = {"at": "20s", "kind": "slurmctld.takeover"}
    document = {"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": [{"NodeName": "w-0"}]}, "pods": {}}
    rows = [
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"),
        Event(-4 * SECOND, Kind.SLURMCTLD_STANDBY, "slurmctld"),
        *([] if stopped_ms is None else [Event(stopped_ms * MS, Kind.SLURMCTLD_STOPPED, "slurmctld", t_err_ns=MS)]),
        Event(
            21 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault}), t_err_ns=1012 * MS
        ),
        Event(30 * SECOND, Kind.SLURMCTLD_STANDBY, "slurmctld"),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    found = start_times(manifest, Scenario.model_validate(document | {"faults": [fault]}), rows)
    assert (found.fault_ns, found.fault_err_ns) == ((ordered[0] * MS,), (ordered[1] * MS,))
    assert found.standby_ns == -4 * SECOND


def prepared(name: str, recording: str) -> tuple[Batch, Made]:
    """A batch of a recorded fault scenario's replications, and what they share."""
    folder = Path("scenarios/recordings") / name / "26.05/pods" / recording
    batch = Batch(scenario=Path(f"scenarios/faults/{name}.yaml"), recording=folder, version="26.05", world=run_twin)
    return batch, _prepare(batch)


def test_a_backup_stands_by_when_the_recording_has_it_and_its_rounds_count_from_then() -> None:
    """x9-takeover #12: 29 rounds and some 10 ms behind it, whenever the order comes within a second."""
    batch, made = prepared("x9-takeover", "12")
    assert made.times.standby_ns is not None
    rows = run_twin(made.replication(batch, 0))
    took = next(row.t_ns for row in rows if row.kind is Kind.SLURMCTLD_TOOK_OVER)
    assert 0 < (took - made.times.standby_ns) / SECOND - 29 < 0.04


def test_workers_that_wait_for_slurmctld_start_as_recorded() -> None:
    """x16: where each container ran is known to half a second, and slurmd serves two attempts of 20 s later."""
    path, folder = (
        Path("scenarios/faults/x16-cold-start.yaml"),
        Path("scenarios/recordings/x16-cold-start/26.05/pods/18"),
    )
    real = load_run(folder)
    times = start_times(real.manifest, load_scenario(path), list(real.rows()))
    assert sorted(times.container_ns) == ["w-0", "w-1", "w-2", "w-3"]
    assert all(0 < high - low < SECOND // 2 for low, high in times.container_ns.values())
    made = _prepare(Batch(scenario=path, recording=folder, version="26.05", world=run_twin))
    for number in range(3):
        batch = Batch(scenario=path, recording=folder, version="26.05", world=run_twin, first=number)
        rows = [row for row in run_twin(made.replication(batch, number)) if row.kind == Kind.SLURMD_STARTED]
        for row in rows:
            low, high = times.container_ns[str(row.node)]
            assert low + 40 * SECOND < row.t_ns < high + 43 * SECOND


def test_ticks_that_pinged_before_the_fault_are_known() -> None:
    """Of a run in pods; requests to register, nodes that did not answer and ticks after the injection are none."""
    fault = {"at": "20s", "kind": "network.cut", "target": "slurmd:w-0", "other": "slurmctld"}
    nodes = [{"NodeName": "w-[0-1]"}]
    document = {"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": nodes}, "faults": [fault], "pods": {}}

    def asked(t_s: int, node: str, purpose: str = "ping", answering: int = 1) -> Event:
        detail = json.dumps({"purpose": purpose})
        return Event(t_s * SECOND, Kind.NODE_PINGED, "slurmctld", node=node, value=answering, detail=detail)

    rows = [
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"),
        asked(-2, "w-[0-1]", "registration"), asked(8, "w-1"), asked(18, "w-0"), asked(19, "w-1", answering=0),
        Event(21 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault})), asked(28, "w-[0-1]"),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    assert start_times(manifest, Scenario.model_validate(document), rows).pings == (
        (8 * SECOND, "w-1"), (18 * SECOND, "w-0"),
    )  # fmt: skip


def test_a_watcher_that_waits_for_another_fault_disturbs_nothing() -> None:
    """memory.group_kill acts on an OOM kill alone: timers are known until the fault that brings one."""
    armed = {"at": "10s", "kind": "memory.group_kill", "target": "slurmd:w-0"}
    hog = {"at": "20s", "kind": "memory.hog", "target": "job:1"}
    document = {
        "schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": [{"NodeName": "w-0"}]}, "pods": {},
        "faults": [armed, hog], "workload": {"jobs": [{"id": 1, "submit": "1s", "run": "100s", "time": "10"}]},
    }  # fmt: skip

    def cycle(t_s: int) -> Event:
        return Event(t_s * SECOND, Kind.SCHED_BACKFILL_CYCLE, "backfill", value=0)

    def injected(t_s: int, fault: dict[str, str]) -> Event:
        return Event(t_s * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault}))

    rows = [
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"), cycle(8), lease(9, "dev-worker"), injected(10, armed),
        cycle(14), lease(19, "dev-worker"), injected(21, hog), cycle(22), lease(29, "dev-worker"),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    found = start_times(manifest, Scenario.model_validate(document), rows)
    assert (found.cycle_ns, found.lease_ns) == (14 * SECOND, {"worker1": 19 * SECOND})
    assert found.fault_ns == (10 * SECOND, 21 * SECOND)


def test_injections_move_within_their_errors_and_keep_their_order() -> None:
    """A member cluster's too; one that is known exactly stays."""
    times = StartTimes(fault_ns=(20 * SECOND, 10 * SECOND, 20 * SECOND - 1), fault_err_ns=(5, 0, 5))
    moved = replace(times, members={"a": times}).injected_within(lambda low, high: high)
    assert moved.fault_ns == (20 * SECOND + 5, 10 * SECOND, 20 * SECOND + 4)
    assert moved.members["a"].fault_ns == moved.fault_ns
    early = times.injected_within(lambda low, high: low if high else 0)
    assert early.fault_ns == (20 * SECOND - 5, 10 * SECOND, 20 * SECOND - 6)
    spans = iter((0, 5, -5))
    crossed = times.injected_within(lambda low, high: next(spans))
    assert crossed.fault_ns == (20 * SECOND + 4, 10 * SECOND, 20 * SECOND + 4), "none overtakes another"


@pytest.mark.parametrize(
    ("version", "ticks_ms", "round_ms"),
    [("22.05", [400, 18544], 1008), ("22.05", [2000, 2005, 12080], 1008), ("22.05", [9000, 14010], None),
     ("22.05", [-39960, 200, 10280], 1008), ("22.05", [-39960, 200], None), ("26.05", [400, 18544], None)],
)  # fmt: skip
def test_a_round_of_the_old_loop_is_known_from_ticks_before_the_fault(
    version: str, ticks_ms: list[int], round_ms: int | None
) -> None:
    """Rows of one tick are one look; ten rounds at least, since time zero; later versions look at whole seconds."""
    fault = {"at": "20s", "kind": "pod.delete", "target": "slurmd:w-0"}
    document = {
        "schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"version": version, "nodes": [{"NodeName": "w-0"}]},
        "faults": [fault], "pods": {},
    }  # fmt: skip
    said = json.dumps({"purpose": "ping"})
    rows = [Event(-50 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld")]
    rows += [Event(at * MS, Kind.NODE_PINGED, "slurmctld", node="w-0", value=1, detail=said) for at in ticks_ms]
    rows += [
        Event(21 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault})),
        Event(39 * SECOND, Kind.NODE_PINGED, "slurmctld", node="w-0", value=1, detail=said),
    ]
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    found = start_times(manifest, Scenario.model_validate(document), rows).round_ns
    assert found == (None if round_ms is None else round_ms * MS)


def test_the_last_full_pass_and_cycle_before_the_fault_are_known() -> None:
    """A pass of default depth has no period; without a fault every pass is a result."""
    fault = {"at": "20s", "kind": "pod.delete", "target": "slurmd:w-0"}
    document = {
        "schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": [{"NodeName": "w-0"}]}, "faults": [fault],
        "pods": {},
    }  # fmt: skip

    def ran(t_s: int, kind: Kind, depth: str = "") -> Event:
        detail = json.dumps({"depth": depth} if depth else {"took_ns": 0})
        return Event(t_s * SECOND, kind, "slurmctld", detail=detail)

    rows = [
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"),
        ran(8, Kind.SCHED_MAIN_PASS, "full"), ran(9, Kind.SCHED_BACKFILL_CYCLE), ran(13, Kind.SCHED_MAIN_PASS, "full"),
        ran(14, Kind.SCHED_BACKFILL_CYCLE), ran(15, Kind.SCHED_MAIN_PASS, "default"),
        Event(21 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault})),
        ran(23, Kind.SCHED_MAIN_PASS, "full"), ran(24, Kind.SCHED_BACKFILL_CYCLE),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    found = start_times(manifest, Scenario.model_validate(document), rows)
    assert (found.full_pass_ns, found.cycle_ns) == (13 * SECOND, 14 * SECOND)
    quiet = start_times(manifest, Scenario.model_validate({**document, "faults": []}), rows)
    assert (quiet.full_pass_ns, quiet.cycle_ns) == (None, None)
    assert found.anew_ns is None
    again = [Event(t_s * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld") for t_s in (-2, 22)]
    of_two = start_times(manifest, Scenario.model_validate(document), [rows[0], again[0], *rows[1:], again[1]])
    assert (of_two.slurmctld_ns, of_two.anew_ns) == (-5 * SECOND, -2 * SECOND)


@pytest.mark.parametrize(
    ("submitted_s", "by", "before", "conf", "called"),
    [
        (11.0, "main", [], "", [10.0]),
        (12.5, "main", [], "", []),
        (9.0, "main", [], "", []),
        (11.0, "backfill", [], "", []),
        (11.0, "main", [(12.0, Kind.JOB_ENDED)], "", []),
        (11.0, "main", [(10.5, Kind.JOB_ENDED)], "", [10.0]),
        (11.0, "main", [(13.0, Kind.SCHED_MAIN_PASS)], "", []),
        (11.0, "main", [(11.5, Kind.SCHED_MAIN_PASS)], "", [10.0]),
        (11.0, "main", [], "batch_sched_delay=3", []),
    ],
)
def test_a_job_that_a_look_had_left_tells_when_the_loop_had_called_before(
    submitted_s: float, by: str, before: list[tuple[float, Kind]], conf: str, called: list[float]
) -> None:
    """Its pass stands 3 s behind: where one second and less than three had gone by, and where nothing else brought it,
    neither another job's end nor a full pass, nor backfill."""
    fault = {"at": "20s", "kind": "pod.delete", "target": "slurmd:w-0"}
    document = {
        "schema": "slurmtwin/scenario/1", "name": "a", "faults": [fault], "pods": {},
        "slurm": {"nodes": [{"NodeName": "w-0"}], "conf": {"SchedulerParameters": conf} if conf else {}},
    }  # fmt: skip

    def row(t_s: float, kind: Kind, job: int, **said: str) -> Event:
        return Event(round(t_s * SECOND), kind, "slurmctld", job_id=job, detail=json.dumps(said))

    rows = sorted([
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"), row(submitted_s, Kind.JOB_SUBMITTED, 2),
        *(row(t_s, kind, 1, depth="full") for t_s, kind in before), row(13.0, Kind.JOB_STARTED, 2, by=by),
        Event(20 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault})),
        row(21.0, Kind.JOB_SUBMITTED, 3), row(23.0, Kind.JOB_STARTED, 3, by="main"),
    ], key=lambda event: event.t_ns)  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    found = start_times(manifest, Scenario.model_validate(document), rows)
    assert list(found.called_ns) == [round(t_s * SECOND) for t_s in called]


def sync(t_s: float, pod_name: str) -> Event:
    at_ns = round(t_s * SECOND)
    return Event(at_ns, Kind.POD_SYNCED, "kubelet", node="dev-worker", detail=f'{{"pod":"ns/{pod_name}"}}')


def test_the_last_relists_and_syncs_before_the_fault_are_known() -> None:
    """Two relists of a kubelet tell its pause, one alone does not. Without a fault they are nobody's start."""
    fault = {"at": "20s", "kind": "process.signal", "target": "slurmctld"}
    nodes = [{"NodeName": "w-0"}]
    document = {"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": nodes}, "faults": [fault], "pods": {}}

    def relist(t_ms: int, node: str) -> Event:
        return Event(t_ms * MS, Kind.KUBELET_RELISTED, "kubelet", node=node)

    rows = [
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"),
        sync(-5, "slurmctld-5d9c-x7k2d"), pod(-4, "slurmctld-5d9c-x7k2d", "slurmctld", "dev-worker3"),
        sync(-4, "w-0"), sync(-3, "w-0"),
        relist(18_000, "dev-worker"), relist(19_010, "dev-worker"), relist(20_022, "dev-worker"),
        relist(20_500, "dev-worker2"),
        Event(21 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault})),
        relist(21_030, "dev-worker"), relist(21_510, "dev-worker2"), sync(22, "w-0"),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    found = start_times(manifest, Scenario.model_validate(document), rows)
    assert found.relist_ns == {"worker1": 20_022 * MS, "worker2": 20_500 * MS}
    assert found.sync_ns == {"w-0": -3 * SECOND, "slurmctld": -5 * SECOND}
    quiet = start_times(manifest, Scenario.model_validate({**document, "faults": []}), rows)
    assert (quiet.relist_ns, quiet.sync_ns) == ({}, {})


def test_the_first_image_of_each_pod_that_stands_is_known() -> None:
    """Of a pod that was made anew it is the new one's; what comes behind the scenario's begin is none of its begin."""

    def pulled(t_s: float, pod_name: str) -> Event:
        detail = {"about": f"Pod/{pod_name}", "reason": "Pulled", "message": "present"}
        return Event(round(t_s * SECOND), Kind.KUBE_EVENT, "collector", detail=json.dumps(detail))

    def made(t_s: float, pod_name: str) -> Event:
        return Event(round(t_s * SECOND), Kind.POD_CREATED, "collector", detail=json.dumps({"pod": f"d/{pod_name}"}))

    fault = {"at": "20s", "kind": "process.signal", "target": "slurmctld"}
    nodes = [{"NodeName": "w-[0-1]"}]
    document = {"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": nodes}, "faults": [fault], "pods": {}}
    rows = [
        made(-30, "w-0"), pod(-29, "w-0", "slurmd", "dev-worker"), pulled(-28, "w-0"),
        made(-20, "w-0"), pod(-19, "w-0", "slurmd", "dev-worker"), pulled(-18, "w-0"), pulled(-12, "w-0"),
        pod(-15, "slurmctld-5d9c-x7k2d", "slurmctld", "dev-worker3"), pulled(-14, "slurmctld-5d9c-x7k2d"),
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"), pod(-4, "w-1", "slurmd", "dev-worker"),
        pulled(1, "w-1"), Event(21 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault})),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    found = start_times(manifest, Scenario.model_validate(document), rows)
    assert found.image_ns == {"w-0": -18 * SECOND, "slurmctld": -14 * SECOND}


def test_the_first_sync_of_each_pod_and_its_probes_are_known() -> None:
    """Of a pod that was made anew the new one's; a busy collector sees a pod when its kubelet has begun with it."""

    def made(t_s: float, pod_name: str) -> Event:
        return Event(round(t_s * SECOND), Kind.POD_CREATED, "collector", detail=json.dumps({"pod": f"ns/{pod_name}"}))

    def probed(t_s: float, pod_name: str, probe: str) -> Event:
        told = {"pod": f"ns/{pod_name}", "container": "slurmd", "probe": probe}
        return Event(round(t_s * SECOND), Kind.POD_PROBED, "kubelet", node="dev-worker", detail=json.dumps(told))

    fault = {"at": "20s", "kind": "process.signal", "target": "slurmctld"}
    nodes = [{"NodeName": "w-[0-1]"}]
    document = {"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": nodes}, "faults": [fault], "pods": {}}
    rows = [
        Event(-50 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"),
        made(-40, "w-0"), sync(-39, "w-0"), probed(-35, "w-0", "startup"), sync(-24.5, "w-1"), made(-24, "w-1"),
        made(-20, "w-0"), sync(-19, "w-0"), sync(-16, "w-0"),
        probed(7, "w-0", "liveness"), probed(12, "w-0", "readiness"), probed(17, "w-0", "liveness"),
        Event(21 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault})),
        probed(27, "w-0", "liveness"),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    found = start_times(manifest, Scenario.model_validate(document), rows)
    assert found.entered_ns == {"w-0": -19 * SECOND, "w-1": -24.5 * SECOND}
    assert found.probed_ns == {
        "w-0": {"slurmd/liveness": (7 * SECOND, 17 * SECOND), "slurmd/readiness": (12 * SECOND,)}
    }


def test_scripts_that_began_before_the_fault_are_known() -> None:
    """The first of each job; tasks of an array share their job's number, and what comes behind the fault is the
    twin's."""
    fault = {"at": "20s", "kind": "node.update", "target": "w-0", "state": "DRAIN"}
    document = {
        "schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": [{"NodeName": "w-0"}]}, "faults": [fault],
        "pods": {},
    }  # fmt: skip

    def began(t_s: int, job: int, detail: str | None = None) -> Event:
        return Event(t_s * SECOND, Kind.SCRIPT_STARTED, "slurmd", job_id=job, node="w-0", detail=detail)

    rows = [
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"), began(2, 1), began(3, 2, '{"array_task":4}'),
        began(9, 1), Event(20 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault})),
        began(21, 3),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    assert start_times(manifest, Scenario.model_validate(document), rows).script_ns == {1: 2 * SECOND}


def test_a_script_begins_when_the_recording_has_it() -> None:
    """x2-controller-hang #19: in all replications, where the law of that hour would have it within 10 to 60 ms."""
    batch, made = prepared("x2-controller-hang", "19")
    [(job, begins_ns)] = made.times.script_ns.items()
    for number in range(4):
        rows = run_twin(made.replication(batch, number))
        assert next(row.t_ns for row in rows if row.kind is Kind.SCRIPT_STARTED and row.job_id == job) == begins_ns


def test_a_start_long_before_the_recorded_script_is_another_one() -> None:
    """A pass earlier, and its launch is drawn; so is the next one of a job that was requeued."""
    batch, made = prepared("x2-controller-hang", "19")
    [(job, begins_ns)] = made.times.script_ns.items()
    one = made.replication(batch, 0)
    one = replace(one, times=replace(one.times, script_ns={job: begins_ns + 2 * SECOND}))
    rows = run_twin(one)
    started = next(row.t_ns for row in rows if row.kind is Kind.JOB_STARTED and row.job_id == job)
    began = next(row.t_ns for row in rows if row.kind is Kind.SCRIPT_STARTED and row.job_id == job)
    assert began - started < 200 * MS


def test_a_fault_of_slurms_records_leaves_the_looks_of_kubelets_as_they_stood() -> None:
    """x69: a node is drained 40 s before its machine is tainted; of that a kubelet hears."""
    drain = {"at": "5s", "kind": "node.update", "target": "w-0", "state": "DRAIN"}
    taint = {"at": "20s", "kind": "kube_node.taint", "target": "worker1", "taint": "a=b:NoExecute"}
    nodes = [{"NodeName": "w-0"}]
    document = {
        "schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": nodes}, "faults": [drain, taint], "pods": {},
    }  # fmt: skip
    rows = [
        Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"), sync(-3, "w-0"),
        Event(4_000 * MS, Kind.KUBELET_RELISTED, "kubelet", node="dev-worker"),
        Event(5 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": drain})), sync(6, "w-0"),
        Event(19_010 * MS, Kind.KUBELET_RELISTED, "kubelet", node="dev-worker"),
        Event(20_021 * MS, Kind.KUBELET_RELISTED, "kubelet", node="dev-worker"),
        Event(20_500 * MS, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": taint})),
        Event(21_300 * MS, Kind.KUBELET_RELISTED, "kubelet", node="dev-worker"),
    ]  # fmt: skip
    manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
    found = start_times(manifest, Scenario.model_validate(document), rows)
    assert found.relist_ns == {"worker1": 20_021 * MS}
    assert found.sync_ns == {"w-0": -3 * SECOND}


def test_a_run_knows_its_hosts_load_and_how_many_were_beside_it() -> None:
    """A run that no batch recorded has no number: it had the host for itself."""
    document = {"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": [{"NodeName": "w-0"}]}, "pods": {}}
    for known, beside in (({"runs_beside": 3}, 3), ({}, 1)):
        manifest = Manifest(
            world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7} | known,
            resources={"host_load": 5.5},
        )  # fmt: skip
        began = Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld")
        times = start_times(manifest, Scenario.model_validate(document), [began])
        assert (times.host_load, times.runs_beside) == (5.5, beside)


def test_the_last_status_of_a_node_set_before_the_fault_is_known() -> None:
    """A change of its spec is no status, nor is its first sight; what comes behind the fault is the twin's."""
    fault = {"at": "20s", "kind": "operator.scale", "target": "workers", "count": 1}
    nodes = [{"NodeName": "w-0"}]
    document = {"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {"nodes": nodes}, "faults": [fault], "pods": {}}

    def seen(t_s: int, generation: int) -> Event:
        detail = json.dumps({"resource": "NodeSet", "name": "ns/w", "generation": generation})
        return Event(t_s * SECOND, Kind.OBJECT_CHANGED, "collector", detail=detail)

    def told(*rows: Event) -> int | None:
        began = Event(-5 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld")
        injected = Event(21 * SECOND, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": fault}))
        manifest = Manifest(world="kind", scenario="a", scenario_sha256="", seed=0, parameters={"epoch_ns": 7})
        return start_times(manifest, Scenario.model_validate(document), [began, *rows, injected, seen(23, 2)]).told_ns

    assert told(seen(1, 1), seen(8, 1), seen(20, 2)) == 8 * SECOND
    assert told(seen(1, 1)) is None
    marked, other = sync(8.2, "w-1"), sync(8.3, "v-1")
    assert told(seen(1, 1), seen(8, 1), marked, other, sync(8.5, "w-0")) == 8_200 * MS


@pytest.mark.parametrize(
    ("name", "said"),
    [("a-worker", "worker1"), ("a-worker12", "worker12"), ("a-control-plane", "control-plane"), ("other", "other")],
)
def test_nodes_are_called_as_in_scenarios(name: str, said: str) -> None:
    """kind leaves the number of the first worker out."""
    assert kube_node(name) == said


@pytest.mark.parametrize("path", FAULTS, ids=lambda path: path.stem)
def test_a_named_parameter_exists(path: Path) -> None:
    """duration: and rule: name an entry of the contract."""
    for phase in load_scenario(path).expect.phases:
        head, _, name = phase.parameter.partition(":")
        if head in ("duration", "rule"):
            assert name in {"duration": DURATIONS, "rule": RULES}[head]


@pytest.mark.parametrize(
    ("behind_ms", "lag_ms"),
    [([0, 0, 1, 1, 1, 14], 1.5), ([0, 5, 5, 5, 3], 5.5), ([0, 0, 1], 1.5), ([0, 0, 0, 1], 0.5), ([0, 0], 0.5),
     ([0], 5), ([], 5), ([853, 500], 5)],
)  # fmt: skip
def test_the_lag_of_the_hosts_coarse_clock_is_read_off_the_ticks(behind_ms: list[int], lag_ms: float) -> None:
    """Ticks at the whole second are late ones, unless most are there; where nothing tells it is 5 ms."""
    looks = [place * 10 * SECOND + ms * MS + MS // 2 for place, ms in enumerate(behind_ms)]
    assert clock_lag_ns(looks, epoch_ns=0) == lag_ms * MS


def test_ticks_that_wait_for_a_silent_node_tell_nothing_of_the_clock() -> None:
    """Behind a fault they come as the loop wakes, at whole seconds, however far time(NULL) is behind."""
    before, behind = [20 * SECOND + 3 * MS], [place * 21 * SECOND for place in range(2, 9)]
    assert clock_lag_ns(before, 0, behind) == 3.5 * MS
    assert clock_lag_ns([*before, *behind], 0) == 0.5 * MS
