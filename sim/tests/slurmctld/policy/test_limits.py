"""Association and QOS limits: what is refused at submit, what waits, and with which reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmtwin.contract.clock import HOUR, MINUTE
from slurmtwin.models.slurmctld.limit_reasons import LimitKind, tres_reason
from slurmtwin.models.slurmctld.selection.cluster_view import ClusterView

Make = Callable[..., Any]
USERS = ["add account a", "add user ann account=a", "add user al account=a"]
ENFORCED = {"AccountingStorageEnforce": "limits,qos"}


def limited(bench: Make, *lines: str, **kw: Any) -> Any:
    return bench(conf=ENFORCED | kw.pop("conf", {}), accounting=[*USERS, *lines], **kw)


def fits(b: Any, job: Any, nodes: int | None = None) -> str | None:
    """Both checks of a start: before and after the choice of nodes."""
    return b.ctl.limits.runnable(job) or b.ctl.limits.runnable_with(job, b.allocation(job, nodes))


def test_without_an_association_the_submit_is_refused(bench: Make) -> None:
    """AccountingStorageEnforce=associations: unknown user or account is refused in sbatch's words."""
    for enforce in ("associations", "limits", "qos"):
        b = bench(conf={"AccountingStorageEnforce": enforce}, accounting=USERS)
        words = "Invalid account or account/partition combination specified"
        assert b.ctl.limits.admit(b.job(user="stranger", enter=False)) == words
        assert b.ctl.limits.admit(b.job(user="ann", account="nowhere", enter=False)) == words
        assert b.ctl.limits.admit(b.job(user="ann", account="A", enter=False)) is None


def test_without_enforcement_an_unknown_account_falls_back(bench: Make) -> None:
    """The user's default account serves; a user without association runs without one."""
    b = bench(accounting=USERS)
    assert b.job(user="ann", account="nowhere").account == "a"
    assert b.job(user="stranger").assoc is None


def test_qos_must_be_granted(bench: Make) -> None:
    """AccountingStorageEnforce=qos: a QOS outside the association's list is refused; without it it is taken."""
    lines = [*USERS, "add qos high", "add qos mine", "modify user ann set qos+=mine"]
    b = bench(conf=ENFORCED, accounting=lines)
    assert b.ctl.limits.admit(b.job(user="ann", qos="high", enter=False)) == "Invalid qos specification"
    assert b.job(user="ann", qos="Mine").qos == "mine"
    assert b.job(user="al").qos == "normal"
    assert b.job(user="ann").qos == "normal"  # += adds to what the account has
    loose = bench(accounting=lines)
    assert loose.job(user="ann", qos="high").qos == "high"


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("modify user ann set maxsubmitjobs=2", "AssocMaxSubmitJobLimit"),
        ("modify account a set grpsubmitjobs=2", "AssocGrpSubmitJobsLimit"),
        ("modify qos normal set maxsubmitjobsperuser=2", "QOSMaxSubmitJobPerUserLimit"),
        ("modify qos normal set maxsubmitjobsperaccount=2", "MaxSubmitJobsPerAccount"),
        ("modify qos normal set grpsubmitjobs=2", "QOSGrpSubmitJobsLimit"),
    ],
)
def test_submit_counts_are_always_refused(bench: Make, limit: str, reason: str) -> None:
    """Numbers of submitted jobs are refused at submit, with or without DenyOnLimit; a job that left frees its place."""
    b = limited(bench, limit)
    first = b.job(user="ann")
    b.job(user="ann")
    assert b.ctl.limits.admit(b.job(user="ann", enter=False)) == reason
    b.ctl.limits.job_left(first)
    assert b.ctl.limits.admit(b.job(user="ann", enter=False)) is None


