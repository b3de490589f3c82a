"""Slurm's daemons in containers: crashes, OOM, hangs and node faults as Slurm and Kubernetes see them (slurm.md 12)."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.models.api_server.objects import Container, Pod, Probe
from slurmtwin.models.slurm_pods.settings import DaemonPods, Growth
from slurmtwin.models.slurm_pods.supervisor import Supervisor
from slurmtwin.models.slurmctld.states import NodeFlag

MIB = 1 << 20
GIB = 1 << 30
LONG = {"id": 1, "submit": "1s", "run": "300s", "time": "10", "nodelist": "w-0"}
SHORT = {**LONG, "run": "45s"}
ENDED, STARTED = Kind.CONTAINER_ENDED, Kind.CONTAINER_STARTED


# X62


def test_a_slurmd_that_is_the_main_process_takes_container_and_job_with_it(pods_rig: Any) -> None:
    """Recorded in x62-main: container back in 0 to 2 s, job missing at registration 0.7 to 1.7 s after the kill."""
    rig = pods_rig([LONG])
    rig.at(30, lambda: rig.slurmd().signal("KILL"))
    rig.run(100)
    assert rig.times(ENDED, "apiserver", app="slurmd", exit_code=137, reason="Error") == [30.0]
    assert rig.times(Kind.SCRIPT_ENDED, job=1)[0] == 30.0
    [requeued] = rig.times(Kind.JOB_REQUEUED, job=1)
    assert 30.2 < requeued < 31.8
    assert not rig.times(Kind.NODE_DOWN)


@pytest.mark.parametrize("seed", range(4))
def test_under_supervisord_slurmd_comes_back_beside_its_job(pods_rig: Any, seed: int) -> None:
    """Recorded in x62-supervised: slurmd back after 1.1 to 2.5 s, no container lost, the job ends by itself."""
    rig = pods_rig([SHORT], process="supervised", seed=seed)
    rig.at(30, lambda: rig.slurmd().signal("KILL"))
    rig.run(100)
    assert not rig.times(ENDED, app="slurmd")
    assert 30 < rig.times(Kind.SLURMD_STARTED)[-1] < 31.1
    assert len(rig.times(Kind.JOB_ENDED, job=1, state="COMPLETED")) == 1
    assert not rig.times(Kind.JOB_REQUEUED)


def test_a_start_by_supervisord_runs_no_entry_script_again(pods_rig: Any) -> None:
    """The container's start waits for its script, a round of 1 s later slurmd is executed alone."""
    settings = {"slurmd_begin": lambda: 400 * MS, "slurmd_again": lambda: 30 * MS, "supervisor_look": lambda: SECOND}
    rig = pods_rig([SHORT], process="supervised", **settings)
    rig.at(30, lambda: rig.slurmd().signal("KILL"))
    rig.run(40)
    assert rig.times(Kind.SLURMD_STARTED)[-1] == pytest.approx(31.03)


def test_supervisord_gives_up_after_three_failed_starts() -> None:
    """Starts that last less than startsecs: again after 1, 2, 3 s, then FATAL; an exit with 0 is final."""
    starts: list[float] = []

    class Clock:
        now_ns = 0

        def call_in(self, delay_ns: int, action: Any, argument: object = None) -> None:
            self.now_ns += delay_ns
            action(argument)

    clock: Any = Clock()

    def start() -> None:
        starts.append(clock.now_ns / SECOND)
        supervisor.started()
        clock.now_ns += 500 * MS
        supervisor.ended(expected=False)

    supervisor = Supervisor(clock, DaemonPods(), start)
    start()
    assert starts == [0, 1.5, 4.0, 7.5]
    assert supervisor.fatal
    done = Supervisor(clock, DaemonPods(), start)
    clock.now_ns += 2 * SECOND
    done.ended(expected=True)
    assert len(starts) == 4


# X63


