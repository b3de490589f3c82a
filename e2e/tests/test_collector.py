"""The collector on excerpts of real runs' logs: what Slurm did is in the table, once and in order."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin_e2e.collect.job_numbers import JobNumbers
from slurmtwin_e2e.collect.run_events import build_events
from slurmtwin_e2e.collect.slurmctld_log import iso_ns, read_log
from slurmtwin_e2e.collect.sources import expand_cpus, read_jobcomp, read_scripts
from slurmtwin_e2e.facts import cpus_of_nodes
from slurmtwin_e2e.recording import fault_documents

DATA = Path(__file__).parent / "data"
PROBES = Path(__file__).parents[2] / "scenarios" / "probes"
SECOND = 1_000_000_000
EXCERPTS = sorted(path.parent.name for path in DATA.glob("*/plan.json"))


def events_of(excerpt: str) -> list[Event]:
    """The table of one excerpt (SCENARIO-VERSION)."""
    scenario = load_scenario(PROBES / f"{excerpt.rpartition('-')[0]}.yaml")
    plan = json.loads((DATA / excerpt / "plan.json").read_text())
    return build_events(DATA / excerpt, plan, fault_documents(scenario), cpus_of_nodes(scenario))


def of_kind(events: list[Event], *kinds: Kind) -> list[Event]:
    """Rows of these kinds, in order."""
    return [event for event in events if event.kind in kinds]


def told(event: Event) -> dict[str, Any]:
    """The detail column."""
    found: dict[str, Any] = json.loads(event.detail or "{}")
    return found


def test_every_scontrol_requeue_is_a_row() -> None:
    """Also the last one, after which the job ran to the end of the recording and left no record of another end."""
    events = events_of("requeue-loop-24.11")
    requeued = of_kind(events, Kind.JOB_REQUEUED)
    assert [round(e.t_ns / SECOND) for e in requeued] == [30, 191, 350]
    assert len(of_kind(events, Kind.JOB_STARTED)) == len(of_kind(events, Kind.SCRIPT_STARTED)) == 4


def test_a_requeue_needs_no_later_start_to_be_seen(tmp_path: Path) -> None:
    """The same run cut after its last requeue: the log and jobcomp said it."""
    folder = DATA / "requeue-loop-24.11"
    for name in ("driver.jsonl", "slurm_jobcomp.log", "scripts.log"):
        (tmp_path / name).write_text((folder / name).read_text())
    lines = (folder / "slurmctld.log").read_text().splitlines()
    cut = [line for line in lines if line < "[2026-01-01T00:07"]
    assert len(cut) < len(lines)
    (tmp_path / "slurmctld.log").write_text("\n".join(cut) + "\n")
    scenario = load_scenario(PROBES / "requeue-loop.yaml")
    events = build_events(tmp_path, {"factor": 20, "version": "24.11"}, fault_documents(scenario), {"n1": 4})
    assert len(of_kind(events, Kind.JOB_STARTED)) == len(of_kind(events, Kind.JOB_REQUEUED)) == 3


def test_what_happens_after_the_budget_is_not_in_the_table() -> None:
    """The driver stops the daemons a little later; the twin would end at the budget."""
    scenario = load_scenario(PROBES / "requeue-loop.yaml")
    plan = {"factor": 20, "version": "24.11", "max_ns": 300 * SECOND}
    events = build_events(DATA / "requeue-loop-24.11", plan, fault_documents(scenario), {"n1": 4})
    assert (events[-1].kind, events[-1].t_ns) == (Kind.RUN_ENDED, 300 * SECOND)
    assert len(of_kind(events, Kind.JOB_STARTED)) == 2


def test_every_node_failure_is_an_end_and_a_requeue() -> None:
    """Seven times DOWN: seven ends as NODE_FAIL, seven requeues, and an eighth start (no hold after the fifth)."""
    events = events_of("requeue-fail-loop-24.11")
    assert [told(e)["state"] for e in of_kind(events, Kind.JOB_ENDED)] == ["NODE_FAIL"] * 7
    assert len(of_kind(events, Kind.JOB_REQUEUED)) == 7
    assert len(of_kind(events, Kind.JOB_STARTED)) == 8
    assert not of_kind(events, Kind.JOB_HELD)


def test_down_requeues_one_job_and_kills_the_other() -> None:
    """Requeue is the default; --no-requeue ends the job; the job on the living node is left alone."""
    events = events_of("down-default-24.11")
    ended = {e.job_id: told(e) for e in of_kind(events, Kind.JOB_ENDED)}
    assert {job: more["state"] for job, more in ended.items()} == {
        1: "NODE_FAIL", 2: "NODE_FAIL", 3: "COMPLETED", 4: "COMPLETED",
    }  # fmt: skip
    assert [e.job_id for e in of_kind(events, Kind.JOB_REQUEUED)] == [1]
    down = of_kind(events, Kind.NODE_DOWN)
    assert [(e.node, round(e.t_ns / SECOND)) for e in down] == [("n[1-2,4]", 494)]


@pytest.mark.parametrize("version", ["24.11", "26.05"])
def test_the_backup_stops_before_the_primary_serves_again(version: str) -> None:
    """REQUEST_CONTROL ends the backup's service 28 s before the primary begins; nobody signalled it."""
    events = events_of(f"backup-takeover-{version}")
    kinds = (Kind.SLURMCTLD_STARTED, Kind.SLURMCTLD_STOPPED, Kind.SLURMCTLD_CRASHED, Kind.SLURMCTLD_TOOK_OVER,
             Kind.SLURMCTLD_STANDBY)  # fmt: skip
    assert [(e.kind.value.split(".")[1], e.node) for e in of_kind(events, *kinds)] == [
        ("standby", "ctl2"), ("started", "ctl1"), ("crashed", "ctl1"), ("took_over", "ctl2"), ("started", "ctl2"),
        ("stopped", "ctl2"), ("started", "ctl1"), ("standby", "ctl2"),
    ]  # fmt: skip
    stopped, back = of_kind(events, Kind.SLURMCTLD_STOPPED)[0], of_kind(events, Kind.SLURMCTLD_STARTED)[-1]
    assert told(stopped) == {"asked_by": "rpc"}
    assert 28 < (back.t_ns - stopped.t_ns) / SECOND < 29


