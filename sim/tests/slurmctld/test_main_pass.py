"""The main scheduling pass, rule by rule, each worked out by hand (slurm.md 1.2)."""

from __future__ import annotations

import gc

import pytest
from mini_cluster import MiniCluster

from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.models.slurmctld.parts import Placement, Refusal
from slurmtwin.models.slurmctld.pending_queue import QueueRecord
from slurmtwin.models.slurmctld.states import DependState, JobState, Reason

TWO = "NodeName=n[0-3] CPUs=1\nPartitionName=a Nodes=n[0-1]\nPartitionName=b Nodes=n[2-3]\n"
SHARED = "NodeName=n[0-3] CPUs=1\nPartitionName=a Nodes=n[0-3]\nPartitionName=b Nodes=n[0-3]\n"
BUILTIN = "SchedulerType=sched/builtin\n"


def still(text: str = "", version: str = "26.05", nodes: int = 4, **more: object) -> MiniCluster:
    """A cluster on which the test itself asks for passes."""
    c = MiniCluster(text, version, nodes, passes=False, **more)  # type: ignore[arg-type]
    c.ctld.selection.fast = False  # type: ignore[attr-defined]
    return c


def test_first_blocked_job_closes_its_partition_and_the_rest_waits_for_priority() -> None:
    """slurm.md 1.2 "First blocked job closes its partition": job 3 would fit on the free node but is not tried."""
    c = still()
    c.submit(1, nodes=3)
    blocked = c.submit(2, nodes=4)
    behind = c.submit(3, nodes=1)
    assert c.scheduler.run_pass() == 1
    assert c.order() == [1]
    assert (blocked.reason, behind.reason) == (Reason.RESOURCES, Reason.PRIORITY)


def test_closing_takes_the_nodes_away_from_overlapping_partitions_too() -> None:
    """slurm.md 1.2 "First blocked job closes its partition": partition b shares the nodes, so its job waits as well."""
    c = still(SHARED)
    c.submit(1, nodes=3, partition="a")
    c.submit(2, nodes=4, partition="a")
    other = c.submit(3, nodes=1, partition="b")
    c.scheduler.run_pass()
    assert c.order() == [1]
    assert other.reason == Reason.NODES_DOWN


def test_a_partition_on_other_nodes_stays_open() -> None:
    """slurm.md 1.2 "First blocked job closes its partition": only that partition's nodes leave the pass."""
    c = still(TWO)
    c.submit(1, nodes=1, partition="a")
    c.submit(2, nodes=2, partition="a")
    c.submit(3, nodes=2, partition="b")
    c.scheduler.run_pass()
    assert c.order() == [1, 3]


def test_order_is_tier_then_priority_then_submit_then_number() -> None:
    """slurm.md 1.2 "Order"."""
    c = still(
        "NodeName=n[0-9] CPUs=1\nPartitionName=low Nodes=ALL PriorityTier=1\n"
        "PartitionName=high Nodes=ALL PriorityTier=2\n"
    )
    c.submit(4, partition="low", priority=9)
    c.submit(3, partition="low", priority=5, submit_s=c.ctld.now_s() - 1)
    c.submit(2, partition="low", priority=5)
    c.submit(1, partition="low", priority=5)
    c.submit(9, partition="high", priority=1)
    c.scheduler.run_pass()
    assert c.order() == [9, 4, 3, 1, 2]


def test_jobs_in_a_reservation_come_before_higher_tiers() -> None:
    """slurm.md 1.2 "Order": a reservation counts before PriorityTier."""
    c = still(
        "NodeName=n[0-3] CPUs=1\nPartitionName=low Nodes=ALL PriorityTier=1\n"
        "PartitionName=high Nodes=ALL PriorityTier=2\n"
    )
    c.reservations.inside["r"] = 0b1111
    c.submit(1, partition="high")
    c.submit(2, partition="low", reservation="r")
    c.scheduler.run_pass()
    assert c.order() == [2, 1]


