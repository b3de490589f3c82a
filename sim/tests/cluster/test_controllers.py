"""Claims about slurmctld's end and return, its backup, and who waits for it (slurm.md 5)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.restart import Recover
from slurmtwin.models.slurmctld.states import JobState, NodeBase


def at(r: Any, seconds: float) -> int:
    return round(seconds * SECOND)


def kill_at(r: Any, seconds: float) -> None:
    """A kill that the run knows of beforehand, as a scenario's faults are."""
    r.cluster.volume.expect_kill(at(r, seconds))
    r.env.call_at(at(r, seconds), lambda _: r.cluster.controller().kill())


def hang_at_61(r: Any) -> None:
    """The primary of two controllers is frozen at 61.5 s, its backup standing by from time zero on."""
    r.cluster.controller("b").stand_by()
    r.until(61.5)
    r.cluster.controller("a").freeze()


def test_a_clean_restart_loses_nothing_and_finds_its_jobs(rig: Callable[..., Any]) -> None:
    """slurm.md 5.3 "SIGTERM", slurm.md 5.2 "default (-r)", slurm.md 12 "S5".

    Nodes are UNKNOWN until the sweep, 3 s after the new loop's first look; the job is kept, its nodes ALLOCATED.
    """
    r = rig("22.05")
    r.until(100)
    r.run_job(7, 0b11)
    r.cluster.controller().stop()
    assert r.cluster.ctld is None
    r.until(130)
    r.cluster.controller().start()
    r.until(130)
    assert r.state("n3") == "UNKNOWN"
    assert r.ctld.nodes.up == 0
    r.until(140)
    assert [r.state(f"n{i}") for i in range(1, 5)] == ["ALLOCATED", "ALLOCATED", "IDLE", "IDLE"]
    assert r.ctld.jobs[7].state is JobState.RUNNING
    assert r.times(Kind.NODE_REGISTERED)[1:] == [pytest.approx(134.0)] * 4


def test_down_and_drained_nodes_keep_their_state_over_a_restart(rig: Callable[..., Any]) -> None:
    """slurm.md 5.2 "default (-r)": jobs + node DOWN/DRAIN/reason."""
    r = rig()
    r.until(10)
    r.ctld.nodes_lifecycle.update(r.node("n1"), "DOWN", "broken")
    r.ctld.nodes_lifecycle.update(r.node("n2"), "DRAIN", "dirty")
    r.cluster.controller().stop()
    r.cluster.controller().start()
    r.until(60)
    assert (r.state("n1"), r.node("n1").reason) == ("DOWN", "broken")
    assert (r.state("n2"), r.node("n2").reason) == ("DRAINED", "dirty")
    assert r.state("n3") == "IDLE"


def test_a_kill_right_after_a_submit_loses_the_job_and_reuses_its_number(rig: Callable[..., Any]) -> None:
    """slurm.md 5.3 "Cadence", slurm.md 5.3 "SIGKILL, lost submit", slurm.md 5.2 "Job ids", slurm.md 12 "S6"."""
    r = rig()
    kill_at(r, 103)
    r.until(100)
    r.run_job(7, 0b1)  # saved at once: the last save is long ago
    r.until(102)
    r.run_job(8, 0b10, with_steps=False)  # the next save would be at 105
    r.until(110)
    r.cluster.controller().start()
    r.until(111)
    assert list(r.ctld.jobs) == [7]
    assert r.ctld.store.next_job_id == 8
    assert [(e.job_id, e.t_ns) for e in r.events(Kind.JOB_LOST)] == [(8, at(r, 110))]


def test_a_change_saved_before_the_kill_is_there_afterwards(rig: Callable[..., Any]) -> None:
    """slurm.md 5.3 "Cadence": one write per 5 s, so 8 s after the change it is on disk."""
    r = rig()
    kill_at(r, 110)
    r.until(100)
    r.run_job(7, 0b1)
    r.until(102)
    r.run_job(8, 0b10)
    r.until(111)
    r.cluster.controller().start()
    r.until(112)
    assert list(r.ctld.jobs) == [7, 8]


