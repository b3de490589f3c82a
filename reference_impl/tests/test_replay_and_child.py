"""Recorded passes give the same plans today; our core as a child process gives the same plans as inside."""

from __future__ import annotations

import gzip
import io
import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from jsonschema import Draft202012Validator

from slurmtwin.cli import main
from slurmtwin.contract.errors import EnvironmentMissingError, InputError
from slurmtwin_operator import child, codec
from slurmtwin_operator.child import ChildCore
from slurmtwin_operator.codec import read_memory, read_observed, to_json
from slurmtwin_operator.core import plan
from slurmtwin_operator.core.actions import Memory, Plan
from slurmtwin_operator.core.observed import ClusterObserved, DispatchObserved, Identity, Mirror, PodGroupObserved
from slurmtwin_operator.core.spec import ClusterSpec, DispatchSpec, PodGroupSpec
from slurmtwin_operator.core.switches import Switches
from slurmtwin_operator.replay import Recorder, check_plans, read_passes, replay
from slurmtwin_operator.testing.node_sets import end_state
from slurmtwin_operator.testing.other_kinds import ALL_STORIES
from slurmtwin_operator.testing.scenarios import STORIES, play

OURS = f"{sys.executable} -m slurmtwin_operator.child"
UPDATE = next(story for story in STORIES if story.name == "update")


def others() -> list[tuple[Any, Memory, int]]:
    """One pass of each of the other kinds."""
    me = Identity("ns", "x", "uid-1", finalizer=False)
    return [
        (ClusterObserved(me, ClusterSpec(image="i", conf={"KillWait": "10"})), Memory(), 5),
        (PodGroupObserved(me, PodGroupSpec(), Switches(pod_jobs="external")), Memory(), 5),
        (DispatchObserved(me, DispatchSpec(clusters=("a", "b")), Switches(dispatch="all-at-once"),
                          (Mirror("a"), Mirror("b"))), Memory(), 5),
    ]  # fmt: skip


def recorded(path: Path) -> int:
    """A recording of a story and of the other kinds; returns the number of passes."""
    _, carrier = play(UPDATE, keep_passes=True)
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "wt", encoding="utf-8") as stream:
        recorder = Recorder(stream)
        for observed, memory, now, decided in carrier.passes:
            recorder.write(observed, memory, now, decided)
        for observed, memory, now in others():
            recorder.write(observed, memory, now, plan(observed, memory, now))
    return len(carrier.passes) + 3


@pytest.mark.parametrize("name", ["plans.jsonl", "plans.jsonl.gz"])
def test_a_recording_replays_equal(tmp_path: Path, name: str) -> None:
    """Every recorded pass gives the recorded plan."""
    passes = recorded(tmp_path / name)
    assert passes > 20
    ((path, found),) = check_plans([tmp_path])
    assert (path.name, found.passes, found.difference) == (name, passes, None)


def test_the_first_difference_is_shown(tmp_path: Path) -> None:
    """A core that decides otherwise is caught, with file:line and place."""
    recorded(tmp_path / "plans.jsonl")

    def hasty(observed: Any, memory: Memory, now: int) -> Plan:
        decided = plan(observed, memory, now)
        return replace(decided, actions=decided.actions[:-1]) if len(decided.actions) > 1 else decided

    found = replay(tmp_path / "plans.jsonl", hasty).difference
    assert found is not None
    assert found.where.line == 2
    assert found.place.startswith("actions[")
    assert "now nothing" in str(found)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "not JSON"),
        ("[]", "not an object"),
        ('{"schema": "other"}', "is not slurmtwin/plans/1"),
    ],
)
def test_broken_recordings_are_named(tmp_path: Path, line: str, message: str) -> None:
    """A broken file is an error with file:line, never a traceback or a pass."""
    path = tmp_path / "plans.jsonl"
    path.write_text(line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=message) as caught:
        list(read_passes(path))
    assert f"{path}:1" in str(caught.value)


@pytest.mark.parametrize(
    "row",
    [
        {"kind": "Other"},
        {"kind": "NodeSet", "observed": {}},
        {"kind": "NodeSet", "observed": None, "memory": {}, "plan": {}},
        {"memory": 3},
    ],
)
def test_broken_passes_are_named(tmp_path: Path, row: Any) -> None:
    """So is a pass that is none."""
    path = tmp_path / "plans.jsonl"
    path.write_text('{"schema": "slurmtwin/plans/1"}\n' + json.dumps(row) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"plans\.jsonl:2"):
        list(read_passes(path))


def test_a_pass_without_time_is_named(tmp_path: Path) -> None:
    """A pass without now_ns is refused."""
    recorded(tmp_path / "plans.jsonl")
    lines = (tmp_path / "plans.jsonl").read_text(encoding="utf-8").splitlines()
    broken = {key: value for key, value in json.loads(lines[1]).items() if key != "now_ns"}
    (tmp_path / "plans.jsonl").write_text(f"{lines[0]}\n{json.dumps(broken)}\n", encoding="utf-8")
    with pytest.raises(InputError, match="no time"):
        list(read_passes(tmp_path / "plans.jsonl"))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """A file that cannot be read is an InputError."""
    with pytest.raises(InputError, match="cannot read"):
        list(read_passes(tmp_path / "plans.jsonl"))


def test_child_gives_identical_plans(tmp_path: Path) -> None:
    """Our own core as a child process: every recorded pass, all four kinds, the same plan."""
    passes = recorded(tmp_path / "plans.jsonl")
    ((_, found),) = check_plans([tmp_path], OURS)
    assert (found.passes, found.difference) == (passes, None)


