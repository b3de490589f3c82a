"""The observer's pod notes changes, not answers; a node's shell tells what a command said."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slurmtwin_e2e.kind import node_shell
from slurmtwin_e2e.kind.node_shell import NodeShell, NodeShellError

FILES = Path(__file__).parents[1] / "slurm_images" / "files"
NEW = {"nodes": [{"name": "w-0", "state": ["IDLE", "DYNAMIC_NORM"], "reason": "", "address": "10.0.0.1"}]}
OLD = {"nodes": [{"name": "w-0", "state": "idle", "state_flags": ["DYNAMIC_NORM"], "address": "10.0.0.1"}]}


def test_states_read_alike_in_every_api_version(observer: ModuleType) -> None:
    """22.05 has one word and flags beside it, later versions a list."""
    assert observer.node_states(NEW)["w-0"]["state"] == observer.node_states(OLD)["w-0"]["state"]
    job = {"job_id": 7, "job_state": ["PENDING"], "state_reason": "BeginTime", "start_time": {"number": 5}}
    older = {"job_id": 7, "job_state": "PENDING", "state_reason": "BeginTime", "start_time": 5}
    assert observer.job_states({"jobs": [job]}) == observer.job_states({"jobs": [older]})


@pytest.fixture
def polled(observer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function: the lines noted for a series of answers (a document, or an error)."""
    token = tmp_path / "token"
    token.write_text("t")
    monkeypatch.setattr(observer, "Path", lambda *_: token)

    def lines(*answers: Any) -> list[dict[str, Any]]:
        notes = observer.Notes(tmp_path / "out.jsonl")
        poller = observer.Poller(notes, {"rest_host": "h", "rest_port": 1, "rest_version": "v"})
        for answer in answers:

            def get(*_: Any, answer: Any = answer) -> Any:
                if isinstance(answer, Exception):
                    raise answer
                return answer

            monkeypatch.setattr(observer, "get", get)
            poller._ask("node", "nodes", observer.node_states)
        notes._stream.close()
        return [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]

    return lines


def test_only_changes_are_noted(polled: Any) -> None:
    """The same answer twice is one line; a node that is listed no more is GONE."""
    found = [line for line in polled(NEW, NEW, {"nodes": []}) if line["what"] == "node"]
    assert [line["state"] for line in found] == ["IDLE+DYNAMIC_NORM", "GONE"]
    assert all(line["before"] <= line["after"] for line in found)


def test_a_change_lies_after_the_request_that_still_had_the_old_state(polled: Any) -> None:
    """`before` is the last request's: the change came between the two."""
    first, second = [line for line in polled(NEW, OLD | {"nodes": []}) if line["what"] == "node"]
    assert first["before"] <= second["before"] <= second["after"]


def test_an_outage_is_two_lines(polled: Any) -> None:
    """answer good, bad (with its error), good again; errors inside a good answer count as bad."""
    refused = {"errors": [{"error": "Unable to contact slurm controller"}]}
    found = [
        line for line in polled(NEW, OSError("refused"), OSError("refused"), refused, NEW) if line["what"] == "answer"
    ]
    assert [line["good"] for line in found] == [True, False, True]
    assert found[1]["error"] == "refused"


@pytest.mark.parametrize("name", ["pod", "job"])
def test_the_images_scripts_are_bash(name: str) -> None:
    """A typing error in them would show only in a pod."""
    assert subprocess.run(["bash", "-n", str(FILES / name)]).returncode == 0


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[NodeShell]:
    """A node's shell that is this host's bash."""
    real = subprocess.Popen

    def here(command: list[str], **options: Any) -> Any:
        assert command[:4] == ["docker", "exec", "-i", "node"]
        return real(["bash", "--noprofile", "--norc"], **options)

    monkeypatch.setattr(node_shell.subprocess, "Popen", here)
    one = NodeShell("node")
    yield one
    one.close()


def test_a_secret_in_a_command_is_in_no_error(shell: NodeShell) -> None:
    """A command that fails, and one that never answers, are told without it."""
    for command in ("echo k3y >&2; echo k3y; false", "echo k3y; exec sleep 60"):
        with pytest.raises(NodeShellError) as caught:
            shell.run(command, limit_s=1, secrets=["k3y"])
        assert "echo ***" in str(caught.value)
        assert "k3y" not in str(caught.value)


def test_a_command_answers_with_its_text_and_code(shell: NodeShell) -> None:
    """Text without the marks, the exit code, and a time before and after; the shell stays open."""
    said = shell.run("echo a; echo b; false", check=False)
    assert (said.text, said.code) == ("a\nb", 1)
    assert said.before_ns <= said.after_ns
    assert shell.run("cd /; pwd").text == "/"
    assert shell.run("pwd").text == "/"


def test_a_command_that_fails_or_hangs_is_an_error(shell: NodeShell) -> None:
    """A frozen node must not hang the run; the next command gets a new shell."""
    with pytest.raises(NodeShellError, match="ended with 3"):
        shell.run("(exit 3)")
    with pytest.raises(NodeShellError, match="no answer"):
        shell.run("read -r x < <(tail -f /dev/null)", limit_s=0.2)
    assert shell.run("echo again").text == "again"
