"""The plan that the driver runs: sbatch lines, faults, when the run ends."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.clock import HOUR, MINUTE, SECOND, UNLIMITED
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.listed_jobs import listed_jobs
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.plan import TAIL_NS, job_options, job_spans, limit_text, make_plan, submit_actions


def scenario(jobs: list[dict[str, Any]], faults: list[dict[str, Any]] | None = None, **more: Any) -> Scenario:
    """Two nodes, two controllers."""
    slurm = {"conf": {"SlurmctldHost": "c1,c2"}, "nodes": [{"NodeName": "n[1-2]", "CPUs": 4}],
             "partitions": [{"PartitionName": "p", "Nodes": "ALL"}]}  # fmt: skip
    document = {"schema": "slurmtwin/scenario/1", "name": "one", "slurm": slurm, "workload": {"jobs": jobs},
                "faults": faults or []}  # fmt: skip
    return Scenario.model_validate(document | more)


def plan_of(jobs: list[dict[str, Any]], faults: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    """plan.json of such a scenario."""
    one = scenario(jobs, faults, **more)
    return make_plan(one, list(listed_jobs(one)), "26.05", 10)[0]


def options_of(**line: Any) -> list[str]:
    """sbatch's options of one job line."""
    return job_options(next(iter(listed_jobs(scenario([{"run": "5s", **line}])))))


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ({"nodes": "2"}, "--nodes=2"), ({"nodes": "2-4"}, "--nodes=2-4"), ({"time": "1:30"}, "--time=1:30"),
        ({"mem": "200"}, "--mem=200M"), ({"array": "0-3%2"}, "--array=0-3%2"), ({"hold": True}, "--hold"),
        ({"requeue": False}, "--no-requeue"), ({"exclusive": "node"}, "--exclusive"), ({"nice": 5}, "--nice=5"),
        ({"begin": "90s"}, "--begin={time:90000000000}"), ({"gres": "gpu:1"}, "--gres=gpu:1"),
        ({"dependency": "afterok:3+5,afterany:4_1"}, "--dependency=afterok:{job:3}+5,afterany:{job:4}_1"),
    ],
)  # fmt: skip
def test_a_job_line_becomes_sbatch_options(line: dict[str, Any], option: str) -> None:
    """In Slurm's own words; numbers and times that only the run knows are placeholders."""
    assert option in options_of(**line)


def test_nothing_that_was_not_asked_is_said() -> None:
    """Slurm's defaults stay Slurm's."""
    assert options_of() == ["--job-name=j1"]