def test_child_gives_identical_plans_over_the_whole_test_set() -> None:
    """Every story of every kind of object: each pass that acts, and the first and the last, planned alike outside."""
    asked = 0
    with ChildCore(OURS) as core:
        for story in ALL_STORIES:
            passes = play(story, keep_passes=True)[1].passes
            for observed, memory, now, decided in (passes[0], *(p for p in passes if p[3].actions), passes[-1]):
                assert core(observed, memory, now) == decided, story.name
                asked += 1
    assert asked > 400


def test_child_carries_a_story() -> None:
    """A whole story carried by the child ends as with the core inside."""
    inside, _ = play(UPDATE)
    with ChildCore(OURS) as core:
        outside, _ = play(UPDATE, core=core)
    assert end_state(outside) == end_state(inside)
    assert outside.events == inside.events


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("import sys; sys.stdin.readline(); print('no')", "no JSON"),
        ('import sys; sys.stdin.readline(); print(\'{"error": "I do not know"}\')', "I do not know"),
        ('import sys; sys.stdin.readline(); print(\'{"plan": {"actions": 3}}\')', "not a Plan"),
        ("import sys; sys.stdin.readline()", "process ended"),
        ("import sys; sys.stdin.readline(); sys.stdout.buffer.write(b'\\xff\\xfe\\n')", "no JSON"),
        ("import sys; sys.stdin.readline(); print('[' * 100000)", "no JSON"),
        ("import sys; sys.stdin.readline(); print('null')", "no plan"),
        ("import sys; sys.stdin.readline(); print('x' * 200000, end='', flush=True); sys.stdin.read()", "too long"),
        ("import os; os.kill(os.getpid(), 9)", "process ended"),
        ("import time; time.sleep(60)", "did not answer within 0.5 s"),
        ("import time\nwhile True: print('.', end='', flush=True); time.sleep(0.02)", "did not answer within 0.5 s"),
    ],
)
def test_a_bad_child_is_an_error(program: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a child answers, however slowly, the caller gets an InputError that says what."""
    monkeypatch.setattr(child, "MAX_LINE", 100_000)
    core = ChildCore(
        shlex.join([sys.executable, "-c", program]),
        timeout_s=0.5 if "sleep" in program else 60,
    )
    observed, memory, now = others()[0]
    try:
        with pytest.raises(InputError, match=message):
            core(observed, memory, now)
    finally:
        core._child.kill()
        core.close()


def test_a_child_that_is_gone_is_an_error() -> None:
    """A child that ended before it was asked."""
    core = ChildCore(f"{sys.executable} -c pass")
    core._child.wait()
    observed, memory, now = others()[0]
    with pytest.raises(InputError, match="process ended"):
        core(observed, memory, now)
    core.close()


def test_a_child_that_cannot_start() -> None:
    """A command that does not exist is a missing environment, exit code 4."""
    with pytest.raises(EnvironmentMissingError):
        ChildCore("/does/not/exist")


@pytest.mark.parametrize(
    "line", ["", "{", "[]", "3", "{}", '{"kind": "NodeSet", "observed": {}, "now_ns": "x"}', "[" * 5000]
)
def test_serve_answers_nonsense_with_an_error(line: str) -> None:
    """A request that is none gets an error object, and the next one is answered."""
    observed, memory, now = others()[0]
    good = json.dumps({"kind": "Cluster", "observed": to_json(observed), "memory": to_json(memory), "now_ns": now})
    sink = io.StringIO()
    child.serve(io.StringIO(f"{line}\n{good}\n"), sink)
    first, second = map(json.loads, sink.getvalue().splitlines())
    assert set(first) == {"error"}
    assert set(second) == {"plan"}


def test_what_is_read_back_is_equal() -> None:
    """JSON and back gives equal observations and memories for every pass of a story."""
    _, carrier = play(UPDATE, keep_passes=True)
    for observed, memory, _, _ in carrier.passes:
        assert read_observed("NodeSet", json.loads(json.dumps(to_json(observed)))) == observed
        assert read_memory(json.loads(json.dumps(to_json(memory)))) == memory


def test_check_plans_on_the_command_line(tmp_path: Path) -> None:
    """`slurmtwin check --plans`: 0 for equal plans, 1 with the difference, 3 when there is nothing to replay."""
    run = CliRunner()
    assert run.invoke(main, ["check", "--plans", str(tmp_path)]).exit_code == 3
    passes = recorded(tmp_path / "plans.jsonl")
    fine = run.invoke(main, ["check", "--plans", str(tmp_path), "--json"])
    assert fine.exit_code == 0
    assert json.loads(fine.output)["plans"][0]["passes"] == passes
    text = (tmp_path / "plans.jsonl").read_text(encoding="utf-8")
    (tmp_path / "plans.jsonl").write_text(text.replace('"name":"w-0"', '"name":"w-7"'), encoding="utf-8")
    other = run.invoke(main, ["check", "--plans", str(tmp_path)])
    assert other.exit_code == 1
    assert "plans.jsonl:2: actions[" in other.output


def test_the_schema_is_fresh_and_fits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """schema/core-1.json is what the types generate, and real requests and answers fit it."""
    assert codec.main(["--check"]) == 0
    validator = Draft202012Validator(json.loads(codec.schema_text()))
    for observed, memory, now in others():
        request = {
            "kind": codec.kind_of(observed),
            "observed": to_json(observed),
            "memory": to_json(memory),
            "now_ns": now,
        }
        assert not list(validator.iter_errors(json.loads(json.dumps(request))))
        assert not list(validator.iter_errors({"plan": json.loads(json.dumps(to_json(plan(observed, memory, now))))}))
    assert list(validator.iter_errors({"plan": {"actions": 3}}))
    monkeypatch.setattr(codec, "SCHEMA_FILE", tmp_path / "schema" / "core-1.json")
    assert codec.main(["--check"]) == 1
    assert codec.main([]) == 0
    assert codec.main(["--check"]) == 0
