"""What the rounds and polls of a standby slurmctld take in pods (backup.c run_backup(), 26.05)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmtwin.worlds.pod_world import PodWorld

Draw = Callable[[], int]


def begin(world: PodWorld) -> None:
    """Give the cluster of this world what a standby takes, in ns."""
    cluster = world.cluster
    cluster.standby_round, cluster.standby_ping = world.draw("standby-round"), _ping(world)
    cluster.hung_ping, cluster.takeover_load = world.draw("hung-ping"), world.draw("takeover-load")


def _ping(world: PodWorld) -> Draw:
    """A poll, and now and then a round before it that stalls."""
    polls, stalls, stall = world.draw("standby-ping"), world.happens("standby.stalls"), world.draw("standby-stall")
    return lambda: polls() + (stall() if stalls() else 0)
