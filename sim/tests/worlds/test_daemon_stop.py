"""A deleted pod's daemon has SIGTERM, and its end is told, when quiet-deleted has shown that."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.pod_durations import still_durations
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
    """Whatever the runtime's own exit takes: it is a part of the span that a watcher sees."""
    later = [row for row in rows(relists, restart_ms) if row.t_ns >= DELETED_NS]
    stopped = next(row for row in later if row.kind is Kind.SLURMCTLD_STOPPED)
    ended = next(row for row in later if row.kind is Kind.POD_ENDED and row.actor == "collector")
    assert stopped.t_ns - DELETED_NS == pytest.approx(70 * MS, abs=8 * MS)
    assert ended.t_ns - stopped.t_ns == pytest.approx(400 * MS, abs=40 * MS)
