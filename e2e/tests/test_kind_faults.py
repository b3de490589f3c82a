"""Faults are planned in strata, injected at their time with a record of each step, and only into our clusters."""

from __future__ import annotations

import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster_faults import ClusterFault, ClusterFaultKind
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.listed_jobs import listed_jobs
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin_e2e.kind import runner
from slurmtwin_e2e.kind.api import ApiError
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.faults import base, schedule
from slurmtwin_e2e.kind.faults.base import Fault, FaultError
from slurmtwin_e2e.kind.faults.schedule import BY_KIND, FaultRunner, looked_up_ns, planned_ns
from slurmtwin_e2e.kind.prove_faults import FAULTS


def fault(**more: Any) -> ClusterFault:
    """A fault of the scenario."""
    return ClusterFault.model_validate({"at": "10s", "kind": "process.signal", "target": "slurmctld"} | more)


def scenario(**more: Any) -> Scenario:
    """A scenario with four workers in pods."""
    document = {
        "schema": "slurmtwin/scenario/1", "name": "case", "pods": {},
        "slurm": {"nodes": [{"NodeName": "w-[0-3]", "CPUs": 1}]},
    }  # fmt: skip
    return Scenario.model_validate(document | more)


def test_every_kind_of_the_contract_has_a_class_and_a_proof() -> None:
    """No kind is accepted by the scenario that the harness cannot do, and prove_faults does each of them."""
    kinds = set(get_args(ClusterFaultKind))
    assert set(BY_KIND) == kinds
    assert {one["kind"] for one in FAULTS} == kinds


@given(first=st.integers(1, 30), repetitions=st.integers(2, 20), number=st.integers(0, 9), name=st.text(max_size=8))
def test_repetitions_sample_every_part_of_the_timer(first: int, repetitions: int, number: int, name: str) -> None:
    """Any n in a row leave no gap above 2 / n of `within`, its end being its begin, and none lies outside."""
    within = 10**10
    one = ClusterFault(at="0s", kind="dns.outage").model_copy(update={"at": 5, "within": within})
    at = sorted(planned_ns(one, name, number, k) for k in range(first, first + repetitions))
    assert 5 <= at[0] <= at[-1] < 5 + within
    gaps = [b - a for a, b in pairwise([*at, at[0] + within])]
    assert 0.3 * within / repetitions < min(gaps) <= max(gaps) < 2 * within / repetitions


def test_planned_times_depend_on_names_alone() -> None:
    """The same scenario is planned alike everywhere; another fault of it lies elsewhere."""
    one = fault(within="30s")
    assert planned_ns(one, "a", 0, 2) == planned_ns(one, "a", 0, 2)
    assert planned_ns(one, "a", 0, 2) != planned_ns(one, "a", 1, 2)


