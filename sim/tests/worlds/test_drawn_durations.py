"""Every calibrated duration moves a replication: a number that nobody draws is measured for nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurmtwin.contract.clock import MS, SECOND, US
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.pod_durations import DURATIONS
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.pod_world import PodWorld
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

SCENARIOS = Path(__file__).parents[3] / "scenarios"
FAULT_NS = 25 * SECOND


def rows(
    path: str, durations: dict[str, tuple[int, ...]], version: str = "26.05", fault_ns: int = FAULT_NS
) -> list[Event]:
    """One replication of a scenario with every duration its law may have."""
    times = StartTimes(slurmctld_ns=-20 * SECOND, fault_ns=(fault_ns,), submit_ns={1: SECOND})
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


def test_looks_passes_and_what_waits_for_the_clock_come_by_laws_of_their_own() -> None:
    """A tick that waits for a cycle's end comes when the loop wakes, and so does a pass for a job that has waited; the
    log names silent nodes when time(NULL) shows a second, or with the next one's look (docs/surprises.md).
    """
    wake_us, shown_us = 700, 5000
    durations = {**still_durations(), "loop-wake": (wake_us * US,)}
    found = rows("faults/x64-worker-host-lost.yaml", durations)

    def behind_us(kind: Kind) -> set[int]:
        return {row.t_ns % SECOND // US for row in found if row.kind is kind}

    assert behind_us(Kind.JOB_STARTED) == {wake_us}
    assert behind_us(Kind.JOB_REQUEUED) == {wake_us}
    assert behind_us(Kind.NODE_NOT_RESPONDING) <= {wake_us, shown_us}


def test_a_ghost_ends_with_its_nodes_answer_to_a_request_to_register() -> None:
    """So much behind its tick, which is the same whatever the answer takes."""
    ends_ns = []
    for answer_ms in (4, 24):
        durations = {**still_durations(), "register-answer": (answer_ms * MS,)}
        found = rows("faults/s1b-young-job.yaml", durations, fault_ns=10 * SECOND)
        ends_ns.append(next(row.t_ns for row in found if row.kind is Kind.JOB_REQUEUED))
    assert ends_ns[1] - ends_ns[0] == 20 * MS
