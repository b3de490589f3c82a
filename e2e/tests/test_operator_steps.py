"""Steps that change an operator's objects: the request made, its proof, and what takes it back."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any, cast

import pytest

from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Kind
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.kind import operated
from slurmtwin_e2e.kind.api import Api, ApiError
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.collect.evidence import updated_node_rows
from slurmtwin_e2e.kind.deploy import Deployed
from slurmtwin_e2e.kind.faults import operator as steps
from slurmtwin_e2e.kind.faults.base import FaultError, Reach
from slurmtwin_e2e.kind.faults.operator import OperatorChange, before, holds
from slurmtwin_e2e.kind.faults.schedule import FaultRunner
from slurmtwin_e2e.kind.faults.services import NO_IMAGE, ImagePull
from slurmtwin_e2e.kind.manifests.objects import Place
from slurmtwin_e2e.operators.form import load_operator
from slurmtwin_e2e.operators.reading import PodReader, reader_of

NODESETS = "/apis/slinky.slurm.net/v1beta1/namespaces/st-x-1/nodesets/w"
PODS = "/api/v1/namespaces/st-x-1/pods"
RESTAPI = "/apis/slinky.slurm.net/v1beta1/namespaces/st-x-1/restapis/slurm"


def merge(item: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    out = dict(item) if isinstance(item, dict) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merge(out.get(key), value)
    return out


class Server:
    """An API server with two objects; patches move the generation."""

    def __init__(self, deaf: bool = False) -> None:
        self.objects: dict[str, Any] = {
            NODESETS: {"metadata": {"name": "w", "generation": 1}, "spec": {"replicas": 2, "template": {}}},
            RESTAPI: {"metadata": {"name": "slurm", "uid": "u", "labels": {"a": "b"}}, "spec": {"replicas": 1},
                      "status": {"x": 1}},
        }  # fmt: skip
        self.deaf = deaf
        self.asked: list[tuple[str, str, Any]] = []

    def request(self, method: str, path: str, body: Any = None) -> Any:
        """GET or DELETE."""
        self.asked.append((method, path, body))
        if path not in self.objects:
            raise ApiError(404, "not found")
        if method == "DELETE" and not self.deaf:
            return self.objects.pop(path)
        return copy.deepcopy(self.objects[path])

    def patch(self, path: str, body: Any) -> None:
        """A merge patch."""
        self.asked.append(("PATCH", path, body))
        if not self.deaf:
            self.objects[path] = merge(self.objects[path], body)


class Hand:
    """A cluster whose kubectl is only listened to."""

    def __init__(self) -> None:
        self.applied: list[Any] = []

    def kubectl(self, *arguments: str, stdin: str) -> str:
        """One call."""
        self.applied.append((arguments, json.loads(stdin)))
        return ""


def change(server: Server, named: bool = True, **step: Any) -> OperatorChange:
    """A step on a run under slinky."""
    return OperatorChange(OperatorStep.model_validate({"at": "1s"} | step), reach(server, named))


def reach(server: Server, named: bool = True) -> Reach:
    """What a step or fault has at hand there."""
    case = Scenario.model_validate(
        {"schema": "slurmtwin/scenario/1", "name": "x", "pods": {"operator": "slinky"},
         "slurm": {"nodes": [{"NodeName": "w-[0-1]", "CPUs": 1}]}}
    )  # fmt: skip
    hand = cast(Cluster, Hand())
    place, form = Place("st-x-1", "i", "i", "/shared"), load_operator("slinky")
    operator, reader = (form, reader_of(form.pods)) if named else (None, PodReader())
    deployed = Deployed(hand, place, Path("/nowhere"), 0, {}, case, operator, reader)
    return Reach(hand, deployed, cast(Api, server))


def test_scale_patches_the_replicas_and_takes_them_back() -> None:
    """One merge patch of one object; cleared by its old value."""
    server = Server()
    one = change(server, kind="operator.scale", target="workers", count=1)
    one.prepare()
    one.inject()
    assert server.asked[-1] == ("PATCH", NODESETS, {"spec": {"replicas": 1}})
    assert one.prove().startswith("w has generation")
    one.clear()
    assert server.objects[NODESETS]["spec"]["replicas"] == 2


def test_a_step_that_lasts_is_run_to_its_end() -> None:
    """Injected, proven and cleared at its time, as any fault is; it sends no signals by itself."""
    server = Server()
    step = OperatorStep(kind="operator.scale", target="workers", count=1, at="0s", lasts="1ms")
    run = FaultRunner(reach(server), [(0, step, 0)], 0, lambda _: None)
    run.start()
    run.join(10)
    assert [(one.what, one.text) for one in run.steps] == [
        ("injected", ""), ("proven", "w has generation 1"), ("cleared", ""),
    ]  # fmt: skip
    assert server.objects[NODESETS]["spec"]["replicas"] == 2


def test_a_deleted_object_is_proven_gone_and_made_anew() -> None:
    """Deletion as kubectl does it; what clear() applies is the old object without what the server wrote."""
    server = Server()
    one = change(server, kind="operator.delete", target="rest")
    one.prepare()
    one.inject()
    assert server.asked[-1] == ("DELETE", RESTAPI, {"propagationPolicy": "Background"})
    assert one.prove() == "slurm is gone"
    one.clear()
    hand = cast(Hand, one.tools.cluster)
    assert hand.applied == [
        (("apply", "-f", "-"), {"metadata": {"name": "slurm", "labels": {"a": "b"}}, "spec": {"replicas": 1}})
    ]


@pytest.mark.parametrize(
    "step",
    [{"kind": "operator.scale", "target": "workers", "count": 1}, {"kind": "operator.delete", "target": "rest"}],
)
def test_a_step_without_effect_is_not_proven(step: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that answers and does nothing: the run is spoilt, not recorded."""
    monkeypatch.setattr(steps, "until", _once)
    one = change(Server(deaf=True), **step)
    one.prepare()
    one.inject()
    with pytest.raises(FaultError, match="as before"):
        one.prove()