@pytest.mark.parametrize(
    ("afterwards", "kept"),
    [
        (lambda r: None, JobState.PENDING),
        (lambda r: r.ctld.nodes_lifecycle.update(r.node("n3"), "DRAIN", "dirty"), JobState.PENDING),
        (lambda r: r.run_job(8, 0b10), JobState.RUNNING),
        (lambda r: r.ctld.store.save(), JobState.RUNNING),
    ],
    ids=["nothing", "a node is drained", "another job is saved", "a full save"],
)
def test_a_start_by_backfill_is_not_saved_by_itself(
    rig: Callable[..., Any], afterwards: Callable[[Any], object], kept: JobState
) -> None:
    """backfill.c (22.05 to 26.05) never calls schedule_job_save(): the start is saved with the next other change."""
    r = rig()
    kill_at(r, 160)
    r.until(100)
    job = r.run_job(7, 0b1)
    job.state = JobState.PENDING
    del r.ctld.running[7]
    r.ctld.store.changed()
    r.until(130)
    r.ctld.store.backfill_starts()
    job.state = JobState.RUNNING
    r.ctld.running[7] = job
    r.until(140)
    afterwards(r)
    r.until(165)
    r.cluster.controller().start()
    r.until(166)
    assert r.ctld.jobs[7].state is kept


def test_a_lost_completion_leaves_a_ghost_until_the_window_comes_round(rig: Callable[..., Any]) -> None:
    """slurm.md 5.3 "SIGKILL, lost completion", slurm.md 4.4 "nothing / batch job RUNNING",
    slurm.md 12 "S6".

    The job ended at 102, unsaved. After the restart at 110 it is RUNNING in the state; the sweep at 114 finds it
    missing but only just loaded; the 20th tick after the start, at 114 + 19*100 s, gives it up.
    """
    r = rig("22.05")
    kill_at(r, 103)
    r.until(100)
    job = r.run_job(7, 0b1)
    r.until(102)
    del r.cluster.slurmds.works[7]
    job.state = JobState.COMPLETED
    del r.ctld.running[7]
    r.ctld.store.changed()
    r.until(110)
    r.cluster.controller().start()
    r.until(110 + 1900)
    assert r.ctld.jobs[7].state is JobState.RUNNING
    assert all(call[0] != "missing_on_node" for call in r.told)
    r.until(114 + 1901)
    assert ("missing_on_node", 7, "n1") in r.told


def test_lost_state_starts_empty_and_aborts_what_runs(rig: Callable[..., Any]) -> None:
    """slurm.md 5.2 "job_state missing", slurm.md 12 "S8": orphans are aborted at the sweep, ids begin anew."""
    r = rig("22.05")
    r.until(100)
    r.run_job(7, 0b1)
    steps = r.cluster.slurmds.works[7]
    r.cluster.controller().stop()
    r.cluster.volume.lose()
    r.cluster.controller().start()
    r.until(103.9)
    assert steps.aborted == []
    r.until(104.1)
    assert steps.aborted == [0b1]
    assert r.ctld.jobs == {}
    assert r.ctld.store.next_job_id == r.conf.controller.first_job_id


def test_a_running_job_on_a_node_saved_as_down_fails_at_load(rig: Callable[..., Any]) -> None:
    """slurm.md 5.2 "RUNNING job on node restored as DOWN"."""
    r = rig()
    r.until(100)
    r.run_job(7, 0b1)
    r.node().base = NodeBase.DOWN
    r.ctld.nodes_lifecycle.settle(r.node())
    r.cluster.controller().stop()
    r.cluster.controller().start()
    r.until(101)
    assert any(call[0] == "node_failed" and call[1] == "n1" for call in r.told)


