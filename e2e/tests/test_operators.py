"""Operators under test: their form, strict placeholders, what hostile values cannot do, whose pods are whose."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.operator_steps import OperatorStep
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.kind import operated, runner
from slurmtwin_e2e.kind.collect.informer import Change
from slurmtwin_e2e.kind.collect.kube_rows import KubeRows
from slurmtwin_e2e.kind.manifests.objects import Place
from slurmtwin_e2e.operators.form import FILE, FOLDER, load_operator, operators
from slurmtwin_e2e.operators.placeholders import fill, names_in
from slurmtwin_e2e.operators.reading import PodReader, reader_of
from slurmtwin_e2e.operators.values import create_values, refuse_unsaid, slurm_conf, slurm_options, step_values
from slurmtwin_operator.core.spec import ClusterSpec

PLACE = Place("st-case-1", "slurmtwin/pod-slinky:26.05", "", "/shared")
TEXT = (FOLDER / "slinky" / FILE).read_text()


def scenario(faults: tuple[dict[str, Any], ...] = (), **more: Any) -> Scenario:
    """Two workers under the slinky operator."""
    slurm: dict[str, Any] = {"nodes": [{"NodeName": "w-[0-1]", "CPUs": 1, "RealMemory": 200}], "conf": {"KillWait": 5}}
    slurm |= more.pop("slurm", {})
    document = {
        "schema": "slurmtwin/scenario/1", "name": "case", "pods": {"operator": "slinky"} | more.pop("pods", {}),
        "slurm": slurm, "faults": list(faults),
    }  # fmt: skip
    return Scenario.model_validate(document | more)


def objects(case: Scenario) -> dict[str, dict[str, Any]]:
    """The filled objects by kind."""
    return {item["kind"]: item for item in operated.slurm_objects(load_operator("slinky"), PLACE, case, 2)}


def written(tmp_path: Path, *changes: tuple[str, str]) -> Path:
    """A folder of operators with slinky's file, changed."""
    text = TEXT
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    (tmp_path / "slinky").mkdir()
    (tmp_path / "slinky" / FILE).write_text(text)
    return tmp_path


@pytest.mark.parametrize("name", operators())
def test_every_operator_of_the_repository_is_read(name: str) -> None:
    """Each folder has a file of the right form."""
    assert load_operator(name).name == name


def test_a_scenario_fills_the_objects() -> None:
    """Replicas, node options, slurm.conf and supervision of the scenario stand in the operator's own fields."""
    found = objects(scenario(pods={"slurmctld_process": "supervised", "memory": "300Mi", "grace": "7s"}))
    node_set, controller = found["NodeSet"]["spec"], found["Controller"]["spec"]
    assert (node_set["replicas"], node_set["extraConf"], node_set["oversubscribeNode"]) == (
        2, "CPUs=1 RealMemory=200", False,
    )  # fmt: skip
    assert "KillWait=5\n" in controller["extraConf"]
    assert "PartitionName=batch Nodes=ALL" in controller["extraConf"]
    assert {"name": "SUPERVISED", "value": "1"} in controller["slurmctld"]["env"]
    assert node_set["slurmd"]["resources"]["limits"] == {"memory": "300Mi"}
    assert controller["template"]["spec"]["terminationGracePeriodSeconds"] == 7
    assert all(item["metadata"]["namespace"] == "st-case-1" for item in found.values())


def test_more_workers_than_nodes_share_nodes() -> None:
    """Four workers on two Kubernetes nodes: the operator is told that they may sit together."""
    case = scenario(slurm={"nodes": [{"NodeName": "w-[0-3]", "CPUs": 1}]})
    assert objects(case)["NodeSet"]["spec"]["oversubscribeNode"] is True