def _once(seen: Any, fail: str) -> str:
    said = str(seen())
    if not said:
        raise FaultError(fail)
    return said


def a_pod(name: str, app: str, status: Any) -> Any:
    """One of slurm-operator's."""
    meta = {"name": name, "namespace": "st-x-1", "uid": name, "labels": {"app.kubernetes.io/name": app}}
    return {"metadata": meta, "spec": {"nodeName": "worker"}, "status": status}


def test_an_image_that_nobody_has_is_named_on_the_operators_object() -> None:
    """The workers' own image alone; proven by a pod that waits for it, taken back with the pod that is stuck."""
    server = Server()
    good = {"image": "good", "imagePullPolicy": "Never"}
    server.objects[NODESETS]["spec"]["slurmd"] = dict(good)
    runs = a_pod("w-1", "slurmd", {"phase": "Running"})
    waits = {"containerStatuses": [{"state": {"waiting": {"reason": "ErrImagePull"}}}]}
    pods = [runs, a_pod("x", "slurmrestd", waits), a_pod("w-0", "slurmd", waits)]
    server.objects[PODS] = {"items": pods}
    server.objects[f"{PODS}/w-0"] = {}
    fault = ClusterFault.model_validate({"at": "1s", "kind": "image.pull_fails", "target": "slurmd"})
    one = ImagePull(fault, reach(server))
    one.prepare()
    one.inject()
    assert server.objects[NODESETS]["spec"]["slurmd"] == {"image": NO_IMAGE, "imagePullPolicy": "IfNotPresent"}
    assert one.prove() == "w-0 waits: image cannot be pulled"
    one.clear()
    assert server.objects[NODESETS]["spec"]["slurmd"] == good
    assert f"{PODS}/w-0" not in server.objects


