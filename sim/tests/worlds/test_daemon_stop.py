"""A deleted pod's daemon has SIGTERM, and its end is told, when quiet-deleted has shown that."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.models.kubelet.container_runtime import StartCosts
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.pod_starts import END_ALONE, END_BESIDE, END_SENT_NS, daemon_stop, end_beside
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
DELETED_NS = 30 * SECOND
NODES = ("worker1", "worker2", "worker3")


def rows(relists: bool, restart_ms: int) -> list[Event]:
    """slurmctld's pod is deleted; relists: a recording has them, so that an exit is of its host."""
    durations = {**still_durations(), "stop-heard": (70 * MS,), "stop-told": (400 * MS,)}
    durations["container-restart"] = (restart_ms * MS,)
    last = dict.fromkeys(NODES, DELETED_NS - SECOND // 2) if relists else {}
    faults_ns = (DELETED_NS - SECOND, DELETED_NS, DELETED_NS + 30 * SECOND)
    times = StartTimes(
        slurmctld_ns=-20 * SECOND, slurmd_ns=-19 * SECOND, fault_ns=faults_ns, relist_ns=last,
        epoch_ns=2_000_000_000 * SECOND,
    )  # fmt: skip
    options = TwinOptions(keep=True, times=times, durations=durations)
    return run_scenario(load_scenario(FAULTS / "x10-config-new-pod.yaml"), FAULTS, options).kept or []


@pytest.mark.parametrize(("relists", "restart_ms"), [(False, 120), (True, 60), (True, 240)])
def test_sigterm_and_the_end_come_as_calibrated(relists: bool, restart_ms: int) -> None:
    """Whatever the runtime's own exit takes: it is a part of the span that a watcher sees, 0.75 of its law for an end
    that comes alone."""
    later = [row for row in rows(relists, restart_ms) if row.t_ns >= DELETED_NS]
    stopped = next(row for row in later if row.kind is Kind.SLURMCTLD_STOPPED)
    ended = next(row for row in later if row.kind is Kind.POD_ENDED and row.actor == "collector")
    assert stopped.t_ns - DELETED_NS == pytest.approx(70 * MS, abs=8 * MS)
    assert ended.t_ns - stopped.t_ns == pytest.approx(END_ALONE * 400 * MS, abs=40 * MS)


def stopping_world(told_ms: int, hooks_over_ms: list[int]) -> Any:
    """At 1 s pods are being stopped, whose hooks are over then."""
    return SimpleNamespace(
        draw=lambda _: lambda: told_ms * MS, middle=lambda _: 400 * MS, env=SimpleNamespace(now_ns=SECOND),
        kube=SimpleNamespace(stopping=[over_ms * MS for over_ms in hooks_over_ms]),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("stopping", "told_ms", "takes_ms"),
    [(1, 400, 300), (2, 400, 456), (4, 400, 768), (6, 400, 1080), (12, 400, 1080), (1, 800, 300 * 2**0.6)],
)
def test_an_end_takes_half_as_much_again_for_each_of_five_beside(stopping: int, told_ms: int, takes_ms: float) -> None:
    """quiet-deleted and quiet-operated: 0.75 alone, 1.14 of pairs, 2.7 of six and of twelve; it scatters by 0.6 of what
    its law does, which has alone and pairs in it."""
    world = stopping_world(told_ms, [0] * stopping)
    behind_ns = StartCosts().stop() + END_SENT_NS
    assert daemon_stop(world, StartTimes())() + behind_ns == pytest.approx(takes_ms * MS, abs=2)


@pytest.mark.parametrize(
    ("hooks_over_ms", "takes_ms"),
    [([1000], 300), ([1000, 1000], 456), ([700, 1000], 300), ([1000, 1300], 300), ([1000, 1150], 397.1),
     ([850, 1000], 397.1), ([850, 1000, 1150], 522.4), ([1000, 0], 456)],
)  # fmt: skip
def test_ends_behind_hooks_share_the_host_as_long_as_they_overlap(hooks_over_ms: list[int], takes_ms: float) -> None:
    """Two at once as without hooks, two 0.3 s apart not at all; 0.15 s apart 397 of 300 ms: 247 in common, half as much
    again. A pod without a hook counts as it did."""
    behind_ns = StartCosts().stop() + END_SENT_NS
    took_ns = daemon_stop(stopping_world(400, hooks_over_ms), StartTimes())() + behind_ns
    assert took_ns == pytest.approx(takes_ms * MS, abs=0.1 * MS)


@given(alone_ms=st.integers(1, 1000), apart_ms=st.lists(st.integers(0, 2000), max_size=5).map(sorted))
def test_an_end_beside_others_is_as_long_as_what_they_have_in_common_says(alone_ms: int, apart_ms: list[int]) -> None:
    """The equation that it is the root of; never shorter than alone, nor longer than with all at once."""
    took_ms = end_beside(alone_ms, apart_ms)
    shared = sum(max(0.0, 1 - apart / took_ms) for apart in apart_ms)
    assert alone_ms <= took_ms <= alone_ms * (1 + END_BESIDE * len(apart_ms)) + 1e-6
    assert took_ms <= alone_ms * (1 + END_BESIDE * shared) + 1e-6
