"""The node image is pinned, its making is resumable, and Docker is changed only where it must be, with leave."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e import docker as engine
from slurmtwin_e2e.kind import host, image, pins, programs


def test_every_go_program_is_pinned_with_checksums() -> None:
    """Each program's folder has go.mod and, where it needs modules, go.sum with the version of the lock file."""
    lock = json.loads((pins.data_folder() / "lock.json").read_text())
    modules = {
        "etcd": ("go.etcd.io/etcd/server/v3", lock["etcd"]["module"]),
        "coredns": ("github.com/coredns/coredns", lock["coredns"]["module"]),
        "local-path-provisioner": (
            "github.com/rancher/local-path-provisioner", lock["local-path-provisioner"]["module"]
        ),
        "kind": ("sigs.k8s.io/kind", lock["kind"]),
        "kubernetes": ("k8s.io/kubernetes", lock["kubernetes"]),
    }  # fmt: skip
    assert set(modules) | {"runc"} == {program.name for program in programs.PROGRAMS}
    for folder, (module, version) in modules.items():
        text = (pins.data_folder() / "go" / folder / "go.sum").read_text()
        assert re.search(rf"^{re.escape(module)} {re.escape(version)} h1:", text, re.MULTILINE), folder


def test_staging_modules_carry_kubernetes_own_version() -> None:
    """Every k8s.io module that Kubernetes replaces by a folder of its own is the published one of that release."""
    text = (pins.data_folder() / "go/kubernetes/go.mod").read_text()
    minor = pins.pins().kubernetes.removeprefix("v1.")
    replaced = re.findall(r"^\s*(k8s\.io/\S+) => (\S+) (\S+)$", text, re.MULTILINE)
    assert len(replaced) >= 25
    assert all(source == target and version == f"v0.{minor}" for source, target, version in replaced)


def test_etcds_image_tag_is_its_version() -> None:
    """The etcd that is built is the one that kubeadm asks for."""
    lock = json.loads((pins.data_folder() / "lock.json").read_text())
    assert lock["etcd"]["image"].endswith(f":{lock['etcd']['module'].removeprefix('v')}-0")


