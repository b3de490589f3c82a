"""What sacct tells: read by the observer, turned into rows, and held against jobcomp."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin_e2e.collect.sources import Record
from slurmtwin_e2e.kind.collect.evidence import accounting_check, observer_rows

RUNNING = "1|RUNNING|100|Unknown|w-0|0\n"
ENDED = "1|CANCELLED by 1000|100|120|w-0|1\n"


def test_sacct_is_read_in_unix_seconds(observer: ModuleType) -> None:
    """A time that is not known yet is 0; who cancelled a job is no part of its state; 22.05 tells no restarts."""
    assert observer.accounted(RUNNING)["1"] == {
        "state": "RUNNING", "start": 100, "end": 0, "nodes": "w-0", "restarts": 0,
    }  # fmt: skip
    assert observer.accounted(ENDED)["1"]["state"] == "CANCELLED"
    assert observer.accounted("2|PENDING|Unknown|Unknown|None assigned\n")["2"]["nodes"] == ""


@pytest.fixture
def asked(observer: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function: the lines noted for a series of sacct's answers (text, or a hang for None)."""
    token = tmp_path / "token"
    token.write_text("t")
    monkeypatch.setattr(observer, "Path", lambda *_: token)

    def lines(*answers: str | None) -> list[dict[str, Any]]:
        notes = observer.Notes(tmp_path / "out.jsonl")
        accountant = observer.Accountant(notes, ("JobIDRaw",))
        for answer in answers:

            def run(command: list[str], *, answer: str | None = answer, **_: Any) -> subprocess.CompletedProcess[str]:
                if answer is None:
                    raise subprocess.TimeoutExpired(command, 8)
                return subprocess.CompletedProcess(command, 0, answer, "")

            monkeypatch.setattr(observer.subprocess, "run", run)
            accountant.ask()
        notes._stream.close()
        return [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]

    return lines


def test_only_changes_and_outages_are_noted(asked: Any) -> None:
    """A hang is an answer that fails; the change that it hid lies after the last good request."""
    lines = asked(RUNNING, RUNNING, None, ENDED)
    assert [line["what"] for line in lines] == ["answer", "sacct", "answer", "answer", "sacct"]
    assert [line["good"] for line in lines if line["what"] == "answer"] == [True, False, True]
    assert lines[4]["before"] < lines[2]["after"] < lines[4]["after"]


def test_rows_of_sacct_carry_the_workloads_number() -> None:
    """The row's time lies between the two requests, its job is the scenario's."""
    lines = [
        {"what": "action", "action": {"do": "submit", "jobs": [7]}, "before": 0, "after": 1, "code": 0, "out": "4",
         "err": ""},
        {"what": "sacct", "before": 2 * SECOND, "after": 4 * SECOND, "name": "4", "state": "COMPLETED", "start": 1,
         "end": 2, "nodes": "w-1", "restarts": 0},
    ]  # fmt: skip
    (row,) = observer_rows(lines, 0)
    assert (row.kind, row.job_id, row.node, row.t_ns) == (Kind.JOB_ACCOUNTED, 7, "w-1", 3 * SECOND)
    assert row.t_err_ns == SECOND + 1


def record(number: int, state: str, end_s: int) -> Record:
    """A line of jobcomp."""
    return Record(number, state, 0, end_s * SECOND, "w-0", 1, "0:0")


@pytest.mark.parametrize(
    ("told", "differ"),
    [
        ([{"state": "COMPLETED", "end": 120}], []),
        ([{"state": "RUNNING", "end": 0}, {"state": "COMPLETED", "end": 120}], []),
        ([{"state": "COMPLETED", "end": 121}], ["1: sacct ('COMPLETED', 121), jobcomp ('COMPLETED', 120)"]),
        ([{"state": "FAILED", "end": 120}], ["1: sacct ('FAILED', 120), jobcomp ('COMPLETED', 120)"]),
        ([], ["1: sacct None, jobcomp ('COMPLETED', 120)"]),
    ],
)
def test_an_end_that_sacct_tells_otherwise_is_named(told: list[dict[str, Any]], differ: list[str]) -> None:
    """sacct's last word counts, against the last end that jobcomp has (a requeued job has several)."""
    lines = [{"what": "sacct", "name": "1", **one} for one in told]
    found = accounting_check(lines, [record(1, "NODE_FAIL", 60), record(1, "COMPLETED", 120)])
    assert found == {"jobs": 1, "equal": 1 - len(differ), "differ": differ}
