"""supervisord itself takes its time before its first round."""

from __future__ import annotations

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.engine.environment import Environment
from slurmtwin.models.slurm_pods.settings import DaemonPods
from slurmtwin.models.slurm_pods.supervisor import Supervisor


def test_the_daemon_starts_a_round_after_supervisord() -> None:
    """A Python program's start, then a poll of 1 s (recorded in x19, x33, x47: slurmd 1.1 to 1.3 s after its pod)."""
    env = Environment()
    began: list[int] = []
    Supervisor(env, DaemonPods(supervisor_begin=lambda: 150 * MS), lambda: began.append(env.now_ns)).begin()
    env.run(until=2 * SECOND)
    assert began == [1150 * MS]
