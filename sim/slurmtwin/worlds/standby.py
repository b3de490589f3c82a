"""What the rounds and polls of a standby slurmctld take in pods (backup.c run_backup(), 26.05)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from slurmtwin.worlds.pod_world import PodWorld

Draw = Callable[[], int]
WAKES: Final = 20
"""Where nothing else is known a round is late as slurmctld's loop is when it wakes, each by itself: over many rounds by
the mean."""


def begin(world: PodWorld) -> None:
    """Give the cluster of this world what a standby takes, in ns."""
    cluster = world.cluster
    cluster.standby_round = _round(world)
    if world.has("standby-ping"):
        cluster.standby_ping = _ping(world)
    cluster.hung_ping, cluster.takeover_load = world.draw("hung-ping"), world.draw("takeover-load")


def _round(world: PodWorld) -> Draw:
    if world.has("standby-round"):
        return world.draw("standby-round")
    wakes = world.draw("main-pass")
    return lambda: sum(wakes() for _ in range(WAKES)) // WAKES


def _ping(world: PodWorld) -> Draw:
    """A poll, and now and then a round before it that stalls."""
    polls, stalls, stall = world.draw("standby-ping"), world.happens("standby.stalls"), world.draw("standby-stall")
    return lambda: polls() + (stall() if stalls() else 0)
