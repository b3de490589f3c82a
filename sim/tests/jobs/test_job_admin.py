"""scontrol on partitions and reservations, and what it does to jobs (slurm.md 1.1, 9)."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Kind


def test_a_partition_that_comes_up_starts_its_jobs_at_the_queued_pass(run_twin: Any, a_job: Any) -> None:
    """scontrol update partitionname= State=UP queues a pass (slurm.md 1.1 "Events that only queue")."""
    part = [{"PartitionName": "main", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE", "State": "DOWN"}]
    faults = [{"at": "60.2s", "kind": "partition.update", "target": "main", "set": {"State": "UP"}}]
    story = run_twin([a_job(1)], partitions=part, faults=faults)
    assert story.starts(1) == [61.0]


def test_a_limit_above_a_lowered_max_time_keeps_the_job_waiting(run_twin: Any, a_job: Any) -> None:
    """PartitionTimeLimit while it is pending; EnforcePartLimits is NO."""
    jobs = [a_job(1, run=100, nodes=2), a_job(2, submit=1.2, nodes=2, minutes=5)]
    faults = [{"at": "20s", "kind": "partition.update", "target": "main", "set": {"MaxTime": "2"}}]
    story = run_twin(jobs, faults=faults)
    assert story.starts(2) == []
    assert {"reason": "PartitionTimeLimit"} in [d for _, d in story.of(2, Kind.JOB_PENDING)]


def test_an_unknown_field_is_an_input_error(run_twin: Any, a_job: Any) -> None:
    """The message names the field and what can be set."""
    faults = [{"at": "1s", "kind": "partition.update", "target": "main", "set": {"Colour": "red"}}]
    with pytest.raises(InputError, match="colour is not modelled"):
        run_twin([a_job(1)], faults=faults)
    faults = [{"at": "5s", "kind": "job.update", "job": 1, "set": {"Colour": "red"}}]
    with pytest.raises(InputError, match="Colour is not modelled"):
        run_twin([a_job(1, run=20)], faults=faults)


def test_a_reservation_keeps_others_out_until_it_ends(run_twin: Any, a_job: Any) -> None:
    """slurm.md 9 "Reservations": a job that would overlap it waits; one that names it may run inside."""
    faults = [
        {"at": "1s", "kind": "reservation.create", "name": "r", "start": "10s", "duration": "300s", "nodes": "n[1-2]",
         "users": "ann"},
    ]  # fmt: skip
    jobs = [a_job(1, submit=12.5, user="bob", nodes=2), a_job(2, submit=12.6, user="ann", reservation="r")]
    story = run_twin(jobs, faults=faults)
    assert story.starts(1)[0] >= 310
    assert story.starts(2)[0] < 20


def test_a_job_that_outlives_its_reservation_is_ended_by_the_scan(run_twin: Any, a_job: Any) -> None:
    """ResvOverRun 0: the reservation ends at 130 s, the scan at 142 s ends the job."""
    faults = [
        {"at": "1s", "kind": "reservation.create", "name": "r", "start": "10s", "duration": "120s", "nodes": "n1",
         "users": "ann", "flags": "IGNORE_JOBS"},
    ]  # fmt: skip
    jobs = [a_job(1, submit=12.6, run=None, minutes=1, user="ann", reservation="r")]
    faults.append({"at": "40s", "kind": "job.update", "job": 1, "set": {"TimeLimit": "60"}})
    story = run_twin(jobs, faults=faults)
    assert story.ends(1) == [(142.0, "TIMEOUT")]


def test_a_higher_priority_by_hand_overtakes(run_twin: Any, a_job: Any) -> None:
    """scontrol update jobid= Priority=."""
    jobs = [a_job(1, run=50, nodes=2), a_job(2, submit=1.2, nodes=2), a_job(3, submit=1.4, nodes=2)]
    faults = [{"at": "20s", "kind": "job.update", "job": 3, "set": {"Priority": "4294900000"}}]
    story = run_twin(jobs, faults=faults, conf={"PriorityType": "priority/multifactor"})
    assert story.starts(3)[0] < story.starts(2)[0]


def test_commands_about_jobs_that_are_not_there_change_nothing(run_twin: Any, a_job: Any) -> None:
    """slurmctld refuses; the run goes on."""
    faults = [{"at": "1s", "kind": kind, "job": 9} for kind in ("job.cancel", "job.hold", "job.requeue", "job.resume")]
    story = run_twin([a_job(1)], faults=faults)
    assert story.ends(1) == [(11.0, "COMPLETED")]


def test_licences_are_taken_at_the_start_and_come_back_at_the_end(run_twin: Any, a_job: Any) -> None:
    """slurm.md 9 "Licences": two jobs on two free nodes and one licence run one after the other."""
    jobs = [a_job(1, licenses="lab"), a_job(2, submit=0.6, licenses="lab"), a_job(3, submit=0.7, licenses="lab:2")]
    story = run_twin(jobs, conf={"Licenses": "lab:1"})
    assert story.starts(1) == [1.0]
    assert story.starts(2) == [11.0]
    assert len(story.times(3, Kind.JOB_REJECTED)) == 1
