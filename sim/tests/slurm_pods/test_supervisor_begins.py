"""supervisord itself takes its time before its first round."""

from __future__ import annotations

from typing import Any

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.engine.environment import Environment
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.slurm_pods.settings import DaemonPods
from slurmtwin.models.slurm_pods.supervisor import Supervisor
from slurmtwin.worlds.pod_operator import supervised_restart


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


def test_a_crash_is_followed_by_a_start_one_or_two_whole_rounds_later() -> None:
    """The crash wakes poll(): what is reaped then starts a round later, what is not one more (supervisord 4.2.5)."""

    class World:
        streams = RandomStreams(1)

        def scaled(self, _name: str, value_ns: int) -> int:
            return 2 * value_ns

    world: Any = World()
    look = supervised_restart(world)
    waits = [look() for _ in range(400)]
    assert set(waits) == {2 * SECOND, 4 * SECOND}
    assert 0.3 < waits.count(4 * SECOND) / 400 < 0.5