def test_who_can_preempt_goes_first_even_before_a_reservation() -> None:
    """slurm.md 1.2 "Order": rule 1 stands above rule 2 when preemption is on."""
    c = still(
        "PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\nNodeName=n[0-3] CPUs=1\n"
        "PartitionName=low Nodes=ALL PriorityTier=1\nPartitionName=high Nodes=ALL PriorityTier=2\n"
    )
    c.reservations.inside["r"] = 0b1111
    c.submit(2, partition="low", reservation="r")
    c.submit(1, partition="high")
    c.scheduler.run_pass()
    assert c.order() == [1, 2]


@pytest.mark.parametrize(("depth", "tried"), [(100, 101), (3, 4), (0, 1)])
def test_the_depth_cap_looks_at_one_record_more_than_it_says(depth: int, tried: int) -> None:
    """slurm.md 1.2 "Depth cap (not on full pass)": the counter is compared before it counts."""
    c = still(f"SchedulerParameters=default_queue_depth={depth}", nodes=200)
    for number in range(1, 151):
        c.submit(number)
    assert c.scheduler.run_pass(full=False) == tried
    assert c.scheduler.run_pass(full=True) == 150 - tried


def test_records_of_a_closed_partition_use_up_the_depth() -> None:
    """slurm.md 1.2 "Depth cap (not on full pass)": 3 closed records leave none for partition b."""
    c = still(TWO + "SchedulerParameters=default_queue_depth=3")
    c.submit(1, nodes=2, partition="a")
    for number in (2, 3, 4):
        c.submit(number, nodes=1, partition="a")
    last = c.submit(5, nodes=1, partition="b")
    c.scheduler.run_pass(full=False)
    assert c.order() == [1]
    assert last.reason == Reason.NONE
    c.scheduler.run_pass(full=True)
    assert c.order() == [1, 5]


def test_the_time_cap_ends_a_pass() -> None:
    """slurm.md 1.2 "Time cap": at 0.5 s a test, max_sched_time=2 leaves four jobs."""
    c = still(nodes=50, costs=HostCosts(main_test_ns=500_000_000))
    for number in range(1, 11):
        c.submit(number)
    assert c.scheduler.run_pass() == 4


@pytest.mark.parametrize(("text", "started"), [("partition_job_depth=2", [1, 2, 4]), ("sched_max_job_start=2", [1, 2])])
def test_other_caps(text: str, started: list[int]) -> None:
    """slurm.md 1.2 "Other caps"."""
    c = still(
        TWO.replace("n[0-3]", "n[0-9]").replace("n[0-1]", "n[0-4]").replace("n[2-3]", "n[5-9]")
        + f"SchedulerParameters={text}"
    )
    for number in (1, 2, 3):
        c.submit(number, partition="a")
    c.submit(4, partition="b")
    c.scheduler.run_pass()
    assert c.order() == started


def test_a_job_that_wants_a_named_node_blocks_only_that_node() -> None:
    """slurm.md 1.2 "What does not close a partition": --nodelist."""
    c = still()
    c.ctld.selection.busy = 0b0001  # type: ignore[attr-defined]
    real = c.ctld.selection.select_nodes

    def picky(job, part, avail, now_s):  # type: ignore[no-untyped-def]
        return real(job, part, avail & 0b0001 if job.request.nodelist else avail, now_s)

    c.ctld.selection.select_nodes = picky  # type: ignore[method-assign]
    c.submit(1, nodelist="n0")
    c.submit(2, nodes=3)
    c.scheduler.run_pass()
    assert c.order() == [2]
    assert c.nodes_of(2) == [1, 2, 3]


