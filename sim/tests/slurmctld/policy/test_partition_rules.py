"""Partition limits, states and access lists: refused at submit, waiting, or passed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmtwin.contract.clock import HOUR, MINUTE

Make = Callable[..., Any]
TIME = "Requested time limit is invalid (missing or exceeds some limit)"
NODES = "Node count specification invalid"


def part(**options: Any) -> list[dict[str, Any]]:
    return [{"PartitionName": "main", "Nodes": "ALL", "Default": "YES"} | options]


@pytest.mark.parametrize(
    ("options", "job", "refusal", "reason"),
    [
        ({"MaxTime": 60}, {"limit_ns": 2 * HOUR}, TIME, "PartitionTimeLimit"),
        ({"MaxNodes": 2}, {"nodes_min": 3}, NODES, "PartitionNodeLimit"),
        ({"MaxCPUsPerNode": 2}, {"ntasks": 9}, "More processors requested than permitted", "PartitionConfig"),
        ({}, {"nodes_min": 9}, NODES, "PartitionNodeLimit"),
        ({}, {"ntasks": 99}, "More processors requested than permitted", "PartitionConfig"),
    ],
)
def test_enforce_part_limits_decides_between_refusal_and_waiting(
    bench: Make, options: dict[str, Any], job: dict[str, Any], refusal: str, reason: str
) -> None:
    """EnforcePartLimits=ALL refuses at submit; NO accepts and the job waits with the partition's reason.

    slurm.md 1.2 "Queue build".
    """
    strict = bench(conf={"EnforcePartLimits": "ALL"}, partitions=part(**options))
    assert strict.ctl.limits.admit(strict.job(**job, enter=False)) == refusal
    b = bench(partitions=part(**options))
    waiting = b.job(**job)
    assert b.ctl.partition_limits.pending(waiting, waiting.part) == reason


def test_time_min_is_what_backfill_holds_against_max_time(bench: Make) -> None:
    """A job over MaxTime with a --time-min inside it can still be backfilled."""
    b = bench(partitions=part(MaxTime=60))
    job = b.job(limit_ns=2 * HOUR, time_min_ns=30 * MINUTE)
    assert b.ctl.partition_limits.pending(job, job.part) == "PartitionTimeLimit"
    assert b.ctl.partition_limits.pending(job, job.part, True) is None


def test_default_time_is_the_limit_of_a_job_that_names_none(bench: Make) -> None:
    """DefaultTime fills in at submit; without it the limit stays open."""
    assert bench(partitions=part(DefaultTime=30)).job().limit_s == 1800
    assert bench(partitions=part(MaxTime=60)).job().limit_s is None


def test_min_nodes_raises_the_request(bench: Make) -> None:
    """A job that fixes no node count gets at least MinNodes; --nodes=1 waits, or is refused."""
    b = bench(partitions=part(MinNodes=2))
    assert b.job(ntasks=1).nodes_min == 2
    waiting = b.job(nodes_min=1)
    assert b.ctl.partition_limits.pending(waiting, waiting.part) == "PartitionNodeLimit"


@pytest.mark.parametrize(
    ("state", "refused", "reason"),
    [
        ("UP", False, None),
        ("DOWN", False, "PartitionDown"),
        ("DRAIN", True, None),
        ("INACTIVE", True, "PartitionInactive"),
    ],
)
def test_partition_states(bench: Make, state: str, refused: bool, reason: str | None) -> None:
    """DOWN queues, DRAIN starts what is queued, INACTIVE does neither. slurm.md 1.2 "Queue build"."""
    b = bench(partitions=part(State=state))
    job = b.job(enter=False)
    answer = b.ctl.limits.admit(job)
    assert (answer == "Required partition not available (inactive or drain)") is refused
    job.parts = [b.ctl.partitions["main"]]
    assert b.ctl.partition_limits.pending(job, b.ctl.partitions["main"]) == reason


def test_closed_partitions_are_dropped_from_a_list(bench: Make) -> None:
    """--partition=a,b with a INACTIVE: b remains."""
    parts = [{"PartitionName": "a", "Nodes": "ALL", "State": "INACTIVE"}, {"PartitionName": "b", "Nodes": "ALL"}]
    b = bench(partitions=parts)
    assert [p.name for p in b.job(partition="a,b").parts] == ["b"]


def test_any_needs_one_partition_that_fits(bench: Make) -> None:
    """EnforcePartLimits=ANY accepts when one of the partitions would take the job, ALL only when all do."""
    parts = [{"PartitionName": "s", "Nodes": "n1"}, {"PartitionName": "l", "Nodes": "ALL"}]
    for enforce, refusal in (("ANY", None), ("ALL", NODES)):
        b = bench(conf={"EnforcePartLimits": enforce}, partitions=parts)
        assert b.ctl.limits.admit(b.job(partition="s,l", nodes_min=2, enter=False)) == refusal


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_access_lists_hold_the_job_where_limits_are_not_enforced(bench: Make, version: str) -> None:
    """AllowAccounts, DenyAccounts, AllowQOS: AccountNotAllowed or QOSNotAllowed at the start attempt."""
    lines = ["add account a", "add account b", "add user ann account=a", "add user bob account=b"]
    conf = {"AccountingStorageEnforce": "associations"}
    for options, reason in (
        ({"AllowAccounts": "b"}, "AccountNotAllowed"),
        ({"DenyAccounts": "a"}, "AccountNotAllowed"),
        ({"AllowQos": "high"}, "QOSNotAllowed"),
        ({"DenyQos": "normal"}, "QOSNotAllowed"),
    ):
        b = bench(version=version, conf=conf, partitions=part(**options), accounting=[*lines, "add qos high"])
        job = b.job(user="ann")
        assert b.ctl.partition_limits.select(job, job.part) == reason


def test_allow_accounts_covers_child_accounts_since_23(bench: Make) -> None:
    """AllowAccounts=top lets top's child accounts in on 26.05, not on 22.05."""
    lines = ["add account top", "add account low parent=top", "add user ann account=low"]
    for version, reason in (("22.05", "AccountNotAllowed"), ("26.05", None)):
        conf = {"AccountingStorageEnforce": "associations"}
        b = bench(version=version, conf=conf, partitions=part(AllowAccounts="top"), accounting=lines)
        job = b.job(user="ann")
        assert b.ctl.partition_limits.select(job, job.part) == reason


