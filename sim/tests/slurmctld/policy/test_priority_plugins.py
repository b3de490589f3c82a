"""priority/basic and priority/multifactor against sums worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmtwin.contract.clock import HOUR, MINUTE, SECOND
from slurmtwin.contract.events import Kind

Make = Callable[..., Any]
ACCOUNTS = ["add account a", "add account b", "add user ann account=a", "add user bob account=b"]


def test_basic_counts_down(bench: Make) -> None:
    """Each new job gets one less than the last, so the order is that of submission. slurm.md 3.1 "priority/basic"."""
    b = bench(conf={"PriorityType": "priority/basic"})
    assert [b.job().priority for _ in range(3)] == [0xFFFF_0000 - 1, 0xFFFF_0000 - 2, 0xFFFF_0000 - 3]


def test_basic_takes_nice_off_and_does_not_pass_it_on(bench: Make) -> None:
    """Nice lowers one job; the next continues from where it would have been. slurm.md 3.1 "priority/basic"."""
    b = bench(conf={"PriorityType": "priority/basic"})
    first, nice, after = b.job(), b.job(nice=100), b.job()
    assert nice.priority == first.priority - 1 - 100
    assert after.priority == first.priority - 2


def test_basic_negative_nice_raises(bench: Make) -> None:
    """A negative nice lifts a job above older ones."""
    b = bench(conf={"PriorityType": "priority/basic"})
    first, lifted = b.job(), b.job(nice=-10)
    assert lifted.priority == first.priority - 1 + 10


def test_without_weights_every_job_has_priority_one(bench: Make) -> None:
    """All weights are 0 by default: priority 1, so submit time decides. slurm.md 3.1 "priority/basic"."""
    b = bench()
    assert [b.job().priority, b.job(nice=50).priority, b.job(nice=-7).priority] == [1, 1, 7]


def test_held_is_zero(bench: Make) -> None:
    """0 means held, whatever the factors."""
    b = bench(conf={"PriorityWeightJobSize": 1000})
    job = b.job(enter=False)
    job.held = True
    b.enter(job)
    assert job.priority == 0


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 1000 * (2 / 4 + 8 / 16) / 2),
        ({"PriorityFavorSmall": "YES"}, 1000 * ((4 - 2) / 4 + (16 - 8) / 16) / 2),
        ({"PriorityFlags": "SMALL_RELATIVE_TO_TIME"}, 1000 * max(2 * 16 / 4, 8) / 10 / 16),
        ({"PriorityFlags": "SMALL_RELATIVE_TO_TIME", "PriorityFavorSmall": "YES"}, 1000 * (1 - 8 / 10 / 16)),
    ],
)
def test_job_size(bench: Make, options: dict[str, str], expected: float) -> None:
    """Shares of nodes and CPUs, or CPUs over the limit in minutes. slurm.md 3.1 "J job size (favour large)"."""
    b = bench(conf={"PriorityWeightJobSize": 1000} | options)
    assert b.job(nodes_min=2, ntasks=8, limit_ns=10 * MINUTE).priority == int(expected)


def test_partition_factor_per_partition(bench: Make) -> None:
    """A job in two partitions has a priority in each; the partitions are tried by tier.

    slurm.md 3.1 "P, Q, S", slurm.md 3.1 "Multi-partition".
    """
    parts = [
        {"PartitionName": "low", "Nodes": "ALL", "PriorityJobFactor": 10, "Default": "YES"},
        {"PartitionName": "high", "Nodes": "ALL", "PriorityJobFactor": 40, "PriorityTier": 5},
    ]
    b = bench(conf={"PriorityWeightPartition": 1000}, partitions=parts)
    job = b.job(partition="low,high")
    assert [p.name for p in job.parts] == ["high", "low"]
    assert job.prio_by_part == [1000, 250]
    assert b.job(partition="low").priority == 250


def test_no_normal_flags_use_raw_values(bench: Make) -> None:
    """NO_NORMAL_PART, _QOS and _ASSOC multiply the bare priorities. slurm.md 3.1 "P, Q, S"."""
    conf = {"PriorityWeightPartition": 2, "PriorityWeightQOS": 3, "PriorityWeightAssoc": 5}
    parts = [{"PartitionName": "main", "Nodes": "ALL", "PriorityJobFactor": 7, "Default": "YES"}]
    lines = [*ACCOUNTS, "add qos high priority=11", "modify user ann set qos+=high priority=13"]
    raw = bench(conf=conf | {"PriorityFlags": "NO_NORMAL_ALL"}, partitions=parts, accounting=lines)
    assert raw.job(user="ann", qos="high").priority == 2 * 7 + 3 * 11 + 5 * 13
    norm = bench(conf=conf, partitions=parts, accounting=lines)
    assert norm.job(user="ann", qos="high").priority == 2 + 3 + 5


def test_qos_and_association_priorities_are_relative_to_the_highest(bench: Make) -> None:
    """Q = QOS priority / max, S = association priority / max. slurm.md 3.1 "P, Q, S"."""
    lines = [
        *ACCOUNTS, "add qos high priority=200", "add qos mid priority=50",
        "modify user ann set qos+=high,mid priority=10", "modify user bob set priority=4",
    ]  # fmt: skip
    b = bench(conf={"PriorityWeightQOS": 1000, "PriorityWeightAssoc": 100}, accounting=lines)
    assert b.job(user="ann", qos="mid").priority == 250 + 100
    assert b.job(user="bob").priority == 0 + 40


def test_tres_factor(bench: Make) -> None:
    """Per TRES the share of what the partition has; the bare amount with NO_NORMAL_TRES. slurm.md 3.1 "T"."""
    conf = {"PriorityWeightTRES": "CPU=1000,Mem=2000"}
    job: dict[str, Any] = {"ntasks": 4, "mem_per_node_mib": 500, "nodes_min": 1}
    b = bench(conf=conf)
    assert b.job(**job).priority == int(1000 * 4 / 16 + 2000 * 500 / 4000)
    bare = bench(conf=conf | {"PriorityFlags": "NO_NORMAL_TRES"})
    assert bare.job(**job).priority == 1000 * 4 + 2000 * 500


def test_priority_has_32_bits_and_never_reaches_zero(bench: Make) -> None:
    """Clamped to [1, 2^32 - 1]: 0 would mean held. slurm.md 3.1 "P, Q, S"."""
    b = bench(conf={"PriorityWeightJobSize": 4_000_000_000})
    assert b.job(nodes_min=4, ntasks=16, nice=-2_000_000_000).priority == 0xFFFF_FFFF
    assert b.job(nice=2_147_483_645).priority == 1


def test_age_is_frozen_between_calculations(bench: Make) -> None:
    """Age counts at the calculations every PriorityCalcPeriod only, from eligibility.

    slurm.md 3.1 "A age", slurm.md 3.1 "Recalculation".
    """
    conf = {"PriorityWeightAge": 100_000, "PriorityMaxAge": "0-01:00:00", "PriorityCalcPeriod": 5}
    b = bench(conf=conf, accounting=ACCOUNTS)
    b.until(100)
    job = b.job(user="ann")
    assert job.priority == 1  # 0 * weight, at least 1
    b.until(299)
    assert job.priority == 1
    b.until(301)
    assert job.priority == int(100_000 * 200 / 3600)
    b.until(599)
    assert job.priority == int(100_000 * 200 / 3600)
    b.until(100 + 3 * 3600)
    assert job.priority == 100_000  # no more than PriorityMaxAge


def test_age_needs_eligibility_unless_accrue_always(bench: Make) -> None:
    """A job that waits for its begin time gathers no age, except with ACCRUE_ALWAYS. slurm.md 3.1 "A age"."""
    conf = {"PriorityWeightAge": 100_000, "PriorityMaxAge": "0-01:00:00"}
    for flags, expected in (({}, 1), ({"PriorityFlags": "ACCRUE_ALWAYS"}, int(100_000 * 600 / 3600))):
        b = bench(conf=conf | flags, accounting=ACCOUNTS)
        job = b.job(user="ann", eligible=False)
        b.until(601)
        assert job.priority == expected


def test_without_slurmdbd_age_and_fair_share_weigh_nothing(bench: Make) -> None:
    """No database: the calculation thread does not run. slurm.md 3.1 "needs accounting"."""
    b = bench(conf={"PriorityWeightAge": 100_000, "PriorityWeightFairshare": 100_000, "PriorityWeightJobSize": 1000})
    job = b.job(nodes_min=4, ntasks=16)
    b.until(3601)
    assert job.priority == 1000


def test_priority_set_by_hand_stays(bench: Make) -> None:
    """scontrol update Priority= survives the calculations. slurm.md 3.1 "Recalculation"."""
    b = bench(conf={"PriorityWeightAge": 100_000}, accounting=ACCOUNTS)
    job = b.job(user="ann")
    job.direct_prio = True
    job.priority = 42
    b.until(7 * 86_400)
    assert job.priority == 42


def test_an_idle_cluster_costs_no_events(bench: Make) -> None:
    """No job waits: no calculation is armed; it is made up when the next job comes."""
    b = bench(conf={"PriorityWeightFairshare": 1000}, accounting=ACCOUNTS)
    b.until(300 * 86_400)
    assert b.env.event_count <= 3


def test_a_waiting_job_makes_backfill_look_again_every_period(bench: Make) -> None:
    """The calculation stamps last_job_update for any waiting job, also without weights.

    slurm.md 3.1 "Recalculation".
    """
    b = bench(accounting=ACCOUNTS)
    b.until(10)
    b.job(user="ann")
    b.ctl.last_job_update_s = 0
    b.until(299)
    assert b.ctl.last_job_update_s == 0
    b.until(301)
    assert b.ctl.last_job_update_s == b.ctl.epoch_ns // SECOND + 300
    b.sink.close()
    assert b.sink.kept is not None
    assert not [e for e in b.sink.kept if e.kind is Kind.SCHED_PRIORITY_PASS]  # nothing was weighed


def test_incr_only_never_lowers(bench: Make) -> None:
    """INCR_ONLY keeps the highest priority a job ever had."""
    conf = {"PriorityWeightFairshare": 10_000, "PriorityFlags": "INCR_ONLY", "AccountingStorageEnforce": "limits"}
    b = bench(conf=conf, accounting=ACCOUNTS)
    waiting, running = b.job(user="ann"), b.job(user="ann", limit_ns=24 * HOUR)
    before = waiting.priority
    b.start(running)
    b.until(601)
    assert waiting.priority == before