def test_the_kernel_takes_the_job_s_process_of_a_guaranteed_pod(pods_rig: Any) -> None:
    """Recorded in x63-oom-process: 1.7 to 4.2 s, script ends with 137, job FAILED, container lives."""
    rig = pods_rig([LONG], memory_mib=256)
    rig.at(30, lambda: rig.programs.hog(rig.slurm_id()))
    rig.run(60)
    [died] = rig.times(Kind.SCRIPT_ENDED, job=1, exit_code=137)
    assert 31 < died < 33
    assert len(rig.times(Kind.JOB_ENDED, job=1, state="FAILED")) == 1
    assert not rig.times(ENDED, app="slurmd")
    assert not rig.slurmd().jobs


def test_a_cpu_limit_slows_a_job_that_grows(pods_rig: Any) -> None:
    """62 steps of 6 ms under 10 ms each 100 ms take 3.7 s; without a limit they would take 1.7."""
    growth = Growth(start=lambda: 14 * MS, work=lambda: 6 * MS, exit=lambda: 0, wake=lambda: MS)
    rig = pods_rig([LONG], memory_mib=256, growth=growth)
    rig.at(30, lambda: rig.programs.hog(rig.slurm_id()))
    rig.run(60)
    [died] = rig.times(Kind.SCRIPT_ENDED, job=1, exit_code=137)
    assert died == pytest.approx(33.7, abs=0.15)


@pytest.mark.parametrize(("cgroups", "emulated"), [(2, False), (1, True)])
def test_the_whole_container_dies_where_the_kernel_kills_groups(pods_rig: Any, cgroups: int, emulated: bool) -> None:
    """Recorded in x63-oom-group (emulated on v1): OOMKilled, restart at once, requeue at registration."""
    rig = pods_rig([LONG], memory_mib=256, cgroups=cgroups)

    def hog() -> None:
        rig.slurmd().place.cgroup.group_kill = emulated
        rig.programs.hog(rig.slurm_id())

    rig.at(30, hog)
    rig.run(60)
    [ended] = rig.times(ENDED, "apiserver", app="slurmd", reason="OOMKilled", exit_code=137)
    assert 31 < ended < 33
    assert 0 < rig.times(STARTED, "apiserver", app="slurmd")[-1] - ended < 1.3
    assert len(rig.times(Kind.JOB_REQUEUED, job=1)) == 1


def test_a_full_volume_takes_slurmd_and_takes_it_again_with_the_next_job(pods_rig: Any) -> None:
    """Recorded in x63-oom-slurmd: the volume outlives the container and stays full; back-off after the second kill."""
    rig = pods_rig([LONG], memory_mib=256, guaranteed=False)
    rig.at(30, lambda: rig.programs.fill(rig.slurm_id(), GIB))
    rig.run(160)
    kills = rig.times(ENDED, "apiserver", app="slurmd", reason="OOMKilled")
    started = rig.times(Kind.JOB_STARTED, job=1)
    assert 30 < kills[0] < 31.5
    assert kills[1] - started[1] < 1
    assert rig.times(Kind.KUBE_EVENT, "apiserver", reason="BackOff")
    starts = rig.times(STARTED, "apiserver", app="slurmd")
    assert starts[2] - kills[0] < 1.3
    assert 10 <= starts[3] - kills[1] <= 16.3


def test_a_job_that_stopped_writing_at_once_has_room_again(pods_rig: Any) -> None:
    """Recorded in x63-oom-slurmd, 12 times of 30: its shell and `head` are gone, and nothing dies a second time."""
    rig = pods_rig([LONG], memory_mib=256, guaranteed=False, late_fill=lambda: 0)
    rig.at(30, lambda: rig.programs.fill(rig.slurm_id(), GIB))
    rig.run(160)
    assert len(rig.times(ENDED, "apiserver", app="slurmd", reason="OOMKilled")) == 1
    assert len(rig.times(Kind.JOB_STARTED, job=1)) == 2