@pytest.mark.parametrize("version", ["22.05", "26.05"])
def test_a_backup_takes_over_after_slurmctld_timeout_at_a_poll(rig: Callable[..., Any], version: str) -> None:
    """slurm.md 5.1 "Backup poll", slurm.md 5.1 "Takeover test", slurm.md 5.1 "Heartbeat", slurm.md 12 "S7".

    C=120: polls at 6, 46, 86, 126 ... The primary dies at 100: last good poll 86, last heartbeat 90. The polls at
    126, 166 and 206 (116 s after the heartbeat) are too early, the one at 246 is not. slurm.md 5.1
    "24.05+/26.05 guards": the heartbeat did not change between 206 and 246.
    """
    r = rig(version, SlurmctldHost="a,b")
    kill_at(r, 100)
    r.until(400)
    assert r.times(Kind.SLURMCTLD_TOOK_OVER) == [246.0]
    assert r.cluster.controllers[1].ctld is r.ctld


def test_a_backup_keeps_node_states(rig: Callable[..., Any]) -> None:
    """slurm.md 5.1 "Then": a takeover recovers all state: nodes are not UNKNOWN."""
    r = rig("26.05", SlurmctldHost="a,b")
    kill_at(r, 100)
    r.until(246.1)
    assert r.state("n1") == "IDLE"
    assert r.ctld.nodes.avail == 0b1111


def test_a_clean_stop_of_the_primary_does_not_hand_over(rig: Callable[..., Any]) -> None:
    """slurm.md 5.1 "Clean stop of the primary": the backup still waits C."""
    r = rig("22.05", SlurmctldHost="a,b")
    r.until(100)
    r.cluster.controller().stop()
    r.until(200)
    assert r.cluster.ctld is None
    r.until(250)
    assert r.times(Kind.SLURMCTLD_TOOK_OVER) == [246.0]


def test_scontrol_takeover_takes_about_two_seconds(rig: Callable[..., Any]) -> None:
    """slurm.md 5.1 "Clean stop of the primary": asks the primary to stop, sleeps 2 s, takes over at the next poll."""
    r = rig("26.05", SlurmctldHost="a,b")
    r.until(100.5)
    r.cluster.controller("b").takeover_command()
    r.until(110)
    assert r.times(Kind.SLURMCTLD_STOPPED) == [100.5]
    assert r.times(Kind.SLURMCTLD_TOOK_OVER) == [103.0]


def test_a_standbys_rounds_take_more_than_their_second(rig: Callable[..., Any]) -> None:
    """backup.c run_backup(): it sleeps a second in each. The first one 2 s behind the order is the 103rd: 206 ms."""
    r = rig("26.05", SlurmctldHost="a,b")
    backup = r.cluster.controller("b")
    r.cluster.standby_round = lambda: 2 * MS
    backup.stand_by()
    r.until(100.5)
    backup.takeover_command()
    r.until(110)
    assert r.times(Kind.SLURMCTLD_TOOK_OVER) == [pytest.approx(103.206)]


def test_a_standbys_poll_takes_its_time_as_well(rig: Callable[..., Any]) -> None:
    """Polls at 6.012 s, then each 40 s: three of 30 ms before the order, and the one that finds nobody."""
    r = rig("26.05", SlurmctldHost="a,b")
    backup = r.cluster.controller("b")
    r.cluster.standby_round, r.cluster.standby_ping = (lambda: 2 * MS), (lambda: 30 * MS)
    backup.stand_by()
    r.until(100.5)
    backup.takeover_command()
    r.until(110)
    assert r.times(Kind.SLURMCTLD_TOOK_OVER) == [pytest.approx(103.206 + 4 * 0.03)]


def test_a_standby_polls_when_whole_seconds_are_a_third_of_the_timeout_apart(rig: Callable[..., Any]) -> None:
    """Rounds of 1.1 s: polls at 6.6, 46.2, 86.9, 126.5, 166.1 and 206.8 s, where time(NULL) is 40 past the last."""
    r = rig("22.05", SlurmctldHost="a,b")
    r.cluster.standby_round = lambda: 100 * MS
    r.cluster.controller("b").stand_by()
    kill_at(r, 60)
    r.until(250)
    # the last heartbeat is of 60 s or little before: 206.8 is the first of them that is 120 s behind it
    assert r.times(Kind.SLURMCTLD_TOOK_OVER) == [pytest.approx(206.8)]