def test_every_array_task_counts_as_submitted(bench: Make) -> None:
    """An array of 3 is 3 jobs for MaxSubmitJobs."""
    b = limited(bench, "modify user ann set maxsubmitjobs=4")
    array = b.job(user="ann", enter=False)
    array.array_waiting = [0, 1, 2]
    assert b.ctl.limits.admit(array) is None
    b.enter(array)
    again = b.job(user="ann", enter=False)
    again.array_waiting = [0, 1]
    assert b.ctl.limits.admit(again) == "AssocMaxSubmitJobLimit"


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("modify user ann set maxjobs=1", "AssocMaxJobsLimit"),
        ("modify account a set grpjobs=1", "AssocGrpJobsLimit"),
        ("modify qos normal set maxjobsperuser=1", "QOSMaxJobsPerUserLimit"),
        ("modify qos normal set maxjobsperaccount=1", "MaxJobsPerAccount"),
        ("modify qos normal set grpjobs=1", "QOSGrpJobsLimit"),
        ("modify user ann set grptres=cpu=4", "AssocGrpCpuLimit"),
        ("modify account a set grptres=cpu=4", "AssocGrpCpuLimit"),
        ("modify account a set grptres=mem=500", "AssocGrpMemLimit"),
        ("modify account a set grptres=node=1", "AssocGrpNodeLimit"),
        ("modify account a set grptres=billing=4", "AssocGrpBilling"),
        ("modify qos normal set grptres=cpu=4", "QOSGrpCpuLimit"),
        ("modify qos normal set grptres=mem=500", "QOSGrpMemLimit"),
        ("modify qos normal set maxtresperuser=cpu=4", "QOSMaxCpuPerUserLimit"),
        ("modify qos normal set maxtresperuser=node=1", "QOSMaxNodePerUserLimit"),
        ("modify qos normal set maxtresperuser=mem=500", "QOSMaxMemoryPerUser"),
        ("modify qos normal set maxtresperaccount=cpu=4", "MaxCpuPerAccount"),
        ("modify account a set grptresrunmins=cpu=200", "AssocGrpCPURunMinutesLimit"),
        ("modify qos normal set grptresrunmins=mem=31000", "QOSGrpMemoryRunMinutes"),
    ],
)
def test_one_runs_and_the_next_waits(bench: Make, limit: str, reason: str) -> None:
    """A first job of 3 CPUs, 500 MiB, 1 h starts; its twin waits with the limit's reason until the first ends."""
    b = limited(bench, limit)
    shape: dict[str, Any] = {"user": "ann", "ntasks": 3, "nodes_min": 1, "mem_per_node_mib": 500, "limit_ns": HOUR}
    first, second = b.job(**shape), b.job(**shape)
    assert fits(b, first) is None
    b.start(first, nodes=0b1)
    assert fits(b, second, nodes=0b10) == reason
    b.end(first)
    assert fits(b, second, nodes=0b10) is None


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("modify user ann set maxtres=cpu=2", "AssocMaxCpuPerJobLimit"),
        ("modify account a set maxtres=node=1", "AssocMaxNodePerJobLimit"),
        ("modify user ann set maxtrespernode=cpu=1", "AssocMaxCpuPerNode"),
        ("modify user ann set maxtresmins=cpu=100", "AssocMaxCpuMinutesPerJobLimit"),
        ("modify user ann set maxwall=30", "AssocMaxWallDurationPerJobLimit"),
        ("modify qos normal set maxtres=cpu=2", "QOSMaxCpuPerJobLimit"),
        ("modify qos normal set maxtres=node=1", "QOSMaxNodePerJobLimit"),
        ("modify qos normal set maxtrespernode=cpu=1", "QOSMaxCpuPerNode"),
        ("modify qos normal set maxtresmins=cpu=100", "QOSMaxCpuMinutesPerJobLimit"),
        ("modify qos normal set maxwall=30", "QOSMaxWallDurationPerJobLimit"),
        ("modify qos normal set mintres=cpu=5", "QOSMinCpuNotSatisfied"),
        ("modify account a set grpwall=30", None),
    ],
)
def test_a_job_over_a_per_job_limit_waits_or_is_refused(bench: Make, limit: str, reason: str | None) -> None:
    """4 tasks on 2 nodes for 1 h: accepted and waiting by default, refused at submit with DenyOnLimit."""
    shape: dict[str, Any] = {"user": "ann", "ntasks": 4, "nodes_min": 2, "limit_ns": HOUR}
    b = limited(bench, limit)
    assert fits(b, b.job(**shape)) == reason
    strict = limited(bench, limit, "modify qos normal set flags=DenyOnLimit")
    refused = strict.ctl.limits.admit(strict.job(**shape, enter=False))
    assert refused == (reason or "AssocGrpWallLimit")


def test_partition_qos_comes_before_the_jobs_own(bench: Make) -> None:
    """The partition's QOS decides a limit both set, unless the job's QOS has OverPartQOS."""
    part = {"PartitionName": "main", "Nodes": "ALL", "Default": "YES", "QOS": "lax"}
    for flag, reason in (("", None), ("flags=OverPartQOS", "QOSMaxCpuPerUserLimit")):
        b = limited(
            bench, "add qos lax maxtresperuser=cpu=100", "modify qos normal set maxtresperuser=cpu=2 " + flag,
            partitions=[part],
        )  # fmt: skip
        assert fits(b, b.job(user="ann", ntasks=4, limit_ns=HOUR)) == reason