def test_a_blocked_job_in_a_reservation_closes_only_the_reservation() -> None:
    """slurm.md 1.2 "What does not close a partition": job in a reservation."""
    c = still()
    c.reservations.inside["r"] = 0b0001
    c.ctld.selection.busy = 0b0001  # type: ignore[attr-defined]
    real = c.ctld.selection.select_nodes

    def inside(job, part, avail, now_s):  # type: ignore[no-untyped-def]
        return real(job, part, c.reservations.usable_nodes(job, avail, now_s, now_s + 1), now_s)

    c.ctld.selection.select_nodes = inside  # type: ignore[method-assign]
    c.submit(1, reservation="r")
    second = c.submit(2, reservation="r")
    c.submit(3, nodes=3)
    c.scheduler.run_pass()
    assert c.order() == [3]
    assert second.reason == Reason.PRIORITY


@pytest.mark.parametrize("text", ["bf_min_age_reserve=600", "bf_min_prio_reserve=10"])
def test_young_or_unimportant_jobs_do_not_close(text: str) -> None:
    """slurm.md 1.2 "What does not close a partition": bf_min_age_reserve, bf_min_prio_reserve."""
    c = still(f"SchedulerParameters={text}")
    c.submit(1, nodes=3)
    c.submit(2, nodes=2, priority=1)
    c.submit(3, nodes=1)
    c.scheduler.run_pass()
    assert c.order() == [1, 3]


def test_jobs_below_their_priority_threshold_do_not_close() -> None:
    """acct_policy_get_prio_thresh() stands in for bf_min_prio_reserve where a limit is set."""
    c = still("SchedulerParameters=bf_min_prio_reserve=1")
    c.limits.thresh = 10
    c.submit(1, nodes=3)
    c.submit(2, nodes=2, priority=1)
    c.submit(3, nodes=1)
    c.scheduler.run_pass()
    assert c.order() == [1, 3]


def test_waiting_for_a_licence_is_skipped() -> None:
    """slurm.md 1.2 "What does not close a partition": licence wait."""
    c = still("Licenses=tool:1")
    c.submit(1, licenses=(("tool", 1),))
    waiting = c.submit(2, licenses=(("tool", 1),))
    c.submit(3)
    c.scheduler.run_pass()
    assert c.order() == [1, 3]
    assert waiting.reason == Reason.LICENSES


def test_with_bf_licenses_the_pass_stops_at_a_licence_wait() -> None:
    """slurm.md 9 "Licences": the main pass leaves the rest to backfill."""
    c = still("Licenses=tool:1\nSchedulerParameters=bf_licenses")
    c.submit(1, licenses=(("tool", 1),))
    c.submit(2, licenses=(("tool", 1),))
    c.submit(3)
    c.scheduler.run_pass()
    assert c.order() == [1]


@pytest.mark.parametrize(("text", "started"), [("", [1, 3]), ("SchedulerParameters=assoc_limit_stop", [1])])
def test_a_limit_is_skipped_unless_assoc_limit_stop(text: str, started: list[int]) -> None:
    """slurm.md 1.2 "What does not close a partition": association/QOS limit."""
    c = still(text)
    c.limits.why[2] = "AssocGrpCpuLimit"
    c.submit(1)
    limited = c.submit(2)
    c.submit(3)
    c.scheduler.run_pass()
    assert c.order() == started
    assert limited.reason == "AssocGrpCpuLimit"


def test_a_job_that_can_never_run_is_held() -> None:
    """slurm.md 1.2 "What does not close a partition": bad constraints (held, priority 0)."""
    c = still()
    real = c.ctld.selection.select_nodes

    def picky(job, part, avail, now_s):  # type: ignore[no-untyped-def]
        never = Refusal("never", Reason.BAD_CONSTRAINTS)
        return never if job.id == 1 else real(job, part, avail, now_s)

    c.ctld.selection.select_nodes = picky  # type: ignore[method-assign]
    c.submit(1)
    c.submit(2)
    c.scheduler.run_pass()
    assert c.lifecycle.held == [1]
    assert c.order() == [2]


