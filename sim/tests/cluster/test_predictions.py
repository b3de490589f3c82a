"""The scenario predictions of slurm.md 12, run in the whole twin: real scheduler, real job part, no host costs.

slurmctld and the slurmds start at -30 s; 26.05's loop looks at whole seconds; the first ping tick is at -26 s.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import Scenario
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.worlds.twin import TwinOptions, run_scenario


def history(
    jobs: list[dict[str, Any]], faults: list[dict[str, Any]], until: str, version: str = "26.05", nodes: int = 2,
    **conf: Any,
) -> list[Event]:  # fmt: skip
    """The events of a small cluster of 4-CPU nodes."""
    scenario = Scenario.model_validate({
        "schema": "slurmtwin/scenario/1", "name": "prediction",
        "slurm": {
            "version": version,
            "conf": {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core", **conf},
            "nodes": [{"NodeName": f"n[1-{nodes}]", "CPUs": 4, "RealMemory": 1000}],
            "partitions": [{"PartitionName": "p", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE"}],
        },
        "workload": {"jobs": jobs}, "faults": faults, "budget": {"max_time": until},
    })  # fmt: skip
    run = run_scenario(scenario, options=TwinOptions(keep=True, costs=HostCosts()))
    return run.kept if hasattr(run, "kept") else run._kept


def times(events: list[Event], kind: Kind, job: int | None = None, **detail: Any) -> list[float]:
    """Seconds at which that happened."""
    return [
        e.t_ns / SECOND
        for e in events
        if e.kind is kind and (job is None or e.job_id == job)
        and all(json.loads(e.detail or "{}").get(key) == value for key, value in detail.items())
    ]  # fmt: skip


LONG = {"id": 1, "submit": "500ms", "run": "3000s", "nodes": "1", "nodelist": "n1", "time": "60"}
KILLED_AND_BACK = [
    {"at": "100s", "kind": "slurmd.kill_group", "target": "n1"},
    {"at": "105s", "kind": "slurmd.start", "target": "n1"},
]


def test_s1_a_pod_back_in_five_seconds_costs_the_job_its_run_and_two_minutes() -> None:
    """slurm.md 12 "S1 slurmd pod OOM-killed, container back in <10 s, batch job >20 s old, requeue on".

    slurm.md 4.6 "Requeue delay": eligible 121 s after 105, started by the 60 s pass; the node never shows DOWN.
    """
    events = history([LONG], KILLED_AND_BACK, "400s")
    assert times(events, Kind.JOB_ENDED, 1, state="NODE_FAIL") == [105.0]
    requeued = [e.value for e in events if e.kind is Kind.JOB_REQUEUED]
    assert requeued == [226 * SECOND]
    second = times(events, Kind.JOB_STARTED, 1)[1]
    assert 226 <= second <= 286
    assert times(events, Kind.NODE_DOWN) == []


def test_s1b_a_younger_job_stays_as_a_ghost_and_holds_its_cores() -> None:
    """slurm.md 12 "S1b same, job younger than 20 s at that registration": no action; the 20th tick ends it."""
    young = {**LONG, "submit": "92s", "time": "600"}
    events = history([young], KILLED_AND_BACK, "2500s")
    assert times(events, Kind.JOB_ENDED, 1) == [pytest.approx(-26.0 + 19 * 100)]


def test_s1b_a_ghost_ends_at_its_time_limit_if_that_comes_first() -> None:
    """slurm.md 12 "S1b same, job younger than 20 s at that registration": time limit + up to 30 s."""
    young = {**LONG, "submit": "92s", "time": "10"}
    events = history([young], KILLED_AND_BACK, "2500s")
    ended = times(events, Kind.JOB_ENDED, 1, state="TIMEOUT")
    started = times(events, Kind.JOB_STARTED, 1)[0]
    assert started + 600 <= ended[0] <= started + 631


def test_s1c_a_job_that_may_not_be_requeued_is_lost() -> None:
    """slurm.md 12 "S1c same, --no-requeue": final NODE_FAIL; exit code 1 since 24.11."""
    for version, code in (("22.05", 0), ("26.05", 1)):
        events = history([{**LONG, "requeue": False}], KILLED_AND_BACK, "400s", version=version)
        assert len(times(events, Kind.JOB_ENDED, 1, state="NODE_FAIL", exit_code=code)) == 1
        assert times(events, Kind.JOB_REQUEUED) == []


def test_s2_a_pod_that_does_not_come_back_is_silent_then_down() -> None:
    """slurm.md 12 "S2 slurmd pod gone and not back", slurm.md 4.5 "batch and Requeue=1 (JobRequeue default 1)".

    Ticks at -26, 74, 174 .. Started at 1, so asked first at 174: "*" ten seconds later; DOWN within 500 s.
    """
    events = history([LONG], [{"at": "100s", "kind": "slurmd.kill_group", "target": "n1"}], "1000s")
    assert times(events, Kind.NODE_NOT_RESPONDING) == [pytest.approx(174 + 10.275)]
    down = times(events, Kind.NODE_DOWN)
    assert len(down) == 1
    assert 300 <= down[0] <= 600
    assert times(events, Kind.JOB_ENDED, 1, state="NODE_FAIL") == down


@pytest.mark.parametrize(("policy", "back"), [(0, False), (1, True), (2, True)])
def test_s2_return_to_service_decides_what_its_return_means(policy: int, back: bool) -> None:
    """slurm.md 12 "S2 slurmd pod gone and not back": 0 stays DOWN; 1 and 2 return on registration."""
    faults = [
        {"at": "100s", "kind": "slurmd.kill_group", "target": "n1"},
        {"at": "800s", "kind": "slurmd.start", "target": "n1"},
    ]
    events = history([LONG], faults, "1000s", ReturnToService=policy)
    assert times(events, Kind.NODE_UP) == ([800.0] if back else [])


def test_s5_a_clean_restart_of_slurmctld_loses_no_job() -> None:
    """slurm.md 12 "S5 slurmctld SIGTERM + restart, single host": the running job goes on, its end is heard."""
    faults = [{"at": "100s", "kind": "slurmctld.stop"}, {"at": "160s", "kind": "slurmctld.start"}]
    jobs = [{**LONG, "run": "200s"}, {"id": 2, "submit": "50s", "run": "10s", "nodes": "2", "time": "5"}]
    events = history(jobs, faults, "600s")
    assert times(events, Kind.JOB_ENDED, 1, state="COMPLETED") == [201.0]
    assert times(events, Kind.JOB_LOST) == []
    assert len(times(events, Kind.JOB_ENDED, 2, state="COMPLETED")) == 1


def test_s5_sbatch_fails_after_ten_seconds_without_a_controller() -> None:
    """slurm.md 12 "S5 slurmctld SIGTERM + restart, single host", slurm.md 5.4 "No controller accepts"."""
    faults = [{"at": "100s", "kind": "slurmctld.stop"}, {"at": "160s", "kind": "slurmctld.start"}]
    jobs = [LONG, {**LONG, "id": 2, "submit": "120s"}, {**LONG, "id": 3, "submit": "155s", "nodelist": "n2"}]
    events = history(jobs, faults, "300s")
    assert times(events, Kind.JOB_REJECTED, 2) == [130.0]
    assert times(events, Kind.JOB_SUBMITTED, 3) == [160.0]


def test_s6_a_kill_right_after_a_start_makes_the_job_run_again() -> None:
    """slurm.md 12 "S6 slurmctld SIGKILL", slurm.md 5.3 "SIGKILL, lost start": aborted at the sweep, then run again.

    The submit at 90 is saved with its start. The second job's submit at 92 is saved at 95; its start at 97 is not.
    """
    jobs = [
        {**LONG, "submit": "90s"},
        {"id": 2, "submit": "90s", "run": "500s", "nodes": "1", "nodelist": "n2", "begin": "97s", "time": "60"},
    ]
    faults = [{"at": "121s", "kind": "slurmctld.kill"}, {"at": "125s", "kind": "slurmctld.start"}]
    events = history(jobs, faults, "1000s")
    starts = times(events, Kind.JOB_STARTED, 2)
    assert starts[0] == 120.0  # the 60 s pass finds it eligible
    runs = times(events, Kind.SCRIPT_STARTED, 2)
    ends = times(events, Kind.SCRIPT_ENDED, 2)
    if len(starts) == 2:
        assert ends[0] == pytest.approx(129.0)
        assert len(runs) == 2
    assert times(events, Kind.JOB_STARTED, 1)[1:] == []


def test_s7_a_backup_takes_over_and_the_jobs_go_on() -> None:
    """slurm.md 12 "S7 primary dies, backup present": 90..160 s after the crash; then as S5."""
    faults = [{"at": "100s", "kind": "slurmctld.kill"}]
    events = history([{**LONG, "run": "400s"}], faults, "700s", SlurmctldHost="a,b")
    took = times(events, Kind.SLURMCTLD_TOOK_OVER)
    assert len(took) == 1
    assert 90 <= took[0] - 100 <= 160
    assert times(events, Kind.JOB_ENDED, 1, state="COMPLETED") == [401.0]


def test_s8_a_lost_state_volume_aborts_every_job_at_the_sweep() -> None:
    """slurm.md 12 "S8 state volume lost": all running steps aborted as orphans; ids restart at FirstJobId."""
    faults = [
        {"at": "100s", "kind": "slurmctld.kill"},
        {"at": "105s", "kind": "slurmctld.lose_state"},
        {"at": "110s", "kind": "slurmctld.start"},
    ]
    jobs = [LONG, {"id": 2, "submit": "200s", "run": "10s", "nodes": "1", "time": "5"}]
    events = history(jobs, faults, "400s")
    assert times(events, Kind.SCRIPT_ENDED, 1) == [pytest.approx(114.0)]
    assert times(events, Kind.JOB_LOST, 1) == [110.0]
    numbers = [json.loads(e.detail or "{}")["slurm_id"] for e in events if e.kind is Kind.JOB_SUBMITTED]
    assert numbers == [1, 1]


def test_s10_a_job_that_ends_in_an_outage_is_recorded_when_it_is_heard() -> None:
    """slurm.md 12 "S10 job completes during outage of length d": up to d + 15..25 s too late.

    It ends at 121: tries 121..131, then after 15 s 146..156, 171..181. The controller is back at 160: heard at 171.
    """
    faults = [{"at": "100s", "kind": "slurmctld.stop"}, {"at": "160s", "kind": "slurmctld.start"}]
    events = history([{**LONG, "run": "120s"}], faults, "400s")
    assert times(events, Kind.SCRIPT_ENDED, 1) == [121.0]
    assert times(events, Kind.JOB_ENDED, 1, state="COMPLETED") == [171.0]
