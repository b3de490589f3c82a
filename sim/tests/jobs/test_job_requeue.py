"""Back to the queue: node failures, requeue commands, holds, worked by hand (slurm.md 4.5, 4.6)."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.events import Kind


def down(node: str, at: str = "20.2s") -> dict[str, str]:
    """scontrol update nodename=NODE state=DOWN."""
    return {"at": at, "kind": "node.update", "target": node, "state": "DOWN", "reason": "test"}


def test_a_requeued_job_waits_for_the_credential_to_expire(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.6 "Requeue delay": end of the old run + 120 s + 1 s, then the next pass that comes.

    The run ends at 20.2 s: earliest start 20 + 121 = 141, found by the full pass at 172.
    """
    faults = [{"at": "20.2s", "kind": "job.requeue", "job": 1}]
    story = run_twin([a_job(1, run=100)], faults=faults)
    assert story.ends(1)[0] == (20.2, "REQUEUED")
    assert [e.value for e in story.events if e.kind is Kind.JOB_REQUEUED] == [141_000_000_000]
    assert story.starts(1) == [1.0, 172.0]


def test_auth_info_sets_the_requeue_delay(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.6 "Requeue delay": AuthInfo=cred_expire=30 makes it 31 s."""
    faults = [{"at": "20.2s", "kind": "job.requeue", "job": 1}]
    story = run_twin([a_job(1, run=100)], faults=faults, conf={"AuthInfo": "cred_expire=30"})
    assert [e.value for e in story.events if e.kind is Kind.JOB_REQUEUED] == [51_000_000_000]


def test_a_batch_job_on_a_node_set_down_is_requeued_as_a_whole(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.5 "batch and Requeue=1 (JobRequeue default 1)": NODE_FAIL, then PENDING, then again from the start.

    The node that is left confirms the end; the DOWN one is not waited for (slurm.md 4.5 "Killing on a DOWN node").
    """
    story = run_twin([a_job(1, run=100, nodes=2)], nodes=4, faults=[down("n1")])
    assert story.ends(1)[0] == (20.2, "NODE_FAIL")
    assert story.times(1, Kind.JOB_COMPLETED)[0] == 20.2
    assert story.nodes(1) == ["n[1-2]", "n[2-3]"]


def test_a_job_without_requeue_ends_with_its_node(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.5 "otherwise (salloc, --no-requeue)": final NODE_FAIL, exit code 1 since 24.11."""
    story = run_twin([a_job(1, run=100, requeue=False)], faults=[down("n1")])
    assert story.of(1, Kind.JOB_ENDED) == [(20.2, {"state": "NODE_FAIL", "exit_code": 1})]
    assert story.starts(1) == [1.0]
    old = run_twin([a_job(1, run=100, requeue=False)], faults=[down("n1")], version="22.05")
    assert old.of(1, Kind.JOB_ENDED)[0][1] == {"state": "NODE_FAIL", "exit_code": 0}


def test_no_kill_goes_on_without_the_failed_node(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.5 "--no-kill and >1 node": the job keeps running on what is left."""
    story = run_twin([a_job(1, run=100, nodes=2, no_kill=True)], faults=[down("n2")])
    assert story.times(1, Kind.JOB_SHRUNK) == [20.2]
    assert story.ends(1) == [(101.0, "COMPLETED")]


def test_requeuehold_keeps_the_job_held_until_it_is_released(run_twin: Any, a_job: Any) -> None:
    """scontrol requeuehold: priority 0; a release makes it eligible after its delay."""
    faults = [
        {"at": "20.2s", "kind": "job.requeuehold", "job": 1},
        {"at": "300.2s", "kind": "job.release", "job": 1},
    ]
    story = run_twin([a_job(1, run=100)], faults=faults)
    assert story.times(1, Kind.JOB_HELD) == [20.2]
    assert story.starts(1) == [1.0, 301.0]


def test_a_held_job_waits_for_its_release(run_twin: Any, a_job: Any) -> None:
    """scontrol hold and release of a pending job; the release queues a pass (slurm.md 1.1 "Events that only queue")."""
    faults = [{"at": "30.2s", "kind": "job.release", "job": 1}]
    story = run_twin([a_job(1, hold=True)], faults=faults)
    assert story.starts(1) == [31.0]


def test_a_failed_prolog_requeues_and_holds_the_job_and_drains_the_node(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.6 "Prolog fails"."""
    story = run_twin([a_job(1)], conf={"Prolog": "/bin/false"})
    assert story.ends(1) == [(1.0, "REQUEUED")]
    assert story.of(1, Kind.JOB_HELD) == [(1.0, {"reason": "launch_failed_requeued_held"})]
    assert [e.node for e in story.events if e.kind is Kind.NODE_DRAINED] == ["n1"]


def test_nohold_on_prolog_fail_leaves_the_job_eligible(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.6 "Prolog fails": requeued without the hold; the next node fails it too."""
    conf = {"Prolog": "/bin/false", "SchedulerParameters": "nohold_on_prolog_fail"}
    story = run_twin([a_job(1)], conf=conf)
    assert story.nodes(1) == ["n1", "n2"]
    assert story.times(1, Kind.JOB_HELD) == []


def test_a_failed_epilog_drains_the_node(run_twin: Any, a_job: Any) -> None:
    """slurm.md 4.6 "Epilog fails"."""
    story = run_twin([a_job(1)], conf={"Epilog": "/bin/false"})
    drained = [e for e in story.events if e.kind is Kind.NODE_DRAINED]
    assert [(e.t_ns, e.node) for e in drained] == [(11_000_000_000, "n1")]


@pytest.mark.parametrize(("version", "held"), [("22.05", 6), ("26.05", 6)])
def test_after_five_requeues_by_failure_the_job_is_held(run_twin: Any, a_job: Any, version: str, held: int) -> None:
    """slurm.md 4.6 "Launch RPC not delivered": batch_flag above MaxBatchRequeue (5) holds with JobHoldMaxRequeue.

    slurm.md 0 "Max automatic requeues". Each run meets a Prolog that fails on the node it gets.
    """
    conf = {"Prolog": "/bin/false", "SchedulerParameters": "nohold_on_prolog_fail"}
    story = run_twin([a_job(1)], conf=conf, nodes=10, version=version)
    assert len(story.starts(1)) == held - 1
    assert story.of(1, Kind.JOB_HELD)[0][1] == {"reason": "JobHoldMaxRequeue"}


def test_suspended_time_does_not_count_towards_the_limit(run_twin: Any, a_job: Any) -> None:
    """job_mgr.c _job_suspend_op(): 100 s suspended move the end by 100 s: 1 + 120 + 100 = 221, scan at 232."""
    faults = [{"at": "20s", "kind": "job.suspend", "job": 1}, {"at": "120s", "kind": "job.resume", "job": 1}]
    story = run_twin([a_job(1, run=None, minutes=2)], faults=faults)
    assert story.ends(1) == [(232.0, "TIMEOUT")]


def test_a_suspended_script_stands_still(run_twin: Any, a_job: Any) -> None:
    """SIGSTOP: 50 s of work, 30 s of it left when stopped at 21, go on at 121."""
    faults = [{"at": "21s", "kind": "job.suspend", "job": 1}, {"at": "121s", "kind": "job.resume", "job": 1}]
    story = run_twin([a_job(1, run=50)], faults=faults)
    assert story.ends(1) == [(151.0, "COMPLETED")]


def test_a_longer_limit_lets_a_running_job_live(run_twin: Any, a_job: Any) -> None:
    """scontrol update jobid= TimeLimit=: the end counts from the start."""
    faults = [{"at": "20s", "kind": "job.update", "job": 1, "set": {"TimeLimit": "3"}}]
    story = run_twin([a_job(1, run=None, minutes=1)], faults=faults)
    assert story.ends(1) == [(202.0, "TIMEOUT")]


def test_the_reason_of_a_requeued_job_makes_backfill_look_once_more(run_twin: Any, a_job: Any) -> None:
    """_foreach_build_job_queue(): a new reason moves last_job_update at the next build of the queue.

    The first build behind the requeue finds BeginTime, the second one takes it for news, so the agent has work 5 s
    later once more. Without that stamp the main pass of each 300 s would be the next to look.
    """
    conf = {"AuthInfo": "cred_expire=5", "SchedulerParameters": "bf_interval=5,sched_interval=300"}
    started = []
    for second in range(20, 26):
        faults = [{"at": f"{second}.3s", "kind": "job.requeue", "job": 1}]
        started.append(run_twin([a_job(1, run=100)], faults=faults, conf=conf).starts(1)[1])
    assert started == [26, 27, 28, 29, 30, 31]