def test_two_updates_differ() -> None:
    """Each update writes another revision, so each is an update."""
    server = Server()
    revisions = []
    for _ in range(2):
        one = change(server, kind="operator.update", target="workers")
        one.prepare()
        one.inject()
        spec = server.objects[NODESETS]["spec"]
        revisions.append(spec["template"]["metadata"]["annotations"]["slurmtwin.org/revision"])
    assert revisions[0] != revisions[1]


def test_an_object_that_is_not_there_fails_the_run() -> None:
    """A missing object is found before the planned time."""
    with pytest.raises(FaultError, match="controllers"):
        change(Server(), kind="operator.configure", target="controller", set={"KillWait": 3}).prepare()


def test_a_run_without_an_operator_takes_no_step() -> None:
    """Said when the fault is made."""
    with pytest.raises(InputError, match="no operator runs"):
        change(Server(), named=False, kind="operator.scale", target="workers", count=1)


def test_the_reverse_of_a_patch_is_exact() -> None:
    """Old values come back, fields that were not there go away."""
    item = {"spec": {"a": 1, "b": {"c": 2}}, "kind": "X"}
    patch = {"spec": {"a": 5, "b": {"c": 3, "d": 4}, "new": {"x": 1}}}
    assert merge(merge(item, patch), before(item, patch)) == item
    assert holds(merge(item, patch), patch)
    assert not holds(item, patch)


def listed(name: str, space: str, labels: dict[str, str]) -> dict[str, Any]:
    """A running pod as the API lists it."""
    return {
        "metadata": {"name": name, "namespace": space, "uid": name, "labels": labels}, "spec": {"nodeName": "k0"},
        "status": {"phase": "Running", "containerStatuses": [{"containerID": "containerd://c"}]},
    }  # fmt: skip


class Pods:
    """An API server that lists pods of two namespaces."""

    def __init__(self) -> None:
        app, host = "app.kubernetes.io/name", "nodeset.slinky.slurm.net/pod-hostname"
        self.items = [
            listed("slurm-controller-0", "st-x-1", {app: "slurmctld"}),
            listed("a", "st-x-1", {app: "slurmd", host: "w-0"}),
            listed("b", "st-x-1", {app: "slurmd", host: "w-1"}), listed("observer", "st-x-1", {"app": "observer"}),
            listed("slurm-operator-5d", "slinky", {app: "slurm-operator"}),
        ]  # fmt: skip

    def request(self, _method: str, path: str) -> Any:
        """The pods of the namespace in the path."""
        return {"items": [item for item in self.items if f"/{item['metadata']['namespace']}/" in path]}


@pytest.mark.parametrize(
    ("target", "pod"),
    [("slurmctld", "slurm-controller-0"), ("slurmd:w-1", "b"), ("slurmd", "a"), ("observer", "observer"),
     ("operator", "slurm-operator-5d")],
)  # fmt: skip
def test_faults_find_the_operators_pods(target: str, pod: str) -> None:
    """Targets of scenarios mean the same pods whoever made them; `operator` is the operator itself."""
    form = load_operator("slinky")
    deployed = change(Server(), kind="operator.delete", target="rest").tools.deployed
    deployed = dataclasses.replace(deployed, reader=reader_of(form.pods))
    assert Reach(deployed.cluster, deployed, cast(Api, Pods())).pod(target).name == pod


