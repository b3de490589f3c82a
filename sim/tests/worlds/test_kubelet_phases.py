"""Kubelets of a replication look at their containers, and sync their pods, where those of the recording did."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.kubelet.defaults import RESYNC_NS
from slurmtwin.models.kubelet.relist import Ticks
from slurmtwin.worlds.kubelet_phases import (
    EXIT_NS,
    REMOUNT_NS,
    ROUNDS_EXIT_NS,
    KubeletPhases,
    LastSync,
    Resync,
    exit_range_ns,
    mounts_looks_ns,
)
from slurmtwin.worlds.pod_durations import EARLIER_BATCHES, still_durations
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

FAULTS = Path(__file__).parents[3] / "scenarios" / "faults"
FAULT_NS = 25 * SECOND
NODES = ("worker1", "worker2", "worker3")


def rows(
    name: str, times: StartTimes, replication: int = 0, relist_ns: tuple[int, ...] = (0,), **scaled: float
) -> list[Event]:
    """A replication of a scenario of faults; calibrated durations are held still, relists take one of relist_ns."""
    scaled = {rule.replace("_", "-"): factor for rule, factor in scaled.items()}
    durations = still_durations() | {"relist": relist_ns}
    options = TwinOptions(
        keep=True, times=times, durations=durations, scaled=scaled, still=True, replication=replication
    )
    return run_scenario(load_scenario(FAULTS / f"{name}.yaml"), FAULTS, options).kept or []


def started_again(
    relists: Mapping[str, int], replication: int = 0, factor: float = 1, relist_ns: tuple[int, ...] = (0,)
) -> int:
    """How long after its crash slurmctld serves again, ns."""
    times = StartTimes(slurmctld_ns=-20 * SECOND, fault_ns=(FAULT_NS,), relist_ns=relists)
    found = rows("x1-controller-crash", times, replication, relist_ns, pleg_relist=factor)
    return [row.t_ns for row in found if row.kind is Kind.SLURMCTLD_STARTED][1] - FAULT_NS


def on_all(before_ns: int) -> dict[str, int]:
    """The last relist on each node so long before the fault."""
    return dict.fromkeys(NODES, FAULT_NS - before_ns)


def test_a_dead_container_is_seen_at_the_relist_after_the_recorded_ones() -> None:
    """Whatever the replication's own draws are: without the rows each has its own phase."""
    first = started_again(on_all(700 * MS))
    assert [started_again(on_all(700 * MS), number) for number in (1, 2)] == [first, first]
    assert started_again(on_all(400 * MS)) == first + 300 * MS
    assert len({started_again({}, number) for number in range(3)}) == 3


def test_a_relist_that_takes_long_moves_the_next_one() -> None:
    """The pause of 1 s begins at its end, and so does the sync of a pod that has changed."""
    still_ns = started_again(on_all(700 * MS))
    assert started_again(on_all(700 * MS), relist_ns=(20 * MS,)) == still_ns + 2 * 20 * MS


@pytest.mark.parametrize("turns", [1, 8, 20])
def test_each_relist_takes_its_own_time_and_moves_all_that_follow(turns: int) -> None:
    """So many relists behind the recorded one the next is late by the sum of what they took, and its own sync waits."""
    last_ns = FAULT_NS - turns * SECOND + SECOND // 2
    late_ns = [
        started_again(dict.fromkeys(NODES, last_ns), number, relist_ns=(2 * MS, 10 * MS))
        - started_again(dict.fromkeys(NODES, last_ns), number)
        for number in range(4)
    ]
    assert all(2 * (turns + 1) * MS <= ns <= 10 * (turns + 1) * MS for ns in late_ns)
    assert all((ns - 2 * (turns + 1) * MS) % (8 * MS) == 0 for ns in late_ns)
    assert len(set(late_ns)) > 1


@pytest.mark.parametrize(("factor", "next_ms"), [(0.5, 520), (1, 1020), (2, 2020)])
def test_another_period_stands_on_the_same_relist(factor: float, next_ms: int) -> None:
    """What the relist itself takes is no part of the rule that a verdict halves and doubles."""
    rest_ns = started_again(on_all(500 * MS)) - 500 * MS
    found_ns = started_again(on_all(200 * MS), factor=factor, relist_ns=(20 * MS,))
    assert found_ns == (next_ms - 200 + 20) * MS + rest_ns


@pytest.mark.parametrize(("look_ms", "looks"), [(55, 1), (265, 0)])
def test_a_container_that_has_just_died_is_seen_a_look_later(look_ms: int, looks: int) -> None:
    """The runtime calls it ended when it has deleted its task."""
    rest_ns = started_again(on_all(500 * MS)) - 500 * MS
    assert started_again(on_all(SECOND - look_ms * MS)) == look_ms * MS + looks * SECOND + rest_ns


def test_relists_on_another_node_say_nothing() -> None:
    """slurmctld's pod is on none of it."""
    elsewhere = {"worker9": FAULT_NS - SECOND}
    assert started_again(elsewhere) == started_again({})


def delivered(sync_before_ns: int | None, replication: int, factor: float = 1) -> int:
    """How long after it changes a ConfigMap is in slurmctld's pod, ns."""
    syncs = {} if sync_before_ns is None else {"slurmctld-0": FAULT_NS - sync_before_ns}
    times = StartTimes(slurmctld_ns=-20 * SECOND, fault_ns=(FAULT_NS,), sync_ns=syncs)
    found = rows("x10-config-in-place", times, replication, config_map_sync=factor)
    return next(row.t_ns for row in found if row.kind is Kind.FAULT_PROVEN) - FAULT_NS


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("factor", [0.5, 1])
def test_a_config_map_comes_with_the_sync_after_the_recorded_one(number: int, factor: float) -> None:
    """60 to 90 s after it, and what syncLoop's look and two loops of the volume manager take."""
    after_ns = delivered(20 * SECOND, number, factor) + 20 * SECOND
    assert factor * 60 * SECOND < after_ns < factor * 90 * SECOND + SECOND + 2 * REMOUNT_NS