def test_a_stop_that_the_harness_sent_is_one_row(tmp_path: Path) -> None:
    """The note of the signal and the daemon's own line are the same fact."""
    notes = [
        {"t": iso_ns("2026-01-01T00:00:10"), "what": "zero", "zero": iso_ns("2026-01-01T00:00:10")},
        {"t": iso_ns("2026-01-01T00:00:50"), "what": "daemon.signaled", "daemon": "slurmctld:ctl1", "signal": 15,
         "whole_node": False},
    ]  # fmt: skip
    (tmp_path / "driver.jsonl").write_text("".join(json.dumps(n) + "\n" for n in notes))
    (tmp_path / "scripts.log").touch()
    (tmp_path / "slurmctld.log").write_text(
        "[2026-01-01T00:00:05.000] Running as primary controller\n"
        "[2026-01-01T00:00:50.300] Terminate signal SIGTERM received\n"
    )
    stopped = of_kind(build_events(tmp_path, {"factor": 20, "version": "24.11"}, [], {}), Kind.SLURMCTLD_STOPPED)
    assert [e.actor for e in stopped] == ["harness"]


@pytest.mark.parametrize(("new_process", "at_s"), [(True, 31), (False, 30)])
def test_a_reconfiguration_is_one_row_in_every_version(tmp_path: Path, new_process: bool, at_s: int) -> None:
    """Since 23.11 a new process serves: it is reconfigured then, not started; before, when the RPC was answered."""
    zero = iso_ns("2026-01-01T00:00:10")
    assert zero is not None
    action = {"do": "command", "argv": ["scontrol", "reconfigure"], "fault": 0}
    notes = [
        {"t": zero, "what": "zero", "zero": zero},
        {"t": zero + 30 * SECOND, "before": zero + 30 * SECOND, "what": "action", "action": action, "returncode": 0},
    ]  # fmt: skip
    (tmp_path / "driver.jsonl").write_text("".join(json.dumps(n) + "\n" for n in notes))
    (tmp_path / "scripts.log").touch()
    more = "[2026-01-01T00:00:41.000] Running as primary controller\n" * new_process
    (tmp_path / "slurmctld.log").write_text(f"[2026-01-01T00:00:05.000] Running as primary controller\n{more}")
    plan = {"factor": 20, "version": "24.11"}
    events = build_events(tmp_path, plan, [{"at": "30s", "kind": "slurmctld.reconfigure"}], {})
    rows = of_kind(events, Kind.SLURMCTLD_RECONFIGURED, Kind.SLURMCTLD_STARTED)
    assert [(e.kind, e.t_ns // SECOND) for e in rows] == [
        (Kind.SLURMCTLD_STARTED, -5), (Kind.SLURMCTLD_RECONFIGURED, at_s),
    ]  # fmt: skip


def test_each_component_of_a_heterogeneous_job_is_submitted() -> None:
    """The log names the leader alone; every component has a row with its own number in Slurm."""
    events = events_of("het-jobs-22.05")
    rows = [(e.job_id, told(e)["slurm_id"]) for e in of_kind(events, Kind.JOB_SUBMITTED)]
    assert rows == [(1, "1"), (2, "2"), (3, "3"), (4, "4"), (5, "5")]
    assert {e.job_id for e in of_kind(events, Kind.JOB_STARTED)} == {1, 2, 3, 4, 5}


@pytest.mark.parametrize("excerpt", EXCERPTS)
def test_scripts_say_on_which_node_they_ran(excerpt: str) -> None:
    """It is a node of the allocation that Slurm logged."""
    events = events_of(excerpt)
    starts = {e.job_id: e.node for e in of_kind(events, Kind.JOB_STARTED)}
    scripts = of_kind(events, Kind.SCRIPT_STARTED, Kind.SCRIPT_ENDED)
    assert scripts
    for row in scripts:
        assert row.node
        assert starts[row.job_id] in (row.node, "n[3-4]")


@pytest.mark.parametrize("excerpt", EXCERPTS)
def test_rows_are_in_time_order_and_no_job_starts_twice_without_an_end(excerpt: str) -> None:
    """Of each job starts and ends alternate."""
    events = events_of(excerpt)
    assert [e.t_ns for e in events] == sorted(e.t_ns for e in events)
    running: set[int | None] = set()
    for event in of_kind(events, Kind.JOB_STARTED, Kind.JOB_ENDED):
        assert (event.job_id in running) == (event.kind is Kind.JOB_ENDED)
        running ^= {event.job_id}


def test_a_number_that_a_lost_state_reuses_belongs_to_the_later_job() -> None:
    """By time: before the second submit the number is the first job's."""
    numbers = JobNumbers()
    numbers.submitted(100, 1, [7])
    numbers.submitted(500, 1, [8, 9])
    assert numbers.resolve(1, 300) == (7, None)
    assert numbers.resolve(1, 600) == (8, None)
    assert numbers.components(1, 300) == [(1, 7)]
    assert numbers.components(1, 600) == [(1, 8), (2, 9)]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("10", (3, None)),
        ("10_2(12)", (3, 2)),
        ("12", (3, 2)),
        ("20+1(21)", (5, None)),
        ("20+0", (4, None)),
        ("99", None),
    ],
)
def test_the_forms_of_a_job_number_in_the_log(text: str, known: tuple[int, int | None] | None) -> None:
    """Plain, task of an array, component of a heterogeneous job; a number that nobody submitted is nobody's."""
    numbers = JobNumbers()
    numbers.submitted(0, 10, [3])
    numbers.submitted(0, 20, [4, 5])
    numbers.task(1, 12, 10, 2)
    assert numbers.resolve_text(text, 50) == known