def test_a_qos_limit_overrides_the_associations(bench: Make) -> None:
    """The first that sets a limit decides, also when it is laxer: QOS GrpTRES=cpu=8 beats the account's 2."""
    b = limited(bench, "modify account a set grptres=cpu=2", "modify qos normal set grptres=cpu=8")
    assert fits(b, b.job(user="ann", ntasks=4, limit_ns=HOUR)) is None


def test_limits_of_all_parents_hold(bench: Make) -> None:
    """GrpTRES of root's child is tested for users two levels down."""
    lines = ["add account top grptres=cpu=2", "add account low parent=top", "add user deep account=low"]
    b = bench(conf=ENFORCED, accounting=lines)
    assert fits(b, b.job(user="deep", ntasks=3, limit_ns=HOUR)) == "AssocGrpCpuLimit"


def test_shared_nodes_count_once(bench: Make) -> None:
    """GrpTRES=node=1: a second job on the same node is fine, on another it waits."""
    b = limited(bench, "modify account a set grptres=node=1")
    first, second = b.job(user="ann", limit_ns=HOUR), b.job(user="al", limit_ns=HOUR)
    b.start(first, nodes=0b1)
    assert fits(b, second, nodes=0b1) is None
    assert fits(b, second, nodes=0b10) == "AssocGrpNodeLimit"


def test_a_missing_time_limit_is_filled_in_from_limits(bench: Make) -> None:
    """No --time: MaxWall of QOS or association becomes the job's limit."""
    b = limited(bench, "modify user ann set maxwall=45")
    job = b.job(user="ann")
    assert (job.limit_s, job.limit_set) == (45 * 60, True)
    b = limited(bench, "modify qos normal set maxwall=20")
    assert b.job(user="ann").limit_s == 20 * 60
    assert b.job(user="ann", limit_ns=10 * MINUTE).limit_s == 600


def test_group_minutes_used_up_hold_jobs_back(bench: Make) -> None:
    """GrpTRESMins: nothing starts once the decayed usage reached it; under safe a job must fit in what is left."""
    conf = {"PriorityDecayHalfLife": "0", "PriorityUsageResetPeriod": "YEARLY"}
    b = limited(bench, "modify account a set grptresmins=cpu=10", conf=conf)
    first, second = b.job(user="ann", limit_ns=HOUR), b.job(user="ann", limit_ns=HOUR)
    assert fits(b, first) is None
    b.start(first)
    b.until(599)
    assert fits(b, second) is None
    assert not b.ctl.limits.timed_out(first)
    b.until(601)
    assert fits(b, second) == "AssocGrpCPUMinutesLimit"
    assert b.ctl.limits.timed_out(first)
    safe = limited(
        bench, "modify account a set grptresmins=cpu=10", conf=conf | {"AccountingStorageEnforce": "safe,qos"}
    )
    assert fits(safe, safe.job(user="ann", limit_ns=HOUR)) == "AssocGrpCPUMinutesLimit"
    small = safe.job(user="ann", limit_ns=6 * MINUTE)
    assert fits(safe, small) is None
    safe.start(small)
    assert fits(safe, safe.job(user="ann", limit_ns=6 * MINUTE)) == "AssocGrpCPUMinutesLimit"
    assert fits(safe, safe.job(user="ann", limit_ns=4 * MINUTE)) is None


def test_run_minutes_shrink_as_the_job_runs(bench: Make) -> None:
    """GrpTRESRunMins counts what running jobs may still use: their limits less what was charged."""
    b = limited(bench, "modify account a set grptresrunmins=cpu=60")
    first, second = b.job(user="ann", limit_ns=HOUR), b.job(user="ann", limit_ns=10 * MINUTE)
    b.start(first)
    assert fits(b, second) == "AssocGrpCPURunMinutesLimit"
    b.until(601)
    assert fits(b, second) is None
    b.end(first)
    tree = b.ctl.limits._tree
    assert all(x == 0 for a in tree.assocs for x in a.counters.run_secs)


def test_group_wall(bench: Make) -> None:
    """GrpWall: seconds of all jobs of the account, in whole minutes."""
    b = limited(bench, "modify account a set grpwall=10", conf={"PriorityDecayHalfLife": "14-00:00:00"})
    first, second = b.job(user="ann", limit_ns=HOUR), b.job(user="al", limit_ns=HOUR)
    b.start(first)
    b.until(301)
    assert fits(b, second) is None
    b.until(901)
    assert fits(b, second) == "AssocGrpWallLimit"


