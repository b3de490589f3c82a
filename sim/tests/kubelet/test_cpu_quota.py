"""CPU limits: a container has its quota in each period of 100 ms, and what it needs beyond that waits."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from slurmtwin.contract.clock import MS
from slurmtwin.contract.pods import PodsSection
from slurmtwin.models.kubelet.cpu_quota import CpuQuota
from slurmtwin.worlds.pod_limits import limited_start


@pytest.mark.parametrize(
    ("milli_cpu", "phase_ms", "work_ms", "done_ms"),
    [
        (100, 40, 8, 8),  # within one quota
        (100, 40, 10, 10),
        (100, 40, 25, 145),  # 10 ms at once, 10 from 40 on, 5 from 140 on
        (100, 4, 19, 109),  # 4 until the period ends, 10 from then on, 5 from 104 on
        (5, 50, 3, 151),  # at least 1 ms
        (1000, 40, 500, 500),  # a whole CPU: one process never waits
        (0, 40, 500, 500),  # no limit
    ],
)
def test_work_beyond_the_quota_waits_for_the_next_period(
    milli_cpu: int, phase_ms: int, work_ms: int, done_ms: int
) -> None:
    """CFS bandwidth control of a process that is always ready."""
    assert CpuQuota(milli_cpu, phase_ms * MS).done_ns(0, work_ms * MS) == done_ms * MS


def test_what_a_period_leaves_is_lost_with_it() -> None:
    """No burst: after a second of rest there are 10 ms again, not 100."""
    quota = CpuQuota(100, 0)
    assert quota.done_ns(20 * MS, 4 * MS) == 24 * MS
    assert quota.done_ns(50 * MS, 4 * MS) == 54 * MS
    assert quota.done_ns(70 * MS, 4 * MS) == 102 * MS
    assert quota.done_ns(1050 * MS, 12 * MS) == 1102 * MS


@pytest.mark.parametrize(
    ("cpu", "version", "takes_ms"), [("", "26.05", 100), ("100m", "26.05", 480), ("2", "26.05", 100), ("", "22.05", 76)]
)
def test_a_limited_worker_needs_several_periods_for_its_start(cpu: str, version: str, takes_ms: int) -> None:
    """Recorded in x63-oom-group with 100m: slurmd serves 0.3 to 0.6 s after its container's start, not after 0.1.

    60 of 100 ms on the CPU: 10 at once, then 10 in each of the periods that begin 40, 140 .. 440 ms later. Without a
    limit it is the version's own start.
    """
    world: Any = SimpleNamespace(
        draw=lambda _name: lambda: 100 * MS, streams=SimpleNamespace(uniform_ns=lambda *_bounds: lambda: 40 * MS),
        cluster=SimpleNamespace(conf=SimpleNamespace(version=version)),
    )  # fmt: skip
    assert limited_start(world, PodsSection(cpu=cpu))() == pytest.approx(takes_ms * MS, abs=12 * MS)
