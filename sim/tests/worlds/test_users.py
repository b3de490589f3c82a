"""Users who try again, give up and lose patience, and services whose load takes machines from Slurm."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slurmtwin.contract.clock import HOUR, MINUTE, SECOND
from slurmtwin.contract.demand import Services
from slurmtwin.contract.events import Event
from slurmtwin.contract.scenario import Scenario
from slurmtwin.worlds.services import load_at, scale_steps, wanted_machines, with_services
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.checks.legal_states import MACHINE


def play(users: dict[str, str] | None, jobs: list[dict[str, Any]], faults: list[dict[str, Any]]) -> list[Event]:
    """The rows of one node of two CPUs."""
    document = {
        "schema": "slurmtwin/scenario/1", "name": "case",
        "slurm": {
            "conf": {"SelectType": "select/cons_tres", "SlurmdTimeout": 0, "SlurmctldHost": "ctl1"},
            "nodes": [{"NodeName": "n1", "CPUs": 2, "RealMemory": 2000}],
            "partitions": [{"PartitionName": "main", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE"}],
        },
        "workload": {"jobs": jobs, **({"users": users} if users else {})}, "faults": faults,
    }  # fmt: skip
    return list(run_scenario(Scenario.model_validate(document), ".", TwinOptions(keep=True)).kept or [])


AWAY = [
    {"at": "60s", "kind": "slurmctld.kill", "target": "ctl1"},
    {"at": "360s", "kind": "slurmctld.start", "target": "ctl1"},
]  # fmt: skip
JOB = {"id": 1, "submit": "90s", "run": "30s", "time": "10", "cpus_per_task": 2}


def times(rows: list[Event], kind: str, job: int = 1) -> list[int]:
    """Seconds at which something happened to a job."""
    return [row.t_ns // SECOND for row in rows if row.kind.value == kind and row.job_id == job]


def test_without_users_a_submission_that_failed_is_lost() -> None:
    """As sbatch itself: one try."""
    rows = play(None, [JOB], AWAY)
    assert len(times(rows, "job.rejected")) == 1
    assert not times(rows, "job.submitted")


def test_a_user_tries_again_until_slurmctld_is_back() -> None:
    """Each minute after a failure; the job runs once."""
    rows = play({"try_again": "1m"}, [JOB], AWAY)
    tries = times(rows, "job.rejected")
    assert len(tries) >= 3
    assert all(later - earlier >= 60 for earlier, later in pairwise(tries))
    assert len(times(rows, "job.submitted")) == 1
    assert 360 <= times(rows, "job.started")[0] <= 360 + 60 + 40


def test_who_gives_up_does_not_come_back() -> None:
    """Two minutes of trying end before slurmctld is there; a later job runs, and then the run is over."""
    rows = play({"try_again": "1m", "gives_up": "2m"}, [JOB, {**JOB, "id": 2, "submit": "400s"}], AWAY)
    assert times(rows, "job.rejected")
    assert not times(rows, "job.submitted")
    assert json.loads(rows[-1].detail or "{}")["why"] == "done"


def test_an_impatient_user_cancels_what_never_started_and_nothing_else() -> None:
    """Job 1 runs for an hour, job 2 waits behind it: after ten minutes only job 2 is cancelled."""
    jobs = [{**JOB, "submit": "1s", "run": "1h", "time": "120"}, {**JOB, "id": 2, "submit": "2s"}]
    rows = play({"patience": "10m"}, jobs, [])
    assert not times(rows, "job.started", 2)
    assert times(rows, "job.ended", 2)[0] == pytest.approx(602, abs=3)
    assert times(rows, "job.ended", 1)[0] >= 3600


def test_impatience_ends_the_trying_too() -> None:
    """Whoever has lost patience while slurmctld is away does not submit when it is back."""
    rows = play({"try_again": "1m", "patience": "2m"}, [JOB], AWAY)
    assert not times(rows, "job.submitted")


def test_a_job_that_was_refused_may_be_submitted() -> None:
    """The property of legal states knows users who try again, and still no start of a job that was refused."""
    assert MACHINE["rejected"]["job.submitted"] == "pending"
    assert "job.started" not in MACHINE["rejected"]


DAY_AND_NIGHT = {"machines": 8, "low": 200, "high": 1000, "peak": "14h", "per_machine": 250, "lasts": "2d"}


def test_the_load_follows_the_day() -> None:
    """Its top at two in the afternoon, its least twelve hours before and after."""
    services = Services.model_validate(DAY_AND_NIGHT)
    assert load_at(services, 14 * HOUR) == pytest.approx(1000)
    assert load_at(services, 2 * HOUR) == load_at(services, 26 * HOUR) == pytest.approx(200)
    assert max(wanted for _, wanted in wanted_machines(services, 1)) == 4


def test_a_machine_is_kept_for_as_long_as_the_window() -> None:
    """Of a load that jumps about, the most of the last hour counts: fewer changes, never fewer machines."""
    restless = {**DAY_AND_NIGHT, "spread": 0.4}
    free = dict(wanted_machines(Services.model_validate(restless), 3))
    kept = dict(wanted_machines(Services.model_validate({**restless, "keep": "1h"}), 3))
    assert all(kept[at] == max(free[at - k * 15 * MINUTE] for k in range(5) if at >= k * 15 * MINUTE) for at in free)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 12), st.floats(0, 500), st.floats(0, 2000), st.floats(0, 1), st.integers(0, 9))
def test_steps_change_something_and_never_ask_for_more_than_there_is(
    machines: int, low: float, more: float, spread: float, seed: int
) -> None:
    """Equal seeds give equal steps; two steps that follow each other differ."""
    document = {**DAY_AND_NIGHT, "machines": machines, "low": low, "high": low + more + 1, "spread": spread}
    services = Services.model_validate(document)
    steps = scale_steps(services, machines, seed)
    assert steps == scale_steps(services, machines, seed)
    counts = [machines, *(step.count for step in steps)]
    assert all(one != other for one, other in pairwise(counts))
    assert all(count is not None and 0 <= count <= machines for count in counts)


def test_services_join_the_faults_of_the_scenario() -> None:
    """In order of time; where they lend nothing no step is made, and without services it is the same object."""
    document: dict[str, Any] = {
        "schema": "slurmtwin/scenario/1", "name": "case", "slurm": {"nodes": [{"NodeName": "w-[0-7]", "CPUs": 1}]},
        "pods": {"operator": "slinky"}, "workload": {"services": DAY_AND_NIGHT},
        "faults": [{"at": "12h", "kind": "operator.update", "target": "workers"}],
    }  # fmt: skip
    scenario = with_services(Scenario.model_validate(document), 1)
    at = [fault.at for fault in scenario.faults]
    assert at == sorted(at)
    assert {fault.kind for fault in scenario.faults} == {"operator.scale", "operator.update"}
    services: dict[str, Any] = {**DAY_AND_NIGHT, "lends": False}
    kept = with_services(Scenario.model_validate({**document, "workload": {"services": services}}), 1)
    assert {fault.kind for fault in kept.faults} == {"operator.update"}
    plain = Scenario.model_validate({**document, "workload": {}})
    assert with_services(plain, 1) is plain