def test_a_sync_before_slurmctld_came_up_is_not_its_last() -> None:
    """It has begun anew since: the twin's own sync counts, as without rows."""
    assert delivered(50 * SECOND, 3) == delivered(None, 3)


AT_NS = st.integers(0, 100 * SECOND)


@given(AT_NS, AT_NS, st.sampled_from([0.5, 1.0, 2.0]), st.integers(0, SECOND - 1), st.integers(0, 99))
def test_no_sync_falls_into_the_time_without_one(
    sync_ns: int, later_ns: int, factor: float, look_ns: int, seed: int
) -> None:
    """The file is there after its change and within its range; at once where the recording leaves none of that."""
    now_ns, looks = sync_ns + later_ns, Ticks(look_ns, SECOND)
    resync = Resync(np.random.default_rng(seed), factor)
    mounted_ns = resync.mounted_ns(LastSync("a", sync_ns, looks), now_ns)
    assert mounted_ns >= now_ns
    low_ns, high_ns = (round(factor * ns) for ns in RESYNC_NS)
    if later_ns <= high_ns:
        assert low_ns <= mounted_ns - sync_ns <= high_ns + SECOND + 2 * REMOUNT_NS
    else:
        assert mounted_ns - now_ns <= SECOND + 2 * REMOUNT_NS


def test_a_late_change_waits_for_what_is_left_of_the_range() -> None:
    """80 s without a sync: it comes within the last 10 s, all of them as likely."""
    looks = Ticks(0, SECOND)
    waits = [
        Resync(np.random.default_rng(seed), 1.0).mounted_ns(LastSync("a", 0, looks), 80 * SECOND) - 80 * SECOND
        for seed in range(200)
    ]
    assert max(waits) <= 11 * SECOND + 2 * REMOUNT_NS
    assert 4 * SECOND < sum(waits) // len(waits) < 7 * SECOND


@pytest.mark.parametrize(
    ("later_s", "restart_ms", "wanted"), [(-1, 60, ROUNDS_EXIT_NS), (0, 123, EXIT_NS), (0, 246, (100 * MS, 160 * MS))]
)
def test_ends_are_seen_as_late_as_on_the_host_of_that_time(
    later_s: int, restart_ms: int, wanted: tuple[int, int]
) -> None:
    """While the harness read long pages beside a run a look saw an end up to 260 ms late; since then 50 to 80 ms on the
    host where a container came back in 123, and as much more as that takes elsewhere."""
    times = StartTimes(epoch_ns=EARLIER_BATCHES[-1][0] + later_s * SECOND)
    range_ns = exit_range_ns(times, restart_ms * MS)
    assert range_ns == wanted
    drawn = [KubeletPhases({}, times, SECOND, range_ns, RandomStreams(seed))._exit() for seed in range(200)]
    assert wanted[0] <= min(drawn) < max(drawn) < wanted[1]
    assert max(drawn) > 0.9 * wanted[1]


@pytest.mark.parametrize("image_s", [-17, -14, -27])
def test_probes_tick_from_a_sandbox_before_a_recorded_first_image(image_s: int) -> None:
    """An old primary that is gone is probed each 10 s, whenever the replication's own pod was made."""
    images = {"slurmctld-0": image_s * SECOND}
    times = StartTimes(slurmctld_ns=-20 * SECOND, slurmd_ns=-19 * SECOND, fault_ns=(FAULT_NS,), image_ns=images)
    found = (row for row in rows("x9-takeover", times, replication=image_s + 30) if row.t_ns > FAULT_NS)
    failed_ns = next(row.t_ns for row in found if row.kind is Kind.KUBE_EVENT and '"Unhealthy"' in (row.detail or ""))
    assert 0 < (image_s * SECOND - failed_ns) % (10 * SECOND) < SECOND


def failed_s(number: int, **known: object) -> float:
    """When the old primary of x9 is refused a probe first, of a replication."""
    times = StartTimes(slurmctld_ns=-20 * SECOND, slurmd_ns=-19 * SECOND, fault_ns=(FAULT_NS,), **known)
    found = (row for row in rows("x9-takeover", times, replication=number) if row.t_ns > FAULT_NS)
    failed = next(row for row in found if row.kind is Kind.KUBE_EVENT and '"Unhealthy"' in (row.detail or ""))
    return failed.t_ns / SECOND


def test_probes_tick_from_one_of_the_mounts_looks_between_the_first_sync_and_the_first_image() -> None:
    """300 ms apart and 12 ms behind the sync; the first of them finds nothing mounted, a sandbox takes 0.1 s."""
    known = {"image_ns": {"slurmctld-0": -17 * SECOND}, "entered_ns": {"slurmctld-0": -18 * SECOND}}
    looks = {round((failed_s(number, **known) + 18 - 0.012) % 10, 1) for number in range(12)}
    assert looks == {0.3, 0.6}
    assert mounts_looks_ns(0, 400 * MS) == []


def test_probes_tick_as_their_kubelet_has_logged_them() -> None:
    """The image and the sync tell less; of three answers one was the soonest, some ms behind its tick."""
    known = {
        "image_ns": {"slurmctld-0": -17 * SECOND}, "entered_ns": {"slurmctld-0": -18 * SECOND},
        "probed_ns": {"slurmctld-0": {"slurmctld/liveness": (-3_100 * MS, 6_500 * MS, 16_600 * MS)}},
    }  # fmt: skip
    assert [round(failed_s(number, **known) % 10, 1) for number in range(3)] == [6.5] * 3