def test_a_start_that_needs_more_than_the_full_volume_leaves_is_killed_again_and_again(pods_rig: Any) -> None:
    """Recorded in x63-oom-slurmd, first repetition: CrashLoopBackOff, requeue only when pings fail (DOWN)."""
    rig = pods_rig([LONG], memory_mib=256, guaranteed=False, late_fill=lambda: 5 * MIB)
    rig.at(30, lambda: rig.programs.fill(rig.slurm_id(), GIB))
    rig.run(120)
    assert len(rig.times(ENDED, "apiserver", app="slurmd")) >= 3
    assert rig.times(Kind.CONTAINER_WAITING, reason="CrashLoopBackOff")
    assert rig.times(Kind.NODE_DOWN)
    assert rig.times(Kind.NODE_DOWN)[0] == pytest.approx(rig.times(Kind.JOB_REQUEUED, job=1)[0], abs=0.1)


def test_a_job_younger_than_20_s_stays_as_a_ghost_when_its_slurmd_is_oom_killed(pods_rig: Any) -> None:
    """slurm.md 12 S1b: the container is back and registered, no process lives, and Slurm shows the job RUNNING until
    the next sweep of registrations: the 20th ping cycle, 200 s at SlurmdTimeout 30 (2,000 s at 300).
    """
    rig = pods_rig([LONG], memory_mib=256, cgroups=2)
    rig.at(10, lambda: rig.programs.hog(rig.slurm_id()))
    rig.run(150)
    [killed] = rig.times(ENDED, "apiserver", app="slurmd", reason="OOMKilled")
    registered = rig.times(Kind.NODE_REGISTERED)[-1]
    assert killed < registered < killed + 2
    assert not rig.times(Kind.JOB_ENDED, job=1)
    assert not rig.slurmd().jobs
    assert not rig.cluster.slurmds.works
    assert [j.request.job_id for j in rig.cluster.ctld.running.values()] == [1]
    rig.run(215)
    assert rig.times(Kind.JOB_ENDED, job=1, state="NODE_FAIL")[0] == pytest.approx(174, abs=1)


# X1, X2


def test_a_crashed_slurmctld_is_back_within_its_container_s_restart(pods_rig: Any) -> None:
    """Recorded in x1: outage 0.4 to 5.1 s, no job lost."""
    rig = pods_rig([SHORT])
    rig.at(30, lambda: rig.slurmctld().signal("KILL"))
    rig.run(100)
    started = rig.times(Kind.SLURMCTLD_STARTED)
    assert rig.times(Kind.SLURMCTLD_CRASHED) == [30.0]
    assert 30.2 < started[1] < 31.6
    assert len(rig.times(Kind.JOB_ENDED, job=1, state="COMPLETED")) == 1


@pytest.mark.parametrize("seed", range(3))
def test_a_hung_slurmctld_is_killed_by_its_liveness_probe(pods_rig: Any, seed: int) -> None:
    """Recorded in x2: found after 21 to 29 s, grace 20 s, back after 0.4 to 1.3 s."""
    rig = pods_rig([LONG], controller={"liveness": Probe()}, grace_s=20, seed=seed)
    rig.at(30, lambda: rig.slurmctld().signal("STOP"))
    rig.run(110)
    [killing] = rig.times(Kind.KUBE_EVENT, "apiserver", reason="Killing")
    [ended] = rig.times(ENDED, "apiserver", app="slurmctld", exit_code=137)
    assert 51 <= killing <= 61.1
    assert ended - killing == pytest.approx(20, abs=0.1)
    assert 0.1 < rig.times(Kind.SLURMCTLD_STARTED)[1] - ended < 1.3
    assert not rig.times(Kind.JOB_REQUEUED)


def test_a_probe_that_only_connects_finds_nothing_wrong_with_a_hung_slurmctld(pods_rig: Any) -> None:
    """Recorded in x2 on 22.05, which serves no /livez: nothing notices within the run."""
    rig = pods_rig([LONG], controller={"liveness": Probe()}, grace_s=20, livez=False)
    rig.at(30, lambda: rig.slurmctld().signal("STOP"))
    rig.run(110)
    assert not rig.times(Kind.KUBE_EVENT, "apiserver", reason="Killing")
    assert not rig.times(ENDED, app="slurmctld")


# X46, X64, X65


