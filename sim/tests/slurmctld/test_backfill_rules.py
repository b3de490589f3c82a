"""Backfill, rule by rule, each worked out by hand (slurm.md 2.1, 2.2). Four one-CPU nodes unless said otherwise."""

from __future__ import annotations

import pytest
from mini_cluster import EPOCH_S, MiniCluster

from slurmtwin.contract.events import Kind
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.models.slurmctld.node_space import NodeSpace
from slurmtwin.models.slurmctld.states import JobState, Reason

VERSIONS = ["22.05", "24.11", "26.05"]
TWO_PARTS = "NodeName=n[0-3] CPUs=1\nPartitionName=a Nodes=n[0-1]\nPartitionName=b Nodes=n[2-3]\n"


def crowded(params: str = "", version: str = "26.05", text: str = "", **more: object) -> MiniCluster:
    """Three nodes run job 1 for 600 s; job 2 wants all four; node 3 is idle. Passes only when asked for."""
    line = f"SchedulerParameters={params}\n" if params else ""
    c = MiniCluster(line + text, version, passes=False, **more)  # type: ignore[arg-type]
    c.submit(1, nodes=3, limit_s=600, run_s=600)
    c.scheduler.run_pass()
    c.submit(2, nodes=4, limit_s=600)
    return c


def cycle(c: MiniCluster) -> list[int]:
    """One backfill cycle; which jobs it started."""
    before = len(c.started)
    c.scheduler.backfill.run_cycle()
    return [job for _, job, *_ in c.started[before:]]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_short_job_overtakes_and_a_long_one_does_not(version: str) -> None:
    """Job 2 is planned for t=600 on all nodes: 300 s fit before it, 900 s do not.

    slurm.md 2.2 "Else"
    slurm.md 2.2 "If start<=now"
    """
    c = crowded(version=version)
    c.submit(3, nodes=1, limit_s=900)
    c.submit(4, nodes=1, limit_s=300)
    assert cycle(c) == [4]
    planned = c.ctld.jobs[2].planned_start_s
    assert planned - EPOCH_S == 600
    assert c.started[-1][4] == "backfill"


@pytest.mark.parametrize(("limit_s", "started"), [(540, [3]), (600, [])])
def test_a_job_that_ends_just_when_a_planned_one_begins_is_in_its_way(limit_s: int, started: list[int]) -> None:
    """slurm.md 2.2 "Test at slot S": every slot that *touches* [S, S+length] counts, its first second included."""
    c = crowded()
    c.submit(3, nodes=1, limit_s=limit_s)
    assert cycle(c) == started


def test_backfill_counts_with_the_limit_not_the_run_time() -> None:
    """Trap 1 of peers.md 10: a job that would end after 10 s but asks for 900 s may not overtake."""
    c = crowded()
    c.submit(3, nodes=1, limit_s=900, run_s=10)
    assert cycle(c) == []


def test_every_job_tested_gets_a_reservation() -> None:
    """Conservative: job 3 waits for job 2's plan, and job 4 may delay neither.

    slurm.md 2.2 "Kind of backfill"
    """
    c = crowded()
    c.submit(3, nodes=2, limit_s=600)
    c.submit(4, nodes=1, limit_s=1500)
    c.scheduler.backfill.prune = False
    assert cycle(c) == []
    starts = [c.ctld.jobs[n].planned_start_s - EPOCH_S for n in (2, 3, 4)]
    assert starts == [600, 1200, 1200]


@pytest.mark.parametrize(("version", "end"), [("22.05", 660), ("24.11", 720), ("26.05", 720)])
def test_reservations_are_aligned_to_the_resolution(version: str, end: int) -> None:
    """Start 601..700 s: the slot begins at 600; the end is rounded down in 22.05 and up since 24.11.

    slurm.md 2.2 "Map"
    slurm.md 2.1 "bf_resolution"
    """
    space = NodeSpace(EPOCH_S, 86_400, 60, 0b1111, None)
    begin, over = space.slot(EPOCH_S + 601, 99, round_up=version != "22.05")
    assert (begin - EPOCH_S, over - EPOCH_S) == (600, end)