@pytest.mark.parametrize(("text", "cpus"), [("4(x2),1", [4, 4, 1]), ("2", [2]), ("", []), ("what", [])])
def test_cpus_per_node_in_slurms_short_form(text: str, cpus: list[int]) -> None:
    """An unreadable text is no knowledge, not an error."""
    assert expand_cpus(text) == cpus


def test_a_script_that_outlives_its_slurmctld_ends_as_the_job_it_was_started_for(tmp_path: Path) -> None:
    """The state lost job 13, its number 5 was given to job 14, and the script of 13 ended after that."""
    zero = iso_ns("2026-01-01T00:00:00")
    assert zero is not None
    notes: list[dict[str, Any]] = [{"t": zero, "what": "zero", "zero": zero}]
    for job, at_s in ((13, 27), (14, 32)):
        action = {"do": "submit", "jobs": [job]}
        at_ns = zero + at_s * SECOND
        notes.append({"t": at_ns, "before": at_ns, "what": "action", "action": action, "slurm_id": 5, "returncode": 0})
    (tmp_path / "driver.jsonl").write_text("".join(json.dumps(n) + "\n" for n in notes))
    second = zero // SECOND
    (tmp_path / "scripts.log").write_text(
        f"start 5 0 -1 0 {second + 27}.3 0 w-1 1 - w-1\n"
        f"end 5 0 -1 0 {second + 32}.4 0 - - - w-1\n"
        f"start 5 0 -1 0 {second + 33}.5 0 w-2 1 - w-2\n"
        f"end 5 0 -1 0 {second + 38}.5 0 - - - w-2\n"
    )
    (tmp_path / "slurmctld.log").touch()
    events = build_events(tmp_path, {"factor": 1, "version": "22.05"}, [], {"w-1": 1, "w-2": 1})
    assert [e.job_id for e in of_kind(events, Kind.SCRIPT_STARTED, Kind.SCRIPT_ENDED)] == [13, 13, 14, 14]


