"""Usage, decay, fair tree and classic fair share, worked out by hand."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from slurmtwin.contract.clock import HOUR
from slurmtwin.contract.cluster import AssocConf
from slurmtwin.models.slurmctld.fairshare import next_reset_s

Make = Callable[..., Any]
CONF = {
    "PriorityType": "priority/multifactor",
    "PriorityWeightFairshare": 1_000_000,
    "AccountingStorageEnforce": "limits",
}
NO_DECAY = {"PriorityDecayHalfLife": "0", "PriorityUsageResetPeriod": "YEARLY"}
TREE = ["add account a fairshare=3", "add account b fairshare=1", "add user ann account=a", "add user al account=a",
        "add user bob account=b"]  # fmt: skip
HALF_LIFE_S = 7 * 86_400


def tree_of(bench: Any) -> Any:
    return bench.ctl.limits._tree


def assoc(bench: Any, account: str, user: str = "") -> Any:
    return tree_of(bench).find(account, user, "") if user else tree_of(bench)._by_key[account, "", ""]


def test_the_database_brings_a_root_user_with_a_share(bench: Make) -> None:
    """root's own user is in the tree with one share: 3 + 1 + 1 shares on the top level.

    slurm.md 3.1 "needs accounting".
    """
    b = bench(conf=CONF, accounting=TREE)
    assert tree_of(b).user_count == 4
    assert assoc(b, "a").shares_norm == 3 / 5
    assert assoc(b, "a", "ann").shares_norm == 1 / 2


def test_classic_shares_multiply_down_the_tree(bench: Make) -> None:
    """NO_FAIR_TREE: normalised shares are products along the path. slurm.md 3.1 "F classic"."""
    b = bench(conf=CONF | {"PriorityFlags": "NO_FAIR_TREE"}, accounting=TREE)
    assert assoc(b, "a", "ann").shares_norm == pytest.approx(3 / 5 / 2)


def test_nobody_used_anything_so_all_rank_first(bench: Make) -> None:
    """No usage: every level_fs is infinite, all tie, everybody has the highest rank.

    slurm.md 3.1 "F fair tree (default)".
    """
    b = bench(conf=CONF, accounting=TREE)
    assert [b.job(user=u).priority for u in ("ann", "al", "bob")] == [1_000_000] * 3


def test_usage_is_billing_seconds_up_the_tree(bench: Make) -> None:
    """4 CPUs for 300 s without decay are 1200 at the user, the account and root. slurm.md 3.1 "Usage"."""
    b = bench(conf=CONF | NO_DECAY, accounting=TREE)
    job = b.job(user="ann", ntasks=4, limit_ns=HOUR)
    b.job(user="bob")  # somebody waits, so the calculations run on time
    b.start(job)
    b.until(301)
    assert [assoc(b, "a", "ann").usage.raw, assoc(b, "a").usage.raw, tree_of(b).root.usage.raw] == [1200.0] * 3
    assert assoc(b, "b").usage.raw == 0.0


def test_billing_weights_make_the_usage(bench: Make) -> None:
    """TRESBillingWeights: the sum of weighted TRES per second, or the largest with MAX_TRES. slurm.md 3.1 "Usage"."""
    part = {"PartitionName": "main", "Nodes": "ALL", "Default": "YES", "TRESBillingWeights": "CPU=1.0,Mem=0.01"}
    for flags, bill in (({}, 2 * 1.0 + 600 * 0.01), ({"PriorityFlags": "MAX_TRES"}, 6.0)):
        b = bench(conf=CONF | NO_DECAY | flags, accounting=TREE, partitions=[part])
        job = b.job(user="ann", ntasks=2, nodes_min=1, mem_per_node_mib=600, limit_ns=HOUR)
        b.job(user="bob")
        b.start(job)
        b.until(301)
        assert assoc(b, "a", "ann").usage.raw == pytest.approx(300 * bill)


def test_decay_of_old_and_new_usage(bench: Make) -> None:
    """d = 1 - 0.693/half-life per second; a slice is multiplied by d^dt when charged, then again each period.

    slurm.md 3.1 "Decay".
    """
    b = bench(conf=CONF, accounting=TREE)
    job = b.job(user="ann", ntasks=1, limit_ns=HOUR)
    b.job(user="bob")
    b.start(job)
    b.until(301)
    d = 1 - 0.693 / HALF_LIFE_S
    first = 300 * d**300
    assert assoc(b, "a", "ann").usage.raw == pytest.approx(first, rel=1e-15)
    b.until(601)
    assert assoc(b, "a", "ann").usage.raw == pytest.approx(first * d**300 + 300 * d**300, rel=1e-15)


def test_end_charges_the_rest_only_where_limits_are_enforced(bench: Make) -> None:
    """acct_policy_job_fini() does it, so without AccountingStorageEnforce=limits short jobs leave no usage at all.

    slurm.md 3.1 "Usage".
    """
    for enforce, expected in (({"AccountingStorageEnforce": "limits"}, 100.0), ({"AccountingStorageEnforce": ""}, 0.0)):
        conf = CONF | NO_DECAY | enforce
        b = bench(conf=conf, accounting=TREE)
        job, _ = b.job(user="ann", limit_ns=HOUR), b.job(user="bob")
        b.until(10)
        b.start(job)
        b.until(110)
        b.end(job)
        b.until(301)
        assert b.ctl.priority.tree.find("a", "ann", "").usage.raw == expected


def test_usage_factor_of_the_qos(bench: Make) -> None:
    """UsageFactor multiplies what a job of that QOS is charged. slurm.md 3.1 "Usage"."""
    lines = [*TREE, "add qos half usagefactor=0.5", "modify user ann set qos+=half"]
    b = bench(conf=CONF | NO_DECAY, accounting=lines)
    job, _ = b.job(user="ann", qos="half", limit_ns=HOUR), b.job(user="bob")
    b.start(job)
    b.until(301)
    assert assoc(b, "a", "ann").usage.raw == 150.0


def test_fair_tree_ranks_users_by_account_first(bench: Make) -> None:
    """b (1 of 5 shares, all usage of one job) ranks below a's users; ann, who used nothing, leads.

    level_fs: root user infinite, a: 0.6/(1/5) = 3, b: 0.2/(4/5) = 0.25; inside a: ann infinite, al 0.5.
    Ranks 4, 3, 2, 1 of 4. slurm.md 3.1 "F fair tree (default)".
    """
    b = bench(conf=CONF | NO_DECAY, accounting=TREE)
    al, bob = b.job(user="al", ntasks=1, limit_ns=HOUR), b.job(user="bob", ntasks=4, limit_ns=HOUR)
    waiting = {u: b.job(user=u) for u in ("ann", "al", "bob")}
    b.start(al)
    b.start(bob, nodes=0b10)
    b.until(301)
    factors = {u: j.priority / 1_000_000 for u, j in waiting.items()}
    assert factors == {"ann": 3 / 4, "al": 2 / 4, "bob": 1 / 4}


def test_fair_tree_tied_users_share_a_rank(bench: Make) -> None:
    """Equal level_fs gives equal rank, and the next rank is as if there was no tie.

    slurm.md 3.1 "F fair tree (default)".
    """
    lines = ["add account a", *(f"add user u{i} account=a" for i in range(3))]
    b = bench(conf=CONF | NO_DECAY, accounting=lines)
    job = b.job(user="u0", limit_ns=HOUR)
    waiting = [b.job(user=f"u{i}") for i in range(3)]
    b.start(job)
    b.until(301)
    # root user leads (rank 4), then account a: u1 and u2 tie at 3, u0 gets 1
    assert [j.priority for j in waiting] == [250_000, 750_000, 750_000]


def test_fair_tree_does_not_merge_tied_accounts(bench: Make) -> None:
    """Two unused accounts tie: the second one's first user shares the last rank of the first account.

    a has users with and without shares; a merge would rank b's user with a's best.
    slurm.md 3.1 "F fair tree (default)".
    """
    lines = ["add account a", "add account b", "add account c", "add user zero account=a fairshare=0",
             "add user one account=a", "add user two account=b", "add user three account=c"]  # fmt: skip
    b = bench(conf=CONF | NO_DECAY, accounting=lines)
    job = b.job(user="three", limit_ns=HOUR)
    waiting = {u: b.job(user=u) for u in ("one", "zero", "two")}
    b.start(job)
    b.until(301)
    # 5 users: root 5; a ties with root: one joins rank 5, zero gets 3; b ties with a: two shares zero's 3
    assert {u: j.priority for u, j in waiting.items()} == {"one": 1_000_000, "zero": 600_000, "two": 600_000}


def test_parent_shares_make_users_first_in_their_account(bench: Make) -> None:
    """Fairshare=parent: the highest level_fs of its account. slurm.md 3.1 "F fair tree (default)"."""
    lines = ["add account a", "add user kin account=a fairshare=parent", "add user own account=a"]
    b = bench(conf=CONF | NO_DECAY, accounting=lines)
    jobs = [b.job(user="kin", limit_ns=HOUR), b.job(user="own", limit_ns=HOUR)]
    waiting = [b.job(user="kin"), b.job(user="own")]
    for place, job in enumerate(jobs):
        b.start(job, nodes=1 << place)
    b.until(301)
    assert [j.priority for j in waiting] == [666_666, 333_333]


@pytest.mark.parametrize("version", ["22.05", "26.05"])
def test_classic_factor(bench: Make, version: str) -> None:
    """2^(-(effective usage / shares)): all usage by ann. slurm.md 3.1 "F classic".

    ann: Ua = 1 at her account: E(a) = 1; E(ann) = 1 + (1 - 1)*1/2 = 1; S = 0.3; F = 2^(-1/0.3).
    al:  Ua = 0: E = 0 + (1 - 0)*1/2 = 0.5; F = 2^(-0.5/0.3). bob: nothing: 1.
    """
    conf = CONF | NO_DECAY | {"PriorityFlags": "NO_FAIR_TREE"}
    b = bench(version=version, conf=conf, accounting=TREE)
    job = b.job(user="ann", limit_ns=24 * HOUR)
    waiting = {u: b.job(user=u) for u in ("ann", "al", "bob")}
    b.start(job)
    b.until(1501)
    assert waiting["ann"].priority == int(1_000_000 * 2 ** (-1 / 0.3))
    assert waiting["al"].priority == int(1_000_000 * 2 ** (-0.5 / 0.3))
    assert waiting["bob"].priority == 1_000_000


def test_dampening_divides_the_exponent(bench: Make) -> None:
    """FairShareDampeningFactor 5: 2^(-(E/S)/5). slurm.md 3.1 "F classic"."""
    conf = CONF | NO_DECAY | {"PriorityFlags": "NO_FAIR_TREE", "FairShareDampeningFactor": 5}
    b = bench(conf=conf, accounting=TREE)
    job, waiting = b.job(user="ann", limit_ns=24 * HOUR), b.job(user="ann")
    b.start(job)
    b.until(1501)
    assert waiting.priority == int(1_000_000 * 2 ** (-(1 / 0.3) / 5))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(idle_periods=st.integers(1, 400), run_s=st.integers(1, 4000).filter(lambda s: s % 300 != 0))
def test_skipped_calculations_are_made_up_exactly(bench: Make, idle_periods: int, run_s: int) -> None:
    """Usage after an idle stretch equals, bit for bit, that of a cluster whose calculations all ran on time.

    An end at the very instant of a calculation is left out: which comes first is chance in real Slurm too.

    slurm.md 3.1 "Decay".
    """
    raw = []
    for waiting in (False, True):
        b = bench(conf=CONF, accounting=TREE)
        job = b.job(user="ann", limit_ns=24 * HOUR)
        b.start(job)
        if waiting:
            b.job(user="bob")
        b.until(run_s)
        b.end(job)
        b.until(run_s + idle_periods * 300)
        b.ctl.priority.catch_up()
        raw.append([a.usage.raw for a in tree_of(b).assocs])
    assert raw[0] == raw[1]


def test_reset_period_zeroes_usage(bench: Make) -> None:
    """PriorityUsageResetPeriod=DAILY: all usage is gone at the first calculation of the day. slurm.md 3.1 "Usage"."""
    start = int(datetime(2023, 11, 14, 12, tzinfo=UTC).timestamp())
    conf = CONF | {"PriorityDecayHalfLife": "0", "PriorityUsageResetPeriod": "DAILY"}
    b = bench(conf=conf, accounting=TREE, epoch_s=start)
    job = b.job(user="ann", limit_ns=HOUR)
    b.job(user="bob")
    b.start(job)
    b.until(1000)
    b.end(job)
    assert assoc(b, "a", "ann").usage.raw == 1000.0
    b.until(12 * 3600 - 1)
    assert assoc(b, "a", "ann").usage.raw == 1000.0
    b.until(12 * 3600 + 1)
    assert assoc(b, "a", "ann").usage.raw == 0.0


@pytest.mark.parametrize(
    ("period", "last", "due"),
    [
        ("DAILY", (2024, 2, 28), (2024, 2, 29)),
        ("WEEKLY", (2024, 3, 6), (2024, 3, 10)),  # Wednesday -> Sunday
        ("WEEKLY", (2024, 3, 10), (2024, 3, 17)),  # Sunday -> the next
        ("MONTHLY", (2024, 12, 31), (2025, 1, 1)),
        ("QUARTERLY", (2024, 5, 5), (2024, 7, 1)),
        ("QUARTERLY", (2024, 11, 5), (2025, 1, 1)),
        ("YEARLY", (2024, 5, 5), (2025, 1, 1)),
    ],
)
def test_next_reset(period: str, last: tuple[int, int, int], due: tuple[int, int, int]) -> None:
    """Resets fall on the first midnight of the next day, week (Sunday), month, quarter or year."""
    last_s = int(datetime(*last, 15, 30, tzinfo=UTC).timestamp())
    assert next_reset_s(period, last_s, last_s) == int(datetime(*due, tzinfo=UTC).timestamp())


def test_limits_are_inherited_from_the_parent_account(bench: Make) -> None:
    """Max limits of an account hold for its users unless they have their own; Grp limits do not pass down."""
    lines = ["add account a maxjobs=5 grpjobs=9", "add user own account=a maxjobs=2", "add user kin account=a"]
    b = bench(conf=CONF, accounting=lines)
    assert assoc(b, "a", "own").limits.max_jobs == 2
    assert assoc(b, "a", "kin").limits.max_jobs == 5
    assert assoc(b, "a", "kin").limits.grp_jobs is None
    assert isinstance(assoc(b, "a", "kin").conf, AssocConf)


def test_usage_survives_a_restart(bench: Make) -> None:
    """assoc_usage and priority_last_decay_ran come back: the new controller goes on where the old one stopped."""
    from slurmtwin.models.slurmctld.policies import attach_policies, export_state, restore_state

    b = bench(conf=CONF, accounting=TREE)
    job = b.job(user="ann", limit_ns=24 * HOUR)
    b.job(user="bob")
    b.start(job)
    b.until(650)
    before = assoc(b, "a", "ann").usage.raw
    saved = export_state(b.ctl)
    attach_policies(b.ctl)
    restore_state(b.ctl, saved)
    assert assoc(b, "a", "ann").usage.raw == before
    b.ctl.limits.admit(job)
    b.ctl.limits.job_started(job)
    b.ctl.priority.job_started(job)
    b.ctl.priority.start()
    d = 1 - 0.693 / HALF_LIFE_S
    assert assoc(b, "a", "ann").usage.raw == pytest.approx(before * d**50 + 50 * d**50, rel=1e-12)
    left = assoc(b, "a", "ann").counters.run_secs[0]
    assert left == 24 * 3600 - 650


def test_an_ended_job_is_charged_no_more(bench: Make) -> None:
    """Without enforced limits too: usage only decays once the job is gone. slurm.md 3.1 "Usage"."""
    b = bench(conf=CONF | {"AccountingStorageEnforce": "associations"}, accounting=TREE)
    job, _ = b.job(user="ann", limit_ns=HOUR), b.job(user="bob")
    b.start(job)
    b.until(310)
    b.end(job)
    before = assoc_of(b, "ann").usage.raw
    b.until(901)
    assert 0 < assoc_of(b, "ann").usage.raw < before


def assoc_of(bench: Any, user: str) -> Any:
    return next(a for a in bench.ctl.priority.tree.assocs if a.user == user)