def test_a_reservation_takes_at_least_one_slot_of_the_map() -> None:
    """slurm.md 2.2 "Else": "at least one slot", also when start and end round to the same time."""
    space = NodeSpace(EPOCH_S, 86_400, 60, 0b11, None)
    space.reserve(EPOCH_S + 120, EPOCH_S + 120, 0b01)
    assert [(b - EPOCH_S, e - EPOCH_S, f) for b, e, f in zip(space.begin, space.end, space.free, strict=True)] == [
        (0, 120, 0b11),
        (120, 180, 0b10),
        (180, 86_400, 0b11),
    ]


def test_records_of_the_map_are_never_given_back() -> None:
    """Two reservations side by side merge into one slot, but the table counts four splits.

    slurm.md 2.1 "bf_node_space_size"
    """
    space = NodeSpace(EPOCH_S, 86_400, 60, 0b1, None)
    space.reserve(EPOCH_S + 60, EPOCH_S + 120, 0b1)
    space.reserve(EPOCH_S + 120, EPOCH_S + 180, 0b1)
    assert len(space.begin) == 3
    assert space.records == 4


def test_a_full_map_ends_the_cycle() -> None:
    """slurm.md 2.1 "bf_node_space_size": with 3 records there is room for job 2's plan only; job 4 is not reached."""
    c = crowded("bf_node_space_size=3")
    c.submit(3, nodes=4, limit_s=600)
    c.submit(4, nodes=1, limit_s=60)
    c.scheduler.backfill.prune = False
    assert cycle(c) == []
    c.submit(5, nodes=1, limit_s=60, priority=5)
    assert cycle(c) == [5]


def test_a_start_beyond_the_window_is_not_reserved() -> None:
    """Job 2 cannot start within 5 minutes, so job 3 is not kept from its nodes.

    slurm.md 2.1 "bf_window"
    slurm.md 2.2 "Else"
    """
    c = crowded("bf_window=5")
    c.submit(3, nodes=1, limit_s=7200)
    assert cycle(c) == [3]


def test_only_so_many_jobs_are_tested() -> None:
    """slurm.md 2.1 "bf_max_job_test": job 2 is the first and last, so job 3 has to wait for the next cycle or pass."""
    c = crowded("bf_max_job_test=1")
    c.submit(3, nodes=1, limit_s=60)
    assert cycle(c) == []


@pytest.mark.parametrize(
    ("params", "started"),
    [
        ("bf_max_job_start=2", [11, 12]),
        ("bf_max_job_user=2", [11, 12, 15, 16]),
        ("bf_max_job_part=3", [11, 12]),
        ("bf_max_job_user_part=1", [11, 15]),
    ],
)
def test_caps_per_cycle(params: str, started: list[int]) -> None:
    """slurm.md 2.1 "bf_max_job_start / _part / _user / _user_part / _assoc": job 2 of "" counts for the partition."""
    c = MiniCluster(f"SchedulerParameters={params}", nodes=12, passes=False)
    c.submit(1, nodes=3, limit_s=600)
    c.scheduler.run_pass()
    c.submit(2, nodes=12, limit_s=600)
    for number in (11, 12, 13):
        c.submit(number, limit_s=60, user="ann")
    for number in (15, 16):
        c.submit(number, limit_s=60, user="bob")
    assert cycle(c) == started


@pytest.mark.parametrize("params", ["bf_min_age_reserve=600", "bf_min_prio_reserve=9", "bf_job_part_count_reserve=1"])
def test_jobs_below_a_threshold_may_start_but_get_no_reservation(params: str) -> None:
    """Job 3 gets no plan, so job 4 may use the time that only job 3 wanted.

    slurm.md 2.1 "bf_job_part_count_reserve, bf_min_age_reserve, bf_min_prio_reserve"
    """
    c = MiniCluster(f"SchedulerParameters={params}", passes=False)
    c.submit(1, nodes=2, limit_s=600)
    c.scheduler.run_pass()
    old = c.submit(2, nodes=3, limit_s=600, priority=10)
    old.eligible_s = EPOCH_S - 1000
    c.submit(3, nodes=2, limit_s=540)
    c.submit(4, nodes=1, limit_s=540)
    assert cycle(c) == [3]
    assert c.ctld.jobs[2].planned_start_s
    assert not c.ctld.jobs[4].planned_start_s


