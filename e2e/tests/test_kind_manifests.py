"""Manifests of the three plain designs: what is rendered, and that slurm.conf stays the scenario's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin_e2e.kind import batch
from slurmtwin_e2e.kind.manifests import objects
from slurmtwin_e2e.kind.manifests.objects import Place
from slurmtwin_e2e.kind.manifests.slurm_files import config_files, slurm_conf, slurmd_options, workers_of

PLACE = Place("x", "slurmtwin/pod:26.05", "slurmtwin/slurmdbd:26.05", "/shared")


def scenario(version: str = "26.05", **pods: Any) -> Scenario:
    """Four workers, some options of the scenario's own."""
    return Scenario.model_validate(
        {
            "schema": "slurmtwin/scenario/1", "name": "case", "pods": pods,
            "slurm": {
                "version": version,
                "conf": {"SlurmdTimeout": 30, "SlurmctldParameters": "idle_on_node_suspend", "AuthType": "auth/none"},
                "nodes": [{"NodeName": "w-[0-3]", "CPUs": 1, "RealMemory": 200}],
            },
        }
    )  # fmt: skip


def all_objects(case: Scenario) -> list[dict[str, Any]]:
    """Everything that is applied."""
    return [
        *objects.base(PLACE, case), *objects.controller(PLACE, case), *objects.worker_set(PLACE, case),
        *objects.observer(PLACE, case.slurm.version), *objects.database(PLACE, case),
    ]  # fmt: skip


def pod_specs(case: Scenario) -> list[dict[str, Any]]:
    """The pod specs in them."""
    found = []
    for item in all_objects(case):
        if item["kind"] == "Pod":
            found.append(item["spec"])
        elif "template" in item.get("spec", {}):
            found.append(item["spec"]["template"]["spec"])
    return found


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_every_image_has_a_fixed_tag_and_is_never_pulled(version: str) -> None:
    """A pull would need a registry, and a moving tag another image."""
    specs = pod_specs(scenario(version))
    assert len(specs) == 5
    for spec in specs:
        for container in spec["containers"]:
            assert container["imagePullPolicy"] == "Never"
            assert container["image"].rpartition(":")[2] not in ("", "latest")


def test_the_scenarios_options_are_written_literally() -> None:
    """Options are kept, merged where the harness needs a word of its own, replaced where it must be its own."""
    lines = slurm_conf(scenario()).splitlines()
    assert "SlurmdTimeout=30" in lines
    assert "SlurmctldParameters=idle_on_node_suspend,enable_configless" in lines
    assert "AuthType=auth/slurm" in lines
    assert "AuthType=auth/none" not in lines
    assert not [line for line in lines if line.startswith("NodeName")]


@pytest.mark.parametrize(("version", "auth", "cgroup"), [("22.05", "munge", False), ("26.05", "slurm", True)])
def test_old_versions_use_munge_and_have_no_switch_for_cgroups(version: str, auth: str, cgroup: bool) -> None:
    """auth/slurm came with 23.11, CgroupPlugin=disabled with 24.05."""
    files = config_files(scenario(version))
    assert f"AuthType=auth/{auth}" in files["slurm.conf"]
    assert ("cgroup.conf" in files) is cgroup


@pytest.mark.parametrize(
    ("pods", "kind", "replicas", "claims"),
    [
        ({}, "StatefulSet", 1, 1),
        ({"controller": "deployment", "state": "shared"}, "Deployment", 1, 0),
        ({"controller": "primary-backup", "state": "shared"}, "StatefulSet", 2, 0),
    ],
)
def test_the_controller_is_what_its_design_says(pods: dict[str, Any], kind: str, replicas: int, claims: int) -> None:
    """gke-statefulsets, nersc-restart and classic-ha, each with a Service of fixed name per controller."""
    case = scenario(**pods)
    *services, app = objects.controller(PLACE, case)
    assert app["kind"] == kind
    assert app["spec"]["replicas"] == replicas
    assert len(app["spec"].get("volumeClaimTemplates", [])) == claims
    assert [service["metadata"]["name"] for service in services] == [f"slurmctld-{n}" for n in range(replicas)]
    assert slurm_conf(case).count("SlurmctldHost=") == replicas


def test_limits_make_a_worker_guaranteed_only_with_both() -> None:
    """Memory alone is Burstable, and the kernel then takes slurmd before the job (docs/surprises.md)."""
    _, app = objects.worker_set(PLACE, scenario(memory="256Mi", cpu="100m", slurmd_process="supervised"))
    container = app["spec"]["template"]["spec"]["containers"][0]
    assert container["resources"]["limits"] == container["resources"]["requests"] == {"memory": "256Mi", "cpu": "100m"}
    assert {"name": "SUPERVISED", "value": "1"} in container["env"]


def test_a_toleration_replaces_the_five_minutes_of_admission() -> None:
    """Without one, admission adds 300 s."""
    assert objects.worker_set(PLACE, scenario())[1]["spec"]["template"]["spec"]["tolerations"] == []
    _, app = objects.worker_set(PLACE, scenario(toleration="10s"))
    seconds = {t["tolerationSeconds"] for t in app["spec"]["template"]["spec"]["tolerations"]}
    assert seconds == {10}


