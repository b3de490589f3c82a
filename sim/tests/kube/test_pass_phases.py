"""Where slurmctld's passes and cycles stand in a run in pods: as the recording has it, and as its clock shows it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from replicated_runs import recorded, replicated

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.models.slurmctld.coarse_clock import CoarseClock
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
RARE_BACKFILL = "bf_interval=3000,sched_interval=5"
RARE_PASSES = "bf_interval=5,sched_interval=3000"


def held_start(parameters: str, version: str = "26.05", **times: Any) -> Event | None:
    """The second start of x62-hold-default's job under other SchedulerParameters."""
    scenario = load_scenario(FAULTS / "x62-hold-default.yaml")
    conf = {**scenario.slurm.conf, "SchedulerParameters": parameters}
    slurm = scenario.slurm.model_copy(update={"conf": conf, "version": version})
    scenario = scenario.model_copy(update={"slurm": slurm})
    known = StartTimes(slurmctld_ns=-20 * SECOND - 300 * MS, fault_ns=(30 * SECOND,), **times)
    run = run_scenario(scenario, FAULTS, TwinOptions(keep=True, times=known))
    starts = [row for row in run.kept or [] if row.kind is Kind.JOB_STARTED]
    return starts[1] if len(starts) > 1 else None


@pytest.mark.parametrize("second", [20, 21, 22, 23, 24])
@pytest.mark.parametrize("late", [False, True])
def test_full_passes_count_from_the_recorded_one(monkeypatch: pytest.MonkeyPatch, second: int, late: bool) -> None:
    """Each 5 s from its second on; one that time(NULL) hides comes at the next whole second."""
    monkeypatch.setattr(CoarseClock, "late", lambda _: late)
    start = held_start(RARE_BACKFILL, full_pass_ns=second * SECOND + 5 * MS)
    assert start is not None
    behind_ns = (start.t_ns - second * SECOND) % (5 * SECOND)
    assert behind_ns == pytest.approx(SECOND if late else 0, abs=10 * MS)


def test_a_late_pass_sees_its_own_second_once_the_clock_has_caught_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread asks for the time itself: with a clock that is hardly behind, a job may start in its first second."""
    monkeypatch.setattr(CoarseClock, "late", lambda _: True)
    earliest = {}
    for lag_ns in (0, SECOND // 2):
        starts = [
            held_start(RARE_BACKFILL, full_pass_ns=second * SECOND + 600 * MS, clock_lag_ns=lag_ns)
            for second in range(20, 25)
        ]
        earliest[lag_ns] = min(start.t_ns for start in starts if start is not None)
    assert earliest[SECOND // 2] - earliest[0] == pytest.approx(SECOND, abs=10 * MS)


def test_a_pass_at_a_whole_second_was_due_in_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """time(NULL) showed the second before, so the next one comes 4 s later (docs/surprises.md)."""
    monkeypatch.setattr(CoarseClock, "late", lambda _: False)
    start = held_start(RARE_BACKFILL, full_pass_ns=21 * SECOND + MS // 2)
    assert start is not None
    assert (start.t_ns - 20 * SECOND) % (5 * SECOND) == pytest.approx(0, abs=10 * MS)


def test_answers_of_healthy_nodes_let_backfill_look_again() -> None:
    """Nothing else happens while the job is held, and the next full pass is 50 min away."""
    start = held_start(RARE_PASSES)
    assert start is not None
    assert start.actor == "backfill"


@pytest.mark.parametrize("field", ["cycle_ns", "anew_ns"])
def test_cycles_count_from_the_recorded_one(field: str) -> None:
    """Or from slurmctld's second start. Its fraction of a second stays: looks are a second apart."""
    for fraction in (100, 650):
        start = held_start(RARE_PASSES, **{field: 22 * SECOND + fraction * MS})
        assert start is not None
        assert start.t_ns % SECOND == pytest.approx(fraction * MS, abs=10 * MS)


@pytest.mark.parametrize("fraction", [100, 600])
def test_the_loop_of_22_05_goes_on_from_the_recorded_look(fraction: int) -> None:
    """Rounds of a second and some ms: about 125 of them until the job is started again."""
    look_ns = 25 * SECOND + fraction * MS
    start = held_start(RARE_BACKFILL, "22.05", look_ns=look_ns)
    assert start is not None
    behind_ns, rounds = (start.t_ns - look_ns) % SECOND, (start.t_ns - look_ns) // SECOND
    assert rounds > 120
    assert MS // 2 * rounds < behind_ns < 4 * MS * rounds


@pytest.mark.parametrize(("scenario", "recording"), [("x33-slinky", "27"), ("x34-stale-deadline", "22")])
def test_jobs_start_with_the_passes_that_started_them(scenario: str, recording: str) -> None:
    """Whatever had called for passes before: by the model's own calls they started 1 and 2 s sooner."""
    rows = recorded(scenario, recording).rows()
    starts = {row.job_id: row.t_ns for row in rows if row.kind == Kind.JOB_STARTED.value}
    replayed = {
        row.job_id: row.t_ns
        for row in replicated(FAULTS / f"{scenario}.yaml", recording)
        if row.kind is Kind.JOB_STARTED
    }
    assert set(starts) == set(replayed) == {1, 2}
    assert all(replayed[job] == pytest.approx(at_ns, abs=50 * MS) for job, at_ns in starts.items())


@pytest.mark.parametrize("behind_ms", [0, 5])
def test_a_queued_pass_counts_from_the_recorded_call(monkeypatch: pytest.MonkeyPatch, behind_ms: int) -> None:
    """batch_sched_delay, 3 s; a call at a whole second was due in the one before."""
    monkeypatch.setattr(CoarseClock, "late", lambda _: False)
    scenario = load_scenario(FAULTS / "x62-hold-default.yaml")
    conf = {**scenario.slurm.conf, "SchedulerParameters": "bf_interval=3000"}
    scenario = scenario.model_copy(update={"slurm": scenario.slurm.model_copy(update={"conf": conf})})
    for second in (-2, -1, 0):
        known = StartTimes(
            slurmctld_ns=-20 * SECOND - 300 * MS, fault_ns=(30 * SECOND,), submit_ns={1: 100 * MS},
            called_ns=(second * SECOND + behind_ms * MS,),
        )  # fmt: skip
        run = run_scenario(scenario, FAULTS, TwinOptions(keep=True, times=known))
        start = next(row for row in run.kept or [] if row.kind is Kind.JOB_STARTED)
        assert start.t_ns == pytest.approx(max(1, second + (3 if behind_ms else 2)) * SECOND, abs=20 * MS), second