def test_node_limits_cap_what_selection_may_take(bench: Make) -> None:
    """acct_policy_get_max_nodes(): the smallest node limit, with its reason."""
    b = limited(bench, "modify account a set grptres=node=3", "modify qos normal set maxtres=node=2")
    job = b.job(user="ann")
    assert b.ctl.limits.max_nodes(job, job.part) == (2, "QOSMaxNodePerJobLimit")
    b = limited(bench, "modify account a set grptres=node=3")
    job = b.job(user="ann")
    assert b.ctl.limits.max_nodes(job, job.part) == (3, "AssocGrpNodeLimit")
    b = limited(bench)
    job = b.job(user="ann")
    assert b.ctl.limits.max_nodes(job, job.part) is None


def test_limit_factor_scales_association_limits(bench: Make) -> None:
    """A QOS with LimitFactor=2 lets its jobs have twice the association's GrpTRES."""
    lines = ("modify account a set grptres=cpu=4", "add qos big limitfactor=2", "modify user ann set qos+=big")
    b = limited(bench, *lines)
    assert fits(b, b.job(user="ann", ntasks=6, limit_ns=HOUR)) == "AssocGrpCpuLimit"
    assert fits(b, b.job(user="ann", ntasks=6, limit_ns=HOUR, qos="big")) is None


def test_counters_return_to_zero(bench: Make) -> None:
    """After all jobs ended nothing is counted anywhere."""
    b = limited(bench, "modify account a set grptres=cpu=100,node=4,mem=9000 grptresrunmins=cpu=99999")
    jobs = [b.job(user="ann", ntasks=2, mem_per_node_mib=100, limit_ns=HOUR) for _ in range(4)]
    for place, job in enumerate(jobs):
        b.until(place * 400 + 1)
        b.start(job, nodes=0b11 << place % 2)
    for place, job in enumerate(jobs):
        b.until(3000 + place)
        b.end(job)
    tree = b.ctl.limits._tree
    counters = [a.counters for a in tree.assocs] + [q.counters for q in tree.qos.values()]
    counters += [c for q in tree.qos.values() for c in (*q.by_user.values(), *q.by_account.values())]
    assert all(c.jobs == c.submit_jobs == c.nodes.some == 0 and not any(c.tres) for c in counters)
    assert all(not any(a.counters.run_secs) for a in tree.assocs)


def test_multi_partition_jobs_count_once_per_partition_qos(bench: Make) -> None:
    """Waiting in two partitions a job counts in both their QOS; started, only in the one it runs in."""
    parts = [
        {"PartitionName": "one", "Nodes": "ALL", "QOS": "q1", "Default": "YES"},
        {"PartitionName": "two", "Nodes": "ALL", "QOS": "q2"},
    ]
    b = limited(bench, "add qos q1 grpsubmitjobs=9", "add qos q2 grpsubmitjobs=9", partitions=parts)
    job = b.job(user="ann", partition="one,two", limit_ns=HOUR)
    qos = b.ctl.limits._tree.qos
    assert (qos["q1"].counters.submit_jobs, qos["q2"].counters.submit_jobs) == (1, 1)
    job.part = b.ctl.partitions["two"]
    b.start(job)
    assert (qos["q1"].counters.submit_jobs, qos["q2"].counters.submit_jobs) == (0, 1)
    b.end(job)
    assert (qos["q2"].counters.submit_jobs, qos["normal"].counters.submit_jobs) == (0, 0)


@pytest.mark.parametrize(
    ("kind", "tres", "text"),
    [
        (LimitKind.ASSOC_GRP, "gres", "AssocGrpGRES"),
        (LimitKind.ASSOC_MAX_PER_NODE, "node", "AssocMaxUnknownPerNode"),
        (LimitKind.QOS_MAX_PER_JOB, "mem", "QOSMaxMemoryPerJob"),
        (LimitKind.QOS_MAX_PER_ACCOUNT, "license", "MaxLicensePerAccount"),
        (LimitKind.QOS_MIN, "node", "QOSMinNode"),
    ],
)
def test_reason_texts(kind: LimitKind, tres: str, text: str) -> None:
    """The words of job_state_reason.c, irregular ones too."""
    assert tres_reason(kind, tres) == text


