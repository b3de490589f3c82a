"""When an operator's process runs again (models/operator_pod.py)."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

import pytest
from replicated_runs import SCENARIOS, replicated

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.daemon_clock import DaemonClock
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.models.operator_pod import POD_NS, OperatorPod

X22: Path = SCENARIOS / "faults" / "x22-slinky.yaml"


class Process:
    """It does nothing."""

    clients: tuple[Any, ...] = ()
    informers: tuple[Any, ...] = ()

    def __init__(self, env: Environment) -> None:
        self.clock = DaemonClock(env)


class Pod(OperatorPod):
    """It notes when its processes begin."""

    def __init__(self, env: Environment) -> None:
        super().__init__(env, restart=lambda: 400 * MS)
        self.began_s: list[float] = []
        self.start()

    def start(self) -> None:
        """exec."""
        self.began_s.append(self.env.now_ns / SECOND)
        self._begun(Process(self.env))


def began_s(*acts: tuple[float, str]) -> list[float]:
    """When processes begin, with what is done to them at which second."""
    env = Environment()
    pod = Pod(env)
    for at_s, act in acts:
        env.call_at(round(at_s * SECOND), lambda _, act=act: getattr(pod, act)())
    env.run_within(RunBudget(max_time_ns=2000 * SECOND))
    return pod.began_s


def test_a_killed_process_comes_back_as_any_container_does() -> None:
    """At once, then behind 10 and 20 s of back-off; after ten minutes at once again (kubernetes.md 2.9)."""
    found = began_s((10, "kill"), (20, "kill"), (40, "kill"), (900, "kill"))
    assert found == pytest.approx([0, 10.4, 30.4, 60.4, 900.4])


def test_another_pod_knows_no_back_off() -> None:
    """It is made anew, and its own first end is the first."""
    found = began_s((10, "kill"), (20, "replace"), (30, "kill"))
    assert found == pytest.approx([0, 10.4, 20 + POD_NS / SECOND, 30.4])


def test_who_is_not_there_is_not_killed() -> None:
    """Two signals before the restart are one end."""
    assert began_s((10, "kill"), (10.1, "kill"), (20, "kill")) == pytest.approx([0, 10.4, 30.4])


def test_slurm_operator_scales_on_as_late_behind_its_kill_as_recorded() -> None:
    """16.7 to 19.7 s in fifteen runs, median 17.9: relist, process, a lease of 15 s, a look at it, its controllers."""
    late_s = []
    for number in range(24):
        rows = replicated(X22, "16", number)
        killed_ns = [row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED][1]
        deleted_ns = [row.t_ns for row in rows if row.kind is Kind.POD_DELETING and row.t_ns > killed_ns]
        late_s += [(at_ns - killed_ns) / SECOND - 61.3 for at_ns in deleted_ns[:1]]  # two polls behind, as recorded
    assert len(late_s) >= 12
    assert min(late_s) >= 15.6
    assert max(late_s) <= 21
    assert 17.3 <= statistics.median(late_s) <= 18.7
