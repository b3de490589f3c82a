"""Memory faults in a job: what the harness asks of the script, and what counts as proof."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin_e2e.kind.faults import memory
from slurmtwin_e2e.kind.faults.base import PodPlace, Reach
from slurmtwin_e2e.kind.faults.memory import JobMemory

STARTED = {"what": "started", "job": 1, "node": "w-0"}


class Worker:
    """A node whose shell answers for the script's command line, and notes what else it was asked."""

    def __init__(self, evidence: Path) -> None:
        self.deployed = SimpleNamespace(evidence=evidence)
        self.asked: list[str] = []

    def pod(self, _target: str) -> PodPlace:
        return PodPlace("w-0", "st", "uid", "kind-worker", "10.0.0.1", "container")

    def pids(self, *_words: str) -> list[int]:
        return [77]

    def shell(self, _node: str) -> Any:
        return SimpleNamespace(run=self._run)

    def _run(self, command: str, check: bool = True) -> Any:
        self.asked.append(command)
        return SimpleNamespace(text="bash /var/spool/slurm_script 1 100 0" if "cmdline" in command else "")


def hog(tmp_path: Path, size: str) -> tuple[JobMemory, Worker]:
    """A prepared memory.hog of job 1."""
    (tmp_path / "scripts.jsonl").write_text(json.dumps(STARTED) + "\n")
    fault = ClusterFault.model_validate({"at": "0s", "kind": "memory.hog", "target": "job:1", "size": size})
    worker = Worker(tmp_path)
    done = JobMemory(fault, cast(Reach, worker))
    done.prepare()
    done.inject()
    return done, worker


def test_a_hog_with_a_size_tells_the_script_how_much_and_is_proven_by_its_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In MiB, before the signal; a note of before, or none, is no proof."""
    done, worker = hog(tmp_path, "240Mi")
    assert (tmp_path / "hog-1").read_text() == "240\n"
    assert worker.asked[-1] == "kill -USR1 77"
    monkeypatch.setattr(memory, "until", lambda seen, *_: seen())
    assert done.prove() == ""
    with (tmp_path / "scripts.jsonl").open("a") as stream:
        stream.write(json.dumps({"what": "grown", "job": 2}) + "\n")
    assert done.prove() == ""
    with (tmp_path / "scripts.jsonl").open("a") as stream:
        stream.write(json.dumps({"what": "grown", "job": 1}) + "\n")
    assert done.prove() == "grew by 240Mi"


def test_a_hog_without_one_grows_until_the_kernel_acts_whatever_was_asked_before(tmp_path: Path) -> None:
    """The size of an earlier fault of the same job is forgotten."""
    hog(tmp_path, "240Mi")
    hog(tmp_path, "")
    assert not (tmp_path / "hog-1").exists()