@pytest.fixture
def go(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """A Go that writes a file per program; returns the names built, in order."""
    built: list[str] = []

    def build(program: programs.Program, out: Path, say: programs.Say) -> None:
        out.parent.mkdir(parents=True, exist_ok=True)
        if program.name == "coredns" and "kubernetes" not in built and built.count("coredns") == 0:
            built.append(program.name)
            raise EnvironmentMissingError("the network went away")
        built.append(program.name)
        out.write_text(program.name)

    monkeypatch.setenv("SLURMTWIN_CACHE", str(tmp_path))
    monkeypatch.setattr(programs, "_build", build)
    monkeypatch.setattr(programs, "go_version", lambda: (1, 99, 0))
    monkeypatch.setattr(programs, "ROOM_BYTES", 0)
    return built


def test_an_interrupted_build_goes_on_where_it_stopped(go: list[str]) -> None:
    """What was built before the failure is not built again; what is built says how much is left."""
    with pytest.raises(EnvironmentMissingError):
        programs.build(lambda _: None)
    before = len(go)
    said: list[str] = []
    programs.build(said.append)
    assert go[before:] == ["coredns", "kubernetes"]
    assert said[0].startswith("building coredns (1 of 2; about")
    programs.build(said.append)
    assert len(go) == before + 2


@pytest.mark.parametrize(("version", "says"), [(None, "Go is missing"), ((1, 19, 8), "too old")])
def test_without_a_usable_go_nothing_is_tried(
    go: list[str], monkeypatch: pytest.MonkeyPatch, version: tuple[int, ...] | None, says: str
) -> None:
    """The error names the Go that is needed."""
    monkeypatch.setattr(programs, "go_version", lambda: version)
    with pytest.raises(EnvironmentMissingError, match=says):
        programs.build(lambda _: None)
    assert go == []


def test_without_room_nothing_is_tried(go: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that is too full is said before the first download."""
    monkeypatch.setattr(programs, "ROOM_BYTES", 2**60)
    with pytest.raises(EnvironmentMissingError, match="a cold build needs"):
        programs.build(lambda _: None)
    assert go == []


@pytest.mark.parametrize(
    ("labels", "present"),
    [(None, False), ({}, False), ({image.RECIPE_LABEL: "old"}, False), ({image.RECIPE_LABEL: "pulled"}, True)],
)
def test_an_image_of_another_recipe_is_not_present(
    monkeypatch: pytest.MonkeyPatch, labels: dict[str, str] | None, present: bool
) -> None:
    """Only an image made of exactly these files, or pulled, is taken."""
    out = json.dumps(labels)
    monkeypatch.setattr(image, "docker", lambda *a, **k: subprocess.CompletedProcess(a, 0, out, ""))
    assert image.is_present() is present


def test_the_recipe_changes_with_any_of_its_files(tmp_path: Path) -> None:
    """Content, name and executable bit all count."""
    path = tmp_path / "a"
    path.write_text("1")
    first = pins.digest(tmp_path)
    path.write_text("2")
    second = pins.digest(tmp_path)
    path.chmod(0o755)
    third = pins.digest(tmp_path)
    path.rename(tmp_path / "b")
    assert len({first, second, third, pins.digest(tmp_path)}) == 4


@pytest.fixture
def daemon(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A running Docker without the wrapper, on a host that lacks the capability; returns its configuration's path."""
    config = tmp_path / "daemon.json"
    monkeypatch.setattr(host, "DAEMON_CONFIG", config)
    monkeypatch.setattr(host, "WRAPPER", tmp_path / "wrapper")
    (tmp_path / "pid").write_text("0")
    monkeypatch.setattr(host, "DAEMON_PID", tmp_path / "pid")
    monkeypatch.setattr(host, "lacks_capability", lambda: True)
    monkeypatch.setattr(host, "raise_inotify", lambda say: None)
    monkeypatch.setattr(engine, "is_running", lambda: True)
    monkeypatch.setattr(
        host, "default_runtime", lambda: host.RUNTIME if config.exists() and "default-runtime" in config.read_text()
        else "runc",
    )  # fmt: skip
    (tmp_path / "built").write_text("#!/bin/sh\n")
    monkeypatch.setattr(programs, "build", lambda say, only: {"runc": tmp_path / "built"})
    return config


def test_a_running_docker_is_not_changed_without_leave(daemon: Path) -> None:
    """The error says what is missing; no file is written."""
    with pytest.raises(EnvironmentMissingError, match="CAP_SYS_RESOURCE"):
        host.prepare(lambda _: None, may_reconfigure=False)
    assert not daemon.exists()


def test_with_leave_the_runtime_is_added_and_all_else_kept(daemon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Other settings of Docker stay, the daemon is told to read them, not restarted."""
    daemon.write_text('{"runtimes": {"other": {"path": "/x"}}, "log-level": "warn"}')
    signals: list[tuple[int, int]] = []
    monkeypatch.setattr(host.os, "kill", lambda pid, number: signals.append((pid, number)))
    host.prepare(lambda _: None, may_reconfigure=True)
    written = json.loads(daemon.read_text())
    assert written["log-level"] == "warn"
    assert set(written["runtimes"]) == {"other", host.RUNTIME}
    assert written["default-runtime"] == host.RUNTIME
    assert signals == [(0, host.signal.SIGHUP)]
    host.prepare(lambda _: None, may_reconfigure=False)
    assert len(signals) == 1


def test_a_host_with_the_capability_is_left_alone(daemon: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No wrapper where none is needed."""
    monkeypatch.setattr(host, "lacks_capability", lambda: False)
    host.prepare(lambda _: None, may_reconfigure=True)
    assert not daemon.exists()
    assert not host.WRAPPER.exists()


def test_a_broken_docker_configuration_is_said_not_overwritten(daemon: Path) -> None:
    """A daemon.json that is not JSON stays as it is."""
    daemon.write_text("{")
    with pytest.raises(EnvironmentMissingError, match="not JSON"):
        host.prepare(lambda _: None, may_reconfigure=True)
    assert daemon.read_text() == "{"
