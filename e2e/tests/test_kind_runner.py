"""When a run on Kubernetes is over, and what spoils it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin_e2e.kind import runner
from slurmtwin_e2e.kind.faults.schedule import Step

S = 1_000_000_000
ANSWERED = {"what": "action", "action": {"do": "submit"}}


def job(state: str, name: str = "1") -> dict[str, Any]:
    """The observer's note of one job."""
    return {"what": "job", "name": name, "state": state}


@pytest.mark.parametrize(
    ("lines", "count", "over"),
    [
        ([], 0, True),
        ([], 1, False),
        ([ANSWERED], 1, False),
        ([ANSWERED, job("RUNNING")], 1, False),
        ([ANSWERED, job("RUNNING"), job("COMPLETED")], 1, True),
        ([ANSWERED, job("NODE_FAIL+REQUEUED")], 1, True),
        ([ANSWERED, job("GONE")], 1, True),
        ([ANSWERED, job("GONE")], 2, False),
        ([job("RUNNING")], 0, False),
    ],
)
def test_jobs_are_over_when_all_were_submitted_and_none_is_left(
    lines: list[dict[str, Any]], count: int, over: bool
) -> None:
    """The last note of a job counts; one that the observer does not know yet is not over."""
    assert runner.jobs_over(lines, count) is over


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A clock that moves by sleeping alone."""
    now = [10 * S]

    def sleep(seconds: float) -> None:
        now[0] += round(seconds * S)

    monkeypatch.setattr("time.time_ns", lambda: now[0])
    monkeypatch.setattr("time.sleep", sleep)
    return now


def scenario() -> Scenario:
    """It ends 3 s after its last job, at most 60 s after time zero."""
    return Scenario.model_validate(
        {"schema": "slurmtwin/scenario/1", "name": "case", "slurm": {"nodes": [{"NodeName": "n"}]}, "workload": {},
         "after": "3s", "budget": {"max_time": "60s"}}
    )  # fmt: skip


def test_a_run_ends_a_while_after_it_was_over(clock: list[int]) -> None:
    """Over before time zero does not count, and over has to last: a requeued job begins the wait anew."""
    over = [(20 * S, 25 * S), (26 * S, 90 * S)]
    why, end_ns = runner.wait_for_end(scenario(), 24 * S, lambda: any(a <= clock[0] < b for a, b in over))
    assert (why, end_ns) == ("done", 29 * S)


def test_a_run_ends_at_its_budget_or_when_something_broke(clock: list[int]) -> None:
    """With the reason."""
    assert runner.wait_for_end(scenario(), 20 * S, lambda: False) == ("max_time", 80 * S)
    clock[0] = 10 * S
    broken = runner.wait_for_end(scenario(), 20 * S, lambda: False, lambda: "dispatcher" if clock[0] > 30 * S else "")
    assert broken == ("dispatcher", 30 * S + S // 2)


def step(what: str, late_ns: int) -> Step:
    """A step of a fault planned for 5 s."""
    return Step(0, what, 5 * S, 5 * S + late_ns, 6 * S, "words")


def test_a_run_is_spoilt_by_a_secret_a_hole_or_a_failed_fault() -> None:
    """In this order, and every error is told; an observer that died leaves a hole."""
    key = b"0123456789abcdef0123456789abcdef"
    shown = [Event(0, Kind.POD_READY, "collector", detail=key.decode())]
    failed = [step("failed", 0)]
    assert runner.shortcomings([], [step("injected", 0)], [{"k": key}], 0) == ("", [])
    assert runner.shortcomings([], failed, [{"k": key}], 0) == ("fault", ["words"])
    assert runner.shortcomings([], failed, [{"k": key}], 1)[0] == "hole"
    assert runner.shortcomings([], failed, [{"k": key}], 0, ["died"]) == ("hole", ["words", "died"])
    assert runner.shortcomings(shown, failed, [{}, {"k": key}], 1) == ("leak", ["words", "a row shows a piece of k"])


def test_lateness_is_told_of_faults_that_were_injected() -> None:
    """In ms behind the plan."""
    assert runner.lateness_ms([step("injected", 7_500_000), step("failed", S)]) == [7.5]


def test_what_lasts_is_counted_at_both_ends() -> None:
    """A fault that is cleared and a step that is taken back disturb the host twice."""
    planned = runner.plan_faults(load_scenario(Path("scenarios/faults/x35-slinky.yaml")), 1)
    [(_, step, at)] = planned
    assert step.lasts
    assert runner.begins_and_ends_ns(planned) == [at, at + step.lasts]