def test_workers_register_themselves_with_the_scenarios_sizes() -> None:
    """slurmd -Z with the NodeName line's own settings; all controllers are asked for the configuration."""
    case = scenario(controller="primary-backup", state="shared")
    assert workers_of(case).names == ("w-0", "w-1", "w-2", "w-3")
    options = slurmd_options(case)
    assert options[options.index("--conf") + 1] == "CPUs=1 RealMemory=200"
    assert options[options.index("--conf-server") + 1] == "slurmctld-0:6817,slurmctld-1:6817"


def test_a_batch_runs_node_faults_alone_and_makes_only_what_is_missing(tmp_path: Any) -> None:
    """Others go beside each other; a recording that is there is not made again."""

    def case(name: str, kind: str) -> Scenario:
        one = scenario()
        document = one.model_dump(mode="json", by_alias=True)
        return Scenario.model_validate(
            document | {"name": name, "faults": [{"at": "1s", "kind": kind, "target": "worker1"}]}
        )

    cases = [case("a", "pod.delete"), case("b", "kube_node.pause"), case("c", "pod.delete"), case("d", "pod.delete")]
    done = tmp_path / "a" / "26.05" / batch.PLACE / "1"
    done.mkdir(parents=True)
    (done / "manifest.json").write_text("{}")
    wanted = list(batch.missing(cases, 2, tmp_path))
    assert len(wanted) == 7
    made = [[(one.scenario.name, one.repetition) for one in group] for group in batch.groups(wanted, 2)]
    assert made == [[("b", 1)], [("c", 1), ("d", 1)], [("b", 2)], [("a", 2), ("c", 2)], [("d", 2)]]


def test_two_versions_of_a_scenario_are_never_beside_each_other(tmp_path: Any) -> None:
    """Their namespace would be the same one."""
    one = scenario()
    cases = [one, one.of_version("22.05")]
    made = [[one.scenario.slurm.version for one in group] for group in batch.groups(
        list(batch.missing(cases, 2, tmp_path)), 4)]  # fmt: skip
    assert made == [["22.05"], ["26.05"], ["22.05"], ["26.05"]]


def test_two_runs_under_one_operator_are_never_beside_each_other(tmp_path: Any) -> None:
    """Its passes over one would wait for those over the other; runs under another operator go beside them."""
    document = scenario().model_dump(mode="json", by_alias=True)
    operators = {"a": "slinky", "b": "slinky", "c": "reference", "d": "slinky", "e": "", "f": "reference", "g": ""}
    cases = [
        Scenario.model_validate(document | {"name": name, "pods": document["pods"] | {"operator": operator}})
        for name, operator in operators.items()
    ]
    made = batch.groups(list(batch.missing(cases, 1, tmp_path)), 3)
    assert [[one.scenario.name for one in group] for group in made] == [["a", "c", "e"], ["b", "f", "g"], ["d"]]


@pytest.mark.parametrize(
    ("name", "alone"),
    [
        ("x19-slinky", True),  # a silent slurmrestd holds the operator's passes
        ("x22-slinky", True),  # the operator itself dies
        ("x44-slinky", False),
        ("x62-slurmd-crash-main", False),
    ],
)
def test_what_others_under_the_same_operator_would_feel_runs_alone(name: str, alone: bool) -> None:
    """One operator serves all clusters of a batch."""
    one = load_scenario(Path(__file__).parents[2] / "scenarios" / "faults" / f"{name}.yaml")
    assert batch.Wanted(one, 1, 1).alone is alone


def test_slurmdbd_runs_on_the_host_that_its_file_names() -> None:
    """It ends at once where its host is not called as DbdHost."""
    config, _, app = objects.database(PLACE, scenario())
    host = app["spec"]["template"]["spec"]["hostname"]
    assert f"DbdHost={host}\n" in config["data"]["slurmdbd.conf"]


def test_a_scenario_is_recorded_with_another_version(tmp_path: Path) -> None:
    """Its folder is that version's, and its slurm.conf."""
    old = scenario().of_version("22.05")
    assert batch.Wanted(old, 1, 1).folder(tmp_path) == tmp_path / "case" / "22.05" / batch.PLACE / "1"
    assert "AuthType=auth/munge\n" in slurm_conf(old)
    assert old.of_version("26.05") == scenario()


def test_a_batch_brings_quiet_runs_of_its_own(tmp_path: Path) -> None:
    """Under the next numbers, one beside each repetition that is made; none where nothing is missing."""
    case = scenario()
    quiet = case.model_copy(update={"name": batch.QUIET})

    def numbers(*cases: Scenario) -> list[tuple[str, int, int]]:
        return [(one.scenario.name, one.repetition, one.turn) for one in batch.missing(cases, 2, tmp_path)]

    def keep(name: str, number: int) -> None:
        folder = tmp_path / name / "26.05" / batch.PLACE / str(number)
        folder.mkdir(parents=True)
        (folder / "manifest.json").write_text("{}")

    assert numbers(quiet) == [(batch.QUIET, 1, 1), (batch.QUIET, 2, 2)]
    for number in (1, 2, 3):
        keep(batch.QUIET, number)
    assert numbers(quiet) == []
    assert numbers(quiet, case) == [("case", 1, 1), (batch.QUIET, 4, 1), ("case", 2, 2), (batch.QUIET, 5, 2)]
    keep("case", 1)
    assert numbers(quiet, case) == [("case", 2, 2), (batch.QUIET, 4, 2)]
    keep("case", 2)
    assert numbers(quiet, case) == []
