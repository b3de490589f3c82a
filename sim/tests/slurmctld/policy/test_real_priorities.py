"""Usage and priorities as slurmctld itself logged them (DebugFlags=Priority), to its last printed digit.

Two accounts, four users, one node of 4 CPUs, a calculation each 60 s, half-life 300 s, associations enforced but
no limits. Job 1 of ann runs from 52 s before the first calculation to 28 s after the third.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from slurmtwin.contract.clock import MINUTE

Make = Callable[..., Any]
CONF = {
    "PriorityType": "priority/multifactor",
    "PriorityWeightFairshare": 100_000,
    "PriorityCalcPeriod": "00:01:00",
    "PriorityDecayHalfLife": "00:05:00",
    "AccountingStorageEnforce": "associations",
}
ACCOUNTS = [
    "add account physics Fairshare=60", "add account biology Fairshare=30", "add user ann Account=physics Fairshare=10",
    "add user bob Account=physics Fairshare=20", "add user cyd Account=biology Fairshare=10",
    "add user dan Account=biology Fairshare=10",
]  # fmt: skip
USERS = {1: "ann", 2: "ann", 3: "bob", 4: "cyd", 5: "ann", 6: "dan", 7: "bob"}


def submitted(bench: Make, version: str, flags: str) -> tuple[Any, dict[int, Any]]:
    """The controller and the seven waiting jobs."""
    nodes = [{"NodeName": "n1", "CPUs": 4}]
    conf = CONF | ({"PriorityFlags": flags} if flags else {})
    b = bench(version=version, conf=conf, accounting=ACCOUNTS, nodes=nodes)
    return b, {n: b.job(user=u, ntasks=4, limit_ns=5 * MINUTE) for n, u in USERS.items()}


def run(b: Any, job: Any, start_s: float, end_s: float, look: Callable[[int], None]) -> None:
    """Start and end one job, looking at each calculation on the way."""
    b.until(start_s)
    b.start(job, nodes=0b1, cpus=4)
    for tick in range(int(start_s // 60) + 1, int(end_s // 60) + 1):
        b.until(tick * 60 + 0.5)
        look(tick)
    b.until(end_s)
    b.end(job)


def test_usage_of_a_real_fair_tree_run(bench: Make) -> None:
    """26.05.5: raw usage of ann after four calculations; the last stretch of job 1 was never charged.

    slurm.md 3.1 "Usage", slurm.md 3.1 "Decay".
    """
    b, jobs = submitted(bench, "26.05", "")
    ann = b.ctl.priority.tree.find("physics", "ann", "")
    usage: dict[int, str] = {}
    run(b, jobs[1], 8, 208, lambda tick: usage.setdefault(tick, f"{ann.usage.raw:.6f}"))
    run(b, jobs[2], 334, 364, lambda tick: usage.setdefault(tick, f"{ann.usage.raw:.6f}"))
    assert usage == {1: "184.431686", 2: "369.440882", 3: "530.479662", 6: "447.779480"}


def test_priorities_of_a_real_fair_tree_run(bench: Make) -> None:
    """26.05.5: ann 0.2, bob 0.4, biology's users 1.0 (tied with root's own user) after the first calculation.

    slurm.md 3.1 "F fair tree (default)", slurm.md 3.1 "Recalculation".
    """
    b, jobs = submitted(bench, "26.05", "")
    assert {job.priority for job in jobs.values()} == {100_000}
    run(b, jobs[1], 8, 61, lambda tick: None)
    waiting = {n: job.priority for n, job in jobs.items() if n > 1}
    assert waiting == {2: 20_000, 3: 40_000, 4: 100_000, 5: 20_000, 6: 100_000, 7: 40_000}


@pytest.mark.parametrize("version", ["22.05", "26.05"])
def test_priorities_of_real_classic_runs(bench: Make, version: str) -> None:
    """22.05.8 and 26.05.5: accounts are taken before the new usage is added, users after it.

    slurm.md 3.1 "F classic".
    """
    b, jobs = submitted(bench, version, "NO_FAIR_TREE")
    seen: dict[int, dict[int, int]] = {}
    run(b, jobs[1], 8, 208, lambda tick: seen.setdefault(tick, {n: j.priority for n, j in jobs.items() if n > 1}))
    rest = {4: 100_000, 6: 100_000}
    assert seen[1] == {2: 12_214, 5: 12_214, 3: 100_000, 7: 100_000} | rest
    assert seen[2] == seen[3] == {2: 4_268, 5: 4_268, 3: 34_949, 7: 34_949} | rest
