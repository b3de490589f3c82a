"""What a standby's rounds and polls take in pods (worlds/standby.py)."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from slurmtwin.contract.clock import MS
from slurmtwin.worlds import standby
from slurmtwin.worlds.pod_durations import (
    EARLIER_BATCHES,
    LATER_BATCHES,
    POD_DURATIONS_FILE,
    SHARES,
    UNSEEN_MS,
    UNSEEN_ON_MS,
    still_durations,
)

DRAWN = {"standby-round": 1, "standby-ping": 2, "standby-stall": 6, "hung-ping": 8, "takeover-load": 4}
SINCE_25 = [path for _, path in LATER_BATCHES if path.name >= "pod_durations_2026_11_25.json"]


def cluster_of(stalls: Callable[[], bool]) -> Any:
    """The cluster of a world where each of these durations is a fixed number of ms."""
    world: Any = SimpleNamespace(
        cluster=SimpleNamespace(standby_ping=None),
        draw=lambda name: lambda: DRAWN[name] * MS,
        happens=lambda what: {"standby.stalls": stalls}[what],
    )
    standby.begin(world)
    return world.cluster


def test_a_poll_now_and_then_comes_behind_a_round_that_stalled() -> None:
    """Five of 36 takeovers beside an idle cluster came 5.7 to 26.8 ms later than others of as many rounds:
    likeliest are six in a hundred polls, and 6 ms."""
    turns = iter([False, True, False])
    cluster = cluster_of(lambda: next(turns))
    assert [cluster.standby_ping() // MS for _ in range(3)] == [2, 8, 2]
    assert cluster.standby_round() == 1 * MS
    happened, polls = SHARES["standby.stalls"]
    assert happened / polls == pytest.approx(0.06, abs=0.005)
    assert UNSEEN_MS["standby-stall"] == (6.0, 0.8)
    assert (cluster.hung_ping(), cluster.takeover_load()) == (8 * MS, 4 * MS)


@pytest.mark.parametrize("path", [POD_DURATIONS_FILE, *(path for _, path in EARLIER_BATCHES)], ids=lambda p: p.stem)
def test_on_the_first_days_its_rounds_and_polls_go_by_that_start(path: Any) -> None:
    """No takeover was measured in those hours."""
    start_ms = still_durations(path)["slurmctld-start"][0] / MS
    for name, ms in (("standby-round", 0.09), ("standby-ping", 1.6)):
        assert UNSEEN_ON_MS[path.name][name][0] == pytest.approx(ms * start_ms / 69.6, rel=0.002), name


@pytest.mark.parametrize("path", SINCE_25, ids=lambda path: path.stem)
def test_a_standby_goes_by_the_start_of_slurmctld_in_its_hour(path: Any) -> None:
    """0.09, 1.6, 8.1 and 4.0 ms beside a start of 69.6."""
    start_ms = still_durations(path)["slurmctld-start"][0] / MS
    laws = UNSEEN_ON_MS[path.name]
    for name, ms in (("standby-round", 0.09), ("standby-ping", 1.6), ("hung-ping", 8.1), ("takeover-load", 4.0)):
        assert laws[name][0] == pytest.approx(ms * start_ms / 69.6, rel=0.002), name