def test_a_forced_deletion_stops_slurmd_at_once(pods_rig: Any) -> None:
    """Recorded in x46: slurmd logs its end 17 ms after the call; without a controller nobody makes a new pod."""
    rig = pods_rig([LONG])
    rig.at(30, lambda: rig.client.delete(Pod, "s/w-0", 0))
    rig.run(40)
    assert rig.times(Kind.SLURMD_STOPPED) == [pytest.approx(30, abs=0.05)]
    assert rig.times(Kind.SCRIPT_ENDED, job=1)[0] < 30.5
    assert not rig.times(ENDED, app="slurmd")


def test_a_slurmd_that_comes_back_in_its_pod_starts_by_a_law_of_its_own(pods_rig: Any) -> None:
    """In a pod that is made anew it starts as in any other one."""

    def served(begin_ms: int, back_ms: int) -> list[float]:
        rig = pods_rig([LONG], slurmd_begin=lambda: begin_ms * MS, slurmd_back=lambda: back_ms * MS)
        rig.at(30, lambda: rig.slurmd().signal("KILL"))
        rig.at(50, lambda: rig.client.delete(Pod, "s/w-0", 0))
        rig.at(53, lambda: rig.create("w-0", "m1", Container(name="slurmd")))
        rig.run(60)
        return list(rig.times(Kind.SLURMD_STARTED)[-2:])

    back, anew = served(400, 50)
    assert served(400, 300) == [pytest.approx(back + 0.25), anew]
    assert served(700, 50) == [back, pytest.approx(anew + 0.3)]


@pytest.mark.parametrize("machine", ["m1", "m2"])
def test_a_pod_that_comes_back_has_another_address(pods_rig: Any, machine: str) -> None:
    """A static node's old address is what slurmctld keeps (slurm.md 12 S3): the slurmd answers, nobody finds it."""
    rig = pods_rig([LONG])
    rig.at(30, lambda: rig.client.delete(Pod, "s/w-0", 0))
    rig.at(33, lambda: rig.create("w-0", machine, Container(name="slurmd")))
    rig.run(40)
    assert rig.slurmd().new_address
    assert rig.cluster.slurmds.moved & 1


@pytest.mark.parametrize("orders_first", [False, True])
def test_an_order_that_a_registration_gives_may_go_to_the_old_address(pods_rig: Any, orders_first: bool) -> None:
    """A dynamic node's new address is written at the end of its registration: an agent that is sooner tries the old one
    for 10 s, and slurmctld sends the order again after KillWait + 2 MessageTimeout (recorded in x46 on 26.05).
    """
    rig = pods_rig([LONG])
    rig.cluster.slurmds.orders_first = lambda: orders_first
    rig.at(30, lambda: rig.client.delete(Pod, "s/w-0", 0))
    rig.at(32, lambda: _make_dynamic(rig))
    rig.at(33, lambda: rig.create("w-0", "m1", Container(name="slurmd")))
    rig.run(150)
    [ended], [completed] = rig.times(Kind.JOB_ENDED, job=1)[:1], rig.times(Kind.JOB_COMPLETED, job=1)[:1]
    assert not rig.cluster.slurmds.moved
    assert (50 < completed - ended < 112) if orders_first else completed - ended < 1


def test_the_log_tells_a_requeue_at_the_end_of_the_run(pods_rig: Any) -> None:
    """job_mgr.c _job_complete() logs both; the hold counts from the end of COMPLETING (batch_requeue_fini())."""
    rig = pods_rig([LONG])
    rig.cluster.slurmds.orders_first = lambda: True
    rig.at(30, lambda: rig.client.delete(Pod, "s/w-0", 0))
    rig.at(32, lambda: _make_dynamic(rig))
    rig.at(33, lambda: rig.create("w-0", "m1", Container(name="slurmd")))
    rig.run(60)
    assert rig.times(Kind.JOB_REQUEUED, job=1) == rig.times(Kind.JOB_ENDED, job=1)
    assert rig.cluster.ctld.completing


def _make_dynamic(rig: Any) -> None:
    """As in pods: w-0 has registered itself (slurmd -Z), and requeues are told as the log tells them."""
    rig.cluster.ctld.nodes.nodes[0].flags |= NodeFlag.DYNAMIC_NORM
    rig.cluster.ctld.lifecycle.requeues.told_at_end = True


