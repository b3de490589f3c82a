"""Arrays, dependencies, heterogeneous jobs, preemption: jobs that hang together (slurm.md 3.2, 9)."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.dependencies import parse

TIERS = [
    {"PartitionName": "low", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE", "State": "UP", "PriorityTier": 1},
    {"PartitionName": "high", "Nodes": "ALL", "MaxTime": "INFINITE", "State": "UP", "PriorityTier": 10},
]


def tasks(story: Any, job: int) -> list[tuple[float, int]]:
    """(start, task index) in the order of the starts."""
    return [(t, d["array_task"]) for t, d in story.of(job, Kind.JOB_STARTED)]


def test_every_task_of_an_array_runs_once(run_twin: Any, a_job: Any) -> None:
    """slurm.md 9 "Job arrays": one record until a task starts; the lowest index goes first."""
    story = run_twin([a_job(1, array="0-3,7")], nodes=2)
    assert [task for _, task in tasks(story, 1)] == [0, 1, 2, 3, 7]
    assert len(story.times(1, Kind.JOB_SUBMITTED)) == 1
    assert [state for _, state in story.ends(1)] == ["COMPLETED"] * 5


def test_the_percent_limit_holds_tasks_back(run_twin: Any, a_job: Any) -> None:
    """slurm.md 9 "Job arrays": %2 of five nodes."""
    story = run_twin([a_job(1, array="0-5%2", run=20)], nodes=5)
    events = sorted([(t, 1) for t, _ in tasks(story, 1)] + [(t, -1) for t, _ in story.ends(1)])
    running = most = 0
    for _, change in events:
        running += change
        most = max(most, running)
    assert most == 2


def test_an_index_of_max_array_size_is_refused(run_twin: Any, a_job: Any) -> None:
    """slurm.md 9 "Job arrays": the largest index is MaxArraySize - 1."""
    story = run_twin([a_job(1, array="1000"), a_job(2, array="1001")])
    assert len(story.times(1, Kind.JOB_SUBMITTED)) == 1
    assert len(story.times(2, Kind.JOB_REJECTED)) == 1


@pytest.mark.parametrize(
    ("kind", "exit_code", "start"),
    [("afterany", 3, 11.0), ("afterok", 0, 11.0), ("afternotok", 3, 11.0), ("after", 0, 4.0)],
)
def test_a_dependency_is_met_when_its_job_has_ended_or_started(
    run_twin: Any, a_job: Any, kind: str, exit_code: int, start: float
) -> None:
    """slurm.md 9 "Dependencies": tested when a queue is built; job 1 runs from 1 to 11 s, a pass comes at 11."""
    jobs = [a_job(1, exit_code=exit_code), a_job(2, submit=1.2, dependency=f"{kind}:1")]
    story = run_twin(jobs)
    assert story.starts(2) == [start]


@pytest.mark.parametrize("kill", [True, False])
def test_a_dependency_that_can_never_be_met_waits_for_ever_or_ends(run_twin: Any, a_job: Any, kill: bool) -> None:
    """slurm.md 9 "Dependencies": DependencyNeverSatisfied, cancelled under kill_invalid_depend."""
    conf = {"DependencyParameters": "kill_invalid_depend"} if kill else {}
    jobs = [a_job(1, exit_code=1), a_job(2, submit=1.2, dependency="afterok:1")]
    story = run_twin(jobs, conf=conf)
    assert story.starts(2) == []
    if kill:
        assert story.ends(2) == [(11.0, "CANCELLED")]
    else:
        assert story.of(2, Kind.JOB_PENDING)[-1][1] == {"reason": "DependencyNeverSatisfied"}


def test_after_with_minutes_counts_from_the_start(run_twin: Any, a_job: Any) -> None:
    """after:1+2: two minutes after job 1's start at 1 s; the full pass at 172 finds it."""
    story = run_twin([a_job(1, run=300, minutes=10), a_job(2, submit=1.2, dependency="after:1+2")])
    assert story.starts(2) == [172.0]


def test_a_question_mark_lets_any_one_term_suffice(run_twin: Any, a_job: Any) -> None:
    """afterok:1?afterok:2: job 1 fails, job 2 ends well."""
    jobs = [a_job(1, exit_code=1), a_job(2, run=40), a_job(3, submit=1.2, dependency="afterok:1?afterok:2")]
    story = run_twin(jobs)
    assert story.starts(3) == [41.0]


def test_singletons_of_one_user_and_name_run_one_after_the_other(run_twin: Any, a_job: Any) -> None:
    """--dependency=singleton (_find_singleton_job())."""
    jobs = [a_job(n, submit=n / 10, name="one", user="ann", dependency="singleton") for n in (1, 2, 3)]
    story = run_twin(jobs, nodes=3)
    assert [story.starts(n)[0] for n in (1, 2, 3)] == sorted(story.starts(n)[0] for n in (1, 2, 3))
    assert story.starts(2)[0] >= story.ends(1)[0][0]
    assert story.starts(3)[0] >= story.ends(2)[0][0]


def test_aftercorr_pairs_tasks_of_two_arrays(run_twin: Any, a_job: Any) -> None:
    """aftercorr:1: task i waits for task i only. The first array runs its tasks one by one, 1 to 31 and 31 to 61 s."""
    jobs = [a_job(1, array="0-1%1", run=30), a_job(2, submit=1.2, array="0-1", dependency="aftercorr:1")]
    story = run_twin(jobs)
    assert tasks(story, 1) == [(1.0, 0), (31.0, 1)]
    assert tasks(story, 2) == [(31.0, 0), (61.0, 1)]