def test_nothing_is_looked_up_while_the_api_server_is_away() -> None:
    """A fault in an outage is looked up 8 s before it, others 15 s before their own time."""
    server = ClusterFault(kind="api_server.stop", at="20s", lasts="60s")
    kill = ClusterFault(kind="process.signal", at="45s", target="slurmd:w-2", signal="KILL")
    faults = [(0, server, server.at), (1, kill, kill.at), (2, kill, 120 * SECOND)]
    assert [looked_up_ns(faults, number) // SECOND for number in range(3)] == [5, 12, 105]


def test_a_step_is_looked_up_behind_the_end_of_the_one_before() -> None:
    """It puts back what it found: the size of the node set before, not the one that the other step gave it."""
    steps = [OperatorStep(kind="operator.scale", target="workers", count=1, at=at, lasts="8s") for at in ("20s", "36s")]
    other = fault(at="40s", target="slurmd:w-1")
    faults = [(0, steps[0], 20 * SECOND), (1, steps[1], 36 * SECOND), (2, other, 40 * SECOND)]
    assert [looked_up_ns(faults, number) // SECOND for number in range(3)] == [5, 29, 25]


def test_a_pod_that_is_deleted_again_is_looked_up_when_its_successor_runs() -> None:
    """6 s behind the deletion before; another pod's are looked up as always."""
    again = [fault(kind="pod.delete", at=at, target="slurmctld") for at in ("26s", "36s", "46s")]
    other = fault(kind="pod.delete", at="40s", target="slurmd:w-1")
    faults = [*((number, one, one.at) for number, one in enumerate(again)), (3, other, other.at)]
    assert [looked_up_ns(faults, number) // SECOND for number in range(4)] == [11, 32, 42, 25]
    soon = [(0, again[0], 26 * SECOND), (1, again[1], 30 * SECOND)]
    assert looked_up_ns(soon, 1) == 30 * SECOND, "never behind its own time"


def test_a_job_that_outgrows_its_pod_again_is_looked_up_when_it_has_read_the_size_before() -> None:
    """Else the first growth would be of the second one's size, as a job reads it from one file when it is signalled."""
    sizes = (("26s", "64Mi"), ("31s", "128Mi"))
    first, again = (fault(kind="memory.hog", at=at, target="job:1", size=size) for at, size in sizes)
    other = fault(kind="memory.hog", at="32s", target="job:2")
    faults = [(0, first, first.at), (1, again, again.at), (2, other, other.at)]
    assert [looked_up_ns(faults, number) // SECOND for number in range(3)] == [11, 27, 17]
    soon = [(0, first, 26 * SECOND), (1, again, 26 * SECOND + SECOND // 2)]
    assert looked_up_ns(soon, 1) == 26 * SECOND + SECOND // 2, "never behind its own time"


def test_a_repetition_before_the_first_is_refused() -> None:
    """They count from 1."""
    with pytest.raises(InputError, match="repetition 0"):
        planned_ns(fault(), "a", 0, 0)


def test_foreign_clusters_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """No fault goes into a cluster without a record of ours."""
    monkeypatch.setattr(base, "records", list)
    cluster = Cluster("production", ("production-control-plane",), Path("/nowhere"), "/shared")
    with pytest.raises(InputError, match="not made by slurmtwin"):
        base.reach(cluster, None, None)  # type: ignore[arg-type]


class Recorded(Fault):
    """A fault that notes its steps."""

    kinds = ("process.signal",)
    steps: list[str] = []  # noqa: RUF012
    proven = True

    def prepare(self) -> None:
        """Note it."""
        self.steps.append("prepare")

    def inject(self) -> None:
        """Note it."""
        self.steps.append("inject")

    def prove(self) -> str:
        """Note it, or fail."""
        self.steps.append("prove")
        if not self.proven:
            raise FaultError("no proof of effect: nothing happened")
        return "seen"

    def clear(self) -> None:
        """Note it."""
        self.steps.append("clear")


def run_fault(monkeypatch: pytest.MonkeyPatch, *, proven: bool, **more: Any) -> FaultRunner:
    """Run one recorded fault whose time has come."""
    Recorded.steps, Recorded.proven = [], proven
    monkeypatch.setitem(schedule.BY_KIND, "process.signal", Recorded)
    one = FaultRunner(None, [(0, fault(at="0s", **more), 0)], 0, lambda _: None)  # type: ignore[arg-type]
    one.start()
    one.join(10)
    return one


def test_each_step_of_a_fault_is_in_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Injected, proven and cleared, each with its time before and after."""
    one = run_fault(monkeypatch, proven=True, lasts="1ms")
    assert [step.what for step in one.steps] == ["injected", "proven", "cleared"]
    assert all(step.before_ns <= step.after_ns for step in one.steps)
    assert Recorded.steps == ["prepare", "inject", "prove", "clear"]
    assert not one.failed


def test_signals_that_a_fault_sent_by_itself_are_in_the_record(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known once it is cleared; each was sent within a millisecond before the shell told it."""

    def clear(one: Recorded) -> None:
        one.signals = [("STOP", 5_000_000_000), ("CONT", 7_000_000_000)]

    monkeypatch.setattr(Recorded, "clear", clear)
    steps = run_fault(monkeypatch, proven=True, lasts="1ms").steps[3:]
    assert [(step.what, step.text, step.after_ns) for step in steps] == [
        ("signalled", "STOP", 5_000_000_000), ("signalled", "CONT", 7_000_000_000),
    ]  # fmt: skip
    assert all(step.after_ns - step.before_ns == schedule.SENT_NS for step in steps)


def test_an_effect_that_does_not_show_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault without proof is no fault: the run says so, and what was done is undone."""
    one = run_fault(monkeypatch, proven=False)
    assert one.failed
    assert one.steps[-1].what == "failed"
    one.undo()
    assert Recorded.steps[-1] == "clear"
    one.undo()
    assert Recorded.steps.count("clear") == 1


def test_a_fault_that_breaks_by_a_mistake_of_ours_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever ends its thread is told: a run whose fault's end nobody saw would be recorded as good."""

    def prove(_: Recorded) -> str:
        raise AttributeError("no such thing")

    monkeypatch.setattr(Recorded, "prove", prove)
    one = run_fault(monkeypatch, proven=True)
    assert one.failed
    assert (one.steps[-1].what, one.steps[-1].text) == ("failed", "AttributeError: no such thing")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pods": None}, "no `pods` section"),
        ({"slurm": {"nodes": [{"NodeName": "a1,b2"}]}}, "a StatefulSet names its pods"),
        ({"slurm": {"nodes": [{"NodeName": "w-0"}, {"NodeName": "w-1"}]}}, "exactly one"),
        ({"pods": {"controller": "primary-backup"}}, "one state directory"),
        ({"pods": {"controller": "deployment"}}, "moves with it"),
        ({"faults": [{"at": "1s", "kind": "process.signal", "target": "slurmd:w-9"}]}, "no worker is called w-9"),
        ({"faults": [{"at": "1s", "kind": "network.cut", "target": "slurmd:w-0", "other": "moon"}]}, "names nothing"),
        ({"pods": {"operator": "slinky"}, "faults": [{"at": "1s", "kind": "jwt.rotate"}]}, "keys read-only"),
        ({"cluster": {"workers": [{"count": 1}]}}, "one for slurmctld and one for slurmd"),
    ],
)
def test_impossible_scenarios_are_refused_before_anything_is_made(change: dict[str, Any], message: str) -> None:
    """What no cluster could run is an input error."""
    with pytest.raises(InputError, match=message):
        runner.check_scenario(scenario(**change))


def test_daemons_that_are_pods_are_not_stopped_by_name() -> None:
    """slurmctld.kill of the slurm world has no meaning for a pod; takeover is an admin's command in both."""
    takeover, kill = scenario(
        faults=[{"at": "1s", "kind": "slurmctld.takeover"}, {"at": "1s", "kind": "slurmd.kill"}]
    ).faults
    assert runner.admin_action(0, takeover)["argv"] == ["scontrol", "takeover"]
    with pytest.raises(UnsupportedError, match=r"slurmd\.kill"):
        runner.admin_action(1, kill)


def test_jobs_become_sbatch_calls_in_time_order() -> None:
    """The observer gets one call per job; what its plan cannot say is refused."""
    jobs = [
        JobRequest(job_id=2, submit_ns=9 * SECOND, run_ns=None),
        JobRequest(job_id=1, submit_ns=SECOND, run_ns=3 * SECOND, nodelist="w-0", exit_code=7),
    ]
    first, second = runner.submit_actions(jobs)
    assert first["jobs"] == [1]
    assert first["argv"][-4:] == ["/opt/slurmtwin/job", "1", "3.000", "7"]
    assert "--nodelist=w-0" in first["argv"]
    assert second["argv"][-2] == str(runner.FOREVER_S)
    with pytest.raises(UnsupportedError, match="job 3"):
        runner.submit_actions([JobRequest(job_id=3, submit_ns=0, interactive=True)])


def test_accounting_is_set_up_before_time_zero_in_order() -> None:
    """sacctmgr lines run one after the other as the administrator, before any job; too many are refused."""
    lines = ["add account a", "add user researcher account=a"]
    case = scenario(slurm={"nodes": [{"NodeName": "w-[0-3]"}], "accounting": lines})
    first, second = runner.accounting_actions(case)
    assert first["argv"] == ["sacctmgr", "-i", "add", "account", "a"]
    assert first["at_ns"] < second["at_ns"] < 0
    assert first["admin"]
    many = scenario(slurm={"nodes": [{"NodeName": "w-[0-3]"}], "accounting": lines * 10})
    with pytest.raises(UnsupportedError, match="20 sacctmgr lines"):
        runner.accounting_actions(many)


SHIPPED = sorted((Path(__file__).parents[2] / "scenarios" / "faults").glob("*.yaml"))


TWIN_ONLY = (
    "x18-bridge",
    "x21-key-rotated",
    "x23-bridge-after-submit",
    "x23-crash-after-actions",
    "x27-many-pods",
    "x30-bridge-job-list",
    "x36-flap",
    "x38-bad-image-whole-set",
    "x39-blind-update",
    "x45-foreign-drain",
    "x54-burst-from-zero",
    "x55-wide-job-nodes",
    "x55-wide-job-threshold-1",
    "x55-wide-job-threshold-5",
    "x56-oscillation",
    "x57-metric-missing",
    "x57-metric-missing-hpa",
    "x59-elastic-resume",
    "x61-autoscaler",
    "x61-no-capacity",
    "x76-node-lock",
    "x77-overlap",
    "x78-syncer-down",
    "x79-exclusive-pod",
    "x80-node-deleted",
    "x81-job-cancelled",
    "x81-slurm-job",
    "x82-dead-kubelet",
)
"""Designs, switches and autoscalers that no cluster of ours has: refused there, played by the twin."""
QUIET = (
    "quiet-controller",
    "quiet-single",
    "quiet-array",
    "quiet-restarts",
    "quiet-replaced",
    "quiet-deleted",
    "quiet-drained",
    "quiet-operated",
    "quiet-ended",
    "quiet-slinky",
    "quiet-rested",
    "quiet-protected",
    "quiet-shrunk",
    "quiet-configured",
    "quiet-grown",
    "quiet-silent",
)
"""Runs without a prediction: durations are fitted to them."""


def test_most_shipped_scenarios_are_for_a_cluster() -> None:
    """Those without a `pods` section are for the twin and the slurm world."""
    assert sum(load_scenario(path).pods is not None for path in SHIPPED) >= 40


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios_can_run_and_say_what_they_predict(path: Path) -> None:
    """Each is called as its file, is possible or refused where it has pods, and names phases with what they rest on."""
    one = load_scenario(path)
    if one.name in TWIN_ONLY:
        with pytest.raises(InputError):
            runner.check_scenario(one)
    elif one.pods is not None:
        runner.check_scenario(one)
        runner.submit_actions(list(listed_jobs(one)))
    assert one.name == path.stem
    assert one.expect.phases or one.name in QUIET
    assert all(phase.rests_on and phase.source for phase in one.expect.phases)


class EvictingServer:
    """An API server with two pods on one node, which answers no eviction before both were asked for."""

    def __init__(self) -> None:
        self.both = threading.Barrier(2, timeout=30)
        self.asked: list[str] = []

    def request(self, method: str, path: str, _body: Any = None) -> Any:
        """The node, its pods, an eviction."""
        self.asked.append(method)
        if method == "POST":
            self.both.wait()
        if path.endswith("/pods"):
            names = ("w-0", "w-1")
            meta = [{"name": name, "namespace": "st", "uid": name, "deletionTimestamp": "now"} for name in names]
            return {"items": [{"metadata": one, "spec": {"nodeName": "worker1"}} for one in meta]}
        uid = path.rpartition("/")[2]
        return {"spec": {"unschedulable": "PATCH" in self.asked}, "metadata": {"uid": uid, "deletionTimestamp": "now"}}

    def patch(self, path: str, _body: Any) -> Any:
        """The cordon."""
        return self.request("PATCH", path)


def test_a_drain_asks_for_all_evictions_at_once_behind_its_cordon() -> None:
    """As kubectl does; it is injected when it begins."""
    server = EvictingServer()
    place = SimpleNamespace(namespace="st")
    tools = SimpleNamespace(api=server, deployed=place, node=lambda _target: "worker1")
    one = BY_KIND["kube_node.drain"](fault(kind="kube_node.drain", target="worker1"), cast(Any, tools))
    one.prepare()
    one.inject()
    assert one.prove() == "worker1 is unschedulable, 2 pods evicted"
    assert [word for word in server.asked if word != "GET"] == ["PATCH", "POST", "POST"]


class BudgetedServer(EvictingServer):
    """A disruption budget keeps w-0 until its eviction is asked for a third time."""

    def __init__(self) -> None:
        super().__init__()
        self.evictions: list[str] = []

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """429 for the first two."""
        if method != "POST":
            return super().request(method, path, body)
        name = path.split("/")[-2]
        self.asked.append(method)
        self.evictions.append(name)
        if name == "w-0" and self.evictions.count(name) < 3:
            raise ApiError(429, "Cannot evict pod")
        return None


def test_a_drain_asks_nothing_between_two_evictions_of_a_pod_that_a_budget_keeps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only the refused one is asked for again, and nobody reads it meanwhile, as kubectl does not."""
    monkeypatch.setattr("slurmtwin_e2e.kind.faults.kube.AGAIN_S", 0.0)
    server = BudgetedServer()
    tools = SimpleNamespace(api=server, deployed=SimpleNamespace(namespace="st"), node=lambda _target: "worker1")
    one = BY_KIND["kube_node.drain"](fault(kind="kube_node.drain", target="worker1"), cast(Any, tools))
    one.prepare()
    one.inject()
    one.begun.result()
    before = len(server.asked)
    assert one.prove() == "worker1 is unschedulable, 2 pods evicted"
    assert sorted(server.evictions) == ["w-0", "w-0", "w-0", "w-1"]
    assert server.asked[before:] == ["GET", "POST", "POST"]  # the node, then w-0 twice


def test_a_drain_that_lasts_is_given_up_whatever_a_budget_keeps(monkeypatch: pytest.MonkeyPatch) -> None:
    """kubectl drain that somebody stops: what is left is told, and the machine can be freed."""
    monkeypatch.setattr("slurmtwin_e2e.kind.faults.kube.AGAIN_S", 1000.0)
    monkeypatch.setattr("slurmtwin_e2e.kind.faults.kube.DRAIN_LIMIT_S", 1.0)
    server = BudgetedServer()
    tools = SimpleNamespace(api=server, deployed=SimpleNamespace(namespace="st"), node=lambda _target: "worker1")
    one = BY_KIND["kube_node.drain"](fault(kind="kube_node.drain", target="worker1", lasts="1ms"), cast(Any, tools))
    one.prepare()
    one.inject()
    assert one.prove() == "worker1 is unschedulable, 1 pods evicted, 1 kept by a budget until the end"


def test_a_drain_that_is_refused_leaves_no_thread_behind() -> None:
    """What its thread met is told where the drain is proven, and its threads end with that."""
    server = EvictingServer()
    tools = SimpleNamespace(api=server, deployed=SimpleNamespace(namespace="st"), node=lambda _target: "worker1")
    one = BY_KIND["kube_node.drain"](fault(kind="kube_node.drain", target="worker1"), cast(Any, tools))
    one.prepare()
    server.patch = forbidden  # type: ignore[method-assign]
    one.inject()
    with pytest.raises(ApiError):
        one.prove()
    with pytest.raises(RuntimeError, match="after shutdown"):
        one.requests.submit(print)


def forbidden(*_: Any) -> Any:
    """An API server that lets nobody change a node."""
    raise ApiError(403, "nodes is forbidden")
