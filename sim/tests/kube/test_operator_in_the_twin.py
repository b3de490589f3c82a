"""The operator's core carried in simulated time: lagging caches, crash points, stale views, slurmrestd away."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.adapters.carrying import Carrying
from slurmtwin.adapters.manifests import pod_of
from slurmtwin.adapters.operator_process import HEARD_NS, _Process
from slurmtwin.adapters.patches import PLACED
from slurmtwin.adapters.pod_info import slow_start
from slurmtwin.adapters.slurm_port import SlurmPort
from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.engine.environment import RunBudget
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.models.api_server.objects import Pod
from slurmtwin.workload.resolve import resolve_jobs
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds import pod_operator, pod_world
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.pod_observer import ObservedSink
from slurmtwin.worlds.pod_world import PodWorld, with_controllers
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_operator.core import actions as a
from slurmtwin_operator.core import plan

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
SCENARIOS = sorted(path.stem for path in FAULTS.glob("*-slinky.yaml"))


def scenario(name: str) -> Scenario:
    return load_scenario(FAULTS / f"{name}.yaml")


def play(name: str, **options: Any) -> list[Event]:
    run = run_scenario(scenario(name), FAULTS, TwinOptions(keep=True, **options))
    assert run.kept is not None
    return run.kept


def times(rows: list[Event], kind: Kind, **said: object) -> list[float]:
    """Seconds of the rows of that kind with that node and those details."""
    out = []
    for row in rows:
        detail = json.loads(row.detail) if row.detail else {}
        node = said.get("node", row.node)
        rest = {k: v for k, v in said.items() if k != "node"}
        if row.kind is kind and row.node == node and rest.items() <= detail.items():
            out.append(row.t_ns / SECOND)
    return out


def deletions(rows: list[Event]) -> list[float]:
    return times(rows, Kind.POD_DELETING, app="slurmd")


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_operator_scenario_runs(name: str) -> None:
    """Two workers come up, made by the operator, and nothing is out of order in time."""
    rows = play(name)
    assert len(times(rows, Kind.ACTION_ISSUED, do="create-pod")) >= 2
    assert all(a.t_ns <= b.t_ns for a, b in pairwise(rows))


def test_a_busy_worker_is_drained_and_goes_when_its_job_has_ended() -> None:
    """X33: no job is lost."""
    rows = play("x33-slinky")
    [ended] = times(rows, Kind.JOB_ENDED, node=None, state="COMPLETED")[:1]
    assert min(deletions(rows)) > ended
    assert times(rows, Kind.JOB_REQUEUED) == []


def test_a_scale_in_that_is_taken_back_loses_no_pod() -> None:
    """X35: the drain is undone."""
    rows = play("x35-slinky")
    assert deletions(rows) == []
    assert len(times(rows, Kind.NODE_RESUMED)) == 1


def test_while_slurmrestd_is_away_nothing_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """X18: rest_down stop-pass; a failed pass comes back by its back-off alone, half the outage long by then."""
    begun: list[float] = []
    passes = _Process._pass

    def began(process: _Process, key: str, finished: Any) -> None:
        begun.append(process.clock.now_ns / SECOND)
        passes(process, key, finished)

    monkeypatch.setattr(_Process, "_pass", began)
    rows = play("x18-slinky")
    [away, _], [cleared] = times(rows, Kind.FAULT_INJECTED), times(rows, Kind.FAULT_CLEARED)
    back = min(at for at in begun if at > cleared)
    assert back - max(at for at in begun if at < cleared) > (cleared - away) / 2
    assert all(made > back for made in made_again(rows))


def test_a_carrier_that_polls_after_failures_replaces_at_the_next_poll() -> None:
    """X18 with the poll of a carrier that looks every 30 s whatever its passes did: the first one hears of the old
    failure, the second replaces.
    """
    rows = Played("x18-slinky", poll_after_failure=True).run()
    [cleared] = times(rows, Kind.FAULT_CLEARED)
    assert cleared < min(made_again(rows)) < cleared + 63


def made_again(rows: list[Event]) -> list[float]:
    """When worker pods were made after the first was gone."""
    gone = times(rows, Kind.POD_DELETED, app="slurmd")[0]
    return [t for t in times(rows, Kind.POD_CREATED, app="slurmd") if t > gone]


def test_slurmctld_restarted_with_reconfig_on_restart_asks_nobody_to_register() -> None:
    """X1 under Slinky: every slurmd executes itself anew and registers by itself; no sweep follows."""
    rows = play("x1-slinky")
    [killed] = times(rows, Kind.FAULT_INJECTED)
    back = next(row for row in rows if row.kind is Kind.SLURMCTLD_STARTED and row.t_ns > killed * SECOND)
    anew = [row for row in rows if row.kind is Kind.SLURMD_STARTED and row.t_ns > back.t_ns]
    assert sorted(str(row.node) for row in anew) == ["w-0", "w-1"]
    assert all(row.t_ns < back.t_ns + SECOND for row in anew)
    assert not [row for row in rows if row.kind is Kind.NODE_PINGED and 0 < row.t_ns - back.t_ns < 6 * SECOND]


class Played:
    """A world that can be disturbed before it runs."""

    def __init__(self, name: str, folder: Path = FAULTS, **carrying: Any) -> None:
        chosen = load_scenario(folder / f"{name}.yaml")
        conf, _ = cluster_conf(chosen, folder)
        self.sink = ObservedSink("r", "twin", None, True)
        assert chosen.pods is not None
        made = pod_operator.Carrying
        pod_operator.Carrying = lambda **given: made(**(given | carrying))  # type: ignore[misc, assignment]
        try:
            self.world = PodWorld(
                chosen, with_controllers(conf, chosen.pods), resolve_jobs(chosen, folder), TwinOptions(), self.sink
            )
        finally:
            pod_operator.Carrying = made  # type: ignore[misc]

    def run(self) -> list[Event]:
        self.world.start()
        self.world.env.run_within(RunBudget(max_time_ns=170 * SECOND))
        EventSink.close(self.sink)
        return self.sink.kept or []


@pytest.mark.parametrize("after", [1, 2, 3, 4, 5, 6, 7])
def test_a_crash_after_any_action_ends_in_the_same_state(after: int) -> None:
    """One worker is left, drained and deleted in peace; no job is requeued.

    Without a lease: the next process is there before the scale-in, whatever was the last action.
    """
    rows = Played("x33-slinky", crash_after=after, lease_ns=0).run()
    assert times(rows, Kind.JOB_REQUEUED) == []
    assert len(deletions(rows)) == 2  # the object's row and the receipt
    created = len(times(rows, Kind.POD_CREATED, app="slurmd")) // 2
    assert created == 2


@pytest.mark.parametrize("frozen_s", [25, 33, 45])
def test_an_operator_that_stood_still_in_a_call_finds_it_given_up(frozen_s: int) -> None:
    """Its way is cut, and it is frozen beyond the time at which its SYN would be sent again or the call given up. So
    nothing is scaled in before the jobs have ended."""
    faults = [
        ClusterFault.model_validate({"at": at, "kind": kind, "target": "operator", "lasts": lasts})
        for at, kind, lasts in (("20s", "network.cut", "110s"), (f"{frozen_s}s", "process.freeze", "60s"))
    ]
    made = scenario("x33-slinky")
    run = run_scenario(made.model_copy(update={"faults": [*made.faults, *faults]}), FAULTS, TwinOptions(keep=True))
    assert run.stop_reason == "done"
    assert deletions(run.kept or []) == []
    assert times(run.kept or [], Kind.JOB_REQUEUED) == []


def test_a_stale_cache_delays_but_breaks_nothing() -> None:
    """The caches stand still round the scale-in (Sieve's stale state): the drain comes when they catch up."""
    played = Played("x33-slinky")
    env = played.world.env
    operator = played.world.kube.operator
    assert operator is not None

    def hold(_argument: object) -> None:
        for informer in operator.operator.informers:
            informer.hold()

    def release(_argument: object) -> None:
        for informer in operator.operator.informers:
            informer.release()

    env.call_at(10 * SECOND, hold)
    env.call_at(40 * SECOND, release)
    rows = played.run()
    assert 40 <= times(rows, Kind.NODE_DRAINED)[0] < 42.5  # a pass waits 1 or 2 s for its list of nodes
    assert times(rows, Kind.JOB_REQUEUED) == []


def test_a_planted_core_that_never_drains_takes_a_busy_pod() -> None:
    """The rows show it: this is how a check would see such an operator."""
    played = Played("x33-slinky")
    operator = played.world.kube.operator
    assert operator is not None

    def hasty(observed: Any, memory: a.Memory, now_ns: int) -> a.Plan:
        switches = observed.switches.model_copy(update={"drain_before_delete": False})
        return plan(replace(observed, switches=switches), memory, now_ns)

    operator.operator._core = hasty
    rows = played.run()
    assert times(rows, Kind.JOB_REQUEUED)


def test_a_manifest_keeps_what_the_twin_needs() -> None:
    """Labels, slot, probes, requests, hook, tolerations of a worker pod as the core writes it."""
    manifest = json.dumps({
        "metadata": {"name": "w-0", "namespace": "ns", "labels": {"a": "b"}, "annotations": {"slurmtwin.dev/slot": "0"},
                     "ownerReferences": [{"kind": "NodeSet", "name": "w", "uid": "u"}]},
        "spec": {
            "containers": [{"name": "slurmd", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
                            "lifecycle": {"preStop": {"exec": {}}},
                            "livenessProbe": {"periodSeconds": 5, "failureThreshold": 6}}],
            "terminationGracePeriodSeconds": 60, "nodeSelector": {"role": "compute"},
            "tolerations": [{"key": "k", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7}],
        },
    })  # fmt: skip
    pod = pod_of(manifest, {"process": "supervised"}, pre_stop_ns=400 * MS, sidecars=("log",))
    [container], [sidecar] = pod.spec.containers, pod.spec.init_containers
    assert (sidecar.name, sidecar.image, sidecar.restartable, sidecar.memory) == ("log", container.image, True, 0)
    assert isinstance(pod, Pod)
    assert (container.milli_cpu, container.memory, container.env["process"]) == (1000, 1 << 30, "supervised")
    assert container.pre_stop_ns == 400 * MS
    assert container.liveness is not None
    assert (container.liveness.period_ns, container.liveness.failures) == (5 * SECOND, 6)
    assert (pod.spec.grace_ns, pod.spec.tolerations[0].for_ns) == (60 * SECOND, 7 * SECOND)
    assert Carrying().poll_ns == 30 * SECOND


def test_a_worker_ends_when_its_pre_stop_hook_is_over() -> None:
    """As long as the duration says, from the pod's deletion until slurmd ends."""
    path = Path("scenarios/operator/op-delete.yaml")
    options = TwinOptions(keep=True, durations={"pre-stop": (5 * SECOND,)})
    rows = run_scenario(load_scenario(path), path.parent, options).kept or []
    deleted = next(r.t_ns for r in rows if r.kind is Kind.POD_DELETING and r.actor == "apiserver")
    stopped = next(r.t_ns for r in rows if r.kind is Kind.SLURMD_STOPPED)
    assert 5 * SECOND <= stopped - deleted < 6 * SECOND


def test_slinkys_slurmd_waits_for_a_look_that_sees_its_sidecar() -> None:
    """Its pods are mounted at the first look, whatever the reference operator's take; then logfile, a look, slurmd."""
    durations = still_durations() | {"volumes-mounted-alone": (5 * SECOND,), "relist": (3 * MS,)}
    for look_ns in (200 * MS, 700 * MS):
        times = StartTimes(relist_ns={f"worker{n}": look_ns for n in ("", 2, 3)})
        rows = play("x47-slinky", durations=durations, times=times)
        bound = max(row.t_ns for row in rows if row.kind is Kind.POD_SCHEDULED and row.actor == "apiserver")
        logfile, slurmd = (
            next(row.t_ns for row in rows if row.t_ns > bound and f"Started container {name}" in str(row.detail))
            for name in ("logfile", "slurmd")
        )
        looks = [look_ns + n * 1003 * MS for n in range(80)]
        assert logfile - bound < SECOND
        assert slurmd - next(look for look in looks if look > logfile) < 200 * MS


@pytest.mark.parametrize(("operator", "noted"), [("slinky", 3), ("reference", 0)])
def test_slurm_operator_alone_notes_a_machines_place_on_its_pods(operator: str, noted: int) -> None:
    """Once for each pod, behind the changes of nodes of the first pass that found it on a machine."""
    played = Played("x47-slinky") if operator == "slinky" else Played("op-delete", FAULTS.parent / "operator")
    seen: list[str] = []

    def written(_verb: str, old: object, new: object) -> None:
        if isinstance(old, Pod) and isinstance(new, Pod) and old.meta.annotations != new.meta.annotations:
            assert new.meta.annotations.keys() - old.meta.annotations.keys() == {PLACED}
            assert new.spec.node_name
            seen.append(new.meta.uid)

    played.world.kube.server.on_write.append(written)
    played.run()
    assert len(seen) == len(set(seen)) == noted


def labels_behind_ns(monkeypatch: pytest.MonkeyPatch, **carrying: Any) -> list[int]:
    """Of each label of a worker in x42-drain-protected: how long behind the settling of its pass, and a look for each
    batch of its comments, it is written."""
    settled: list[int] = []
    labelled: list[int] = []
    settle = SlurmPort.settle

    def noted(port: SlurmPort, done: Any) -> None:
        settled.append(port._clock.now_ns + len(slow_start(done.__self__.chains)) * SECOND)
        settle(port, done)

    def written(_verb: str, old: object, new: object) -> None:
        if isinstance(old, Pod) and isinstance(new, Pod) and old.meta.labels != new.meta.labels:
            labelled.append(played.world.env.now_ns - settled[-1])

    with monkeypatch.context() as patched:
        patched.setattr(SlurmPort, "settle", noted)
        played = Played("x42-drain-protected", **carrying)
        played.world.kube.server.on_write.append(written)
        played.run()
    return labelled


def test_slurm_operator_labels_pods_behind_the_lists_of_its_status(monkeypatch: pytest.MonkeyPatch) -> None:
    """What protects a busy worker from a budget's evictions is written when nodes were listed anew: a second later."""
    labelled = labels_behind_ns(monkeypatch)
    assert labelled
    assert all(SECOND <= behind_ns < 1.2 * SECOND for behind_ns in labelled)


def test_what_a_pass_writes_of_pods_comes_one_by_one_before_its_labels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The set's status, and conditions of both pods, whose nodes are new or have a job: three writes, 300 ms each."""
    first = {ms: labels_behind_ns(monkeypatch, write=lambda ms=ms: ms * MS)[0] for ms in (0, 300)}
    assert (first[300] - first[0]) / SECOND == pytest.approx(0.9, abs=0.02)


def test_a_machines_place_is_noted_when_a_change_of_a_node_is_listed() -> None:
    """slurm-client's update comes back when nodes were listed anew: a new pod's note is a second behind its undrain."""
    played = Played("x38-bad-image-whole-set")
    noted: list[float] = []

    def written(_verb: str, old: object, new: object) -> None:
        if isinstance(old, Pod) and isinstance(new, Pod) and old.meta.annotations != new.meta.annotations:
            noted.append(played.world.env.now_ns / SECOND)

    played.world.kube.server.on_write.append(written)
    resumed = [row.t_ns / SECOND for row in played.run() if row.kind is Kind.NODE_RESUMED]
    behind = [at - undrained for at in noted for undrained in resumed if 0 <= at - undrained < 1.1]
    assert behind
    assert all(behind_s >= 1 for behind_s in behind)


@pytest.mark.parametrize("name", ["x37-slinky", "x41-slinky"])
def test_a_write_that_is_heard_of_late_brings_one_more_pass(name: str) -> None:
    """Its own pass has begun by then (slurm-operator's are told of what they wrote themselves)."""
    passes = {}
    for late in (False, True):
        played = Played(name, heard_late=lambda late=late: late)
        played.run()
        assert played.world.kube.operator is not None
        passes[late] = played.world.kube.operator.operator.passes
    assert passes[True] > passes[False]


@pytest.mark.parametrize("name", ["x37-slinky", "x33-slinky"])
def test_a_new_template_is_the_write_that_each_pass_begins_with(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """nodeset_history.go getNodeSetRevisions() asks for a ControllerRevision in any pass: there is no other one."""
    begun: list[int] = []
    waited: list[tuple[int, int]] = []
    passes, ask = _Process._pass, _Process._ask

    def began(process: _Process, key: str, finished: Any) -> None:
        begun.append(process.clock.now_ns)
        passes(process, key, finished)

    def asked(process: _Process, item: Any, finished: Any) -> None:
        waited.append((process.clock.now_ns, process.clock.now_ns - begun[-1]))
        ask(process, item, finished)

    with monkeypatch.context() as patched:
        patched.setattr(_Process, "_pass", began)
        patched.setattr(_Process, "_ask", asked)
        rows = Played(name, latency=lambda: 300 * MS).run()
    [fault_ns] = [row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED][:1]
    behind = [wait_ns / SECOND for at_ns, wait_ns in waited if at_ns >= fault_ns]
    assert behind
    assert max(behind) == 0


@pytest.mark.parametrize("later", [{"kind": "operator.scale", "count": 2}, {"kind": "operator.update"}])
def test_a_node_set_that_was_deleted_is_no_target(later: dict[str, Any]) -> None:
    """Its workers are gone as well by then; the message names it."""
    made = load_scenario(FAULTS.parent / "operator" / "op-delete.yaml")
    step = OperatorStep.model_validate({"at": "60s", "target": "workers", **later})
    with pytest.raises(InputError, match=r"NodeSet/.*/w is no object of the cluster now"):
        run_scenario(made.model_copy(update={"faults": [*made.faults, step]}), FAULTS, TwinOptions())


@pytest.mark.parametrize("name", ["x33-slinky", "x37-slinky"])
def test_a_step_is_at_the_server_when_its_recorded_request_was(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A replication draws in there when the server has it: however long requests take, the node set changes at the
    injection, and the collector hears of it a watch later."""
    monkeypatch.setattr(pod_world, "REQUEST_NS", (600 * MS, 601 * MS))
    rows = Played(name).run()
    [fault_ns] = [row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED][:1]
    heard = [row.t_ns for row in rows if row.kind is Kind.OBJECT_CHANGED and row.t_ns >= fault_ns]
    assert 0 < heard[0] - fault_ns <= 8 * MS


@pytest.mark.parametrize(("late", "write_ms"), [(False, 0), (True, 0), (False, 300)])
def test_behind_a_recorded_status_comes_one_pass_and_one_more_if_its_last_write_is_heard_of_late(
    late: bool, write_ms: int
) -> None:
    """The pods that were written bring the one, when the recorded pass has had the answer to its status (half a
    request) and to them, one each, and some time behind each of the three."""
    played = Played("x33-slinky", heard_late=lambda: late, write=lambda: write_ms * MS, written=lambda: 20 * MS)
    added: list[int] = []

    class Noted:
        process: _Process

        def add(self, key: str) -> None:
            added.append(played.world.env.now_ns)
            if len(added) == 1:
                self.process._pass(key, lambda _good: None)

        def add_after(self, _key: str, _pause_ns: int) -> None:
            """What comes later in the run is nobody's concern."""

    def stands(_argument: object) -> None:
        assert played.world.kube.operator is not None
        [process] = played.world.kube.operator.operator._processes
        assert isinstance(process, _Process)
        Noted.process = process
        process._new_queue = Noted  # type: ignore[method-assign, assignment]
        process._other_states = lambda _states: frozenset(("w-0", "w-1"))  # type: ignore[method-assign]
        process._stand(None)

    played.world.env.call_at(10 * SECOND, stands)
    played.run()
    ends_ns = 10 * SECOND + 5 * write_ms * MS // 2 + 3 * 20 * MS
    assert added[0] == 10 * SECOND
    assert [at_ns for at_ns in added[1:] if at_ns < ends_ns] == []
    assert sum(ends_ns <= at_ns <= ends_ns + HEARD_NS for at_ns in added[1:]) == 1 + late
