"""doctor says what the world kind needs, how long it takes, which scenarios can run here; exit 4 if something lacks."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

from slurmtwin.cli import real_commands
from slurmtwin.contract.errors import ExitCode
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e import doctor as slurm_doctor
from slurmtwin_e2e.doctor import Finding
from slurmtwin_e2e.kind import doctor, host, image, programs

HOST = host.Capacity(cpus=2, memory=24 * 2**30, memory_free=20 * 2**30, disk_free=60 * 2**30, cgroup=1)


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> pytest.MonkeyPatch:
    """A machine with everything; tests take parts away."""
    monkeypatch.setenv("SLURMTWIN_CACHE", str(tmp_path))
    for name in ("is_installed", "is_running"):
        monkeypatch.setattr(doctor, name, lambda: True)
    monkeypatch.setattr(image, "is_present", lambda: True)
    monkeypatch.setattr(image, "has_base", lambda: True)
    monkeypatch.setattr(host, "lacks_capability", lambda: True)
    monkeypatch.setattr(host, "needs_wrapper", lambda: False)
    monkeypatch.setattr(host, "capacity", lambda: HOST)
    monkeypatch.setattr(host, "low_inotify", dict)
    monkeypatch.setattr(programs, "go_version", lambda: (1, 26))
    monkeypatch.setattr(slurm_doctor, "examine", list)
    return monkeypatch


def unmet() -> list[Finding]:
    """Needs that are not met."""
    return [finding for finding in doctor.examine() if not finding.met]


def test_a_complete_machine_lacks_nothing() -> None:
    """Nothing is missing, and Go is not asked for when the image is here."""
    assert unmet() == []
    assert not any("Go" in finding.need for finding in doctor.examine())


def test_without_docker_no_question_is_put_to_it(machine: pytest.MonkeyPatch) -> None:
    """A need, a command and a time for Docker and for the image; nothing raises."""
    machine.setattr(doctor, "is_installed", lambda: False)
    machine.setattr(doctor, "is_running", lambda: False)
    for function in ("is_present", "has_base"):
        machine.setattr(image, function, lambda: pytest.fail("asked Docker"))
    machine.setattr(host, "needs_wrapper", lambda: pytest.fail("asked Docker"))
    found = unmet()
    assert [finding.need.split()[0] for finding in found[:3]] == ["docker", "docker", "node"]
    assert all(finding.remedy and finding.takes for finding in found)


def test_a_missing_image_names_what_building_it_needs(machine: pytest.MonkeyPatch) -> None:
    """Old Go and no debootstrap are needs of their own; the time is that of what is not built yet."""
    machine.setattr(image, "is_present", lambda: False)
    machine.setattr(image, "has_base", lambda: False)
    machine.setattr(programs, "go_version", lambda: (1, 19))
    machine.setattr(doctor.shutil, "which", lambda name: None)
    needs = {finding.need.split()[0]: finding for finding in unmet()}
    assert set(needs) == {"node", "Go", "debootstrap,"}
    cold = needs["node"].takes
    built = programs.path_of(programs.PROGRAMS[-1])
    built.parent.mkdir(parents=True)
    built.write_text("")
    warm = next(finding.takes for finding in unmet() if finding.need.startswith("node image"))
    assert int(warm.split()[0]) < int(cold.split()[0])


def test_the_runtime_is_explained_where_it_must_change(machine: pytest.MonkeyPatch) -> None:
    """The remedy says what is changed and how to undo it."""
    machine.setattr(host, "needs_wrapper", lambda: True)
    (finding,) = unmet()
    assert host.RUNTIME in finding.remedy
    assert "undo" in finding.remedy


@pytest.mark.parametrize(("reserved", "runs"), [("0", True), ("0-1", False)])
def test_scenarios_that_cannot_run_here_are_named(reserved: str, runs: bool) -> None:
    """A cluster that this host cannot hold is refused with the reason; scenarios without a cluster are not listed."""
    kubelet = {"cpu_manager": "static", "reserved_cpus": reserved}
    common = {"schema": "slurmtwin/scenario/1", "slurm": {}}
    plain = Scenario.model_validate({**common, "name": "plain"})
    pinned = Scenario.model_validate({**common, "name": "pinned", "cluster": {"workers": [{"kubelet": kubelet}]}})
    refusals = doctor.refusals([plain, pinned])
    assert list(refusals) == ["pinned"]
    assert (refusals["pinned"] == "") is runs


@pytest.mark.parametrize(("present", "code"), [(True, ExitCode.FINE), (False, ExitCode.ENVIRONMENT)])
def test_the_command_exits_4_when_something_is_missing(
    machine: pytest.MonkeyPatch, present: bool, code: ExitCode
) -> None:
    """Both forms of output carry every need; the exit code says whether all are met."""
    machine.setattr(image, "is_present", lambda: present)
    spoken = CliRunner().invoke(real_commands.doctor, ["--world", "kind", "--scenarios", "nowhere"])
    parsed = CliRunner().invoke(real_commands.doctor, ["--world", "kind", "--scenarios", "nowhere", "--json"])
    assert spoken.exit_code == parsed.exit_code == code
    document = json.loads(parsed.stdout)
    assert {need["need"] for need in document["needs"]} == {finding.need for finding in doctor.examine()}
    assert ("MISSING" in spoken.stdout) is not present
    assert len(spoken.stdout.splitlines()) < 40