def test_one_reservation_per_job_with_several_partitions() -> None:
    """slurm.md 2.1 "bf_one_resv_per_job, bf_busy_nodes, bf_running_job_reserve, bf_licenses, bf_hetjob_immediate,
    bf_hetjob_prio": planned in a, the job is only tried in b; so b's nodes stay free for job 4.
    """
    for params, started in (("bf_interval=30", []), ("bf_one_resv_per_job", [4])):
        c = MiniCluster(f"SchedulerParameters={params}\n" + TWO_PARTS, passes=False)
        c.submit(1, nodes=2, limit_s=600, partition="a")
        c.submit(2, nodes=1, limit_s=600, partition="b")
        c.scheduler.run_pass()
        c.submit(3, nodes=2, limit_s=6000, partition="a,b")
        c.submit(4, nodes=1, limit_s=3000, partition="b")
        assert cycle(c) == started


def test_an_array_reserves_for_some_of_its_tasks() -> None:
    """slurm.md 2.1 "bf_max_job_array_resv": two of five one-node tasks are planned, the third node stays free."""
    for most, started in ((2, [9]), (3, [])):
        c = MiniCluster(f"SchedulerParameters=bf_max_job_array_resv={most}", nodes=3, passes=False)
        c.submit(1, nodes=2, limit_s=600)
        c.submit(2, nodes=1, limit_s=600)
        c.scheduler.run_pass()
        c.submit(3, nodes=1, limit_s=6000, array_waiting=[0, 1, 2, 3, 4])
        later = c.submit(9, nodes=1, limit_s=60)
        c.scheduler.backfill.prune = False
        cycle(c)
        planned = later.planned_start_s - EPOCH_S
        assert planned == (600 if started else 6600)


@pytest.mark.parametrize(("version", "limit_s"), [("22.05", 120), ("24.11", 120), ("26.05", 540)])
def test_time_min_is_what_must_fit_and_is_stretched_only_since_26_05(version: str, limit_s: int) -> None:
    """--time=20 --time-min=2 before a plan at 600 s: tested with 2 minutes; then stretched to 9 whole ones at t=30.

    slurm.md 2.2 "Job length"
    """
    c = crowded(version=version)
    c.at(30, lambda: None)
    c.run(30)
    job = c.submit(3, nodes=1, limit_s=1200, time_min_s=120)
    assert cycle(c) == [3]
    assert job.limit_s == limit_s


@pytest.mark.parametrize(
    ("limit", "part", "length"), [(None, "MaxTime=30", 1800), (None, "", 31_536_000), (7200, "MaxTime=200", 7200)]
)
def test_job_length(limit: int | None, part: str, length: int) -> None:
    """slurm.md 2.2 "Job length": no limit given = the partition's MaxTime, one year when that is infinite."""
    c = MiniCluster(f"NodeName=n[0-1] CPUs=1\nPartitionName=main Nodes=ALL {part}", passes=False)
    job = c.submit(1, limit_s=limit)
    assert cycle(c) == [1]
    assert job.limit_s == length


def test_completing_nodes_turn_a_start_into_a_reservation() -> None:
    """slurm.md 2.2 "If start<=now": start = now + 1, so the nodes are kept and the job starts later."""
    c = MiniCluster(passes=False)
    c.ctld.nodes.completing = 0b1111
    job = c.submit(1, nodes=2)
    assert cycle(c) == []
    assert job.planned_start_s == c.ctld.now_s() + 1