def test_rounds_go_on_from_the_end_of_a_ping_that_was_waited_for(rig: Callable[..., Any]) -> None:
    """A frozen primary holds a ping for MessageTimeout, 10 s: with a timeout of 30 the next comes a round later."""
    r = rig("22.05", SlurmctldHost="a,b", SlurmctldTimeout="30")
    r.cluster.standby_round = lambda: 100 * MS
    hang_at_61(r)
    r.until(200)
    # polls at 6.6, 16.5, 26.4, 36.3, 46.2, 56.1 and 66.0, which takes until 76.0; so at 77.1, until 87.1
    assert r.times(Kind.SLURMCTLD_TOOK_OVER) == [pytest.approx(87.1)]


def test_a_ping_of_a_primary_that_hangs_and_the_takeover_take_their_time(rig: Callable[..., Any]) -> None:
    """As above, each of the two pings 20 ms more, and 5 ms from the last one until the backup serves."""
    r = rig("22.05", SlurmctldHost="a,b", SlurmctldTimeout="30")
    r.cluster.standby_round = lambda: 100 * MS
    r.cluster.hung_ping = lambda: 20 * MS
    r.cluster.takeover_load = lambda: 5 * MS
    hang_at_61(r)
    r.until(200)
    assert r.times(Kind.SLURMCTLD_TOOK_OVER) == [pytest.approx(87.14)]
    assert r.times(Kind.SLURMCTLD_STARTED)[-1] == pytest.approx(87.145)


def test_a_backup_that_takes_over_is_not_stopped_by_an_answer(rig: Callable[..., Any]) -> None:
    """backup.c: behind its loop nobody is asked again. The primary runs again in the 2 s of the takeover, in which
    nobody is in control, and so has it back at their end."""
    r = rig("22.05", SlurmctldHost="a,b", SlurmctldTimeout="30")
    r.cluster.takeover_load = lambda: 2 * SECOND
    hang_at_61(r)
    r.until(88)
    r.cluster.controller("a").thaw()
    r.cluster.controller("b").takeover_command()
    assert [c.ctld is not None for c in r.cluster.controllers] == [True, False]
    r.until(200)
    assert len(r.times(Kind.SLURMCTLD_TOOK_OVER)) == 1
    assert [c.ctld is not None for c in r.cluster.controllers] == [True, False]


def test_a_primary_that_returns_takes_control_back(rig: Callable[..., Any]) -> None:
    """slurm.md 5.1 "Primary returns": the backup saves, stands by, and the primary serves."""
    r = rig("22.05", SlurmctldHost="a,b")
    kill_at(r, 100)
    r.until(300)
    job = r.run_job(9, 0b1)
    r.until(310)
    r.cluster.controller("a").start()
    r.until(311)
    assert r.cluster.controllers[0].ctld is r.ctld
    assert r.cluster.controllers[1].standby
    assert r.ctld.jobs[9].request is job.request
    assert len(r.times(Kind.SLURMCTLD_STANDBY)) == 2


def test_a_frozen_primary_that_thaws_ends_the_rule_of_its_backup(rig: Callable[..., Any]) -> None:
    """slurm.md 5.1 "Two actives": the primary reasserts itself when it runs again."""
    r = rig("22.05", SlurmctldHost="a,b")
    r.until(100)
    r.cluster.controller("a").freeze()
    r.until(400)
    assert r.cluster.controllers[1].ctld is r.ctld
    r.cluster.controller("a").thaw()
    r.until(402)
    assert r.cluster.controllers[0].ctld is r.ctld
    assert r.cluster.controllers[1].standby


def test_one_slurmctld_host_has_no_heartbeat(rig: Callable[..., Any]) -> None:
    """slurm.md 5.1 "One SlurmctldHost (usual in k8s)"."""
    r = rig()
    r.until(100)
    assert r.cluster.volume.heartbeat is None


# who waits


