"""Every calibrated duration moves a replication: a number that nobody draws is measured for nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.pod_durations import DURATIONS
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.pod_world import PodWorld
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios"
FAULT_NS = 25 * SECOND


def rows(path: str, durations: dict[str, tuple[int, ...]], version: str = "26.05") -> list[Event]:
    """One replication of a scenario with every duration its law may have."""
    times = StartTimes(slurmctld_ns=-20 * SECOND, fault_ns=(FAULT_NS,), submit_ns={1: SECOND})
    options = TwinOptions(keep=True, times=times, durations=durations)
    scenario = load_scenario(SCENARIOS / path).of_version(version)
    return run_scenario(scenario, SCENARIOS, options).kept or []


def test_each_duration_is_drawn_by_one_of_the_scenarios(monkeypatch: pytest.MonkeyPatch) -> None:
    """registration was in every file of durations, and no model asked for it."""
    asked = set[str]()
    draw = PodWorld.draw

    def noted(world: PodWorld, name: str, by: str = "") -> Callable[[], int]:
        asked.add(name)
        return draw(world, name, by)

    monkeypatch.setattr(PodWorld, "draw", noted)
    durations = {**dict.fromkeys(DURATIONS, (10 * MS,)), **still_durations()}
    rows("faults/x62-slurmd-crash-main.yaml", durations, "22.05")
    for path in ("faults/x9-takeover", "faults/x47-slinky", "clusters/x83-cluster-lost", "operator/op-delete"):
        rows(f"{path}.yaml", durations)
    assert set(DURATIONS) - asked == set()


@pytest.mark.parametrize("wait_ms", [10, 60])
def test_a_slurmd_that_serves_registers_by_that_law(wait_ms: int) -> None:
    """What its container had run is missed by the registration, not when its log says that it serves."""
    durations = {**still_durations(), "registration": (wait_ms * MS,)}
    found = [row for row in rows("faults/x62-slurmd-crash-main.yaml", durations) if row.t_ns > FAULT_NS]
    serves = next(row.t_ns for row in found if row.kind is Kind.SLURMD_STARTED)
    missed = next(row.t_ns for row in found if row.kind is Kind.JOB_REQUEUED)
    assert 0 <= missed - serves - wait_ms * MS <= 2 * MS