def hetjob(c: MiniCluster, numbers: list[int], **more: object) -> list[object]:
    """Components that belong together."""
    jobs = [c.job(number, **more) for number in numbers]  # type: ignore[arg-type]
    for job in jobs:
        job.het_job = jobs
    for job in jobs:
        c.arrive(job)
    return jobs


def test_a_pending_hetjob_closes_its_partition() -> None:
    """slurm.md 1.2 "Pending hetjob": the job behind waits although all nodes are free."""
    c = still()
    hetjob(c, [1])
    c.submit(2)
    c.scheduler.run_pass()
    assert c.order() == []


@pytest.mark.parametrize(("version", "started"), [("22.05", [3]), ("24.11", []), ("26.05", [])])
def test_since_24_11_the_second_component_ends_the_whole_pass(version: str, started: list[int]) -> None:
    """slurm.md 1.2 "Pending hetjob": closing a closed partition leaves the loop, so partition b is not reached."""
    c = still(TWO, version)
    hetjob(c, [1, 2], partition="a")
    c.submit(3, partition="b")
    c.scheduler.run_pass()
    assert c.order() == started


def test_too_few_up_nodes_close_the_partition_with_the_long_reason() -> None:
    """slurm.md 1.2 "Too few up nodes": two of four nodes are down, a three-node job waits for them."""
    c = still()
    c.ctld.nodes.avail = 0b0011
    tall = c.submit(1, nodes=3)
    c.submit(2, nodes=1)
    c.scheduler.run_pass()
    assert c.order() == []
    assert tall.reason == Reason.NODES_DOWN


def test_an_array_starts_task_after_task_and_its_first_failure_rejects_the_rest() -> None:
    """slurm.md 1.2 "Array": four nodes take tasks 0..3; task 4 is not tried again in this pass."""
    c = still()
    meta = c.submit(1, array_waiting=list(range(10)))
    c.scheduler.run_pass()
    assert [(job, task) for _, job, task, _, _ in c.started] == [(1, 0), (1, 1), (1, 2), (1, 3)]
    assert meta.array_waiting == [4, 5, 6, 7, 8, 9]
    assert c.ctld.selection.asked == 5  # type: ignore[attr-defined]


def test_a_rejected_array_does_not_spend_a_second_test() -> None:
    """slurm.md 1.2 "Array": another record of the same array in the same partition is passed over."""
    c = still()
    c.ctld.selection.busy = 0b1111  # type: ignore[attr-defined]
    meta = c.submit(1, array_waiting=[1, 2])
    task = c.job(2, array_task=0, array_job=meta)
    c.arrive(task)
    c.scheduler.run_pass()
    assert c.ctld.selection.asked == 1  # type: ignore[attr-defined]


def test_percent_limits_how_many_tasks_run() -> None:
    """slurm.md 9 "Job arrays": with %2 the third task waits with JobArrayTaskLimit."""
    c = still()
    meta = c.submit(1, array_waiting=[0, 1, 2, 3], array_max=2)
    c.scheduler.run_pass()
    assert len(c.started) == 2
    assert meta.reason == Reason.ARRAY_TASK_LIMIT


def test_the_main_pass_does_not_look_ahead() -> None:
    """slurm.md 1.2 "No look-ahead": backfill planned job 2 on all nodes; a newcomer of higher priority still starts."""
    c = still()
    c.submit(1, nodes=3, limit_s=600)
    c.scheduler.run_pass()
    c.submit(2, nodes=4, priority=2)
    c.scheduler.backfill.run_cycle()
    c.submit(3, nodes=1, limit_s=86_400, priority=3)
    c.scheduler.run_pass()
    assert c.order() == [1, 3]