def test_some_rules_refuse_whatever_is_enforced(bench: Make) -> None:
    """RootOnly, ReqResv and DisableRootJobs refuse the submit even with EnforcePartLimits=NO."""
    denied = "Access/permission denied"
    b = bench(partitions=part(RootOnly="YES"))
    assert b.ctl.limits.admit(b.job(user="ann", enter=False)) == denied
    assert b.ctl.limits.admit(b.job(enter=False)) is None
    b = bench(partitions=part(ReqResv="YES"))
    assert b.ctl.limits.admit(b.job(enter=False)) == denied
    b = bench(partitions=part(DisableRootJobs="YES"))
    assert b.ctl.limits.admit(b.job(enter=False)) == "Invalid user id"


def test_nodelist_must_lie_in_the_partition(bench: Make) -> None:
    """--nodelist outside the partition: refused under EnforcePartLimits=ALL."""
    b = bench(conf={"EnforcePartLimits": "ALL"}, partitions=part(Nodes="n[1-2]"))
    refused = b.ctl.limits.admit(b.job(nodelist="n3", enter=False))
    assert refused == "Requested nodes not in this partition"


def test_qos_flags_lift_partition_limits(bench: Make) -> None:
    """PartitionTimeLimit, PartitionMaxNodes, PartitionMinNodes: the QOS' jobs may go past the partition's."""
    lines = ["add account a", "add user ann account=a",
             "add qos free flags=PartitionTimeLimit,PartitionMaxNodes", "modify user ann set qos+=free"]  # fmt: skip
    b = bench(partitions=part(MaxTime=60, MaxNodes=1), accounting=lines)
    job = b.job(user="ann", qos="free", nodes_min=3, limit_ns=5 * HOUR)
    assert b.ctl.partition_limits.pending(job, job.part) is None


def test_licences_are_taken_at_start_and_given_back_at_the_end(bench: Make) -> None:
    """Cluster-wide counters; a request above the total can never run. slurm.md 9 "Licences"."""
    b = bench(conf={"Licenses": "matlab:3,ansys"})
    pool = b.ctl.licenses
    first, second = b.job(licenses="matlab:2"), b.job(licenses="matlab:2,ansys")
    assert pool.available(first)
    b.start(first)
    assert not pool.available(second)
    b.end(first)
    assert pool.available(second)
    assert not pool.ever(b.job(licenses="matlab:4", enter=False))
    assert not pool.ever(b.job(licenses="unknown", enter=False))


def test_the_implied_node_count_is_not_held_against_max_nodes(bench: Make) -> None:
    """--ntasks=3 in a partition of MaxNodes=1 is accepted and runs on one node, as real 26.05.5 does."""
    b = bench(conf={"EnforcePartLimits": "ALL"}, partitions=part(MaxNodes=1))
    job = b.job(ntasks=3)
    assert b.ctl.partition_limits.pending(job, job.part) is None