def test_lines_cut_short_are_left_out(tmp_path: Path) -> None:
    """A kill may cut the last line of any log."""
    (tmp_path / "scripts.log").write_text("start 1 0 -1 0 1767225613.5 0 n1 1 - n1\nend 1 0 -1")
    assert [line.host for line in read_scripts(tmp_path)] == ["n1"]
    (tmp_path / "slurm_jobcomp.log").write_text("JobId=1 JobState=COMPL")
    assert read_jobcomp(tmp_path) == []
    (tmp_path / "slurmctld.log").write_text("[2026-01-01T00:00:05.000] Running as pri\n[2026-01-01T0")
    assert list(read_log(tmp_path / "slurmctld.log")) == []


def test_no_jobcomp_at_all_is_no_job_ended(tmp_path: Path) -> None:
    """As when slurmctld died before the first end."""
    assert read_jobcomp(tmp_path) == []


ZERO = 1767225610 * SECOND
"""2026-01-01T00:00:10."""
GAVE_UP = "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation\n"


def _noted(folder: Path, actions: list[dict[str, Any]], log: str, faults: list[dict[str, Any]]) -> list[Event]:
    """The table of a run with these actions of the driver and this log of slurmctld."""
    notes = [{"what": "zero", "zero": ZERO}, *({"what": "action", **action} for action in actions)]
    (folder / "driver.jsonl").write_text("".join(json.dumps(n) + "\n" for n in notes))
    (folder / "slurmctld.log").write_text(log)
    (folder / "scripts.log").touch()
    return build_events(folder, {"factor": 1, "version": "26.05"}, faults, {"w-0": 1})


