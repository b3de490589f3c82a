"""COMPLETING: what it waits for, what ends it, who is told again (slurm.md 4.5, 4.6)."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.events import Kind


def fault(at: str, kind: str, target: str) -> dict[str, str]:
    """A daemon fault."""
    return {"at": at, "kind": kind, "target": target}


def down(at: str, node: str) -> dict[str, str]:
    """scontrol update nodename=NODE state=DOWN."""
    return {"at": at, "kind": "node.update", "target": node, "state": "DOWN", "reason": "test"}


def test_a_silent_node_holds_the_job_until_it_is_killed_again(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.6 "COMPLETING": TERMINATE is sent again once 50 s have passed, at a purge pass.

    The run ends at 11 s with n1's slurmd frozen. At 52 s only 41 s have passed; at 112 s the thawed slurmd gets it.
    """
    faults = [fault("5s", "slurmd.freeze", "n1"), fault("60s", "slurmd.thaw", "n1")]
    story = run_twin([a_job(1, nodes=2)], faults=faults)
    assert story.ends(1) == [(11.0, "COMPLETED")]
    assert story.times(1, Kind.JOB_COMPLETED) == [112.0]


def test_a_node_that_goes_down_no_longer_holds_the_job(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.5 "COMPLETING there": it leaves the completing set at once."""
    faults = [fault("5s", "slurmd.freeze", "n1"), down("30.2s", "n1")]
    story = run_twin([a_job(1, nodes=2)], faults=faults)
    assert story.times(1, Kind.JOB_COMPLETED) == [30.2]


@pytest.mark.parametrize("version", ["22.05", "26.05"])
def test_the_last_epilog_message_counts(run_twin: Any, a_job: Any, version: str) -> None:
    """slurm.md 4.6 "Epilog message": n2's slurmd runs its Epilog when it thaws at 60 s; that starts the next job."""
    faults = [fault("5s", "slurmd.freeze", "n2"), fault("60s", "slurmd.thaw", "n2")]
    jobs = [a_job(1, nodes=2), a_job(2, submit=2.5, nodes=2)]
    story = run_twin(jobs, conf={"Epilog": "/bin/true"}, faults=faults, version=version)
    assert story.times(1, Kind.JOB_COMPLETED) == [60.0]
    assert story.starts(2)[0] >= 60.0


def test_a_job_on_its_way_back_to_the_queue_can_be_cancelled(run_twin: Any, a_job: Any) -> None:
    """job_mgr.c job_signal(): PENDING and COMPLETING at once: CANCELLED, and it is not requeued."""
    faults = [
        fault("5s", "slurmd.freeze", "n1"),
        {"at": "20.2s", "kind": "job.requeue", "job": 1},
        {"at": "25.2s", "kind": "job.cancel", "job": 1},
        down("30.2s", "n1"),
    ]
    story = run_twin([a_job(1, run=100)], faults=faults, nodes=2)
    assert story.times(1, Kind.JOB_COMPLETED) == [30.2]
    assert story.times(1, Kind.JOB_REQUEUED) == []
    assert story.starts(1) == [1.0]


def test_the_steps_of_a_node_given_up_die_when_it_comes_back(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.5 "Later return of that slurmd with live steps": aborted at its registration.

    The slurmd alone was killed; the script runs on while the job is requeued, and ends when slurmd registers.
    """
    faults = [fault("5s", "slurmd.kill", "n1"), down("20.2s", "n1"), fault("60s", "slurmd.start", "n1")]
    story = run_twin([a_job(1, run=500, minutes=20)], faults=faults)
    scripts = [(e.t_ns / 1e9, e.node) for e in story.events if e.kind is Kind.SCRIPT_ENDED]
    assert story.ends(1)[0] == (20.2, "NODE_FAIL")
    assert scripts[0] == (60.0, "n1")