def test_running_jobs_leave_in_groups_so_starts_lose_precision() -> None:
    """Ends at 640 and 680 fall into the first group (30 s past 660 = 690): the job that needs only the first
    of them is planned for 680 in 22.05 and 24.11; 26.05 looks back to the last job whose nodes it uses.

    slurm.md 2.2 "Precision loss"
    slurm.md 2.2 "Expected start"
    """
    for version, expected in (("22.05", 680), ("24.11", 680), ("26.05", 640)):
        c = MiniCluster(version=version, nodes=2, passes=False)
        c.submit(1, nodes=1, limit_s=640)
        c.submit(2, nodes=1, limit_s=680)
        c.scheduler.run_pass()
        job = c.submit(3, nodes=1, limit_s=60)
        cycle(c)
        assert (version, job.planned_start_s - EPOCH_S) == (version, expected)


@pytest.mark.parametrize(("version", "expected"), [("22.05", 630), ("24.11", 610), ("26.05", 610)])
def test_a_job_past_its_end_goes_kill_wait_later_or_counts_as_gone(version: str, expected: int) -> None:
    """Job 1 should have ended at 600 and runs at 610. Since 24.11 the search takes it as gone, and the start fails.

    slurm.md 2.2 "Expected start"
    """
    c = crowded(version=version)
    c.at(610, lambda: None)
    c.lifecycle.end = lambda *_a, **_k: None  # type: ignore[method-assign]
    c.run(610)
    assert cycle(c) == []
    assert c.ctld.jobs[2].planned_start_s - EPOCH_S == expected


def test_with_bf_running_job_reserve_whole_node_jobs_enter_the_map() -> None:
    """slurm.md 2.2 "Map": not by default; with the option, until their limit, rounded up."""
    for params, slots in (("bf_interval=30", 1), ("bf_running_job_reserve", 3)):
        c = MiniCluster(f"SchedulerParameters={params}", passes=False)
        c.submit(1, nodes=2, limit_s=610, whole_node=True)
        c.scheduler.run_pass()
        from slurmtwin.models.slurmctld.backfill_cycle import BackfillCycle

        run = BackfillCycle(c.ctld, c.scheduler.queue, prune=True)
        for _ in run.run():
            pass
        assert len(run.space.begin) == slots
        if slots == 3:
            assert run.space.end[1] - EPOCH_S == 660


def test_bf_licenses_plans_around_licences() -> None:
    """slurm.md 9 "Licences": no reservation unless bf_licenses; with it job 3 waits for the tool, job 4 passes."""
    c = MiniCluster("Licenses=tool:1\nSchedulerParameters=bf_licenses,bf_running_job_reserve", passes=False)
    c.submit(1, nodes=1, limit_s=600, licenses=(("tool", 1),))
    c.scheduler.run_pass()
    waiting = c.submit(3, nodes=1, limit_s=60, licenses=(("tool", 1),))
    c.submit(4, nodes=1, limit_s=60)
    assert cycle(c) == [4]
    assert waiting.reason == Reason.LICENSES or waiting.planned_start_s - EPOCH_S >= 600


def test_no_reserve_qos_is_never_planned() -> None:
    """slurm.md 2.2 "QOS NoReserve": job 3 of that QOS keeps nobody from the nodes."""
    c = crowded()
    from dataclasses import replace

    from slurmtwin.contract.cluster import QosConf

    c.ctld.conf = replace(c.ctld.conf, qos=(QosConf(name="scrap", flags=frozenset({"NoReserve"})),))
    job = c.submit(3, nodes=4, limit_s=600, qos="scrap")
    cycle(c)
    assert not job.planned_start_s


def test_maintenance_ahead_keeps_long_jobs_off() -> None:
    """Nodes are reserved from 300 s to 900 s: a 600 s job is planned behind, a 240 s job starts.

    slurm.md 9 "Reservations"
    """
    c = MiniCluster(passes=False)
    c.reservations.closed.append((EPOCH_S + 300, EPOCH_S + 900, 0b1111))
    job = c.submit(1, nodes=1, limit_s=600)
    c.submit(2, nodes=1, limit_s=240)
    assert cycle(c) == [2]
    assert job.planned_start_s - EPOCH_S in range(900, 961)