def test_no_placeholder_is_left() -> None:
    """The filled objects hold no `${`."""
    assert "${" not in json.dumps(objects(scenario()))


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("'${replicas}'", "'${secrets}'", "${secrets} is no placeholder of create"),
        ("replicas: '${count}'", "replicas: '${evidence}'", "${evidence} is no placeholder of steps"),
        ("clusterName: '${cluster}'", "clusterName: '${cluster'", "${} is no placeholder of create"),
        ("title: Slinky slurm-operator", "title: '${namespace}'", "no placeholder stands here"),
        ("kind: ConfigMap", "kind: Secret", "no Secret stands in a file"),
        ("install: [/install.yaml]", "install: [../../etc/passwd]", "is no plain path"),
        ("install: [/install.yaml]", "install: [/a;b]", "is no plain path"),
        ("image: slinky/slurm-operator:f2ed3fc5", "image: 'slinky; rm'", "image"),
        ("name: slinky", "name: other", "is not the folder's"),
        ("group: slinky", "grop: slinky", "grop"),
        ("      patch: {spec: {extraConf: '${slurm_conf}'}}\n", "", "a patch is missing"),
        ("slurmd: {image: '${image}', imageP", "slurmd: {image: '${count}', imageP", "no placeholder of workers_image"),
        ("  patch: {spec: {slurmd: {image: '${image}', imagePullPolicy: IfNotPresent}}}\n", "", "a patch is missing"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, old: str, new: str, says: str) -> None:
    """Every mistake names file and line."""
    folder = written(tmp_path, (old, new))
    with pytest.raises(InputError) as error:
        load_operator("slinky", folder)
    assert says in str(error.value)
    found = re.match(r"(.*/operator\.yaml):(\d+): ", str(error.value))
    assert found
    line = TEXT[: TEXT.index(old)].count("\n") + 1
    assert abs(int(found[2]) - line) <= 3


def test_the_unknown_operator_is_refused() -> None:
    """The message lists those that are there."""
    with pytest.raises(InputError, match="slinky"):
        load_operator("nobody")


values = st.one_of(st.text(), st.integers())


@given(st.dictionaries(st.sampled_from(["a", "b", "c"]), values, min_size=3, max_size=3))
def test_values_are_never_read_again(found: dict[str, Any]) -> None:
    """A value that looks like a placeholder, YAML or JSON stays a value: it reaches one scalar and nothing else."""
    filled = fill({"x": "${a}", "y": ["<${b}>", {"z": "${c}"}], "same": 1}, found)
    assert filled == {"x": found["a"], "y": [f"<{found['b']}>", {"z": found["c"]}], "same": 1}


@pytest.mark.parametrize("value", [{"a": 1}, ["a"], True, None, 1.5])
def test_inside_a_text_only_text_and_numbers_stand(value: Any) -> None:
    """A mapping, list or truth value inside a longer scalar is refused."""
    with pytest.raises(InputError, match="no text"):
        fill("x-${a}", {"a": value})
    assert fill("${a}", {"a": value}) == value


def test_names_are_found_with_their_place() -> None:
    """Placeholders in keys and unclosed ones are told as unknown."""
    assert list(names_in({"a": ["${b}"], "${c}": 1, "d": "${e"})) == [(("a", 0), "b"), (("${c}",), ""), (("d",), "")]


HOSTILE = ("x\nPrologSlurmctld=/bin/sh", "x\r", "x\u2028y", "x\\", "\x00")


@pytest.mark.parametrize("value", HOSTILE)
def test_hostile_values_of_slurm_conf_are_refused(value: str) -> None:
    """No value starts a line of its own in slurm.conf."""
    with pytest.raises(InputError, match="not one line"):
        slurm_conf(scenario(slurm={"conf": {"SchedulerParameters": value}}))
    with pytest.raises(InputError, match="not one line"):
        slurm_conf(scenario(), {"SchedulerParameters": value})


@pytest.mark.parametrize(("said", "flags"), [({}, "HetJob"), ({"DebugFlags": "Backfill"}, "Backfill,HetJob")])
def test_an_operators_slurmctld_names_the_jobs_that_backfill_starts(said: dict[str, str], flags: str) -> None:
    """26.05 does so under DebugFlags=HetJob alone: as lines, and as options that the reference operator takes."""
    case = scenario(slurm={"conf": said})
    assert f"DebugFlags={flags}\n" in slurm_conf(case)
    assert ClusterSpec(image="i", conf=slurm_options(case)).conf["DebugFlags"] == flags