@pytest.mark.parametrize(("version", "fails"), [("22.05", 59.0), ("24.11", 59.0), ("26.05", 60.0)])
def test_a_client_without_a_controller_fails_after_about_ten_seconds(
    rig: Callable[..., Any], version: str, fails: float
) -> None:
    """slurm.md 5.4 "No controller accepts": ten tries a second apart; 26.05 tries an eleventh time."""
    r = rig(version)
    r.until(50)
    r.cluster.controller().stop()
    failed: list[float] = []
    r.cluster.request(lambda _: None, lambda: failed.append(r.env.now_ns / SECOND))
    r.until(100)
    assert failed == [fails]


def test_a_client_gets_through_when_the_controller_is_back_in_time(rig: Callable[..., Any]) -> None:
    """slurm.md 5.4 "No controller accepts": the next try a second later succeeds."""
    r = rig()
    r.until(50)
    r.cluster.controller().stop()
    heard: list[float] = []
    r.cluster.request(lambda _: heard.append(r.env.now_ns / SECOND), lambda: None, delay_ns=SECOND // 2)
    r.until(55)
    r.cluster.controller().start()
    r.until(100)
    assert heard == [55.5]


def test_a_client_that_meets_a_standby_sleeps_half_the_timeout(rig: Callable[..., Any]) -> None:
    """slurm.md 5.4 "Standby answers": C/2 = 60 s, again until 1.5 C; the takeover at 246 serves the fourth try."""
    r = rig("22.05", SlurmctldHost="a,b")
    kill_at(r, 100)
    heard: list[float] = []
    r.until(101)
    r.cluster.request(lambda _: heard.append(r.env.now_ns / SECOND), lambda: heard.append(-1))
    r.until(400)
    assert heard == [281.0]


def test_a_completion_waits_on_a_grid_of_fifteen_seconds(rig: Callable[..., Any]) -> None:
    """slurm.md 4.6 "stepd completion message", slurm.md 12 "S10": attempts of 9 s, then 15 s of pause, in 22.05.

    Stopped at 50, message at 52: tries 52..61, 76..85, 100..109. The controller is back at 90: heard at 100.
    """
    r = rig("22.05")
    r.until(50)
    r.cluster.controller().stop()
    r.until(52)
    heard: list[float] = []
    r.cluster.deliver(lambda _: heard.append(r.env.now_ns / SECOND), 15 * SECOND)
    r.until(90)
    r.cluster.controller().start()
    r.until(200)
    assert heard == [100.0]


@pytest.mark.parametrize(("version", "registered"), [("22.05", 84.0), ("26.05", 81.0)])
def test_a_slurmd_that_starts_without_a_controller_registers_later(
    rig: Callable[..., Any], version: str, registered: float
) -> None:
    """slurm.md 4.3 "slurmd side": pauses of 1, 2, 4, 8 s; in 26.05 they run during the attempt itself.

    22.05: tries 50..59, 60..69, 71..80, 84..93 and the controller is back at 80.5. 26.05: 50..60, 60..70,
    70..80, 80..90.
    """
    r = rig(version, slurmds=0b1110)
    r.until(40)
    r.cluster.controller().stop()
    r.until(50)
    r.cluster.slurmds.start(1)
    r.until(80.5)
    r.cluster.controller().start()
    r.until(84.4)
    assert next(t for t in r.times(Kind.NODE_REGISTERED) if t > 1) == registered


# the rest of section 5


@pytest.mark.parametrize(
    ("mode", "state", "jobs"), [("-r", "UNKNOWN", 1), ("-R", "ALLOCATED", 1), ("-c", "UNKNOWN", 0)]
)
def test_recovery_options_decide_what_a_start_takes_over(
    rig: Callable[..., Any], mode: str, state: str, jobs: int
) -> None:
    """slurm.md 5.2 "-R", slurm.md 5.2 "-c"."""
    r = rig()
    r.until(100)
    r.run_job(7, 0b1)
    r.cluster.controller().stop()
    r.cluster.controller().start(Recover(mode))
    r.until(100.5)
    assert (r.state(), len(r.ctld.jobs)) == (state, jobs)


def test_completing_jobs_are_told_to_end_again(rig: Callable[..., Any]) -> None:
    """slurm.md 5.2 "COMPLETING jobs": their nodes are COMPLETING from the load on."""
    r = rig()
    r.until(100)
    job = r.run_job(7, 0b1)
    job.state, job.completing, job.completing_nodes = JobState.COMPLETED, True, 0b1
    del r.ctld.running[7]
    r.ctld.nodes_lifecycle.job_completing(0b1)
    r.cluster.controller().stop()
    r.cluster.controller().start()
    r.until(100.5)
    assert ("recovered", r.ctld.jobs[7]) in r.told
    assert r.ctld.nodes.completing == 0b1


def test_loaded_jobs_count_as_just_seen(rig: Callable[..., Any]) -> None:
    """slurm.md 4.4 "time_last_active at load": so the sweep never gives one up."""
    r = rig()
    r.until(100)
    r.run_job(7, 0b1, with_steps=False)
    r.until(500)
    r.cluster.controller().stop()
    r.cluster.controller().start()
    r.until(510)
    assert r.ctld.jobs[7].last_active_s == r.ctld.now_s() - 10
    assert all(call[0] != "missing_on_node" for call in r.told)


def test_a_node_that_died_in_the_outage_is_down_after_the_second_tick(rig: Callable[..., Any]) -> None:
    """slurm.md 4.2 "Controller was down meanwhile": its last answer is restored; ticks at 1004 and 1104."""
    r = rig("22.05")
    r.until(300)
    r.cluster.controller().stop()
    r.cluster.slurmds.stop(1)
    r.until(1000)
    r.cluster.controller().start()
    r.until(2000)
    assert r.times(Kind.NODE_NOT_RESPONDING) == [pytest.approx(1004 + 11.275)]
    assert r.times(Kind.NODE_DOWN) == [pytest.approx(1104.0)]


def test_a_backup_that_may_not_schedule_serves_without_passes(rig: Callable[..., Any]) -> None:
    """slurm.md 5.1 "no_backup_scheduling"."""
    r = rig("22.05", SlurmctldHost="a,b", SchedulerParameters="no_backup_scheduling")
    kill_at(r, 100)
    r.until(300)
    assert ("stop",) in r.told


def test_reconfigure_replaces_the_process_in_later_versions(rig: Callable[..., Any]) -> None:
    """slurm.md 4.7 "Reconfigure (23.11+)": jobs stay, nodes register anew; 22.05 keeps everything in place."""
    for version, same in (("22.05", True), ("26.05", False)):
        r = rig(version)
        r.until(100)
        r.run_job(7, 0b1)
        before = r.ctld
        r.cluster.controller().reconfigure()
        r.until(101)
        assert (r.ctld is before) is same
        assert 7 in r.ctld.jobs
        assert (r.state("n1"), r.state("n2")) == ("ALLOCATED", "IDLE")
        assert r.times(Kind.SLURMCTLD_RECONFIGURED) == [100.0]


def test_slurmds_do_not_notice_an_outage(rig: Callable[..., Any]) -> None:
    """slurm.md 5.4 "slurmd": its steps go on and are reported to whoever asks next."""
    r = rig("22.05")
    r.until(100)
    job = r.run_job(7, 0b1)
    r.cluster.controller().kill()
    r.until(150)
    r.cluster.controller().start()
    r.until(160)
    assert r.cluster.slurmds.works[7].nodes == 0b1
    assert r.ctld.jobs[7].request is job.request


def test_a_kill_nobody_announced_is_one_right_after_a_save(rig: Callable[..., Any]) -> None:
    """slurm.md 5.3 "Cadence": without copies of every save nothing can be lost; with them the last 5 s are."""
    for copies, kept in ((False, [7, 8]), (True, [7])):
        r = rig()
        r.cluster.volume.kept = r.cluster.volume.copies_all = copies
        r.until(100)
        r.run_job(7, 0b1)
        r.until(102)
        r.run_job(8, 0b10)
        r.until(103)
        r.cluster.controller().kill()
        r.cluster.controller().start()
        r.until(104)
        assert list(r.ctld.jobs) == kept