def _given_up(*jobs: int) -> list[dict[str, Any]]:
    """sbatch of these jobs, 10 s each from 7 s on, without an answer."""
    times = [(ZERO + (7 + place) * SECOND, ZERO + (17 + place) * SECOND) for place in range(len(jobs))]
    return [
        {"before": before, "t": t, "action": {"do": "submit", "jobs": [job]}, "returncode": 1, "stderr": GAVE_UP}
        for job, (before, t) in zip(jobs, times, strict=True)
    ]


TAKEN = "[2026-01-01T00:00:36.500] _slurm_rpc_submit_batch_job: JobId=1 InitPrio=1 usec=1835\n"


def test_a_job_that_sbatch_gave_up_and_slurmctld_took_is_submitted(tmp_path: Path) -> None:
    """Recorded in x70: sbatch failed after 10 s, and the job was there and started all the same."""
    events = _noted(tmp_path, _given_up(4), TAKEN, [])
    assert not of_kind(events, Kind.JOB_REJECTED)
    assert [(e.job_id, e.t_ns) for e in of_kind(events, Kind.JOB_SUBMITTED)] == [(4, 26_500_000_000)]


def test_of_two_jobs_that_sbatch_gave_up_none_is_guessed(tmp_path: Path) -> None:
    """One line of the log, two submissions that it may mean."""
    events = _noted(tmp_path, _given_up(4, 5), TAKEN, [])
    assert [e.job_id for e in of_kind(events, Kind.JOB_REJECTED)] == [4, 5]


def test_a_job_that_slurmctld_refused_takes_no_other_ones_number(tmp_path: Path) -> None:
    """Only where sbatch had no answer may the log still bring one."""
    refused = [{**action, "stderr": "sbatch: error: Invalid partition\n"} for action in _given_up(4)]
    events = _noted(tmp_path, refused, TAKEN, [])
    assert [e.job_id for e in of_kind(events, Kind.JOB_REJECTED)] == [4]


def test_an_update_of_a_node_has_the_time_of_slurmctlds_log(tmp_path: Path) -> None:
    """Recorded in x70: scontrol took 32 s to find slurmctld, and the update came with its last tenth of a second."""
    fault = {"at": "6s", "kind": "node.update", "target": "w-0", "state": "RESUME"}
    asked = {
        "before": ZERO + 6 * SECOND,
        "t": ZERO + 38 * SECOND,
        "action": {"do": "command", "fault": 0},
        "returncode": 0,
    }
    log = "[2026-01-01T00:00:47.930] update_node: node w-0 state set to IDLE\n"
    events = _noted(tmp_path, [asked], log, [fault])
    rows = of_kind(events, Kind.FAULT_INJECTED, Kind.NODE_RESUMED)
    assert [(e.t_ns, e.t_err_ns < 2_000_000) for e in rows] == [(37_930_000_000, True)] * 2


def test_an_update_that_the_log_does_not_name_lies_within_its_command(tmp_path: Path) -> None:
    """Another node's line, or one of another time, says nothing of it."""
    fault = {"at": "6s", "kind": "node.update", "target": "w-0", "state": "RESUME"}
    asked = {
        "before": ZERO + 6 * SECOND,
        "t": ZERO + 8 * SECOND,
        "action": {"do": "command", "fault": 0},
        "returncode": 0,
    }
    log = (
        "[2026-01-01T00:00:17.000] update_node: node w-1 state set to IDLE\n"
        "[2026-01-01T00:00:47.930] update_node: node w-0 state set to IDLE\n"
    )
    rows = of_kind(_noted(tmp_path, [asked], log, [fault]), Kind.FAULT_INJECTED)
    assert [(e.t_ns, e.t_err_ns > SECOND) for e in rows] == [(7 * SECOND, True)]