def hetjob(c: MiniCluster, sizes: dict[int, int], **more: object) -> None:
    """Components numbered and sized so."""
    jobs = [c.job(number, nodes=nodes, **more) for number, nodes in sizes.items()]  # type: ignore[arg-type]
    for job in jobs:
        job.het_job = jobs
    for job in jobs:
        c.arrive(job)


@pytest.mark.parametrize("params", ["bf_interval=30", "bf_hetjob_immediate"])
def test_a_hetjob_starts_whole_or_not_at_all(params: str) -> None:
    """Components of 2 and 2 nodes start together in one cycle; of 2 and 3 nodes neither does.

    slurm.md 9 "Hetjobs"
    """
    c = MiniCluster(f"SchedulerParameters={params}", passes=False)
    hetjob(c, {1: 2, 2: 2})
    assert cycle(c) == [1, 2]
    c = MiniCluster(f"SchedulerParameters={params}", passes=False)
    hetjob(c, {1: 2, 2: 3})
    assert cycle(c) == []


def test_the_main_pass_and_backfill_start_a_hetjob_only_from_backfill() -> None:
    """slurm.md 1.2 "Pending hetjob": on an idle machine it waits for the first cycle, 30 s after the start."""
    c = MiniCluster()
    hetjob(c, {1: 1, 2: 1})
    c.run(40)
    assert (c.start_s(1), c.start_s(2)) == (30, 30)


# --- when cycles run


def events(c: MiniCluster, kind: Kind) -> list[float]:
    """Times of events of a kind, seconds."""
    c.sink._flush()
    assert c.sink.kept is not None
    return [e.t_ns / 1e9 for e in c.sink.kept if e.kind is kind]


def blocked(params: str = "", version: str = "26.05", costs: HostCosts | None = None) -> MiniCluster:
    """As `crowded`, with the daemons' own timing."""
    line = f"SchedulerParameters={params}" if params else ""
    c = MiniCluster(line, version, costs=costs)
    c.submit(1, nodes=3, limit_s=600, run_s=600)
    c.submit(2, nodes=4, limit_s=600)
    return c


def test_the_first_cycle_comes_bf_interval_after_the_start() -> None:
    """slurm.md 2.2 "Cycle timing": job 3 arrives at 5 s and starts at 30 s.

    slurm.md 2.1 "bf_interval"
    """
    c = blocked()
    c.at(5, lambda: c.submit(3, limit_s=60))
    c.run(100)
    assert c.start_s(3) == 30


def test_a_change_after_a_quiet_time_is_seen_within_a_second() -> None:
    """slurm.md 2.2 "Cycle timing": no plans keep cycles going, so at 100.4 s the next of the looks each second acts."""
    c = MiniCluster()
    c.submit(1, nodes=4, limit_s=600, run_s=600)
    c.at(100.4, lambda: setattr(c.ctld, "last_node_update_s", c.ctld.now_s()))
    c.run(90)
    assert c.scheduler.backfill._look is None
    c.run(101.5)
    assert c.scheduler.backfill._last_s - EPOCH_S == 101


def test_plans_keep_the_cycles_going() -> None:
    """Planned nodes are flagged at the end of a cycle: that is a node update, so the next cycle comes 30 s later.

    slurm.md 2.2 "Cycle timing"
    """
    c = blocked()
    c.run(185)
    assert c.scheduler.backfill._last_s - EPOCH_S == 180


def test_an_idle_cluster_costs_no_events() -> None:
    """slurm.md 2.2 "Cycle timing"; trap 8 of peers.md 10: a day without jobs is free."""
    c = MiniCluster()
    c.submit(1, run_s=10)
    c.run(120)
    before = c.env.event_count
    c.run(86_400 * 30)
    assert c.env.event_count - before <= 2


def test_complete_wait_holds_the_cycle() -> None:
    """slurm.md 1.1 "Whole pass skipped": COMPLETING for less than CompleteWait delays main pass and backfill."""
    c = MiniCluster("CompleteWait=20")
    ended = c.job(9)
    ended.state, ended.completing, ended.end_s = JobState.COMPLETED, True, c.ctld.now_s() + 25
    c.ctld.completing[9] = ended
    c.at(26, lambda: c.submit(1))
    c.run(100)
    assert c.start_s(1) == 46