@pytest.mark.parametrize("key", ["A B", "A=1\nProlog", "", "#x", "include /etc"])
def test_hostile_options_of_slurm_conf_are_refused(key: str) -> None:
    """No option's name is anything but a word."""
    with pytest.raises(InputError, match="not one line"):
        slurm_conf(scenario(slurm={"conf": {key: "1"}}))


@pytest.mark.parametrize(
    "value", ["1 Feature=x", "1'; reboot; '", "$(reboot)", '"', "`reboot`", "1\nx", "", "a;b", "a&b", "a|b", "a>b"]
)
def test_hostile_node_options_never_reach_a_shell(value: str) -> None:
    """slurmd's options go through a shell in the pod: only plain words are taken."""
    case = scenario(slurm={"nodes": [{"NodeName": "w-0", "CPUs": 1, "Feature": value}]})
    with pytest.raises(InputError, match="not one option"):
        create_values(case, "x", "i", "/e", 2)


@pytest.mark.parametrize("name", ["../x", "a/b", "A b", "", "x;y"])
def test_hostile_cluster_names_are_refused(name: str) -> None:
    """ClusterName becomes a directory in the operator's pods."""
    with pytest.raises(InputError, match="ClusterName"):
        create_values(scenario(slurm={"conf": {"ClusterName": name}}), "x", "i", "/e", 2)


@pytest.mark.parametrize("target", ["slurmd:../x", "slurmd:W", "workers;x", "", "slurmd:a/b"])
def test_hostile_targets_are_refused(target: str) -> None:
    """A target that could leave its path in the API never becomes a step."""
    with pytest.raises(ValueError, match="target"):
        OperatorStep.model_validate({"at": "1s", "kind": "operator.cordon", "target": target})


@pytest.mark.parametrize(
    ("pods", "says"),
    [
        ({"scratch": "1Mi"}, "pods.scratch"),
        ({"controller": "deployment", "state": "shared"}, "pods.controller"),
        ({"state": "shared"}, "pods.state"),
        ({"liveness": {"failures": 2}}, "pods.liveness"),
    ],
)
def test_what_the_operator_cannot_say_is_refused(pods: dict[str, Any], says: str) -> None:
    """A setting that no template carries would silently be another cluster."""
    with pytest.raises(UnsupportedError, match=says):
        refuse_unsaid(load_operator("slinky"), scenario(pods=pods))


def test_another_version_is_refused() -> None:
    """The operator's own list of versions holds."""
    with pytest.raises(UnsupportedError, match=r"26\.05"):
        runner.check_scenario(scenario(slurm={"version": "24.11"}))


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"kind": "operator.scale", "target": "workers"}, "count is missing"),
        ({"kind": "operator.delete", "target": "rest", "count": 1}, "count is not used"),
        ({"kind": "operator.scale", "target": "controller", "count": 1}, "no operator.scale of 'controller'"),
        ({"kind": "operator.configure", "target": "controller"}, "`set` belongs to"),
        ({"kind": "operator.delete", "target": "rest", "set": {"KillWait": 3}}, "`set` belongs to"),
        ({"kind": "operator.configure", "target": "controller", "set": {"KillWait": "3\nx"}}, "not one line"),
        ({"kind": "image.pull_fails", "target": "slurmctld"}, "names no image of slurmctld"),
    ],
)
def test_a_step_that_cannot_be_done_is_refused_before_anything_is_made(step: dict[str, Any], says: str) -> None:
    """check_scenario knows the folder's steps."""
    with pytest.raises(InputError, match=says):
        runner.check_scenario(scenario(faults=({"at": "1s"} | step,)))


def test_a_step_without_an_operator_is_refused() -> None:
    """Plain manifests have no custom resources."""
    case = scenario(faults=({"at": "1s", "kind": "operator.scale", "target": "workers", "count": 1},))
    assert case.pods is not None
    plain = case.model_copy(update={"pods": case.pods.model_copy(update={"operator": ""})})
    with pytest.raises(InputError, match="needs one"):
        runner.check_scenario(plain)