def test_a_paused_machine_holds_slurmd_and_job_and_a_script_ends_so_much_later(pods_rig: Any) -> None:
    """12 s of pause: nobody notices, the job's 45 s become 57 on the wall."""
    rig = pods_rig([SHORT])
    rig.at(20, rig.machines[1].pause)
    rig.at(32, rig.machines[1].unpause)
    rig.run(100)
    [began], [ended] = rig.times(Kind.SCRIPT_STARTED, job=1), rig.times(Kind.SCRIPT_ENDED, job=1)
    assert ended - began == pytest.approx(57, abs=0.1)
    assert not rig.times(Kind.NODE_DOWN)


def test_a_worker_host_that_is_lost_is_given_up_and_its_script_ends_at_the_thaw(pods_rig: Any) -> None:
    """Recorded in x64: DOWN 50 to 61 s after the freeze (2P = 20 s at least), script ended 0.03 s after the thaw."""
    rig = pods_rig([LONG])
    rig.at(21, rig.machines[1].pause)
    rig.at(111, rig.machines[1].unpause)
    rig.run(140)
    [down] = rig.times(Kind.NODE_DOWN)
    assert 20 <= down - 21 <= 62
    assert rig.times(Kind.SCRIPT_ENDED, job=1)[0] == pytest.approx(111, abs=0.2)


def test_a_stopped_slurmd_answers_no_probe_and_its_container_is_restarted(pods_rig: Any) -> None:
    """SIGSTOP holds slurmd alone; three probes, then the grace, then SIGKILL for all of it."""
    rig = pods_rig([LONG])
    rig.at(30, lambda: rig.slurmd().signal("STOP"))
    rig.at(40, lambda: rig.slurmd().signal("CONT"))
    rig.run(60)
    assert not rig.times(ENDED, app="slurmd")
    assert not rig.cluster.slurmds.frozen


def test_a_machine_that_stops_ends_everything_and_its_pods_come_back_with_it(pods_rig: Any) -> None:
    """kube_node.restart: slurmd registers again from the new sandbox, and the job that is missing there fails. Its
    remains are ended at the old address, so it stays COMPLETING (recorded in x46).
    """
    rig = pods_rig([LONG])
    rig.at(30, rig.machines[1].stop)
    rig.at(45, rig.machines[1].boot)
    rig.run(80)
    assert rig.times(Kind.SLURMD_CRASHED) == [30.0]
    assert 45.5 < rig.times(Kind.SLURMD_STARTED)[-1] < 47.5
    assert len(rig.times(Kind.JOB_ENDED, job=1, state="NODE_FAIL")) == 1
    assert rig.cluster.ctld.completing


@pytest.mark.parametrize(("serves_s", "low_s", "high_s"), [(-8, -8, -6.9), (0, 6.5, 8.5), (10, 10, 11.1)])
def test_workers_without_a_controller_ask_each_second_for_ten_and_pause_for_ten(
    pods_rig: Any, serves_s: float, low_s: float, high_s: float
) -> None:
    """slurmd -Z of 26.05: its first attempt begins at about -12.7 s here, the second one 20 s later."""
    rig = pods_rig([LONG])
    rig.at(-15, lambda: rig.slurmctld().signal("STOP"))
    rig.at(-14, rig.machines[1].stop)
    rig.at(-13, rig.machines[1].boot)
    rig.at(serves_s, lambda: rig.slurmctld().signal("CONT"))
    rig.run(40)
    assert low_s < rig.times(Kind.SLURMD_STARTED)[-1] <= high_s


def test_an_attempt_that_began_without_the_name_is_lost_with_its_ten_seconds(pods_rig: Any) -> None:
    """The name is looked up once an attempt: one that comes 2 s later waits for the next attempt, 20 s on."""
    rig = pods_rig([LONG], named=lambda: not -14 * SECOND < rig.env.now_ns < -11 * SECOND)
    rig.at(-14, rig.machines[1].stop)
    rig.at(-13, rig.machines[1].boot)
    rig.run(40)
    assert 6.5 < rig.times(Kind.SLURMD_STARTED)[-1] < 8.5
