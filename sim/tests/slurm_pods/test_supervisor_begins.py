"""supervisord itself takes its time: before its first round, to start a program again, and to end."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.environment import Environment
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.slurm_pods.settings import DaemonPods
from slurmtwin.models.slurm_pods.supervisor import Supervisor
from slurmtwin.worlds.pod_operator import supervised_ends, supervised_restart


def test_the_daemon_starts_a_round_after_supervisord() -> None:
    """A Python program's start, then a poll of 1 s (recorded in x19, x33, x47: slurmd 1.1 to 1.3 s after its pod), or
    of as much as a verdict wants."""
    env = Environment()
    began: list[int] = []
    Supervisor(env, DaemonPods(supervisor_begin=lambda: 150 * MS), lambda: began.append(env.now_ns)).begin()
    settings = DaemonPods(supervisor_begin=lambda: 150 * MS, supervisor_round_ns=SECOND // 2)
    Supervisor(env, settings, lambda: began.append(env.now_ns)).begin()
    env.run(until=2 * SECOND)
    assert began == [650 * MS, 1150 * MS]


@pytest.mark.parametrize(("version", "share"), [("22.05", "supervisor.crash-2205"), ("26.05", "supervisor.crash")])
@pytest.mark.parametrize(("comes_twice", "wait_ns"), [(False, 2 * SECOND), (True, 4 * SECOND)])
def test_a_crash_is_followed_by_a_start_one_or_two_whole_rounds_later(
    version: str, share: str, comes_twice: bool, wait_ns: int
) -> None:
    """The crash wakes poll(): what is reaped then starts a round later, what is not one more (supervisord 4.2.5).

    How often is measured of each version (SHARES), a round is that of the world.
    """

    class World:
        cluster: Any = SimpleNamespace(conf=SimpleNamespace(version=version))

        def happens(self, name: str) -> Callable[[], bool]:
            assert name == share
            return lambda: comes_twice

        def scaled(self, _name: str, value_ns: int) -> int:
            return 2 * value_ns

    world: Any = World()
    look = supervised_restart(world)
    assert [look(), look()] == [wait_ns, wait_ns]


@pytest.mark.parametrize(("operator", "role", "low", "high"), [
    ("", "slurmctld", 0.84, 0.94), ("", "slurmd", 0.5, 0.66), ("reference", "slurmd", 0.5, 0.66),
    ("slinky", "slurmd", 0.32, 0.48),
])  # fmt: skip
def test_a_stop_is_heard_in_the_next_round_and_may_end_a_round_later(
    operator: str, role: str, low: float, high: float
) -> None:
    """Measured without a cluster (supervised_stop): slurmctld 57 of 64, slurmd 37 of 64; recorded of Slinky 5 of 13."""

    class World:
        streams = RandomStreams(1)

    world: Any = World()
    hears, ends = supervised_ends(operator, world)
    waits = sorted(hears() for _ in range(400))
    assert waits[0] < 20 * MS
    assert 980 * MS < waits[-1] < SECOND
    later = [ends(role) for _ in range(400)]
    assert set(later) == {0, SECOND}
    assert low < later.count(SECOND) / 400 < high


def stopped_at(pods_rig: Any, down: bool) -> list[float]:
    """When the worker's container has ended: supervisord is told at 30 s, its slurmd ended with 0 at 20 s or runs."""
    settings = {"supervisor_hears": lambda: 700 * MS, "supervisor_ends": lambda _role: SECOND, "stop": lambda: 40 * MS}
    job = {"id": 1, "submit": "1s", "run": "300s", "time": "10", "nodelist": "w-1"}
    rig = pods_rig([job], process="supervised", **settings)
    if down:
        rig.at(20, lambda: rig.slurmd().signal("TERM"))
    rig.at(30, lambda: rig.slurmd().terminate())
    rig.run(40)
    found: list[float] = rig.times(Kind.CONTAINER_ENDED, "apiserver", app="slurmd")
    return found


def test_whose_program_is_down_ends_as_soon_as_it_hears(pods_rig: Any) -> None:
    """40 of 40 stops without a cluster ended within the second (supervised_stop --down)."""
    assert stopped_at(pods_rig, down=False) == [31.74]
    assert stopped_at(pods_rig, down=True) == [30.74]