def test_a_changed_option_takes_the_place_of_the_old_one() -> None:
    """operator.configure changes an option in whatever case it is written, and adds others."""
    step = OperatorStep.model_validate(
        {"at": "1s", "kind": "operator.configure", "target": "controller", "set": {"killwait": 9, "MinJobAge": 2}}
    )
    lines = step_values(scenario(), "x", step, 5)["slurm_conf"].splitlines()
    assert [line for line in lines if line.lower().startswith("killwait")] == ["killwait=9"]
    assert "MinJobAge=2" in lines


def pod(labels: dict[str, str], name: str = "slurm-x") -> dict[str, Any]:
    """A pod object."""
    meta = {"name": name, "namespace": "st-case-1", "uid": name, "labels": labels, "resourceVersion": "1"}
    return {"metadata": meta, "spec": {}, "status": {}}


def test_pods_are_told_apart_by_the_operators_label() -> None:
    """Its label and ours are both read; others' pods have no daemon; the Slurm node's name is its own field."""
    reader = reader_of(load_operator("slinky").pods)
    worker = pod({"app.kubernetes.io/name": "slurmd", "nodeset.slinky.slurm.net/pod-hostname": "w-1"})
    assert (reader.app(worker), reader.name(worker)) == ("slurmd", "w-1")
    assert (reader.app(pod({"app": "observer"})), reader.app(pod({"app.kubernetes.io/name": "nginx"}))) == (
        "observer", None,
    )  # fmt: skip
    assert reader.name(pod({}, "slurm-controller-0")) == "slurm-controller-0"
    assert PodReader().app(pod({"app": "slurmd"})) == "slurmd"


def test_rows_of_its_pods_have_our_names() -> None:
    """A phase that asks for app slurmd finds the operator's pods."""
    rows = KubeRows(1, 0, reader_of(load_operator("slinky").pods))
    rows.take(Change(5, "ADDED", "pods", pod({"app.kubernetes.io/name": "slurmd"}, "w-0")))
    assert {json.loads(row[0].detail or "{}")["app"] for row in rows.rows} == {"slurmd"}


def archive(*members: tuple[str, bytes, bytes]) -> bytes:
    """A tar archive of (name, content, type)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, content, kind in members:
            info = tarfile.TarInfo(name)
            info.size, info.type = len(content) if kind == tarfile.REGTYPE else 0, kind
            info.linkname = "/etc/passwd" if kind == tarfile.SYMTYPE else ""
            tar.addfile(info, io.BytesIO(content))
    return out.getvalue()


def test_manifests_are_one_plain_file_of_the_image() -> None:
    """Links and folders of an image are not followed."""
    assert operated.file_of(archive(("install.yaml", b"kind: X", tarfile.REGTYPE)), "/install.yaml") == "kind: X"
    for members in ((("x", b"", tarfile.SYMTYPE),), (("x", b"", tarfile.DIRTYPE), ("x/y", b"a", tarfile.REGTYPE))):
        with pytest.raises(InputError, match="no plain file"):
            operated.file_of(archive(*members), "/install.yaml")


def test_a_run_gets_an_operator_whose_containers_never_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """x24 behind two runs of x22: the third end of the same container waited 20 s in back-off."""

    class Cluster:
        """One ready pod that has been started again; its successor has not."""

        def __init__(self) -> None:
            self.pods = [("slurm-operator-a", 2)]

        def kubectl(self, *words: str, check: bool = True) -> str:
            if "delete" in words:
                assert words[-1] == "slurm-operator-a"
                self.pods = [("slurm-operator-b", 0)]
                return ""
            ready = [{"type": "Ready", "status": "True"}]
            items = [
                {"metadata": {"name": name},
                 "status": {"conditions": ready, "containerStatuses": [{"restartCount": count}]}}
                for name, count in self.pods
            ]  # fmt: skip
            return json.dumps({"items": items})

    cluster, said = Cluster(), []
    for _ in range(2):
        operated.renew(cluster, load_operator("slinky"), said.append)  # type: ignore[arg-type]
    assert cluster.pods == [("slurm-operator-b", 0)]
    assert len(said) == 1
    monkeypatch.setattr(cluster, "pods", [])
    operated.renew(cluster, load_operator("slinky"), said.append)  # type: ignore[arg-type]
    assert len(said) == 1