@pytest.mark.parametrize(
    ("ns", "text"), [(90 * SECOND, "1:30"), (MINUTE, "1:00"), (SECOND // 2, "0:01"), (UNLIMITED, "UNLIMITED")]
)
def test_limits_keep_their_seconds(ns: int, text: str) -> None:
    """Slurm itself rounds them up to minutes."""
    assert limit_text(ns) == text


def test_components_of_a_heterogeneous_job_are_one_sbatch() -> None:
    """Separated by a colon, in the order of the file."""
    lines = [{"id": 1, "ntasks": 1, "het_group": 9, "run": "5s"}, {"id": 2, "ntasks": 2, "het_group": 9, "run": "5s"}]
    actions = submit_actions(list(listed_jobs(scenario(lines))))
    assert [a["jobs"] for a in actions] == [[1, 2]]
    argv = actions[0]["argv"]
    assert argv[argv.index(":") + 1 :][:1] == ["--ntasks=2"]


def test_a_fault_on_nodes_is_one_action_a_daemon_and_names_its_fault() -> None:
    """kill_group takes the steps along; an empty target of slurmctld is the primary."""
    faults = [
        {"at": "5s", "kind": "slurmd.kill_group", "target": "n[1-2]"}, {"at": "6s", "kind": "slurmctld.stop"},
        {"at": "7s", "kind": "slurmd.start", "target": "n1"},
    ]  # fmt: skip
    actions = [a for a in plan_of([], faults)["actions"] if "fault" in a]
    assert [(a["do"], a["daemon"], a.get("signal"), a["fault"]) for a in actions] == [
        ("signal", "slurmd:n1", 9, 0), ("signal", "slurmd:n2", 9, 0), ("signal", "slurmctld:c1", 15, 1),
        ("start", "slurmd:n1", None, 2),
    ]  # fmt: skip
    assert [a.get("whole_node") for a in actions] == [True, True, False, None]


@pytest.mark.parametrize(
    ("fault", "argv"),
    [
        ({"kind": "job.requeue", "job": 1}, ["scontrol", "requeue", "{job:1}"]),
        ({"kind": "job.cancel", "job": 1}, ["scancel", "{job:1}"]),
        ({"kind": "node.update", "target": "n1", "state": "DOWN"},
         ["scontrol", "update", "nodename=n1", "state=DOWN", "reason=scenario"]),
        ({"kind": "slurmctld.takeover"}, ["scontrol", "takeover"]),
        ({"kind": "partition.update", "target": "p", "set": {"State": "DOWN"}},
         ["scontrol", "update", "partitionname=p", "State=DOWN"]),
        ({"kind": "reservation.create", "name": "r", "start": "60s", "duration": "90s", "nodes": "n1"},
         ["scontrol", "create", "reservationname=r", "starttime={time:60000000000}", "duration=1:30", "nodes=n1",
          "users=root"]),
    ],
)  # fmt: skip
def test_administration_is_done_by_slurms_own_commands(fault: dict[str, Any], argv: list[str]) -> None:
    """Nothing is changed behind slurmctld's back."""
    action = next(a for a in plan_of([], [{"at": "5s", **fault}])["actions"] if "fault" in a)
    assert (action["do"], action["argv"]) == ("command", argv)


def test_a_run_goes_on_as_long_as_its_longest_job_may() -> None:
    """An hour without any end beyond the longest job's time ends it; a queue of long jobs is not cut."""
    jobs = [{"run": "2h", "time": "180"}, {"submit": "10m", "run": "5h", "time": "60"}]
    plan = plan_of(jobs)
    assert plan["tail_ns"] == TAIL_NS + 2 * HOUR
    assert plan["max_ns"] == 10 * MINUTE + TAIL_NS + 3 * HOUR


def test_a_budget_is_the_end_whatever_runs() -> None:
    """budget.max_time counts from t = 0."""
    assert plan_of([{"run": "until-ended"}], budget={"max_time": "90s"})["max_ns"] == 90 * SECOND


def test_a_job_without_end_or_limit_does_not_lengthen_the_run() -> None:
    """Its partition's limit is not known here; an array counts each task."""
    jobs = [JobRequest(job_id=1, submit_ns=0, run_ns=None),
            JobRequest(job_id=2, submit_ns=0, run_ns=SECOND, array="0-2")]  # fmt: skip
    assert job_spans(jobs) == (SECOND, 3 * SECOND)


def test_the_cluster_is_added_to_accounting_unless_a_line_does() -> None:
    """sacctmgr needs it before anything else."""
    assert plan_of([])["sacctmgr"]["before"] == ["add cluster twin"]
    lines = ["add cluster Name=mine", "add account a"]
    one = scenario([]).model_copy(
        update={"slurm": scenario([]).slurm.model_copy(update={"accounting": lines})}
    )  # fmt: skip
    assert make_plan(one, [], "26.05", 1)[0]["sacctmgr"]["before"] == lines


def test_a_user_gets_a_number_and_a_job_its_user() -> None:
    """In alphabetic order, so that it never depends on the order of jobs."""
    plan = plan_of([{"run": "1s", "user": "zoe"}, {"run": "1s", "user": "ann"}])
    assert list(plan["users"]) == ["ann", "zoe"]
    assert [a["user"] for a in plan["actions"]] == ["zoe", "ann"]