def test_alternatives_that_all_failed_can_never_be_met(run_twin: Any, a_job: Any) -> None:
    """afterok:1?afterok:2 with both failed: cancelled under kill_invalid_depend."""
    jobs = [a_job(1, exit_code=1), a_job(2, exit_code=1), a_job(3, submit=1.2, dependency="afterok:1?afterok:2")]
    story = run_twin(jobs, conf={"DependencyParameters": "kill_invalid_depend"})
    assert story.ends(3) == [(11.0, "CANCELLED")]


@pytest.mark.parametrize("text", ["afterok", "afterok:x", "sometime:1", "afterok:1+5", "afterok:1:"])
def test_a_dependency_that_slurmctld_would_refuse_is_refused(text: str) -> None:
    """update_job_dependency(): unknown kinds, missing or broken job numbers, a delay where none is allowed."""
    assert parse(text) is None


def test_the_components_of_a_hetjob_start_together(run_twin: Any, a_job: Any) -> None:
    """slurm.md 9 "Hetjobs": started by backfill, all at once, ended together by the leader's script."""
    jobs = [a_job(1, het_group=1, run=20), a_job(2, het_group=1, nodes=2, run=20)]
    story = run_twin(jobs, nodes=3)
    assert story.starts(1) == story.starts(2)
    assert story.of(1, Kind.JOB_STARTED)[0][1]["by"] == "backfill"
    assert story.ends(1)[0][0] == story.ends(2)[0][0] == story.starts(1)[0] + 20


def test_a_cancelled_victim_makes_room_for_a_higher_tier(run_twin: Any, a_job: Any) -> None:
    """slurm.md 3.2 "Timing": the preemptor stays pending until the victim is gone and starts in a later pass."""
    jobs = [a_job(1, run=500, minutes=20, nodes=2), a_job(2, submit=10.2, nodes=2, partition="high")]
    conf = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    story = run_twin(jobs, conf=conf, partitions=TIERS)
    assert story.ends(1) == [(11.0, "PREEMPTED")]
    assert story.of(1, Kind.JOB_PREEMPTED)[0][1] == {"by_job": 2, "mode": "cancel"}
    assert story.starts(2) == pytest.approx([11.0], abs=1e-5)  # sched_min_interval after the first pass


def test_a_requeued_victim_comes_back_after_its_delay(run_twin: Any, a_job: Any) -> None:
    """slurm.md 3.2 "Requeued victim"."""
    jobs = [a_job(1, run=100, nodes=2), a_job(2, submit=10.2, nodes=2, partition="high")]
    conf = {"PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE"}
    story = run_twin(jobs, conf=conf, partitions=TIERS)
    assert story.ends(1)[0] == (11.0, "PREEMPTED")
    assert story.starts(1)[1] >= 11 + 121


def test_a_victim_in_grace_runs_on_until_a_scan_finds_it(run_twin: Any, a_job: Any) -> None:
    """slurm.md 3.2 "GraceTime": told at 11 s, 60 s of grace, so 71 s; the scan at 82 ends it."""
    low = {**TIERS[0], "GraceTime": 60}
    jobs = [a_job(1, run=500, minutes=20, nodes=2), a_job(2, submit=10.2, nodes=2, partition="high")]
    conf = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    story = run_twin(jobs, conf=conf, partitions=[low, TIERS[1]])
    assert story.times(1, Kind.JOB_PREEMPTED) == [11.0]
    end, state = story.ends(1)[0]
    assert state == "PREEMPTED"
    assert 71 <= end <= 82


def test_a_suspended_victim_goes_on_when_the_preemptor_has_ended(run_twin: Any, a_job: Any) -> None:
    """slurm.md 3.2 "PreemptMode": SUSPEND needs GANG; the low job stands still from 11 to 21 s."""
    jobs = [a_job(1, run=30, nodes=2), a_job(2, submit=10.2, run=10, nodes=2, partition="high")]
    conf = {"PreemptType": "preempt/partition_prio", "PreemptMode": "SUSPEND,GANG"}
    parts = [{**p, "OverSubscribe": "FORCE:1"} for p in TIERS]
    story = run_twin(jobs, conf=conf, partitions=parts)
    assert story.times(1, Kind.JOB_SUSPENDED) == [11.0]
    assert story.times(1, Kind.JOB_RESUMED) == [21.0]
    assert story.ends(1) == [(41.0, "COMPLETED")]


def test_oversubscribed_jobs_take_turns_of_thirty_seconds(run_twin: Any, a_job: Any) -> None:
    """slurm.md 3.2 "Gang": two jobs on one node, SchedulerTimeSlice 30 s.

    Slices end at 22, 52, 82 ...; the first only makes job 1 the active one (gang.c _cycle_job_list()), then they
    change places. Job 1 has run 51 of its 60 s by 52, job 2 30 by 82; job 1 ends at 91, then job 2 goes on to 121.
    """
    part = [{**TIERS[0], "OverSubscribe": "FORCE:2"}]
    jobs = [a_job(1, run=60, oversubscribe=True), a_job(2, submit=0.6, run=60, oversubscribe=True)]
    story = run_twin(jobs, conf={"PreemptMode": "GANG"}, nodes=1, partitions=part)
    assert story.times(1, Kind.JOB_SUSPENDED) == [52.0]
    assert story.times(2, Kind.JOB_SUSPENDED) == [1.0, 82.0]
    assert story.ends(1) == [(91.0, "COMPLETED")]
    assert story.ends(2) == [(121.0, "COMPLETED")]
