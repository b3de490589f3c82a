"""Containers never outlive their run. `docker` is a stand-in program here, which notes what it is told."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e import docker as docker_module
from slurmtwin_e2e.docker import LABEL, OWNER_LABEL, run_container, sweep

STAND_IN = """\
#!/bin/sh
echo "$@" >> {folder}/told
case "$1" in
  ps) cat {folder}/ps 2>/dev/null;;
  inspect) cat {folder}/inspect;;
  run) echo "a line of the container"; echo $$ > {folder}/pid; echo up > {folder}/running
       exec sleep "$(cat {folder}/sleep)";;
  rm) kill "$(cat {folder}/pid)" 2>/dev/null;;
  version|info) exit "$(cat {folder}/info)";;
esac
exit 0
"""


class StandIn:
    """The folder that the stand-in reads its answers from and writes its orders to."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program = folder / "docker"
        program.write_text(STAND_IN.format(folder=folder))
        program.chmod(0o755)
        self.answer("info", "0")
        self.answer("sleep", "0")

    def answer(self, name: str, text: str) -> None:
        """What it says to this command."""
        (self.folder / name).write_text(text)

    @property
    def told(self) -> list[str]:
        """Every command line so far."""
        path = self.folder / "told"
        return path.read_text().splitlines() if path.exists() else []

    def removed(self) -> list[str]:
        """Names of containers that were removed."""
        return [name for line in self.told if line.startswith("rm -f ") for name in line.split()[2:]]


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """A `docker` in front of every other."""
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    return StandIn(tmp_path)


def run(limit_s: float | None) -> tuple[int, str]:
    """A container called c1."""
    return run_container("image", "c1", ["true"], hostname="ctl1", mounts=[], limit_s=limit_s)


def test_a_container_is_removed_after_its_run(stand_in: StandIn) -> None:
    """And carries the labels that a later run finds it by."""
    code, output = run(None)
    assert (code, output) == (0, "a line of the container\n")
    order = next(line for line in stand_in.told if line.startswith("run "))
    assert f"--label {LABEL}=c1 --label {OWNER_LABEL}={os.getpid()}" in order
    assert stand_in.removed() == ["c1"]


def test_a_container_that_takes_too_long_is_removed_and_said(stand_in: StandIn) -> None:
    """Exit code 124, as of timeout(1)."""
    stand_in.answer("sleep", "20")
    code, _ = run(0.2)
    assert code == 124
    assert "c1" in stand_in.removed()


def test_ctrl_c_removes_the_container(stand_in: StandIn) -> None:
    """A real interrupt in a real process while the container runs; a pipe says when it does."""
    stand_in.answer("sleep", "60")
    os.mkfifo(stand_in.folder / "running")
    program = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell ignores it\n"
        "from slurmtwin_e2e.docker import run_container\n"
        "run_container('image', 'c7', ['true'], hostname='h', mounts=[])"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.PIPE, text=True)
    assert (stand_in.folder / "running").read_text() == "up\n"
    child.send_signal(2)
    _, errors = child.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    assert stand_in.removed() == ["c7"]


def _container(name: str, owner: str) -> dict[str, object]:
    return {"Name": f"/{name}", "Config": {"Labels": {LABEL: name, OWNER_LABEL: owner}}}


def test_what_a_killed_run_left_is_removed_and_nothing_else(stand_in: StandIn) -> None:
    """A container whose owner lives belongs to another run; one without an owner's number belongs to nobody."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    stand_in.answer("ps", "id1\nid2\nid3\n")
    entries = [_container("dead", str(gone.pid)), _container("alive", str(os.getpid())), _container("odd", "")]
    stand_in.answer("inspect", json.dumps(entries))
    assert sweep() == ["dead", "odd"]
    assert stand_in.removed() == ["dead", "odd"]
    assert f"ps -aq --filter label={LABEL}" in stand_in.told


def test_with_no_containers_nothing_is_removed(stand_in: StandIn) -> None:
    """`docker rm` without names would be an error."""
    assert sweep() == []
    assert stand_in.removed() == []


def test_without_docker_the_message_says_where_to_look(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Exit code 4, not a traceback."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not docker_module.is_running()
    with pytest.raises(EnvironmentMissingError, match="doctor"):
        docker_module.ensure_running()


def test_a_docker_command_that_fails_is_told_with_its_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The last of stderr is in the message."""
    program = tmp_path / "docker"
    program.write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(EnvironmentMissingError, match="docker pull failed: no space left"):
        docker_module.docker("pull", "x")