def test_a_cycle_that_takes_two_seconds_yields_and_is_abandoned_when_something_changed() -> None:
    """Each test costs 0.5 s: locks go after 4 tests, for 0.5 s; a submit in that half second ends the cycle.

    slurm.md 2.2 "Yield without bf_continue"
    slurm.md 2.1 "bf_yield_interval / bf_yield_sleep"
    """
    slow = HostCosts(backfill_test_ns=500_000_000)
    for disturb, started in ((False, True), (True, False)):
        c = blocked(costs=slow)
        c.scheduler.backfill.prune = False
        for number in range(3, 8):
            c.submit(number, nodes=4, limit_s=600)
        c.submit(9, nodes=1, limit_s=60)
        if disturb:
            c.at(32.2, lambda c=c: c.submit(10, nodes=4))
        c.run(34)
        assert (c.start_s(9) is not None) is started


def test_with_bf_continue_the_cycle_goes_on() -> None:
    """slurm.md 2.2 "With bf_continue": the same disturbance does not stop it.

    slurm.md 2.1 "bf_continue"
    """
    c = blocked("bf_continue", costs=HostCosts(backfill_test_ns=500_000_000))
    c.scheduler.backfill.prune = False
    for number in range(3, 8):
        c.submit(number, nodes=4, limit_s=600)
    c.submit(9, nodes=1, limit_s=60)
    c.at(32.2, lambda: c.submit(10, nodes=4))
    c.run(34)
    assert c.start_s(9) is not None


def test_with_bf_continue_nodes_freed_meanwhile_are_ignored() -> None:
    """slurm.md 2.2 "With bf_continue": bf_ignore_node_bitmap."""
    c = blocked("bf_continue", costs=HostCosts(backfill_test_ns=500_000_000))
    c.scheduler.backfill.prune = False
    c.ctld.nodes.avail = 0b0111
    for number in range(3, 8):
        c.submit(number, nodes=4, limit_s=600)
    c.submit(9, nodes=1, limit_s=60)
    c.at(32.2, lambda: setattr(c.ctld.nodes, "avail", 0b1111))
    c.run(35)
    assert c.start_s(9) is None


def test_bf_max_time_ends_a_cycle() -> None:
    """slurm.md 2.1 "bf_max_time": 0.5 s a test and 2 s leave four tests.

    slurm.md 2.2 "Ends when"
    """
    c = blocked("bf_max_time=2", costs=HostCosts(backfill_test_ns=500_000_000))
    c.scheduler.backfill.prune = False
    for number in range(3, 9):
        c.submit(number, nodes=4, limit_s=600)
    c.submit(9, nodes=1, limit_s=60)
    c.run(35)
    assert c.start_s(9) is None


def test_builtin_never_backfills() -> None:
    """slurm.md 2.2 "sched/builtin": strict order, whatever fits."""
    c = MiniCluster("SchedulerType=sched/builtin")
    c.submit(1, nodes=3, limit_s=600, run_s=600)
    c.submit(2, nodes=4, limit_s=600, run_s=60)
    c.submit(3, nodes=1, limit_s=60)
    c.run(2000)
    assert c.order() == [1, 2, 3]


def test_pruning_changes_no_start() -> None:
    """The early end of a cycle leaves plans unmade but starts the same jobs."""
    orders = []
    for prune in (True, False):
        c = MiniCluster(nodes=6)
        c.scheduler.backfill.prune = prune
        for number in range(1, 60):
            c.at(
                number * 7,
                lambda n=number, c=c: c.submit(
                    n, nodes=n * 5 % 6 + 1, limit_s=60 * (n * 7 % 20 + 1), run_s=31 * (n % 9 + 1)
                ),
            )
        c.run()
        orders.append(c.started)
    assert orders[0] == orders[1]