def test_jobs_in_several_partitions_start_once_and_where_first_possible() -> None:
    """slurm.md 1.2 "Queue build": one record per partition; the start in one takes the others away."""
    c = still(TWO)
    c.submit(1, nodes=2, partition="a")
    job = c.submit(2, nodes=1, partition="a,b")
    c.scheduler.run_pass()
    assert c.order() == [1, 2]
    assert job.part is c.ctld.partitions["b"]
    assert len(c.scheduler.queue) == 0


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"priority": 0}, Reason.HELD_ADMIN),
        ({"begin_s": 1 << 40}, Reason.BEGIN_TIME),
        ({"limit_s": 7200}, Reason.PARTITION_TIME_LIMIT),
    ],
)
def test_what_is_not_runnable_is_not_in_the_queue(attributes: dict[str, int], reason: str) -> None:
    """slurm.md 1.2 "Queue build": held, too early, beyond the partition's limit; each with its reason, none blocks."""
    c = still("NodeName=n0 CPUs=1\nPartitionName=main Nodes=n0 MaxTime=60")
    job = c.submit(1, **attributes)  # type: ignore[arg-type]
    c.submit(2)
    c.scheduler.run_pass()
    assert c.order() == [2]
    assert job.reason == reason


def test_a_dependency_keeps_a_job_out_until_it_is_met() -> None:
    """slurm.md 1.2 "Queue build": tested again before every pass."""
    c = still()
    c.lifecycle.depends[1] = DependState.NOT_YET
    job = c.submit(1, dependency=["afterok:7"])
    c.scheduler.run_pass()
    assert (c.order(), job.reason) == ([], Reason.DEPENDENCY)
    c.lifecycle.depends[1] = DependState.SATISFIED
    c.scheduler.run_pass()
    assert (c.order(), job.eligible_s) == ([1], c.ctld.now_s())


def test_reduce_completing_frag_blocks_only_the_partition_of_a_completing_job() -> None:
    """slurm.md 1.1 "Whole pass skipped": unless reduce_completing_frag, which closes the affected partitions."""
    c = still(TWO + "CompleteWait=30\nSchedulerParameters=reduce_completing_frag")
    ended = c.job(9, partition="a")
    ended.state, ended.completing, ended.end_s, ended.part = JobState.COMPLETED, True, c.ctld.now_s(), ended.parts[0]
    c.ctld.completing[9] = ended
    c.submit(1, partition="a")
    c.submit(2, partition="b")
    c.scheduler.run_pass()
    assert c.order() == [2]


def test_preempted_victims_are_told_once_and_the_preemptor_waits() -> None:
    """slurm.md 3.2 "Timing": the preemptor stays pending with Resources until its victims are gone."""
    c = still()
    victim = c.submit(1, nodes=4)
    c.scheduler.run_pass()
    real = c.ctld.selection.select_nodes

    def over(job, part, avail, now_s):  # type: ignore[no-untyped-def]
        found = real(job, part, avail, now_s)
        if isinstance(found, Placement) or job.id != 2:
            return found
        return Placement(victim.alloc, (victim,))

    c.ctld.selection.select_nodes = over  # type: ignore[method-assign]
    c.submit(2, nodes=4)
    c.scheduler.run_pass()
    c.scheduler.run_pass()
    assert c.lifecycle.preempted == [(1, 2)]
    assert c.order() == [1]


def test_a_deadline_that_cannot_be_met_ends_the_job() -> None:
    """man sbatch --deadline: tested when the job is looked at."""
    c = still()
    job = c.submit(1, limit_s=600, deadline_s=c.ctld.now_s() + 300)
    c.scheduler.run_pass()
    assert job.state is JobState.DEADLINE


def test_a_record_that_has_left_the_queue_is_freed_without_the_collector() -> None:
    """Its sort entry names it: were it named back, each job of a long run would wait for a full collection."""
    gc.collect()
    gc.disable()
    try:
        c = still()
        for number in range(1, 9):
            c.submit(number, nodes=1)
        c.scheduler.run_pass()
        left = sum(type(found) is QueueRecord and found.gone for found in gc.get_objects())
    finally:
        gc.enable()
    assert len(c.order()) == 4
    assert left == 0