def test_a_limit_outweighs_busy_nodes(bench: Make) -> None:
    """A job that finds no nodes is still held against the limits with what it asked for.

    So it waits for the limit, closes no partition and gets no reservation.
    slurm.md 1.2 "What does not close a partition".
    """
    b = limited(bench, "modify account a set grptres=cpu=4")
    first, second = b.job(user="ann", ntasks=3, limit_ns=HOUR), b.job(user="ann", ntasks=3, limit_ns=HOUR)
    b.start(first)
    assert b.ctl.limits.runnable_with(second, None) == "AssocGrpCpuLimit"
    b.end(first)
    assert b.ctl.limits.runnable_with(second, None) is None


def test_the_priority_threshold_of_the_qos_goes_before_that_of_the_association(bench: Make) -> None:
    """man sacctmgr MinPrioThresh: below it nothing is held back for the job; children take their parent's."""
    b = limited(bench, "add qos high minpriothresh=500", "modify account a set qos+=high minpriothresh=90")
    assert b.ctl.limits.prio_thresh(b.job(user="ann")) == 90
    assert b.ctl.limits.prio_thresh(b.job(user="ann", qos="high")) == 500


def test_without_limits_there_is_no_priority_threshold(bench: Make) -> None:
    """acct_policy_get_prio_thresh(): only with AccountingStorageEnforce=limits."""
    b = bench(accounting=[*USERS, "modify account a set minpriothresh=90"])
    assert b.ctl.limits.prio_thresh(b.job(user="ann")) == 0


@pytest.mark.parametrize(
    ("limit", "user", "preferred"),
    [
        ("modify account a set grptres=node=3", "al", 0b100),
        ("modify qos normal set grptres=node=3", "al", 0b100),
        ("modify qos normal set maxtresperaccount=node=3", "al", 0b100),
        ("modify qos normal set maxtresperuser=node=3", "ann", 0b100),
        ("modify qos normal set maxtresperuser=node=3", "al", 0),
        ("modify account a set grptres=cpu=30", "al", 0),
    ],
)
def test_nodes_in_use_under_a_node_limit_are_preferred(bench: Make, limit: str, user: str, preferred: int) -> None:
    """A shared node counts once, so a job under a limit on nodes comes first to those that are counted already."""
    b = limited(bench, limit)
    first = b.job(user="ann")
    b.start(first, nodes=0b100)
    second = b.job(user=user)
    assert b.ctl.limits.preferred_nodes(second, second.part) == preferred
    b.end(first)
    assert b.ctl.limits.preferred_nodes(second, second.part) == 0


def test_preferred_nodes_come_before_others_of_their_node_set_alone(bench: Make) -> None:
    """A set with preferred and other nodes is split; a set without any keeps its weight (as slurmctld leaves it)."""
    nodes = [{"NodeName": "a[1-2]", "CPUs": 2}, {"NodeName": "b[1-2]", "CPUs": 4}]
    view = ClusterView(limited(bench, nodes=nodes, partitions=[{"PartitionName": "p", "Nodes": "ALL"}]).ctl)
    assert view.weights().cut(0b1111) == [0b1111]
    assert view.preferring(0b0010, 0b1111).cut(0b1111) == [0b1110, 0b0001]
    assert view.preferring(0b0011, 0b1111).cut(0b1111) == [0b1111]
    assert view.preferring(0b0010, 0b1110).cut(0b1110) == [0b1110]


def test_a_job_without_time_limit_never_fits_a_limit_on_tres_minutes(bench: Make) -> None:
    """Without DefaultTime slurmctld multiplies NO_VAL minutes with the job's CPUs; with it, DefaultTime."""
    line = "modify account a set grptresrunmins=cpu=600"
    part = {"PartitionName": "p", "Nodes": "ALL", "Default": "YES", "MaxTime": "10"}
    b = limited(bench, line, partitions=[part])
    assert fits(b, b.job(user="ann")) == "AssocGrpCPURunMinutesLimit"
    assert fits(b, b.job(user="ann", limit_ns=10 * MINUTE)) is None
    b = limited(bench, line, partitions=[part | {"DefaultTime": "5"}])
    assert fits(b, b.job(user="ann")) is None


@pytest.mark.parametrize(
    ("tasks", "nodes", "least", "most"),
    [(1, (2, None), 1, 1), (3, (2, 4), 2, 3), (4, (2, None), 2, 2), (None, (2, None), 2, 2)],
)
def test_sbatch_asks_for_no_more_nodes_than_tasks(
    bench: Make, tasks: int | None, nodes: tuple[int, int | None], least: int, most: int
) -> None:
    """`can't run 1 processes on 2 nodes, setting nnodes to 1` (sbatch/opt.c)."""
    job = bench().job(ntasks=tasks, nodes_min=nodes[0], nodes_max=nodes[1])
    assert (job.nodes_min, job.nodes_max) == (least, most)