class Kubectl:
    """A cluster whose kubectl is only listened to."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, ...]] = []

    def kubectl(self, *arguments: str, check: bool = True, stdin: str = "") -> str:
        """One call."""
        self.calls.append(arguments)
        return ""


def test_custom_resources_go_while_the_operator_lives() -> None:
    """Before the namespace goes, the run's objects are deleted: their finalizers are the operator's to lift."""
    hand = Kubectl()
    operated.finish(cast(Cluster, hand), load_operator("slinky"), "st-x-1")
    kinds = "controller.v1beta1.slinky.slurm.net,nodeset.v1beta1.slinky.slurm.net,restapi.v1beta1.slinky.slurm.net"
    assert hand.calls == [("-n", "st-x-1", "delete", kinds, "--all", "--wait=false")]


LOG = """\
[2026-11-21T11:24:10.652] update_node: node w-0 reason set to: slurm-operator: scale-in
[2026-11-21T11:24:10.652] update_node: node w-0 state set to DRAINING
[2026-11-21T11:24:11.000] update_node: node w-1 state set to IDLE
[2026-11-21T11:24:20.911] update_node: node w-0 state set to ALLOCATED
[2026-11-21T11:24:30.000] update_node: node w-0 reason set to: slurm-operator: Pod is terminating
[2026-11-21T11:24:30.500] update_node: node w-0 state set to DOWN
[2026-11-21T11:24:31.000] debug:  Spawning ping agent for w-[0-1]
"""


@pytest.mark.parametrize("place", ["slurmctld-0", "slurm-ctld-0"])
def test_what_an_operator_asks_of_slurmctld_becomes_rows(tmp_path: Path, place: str) -> None:
    """A drain, its end and a DOWN, wherever the log lies; a state that changes nothing is no resume."""
    folder = tmp_path / "logs" / place
    folder.mkdir(parents=True)
    (folder / "slurmctld.log").write_text(LOG)
    found = updated_node_rows(tmp_path, 1_795_260_240_000_000_000)
    assert [(row.kind, row.node, json.loads(row.detail or "{}").get("reason")) for row in found] == [
        (Kind.NODE_DRAINED, "w-0", "slurm-operator: scale-in"),
        (Kind.NODE_RESUMED, "w-0", None),
        (Kind.NODE_DOWN, "w-0", "slurm-operator: Pod is terminating"),
    ]
    assert [row.t_ns // 1_000_000 for row in found] == [10_652, 20_911, 30_500]


def test_what_the_scenarios_administrator_asks_is_told_once(tmp_path: Path) -> None:
    """The driver's row tells it already: the log's line between the command and its answer is passed over."""
    folder = tmp_path / "logs" / "slurm-ctld-0"
    folder.mkdir(parents=True)
    (folder / "slurmctld.log").write_text(LOG)
    zero = 1_795_260_240_000_000_000
    action = {"argv": ["scontrol", "update", "nodename=w-[0-1]", "state=DRAIN"]}
    line = {"what": "action", "action": action, "before": zero + 10_600_000_000, "after": zero + 10_700_000_000}
    (tmp_path / "observer.jsonl").write_text(json.dumps(line) + "\n")
    assert [row.kind for row in updated_node_rows(tmp_path, zero)] == [Kind.NODE_DOWN]


POD = {
    "metadata": {"name": "slurm-operator-5d"}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}
}  # fmt: skip


class Young(Kubectl):
    """A cluster where an earlier run's namespace is still going, and a pod gets ready after the manifests came."""

    def kubectl(self, *arguments: str, check: bool = True, stdin: str = "") -> str:
        """One call."""
        super().kubectl(*arguments, check=check, stdin=stdin)
        applied = any(call[0] == "apply" for call in self.calls)
        if "namespace" in arguments:
            return "Terminating" if sum("namespace" in call for call in self.calls) < 3 else ""
        return json.dumps({"items": [POD] if applied else []}) if "pods" in arguments else ""


def test_manifests_wait_for_what_an_earlier_run_took_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is applied into a namespace that is going; a running operator is left as it is."""
    monkeypatch.setattr(operated.time, "sleep", lambda _s: None)
    hand, said = Young(), list[str]()
    operated.install(cast(Cluster, hand), load_operator("slinky"), "kind: X", said.append)
    order = ["apply" if call[0] == "apply" else "asked" for call in hand.calls if {"apply", "namespace"} & {*call}]
    assert order == ["asked", "asked", "asked", "apply"]
    assert said == ["operator slinky runs in slinky"]
    before_ = len(hand.calls)
    operated.install(cast(Cluster, hand), load_operator("slinky"), "kind: X", said.append)
    assert [call[0] for call in hand.calls[before_:]] == ["-n"]
