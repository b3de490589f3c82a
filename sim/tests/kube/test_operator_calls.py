"""What the reference operator's looks, calls and polls take, beside what its recordings show."""

from __future__ import annotations

import statistics

import pytest
from replicated_runs import SCENARIOS, replicated

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario


def rows_of(name: str, recording: str, number: int = 0) -> list[Event]:
    """One replication of a recording."""
    return replicated(SCENARIOS / "operator" / f"{name}.yaml", recording, number)


def behind_fault(rows: list[Event], kind: Kind) -> list[tuple[int, Event]]:
    """Rows of a kind behind the fault, and how long."""
    fault_ns = next(row.t_ns for row in rows if row.kind is Kind.FAULT_INJECTED)
    return [(row.t_ns - fault_ns, row) for row in rows if row.kind is kind and row.t_ns > fault_ns]


def labelled_s(rows: list[Event], node: str) -> float:
    """When the pod of a node that is to go has its label for that: simulated seconds."""
    done = (row for _, row in behind_fault(rows, Kind.ACTION_ISSUED) if row.node == node)
    return next(row.t_ns for row in done if '"label-pod"' in (row.detail or "")) / SECOND


@pytest.mark.parametrize("number", range(3))
def test_a_node_set_that_is_deleted_is_drained_by_calls_of_some_milliseconds(number: int) -> None:
    """Recorded in op-delete 11: the first 137 ms behind the fault, 100 of which are gathered, the fourth 12 later."""
    drained = [at_ns / MS for at_ns, _ in behind_fault(rows_of("op-delete", "11", number), Kind.NODE_DRAINED)]
    assert drained[0] == pytest.approx(150, abs=30)
    assert drained[3] - drained[0] == pytest.approx(8, abs=5)


def beyond_5_s_ms(rows: list[Event]) -> float:
    """From the last memory that is stored before the job's end to the first one behind it, beyond whole 5 s."""
    ended_ns = max(row.t_ns for row in rows if row.kind is Kind.JOB_ENDED)
    told = [row.t_ns for row in rows if row.kind is Kind.OBJECT_CHANGED]
    return (min(at for at in told if at > ended_ns) - max(at for at in told if at < ended_ns)) / MS % 5000


@pytest.mark.parametrize(("recording", "recorded_ms"), [("26", 100), ("29", 88), ("30", 106)])
def test_passes_that_wait_for_a_job_come_a_lone_look_behind_each_other(recording: str, recorded_ms: int) -> None:
    """Five that nothing wakes but their own time, from the memory of the last idle worker's end to that of the job's:
    looks beside the Cluster's own passes would take 150 to 250 ms beyond 25 s. The middle of five replications."""
    found = [beyond_5_s_ms(rows_of("op-delete", recording, number)) for number in range(5)]
    assert statistics.median(found) == pytest.approx(recorded_ms, abs=30)


@pytest.mark.parametrize(("recording", "recorded_s"), [("8", 42.98), ("10", 42.98)])
def test_a_poll_puts_the_next_pass_off(recording: str, recorded_s: float) -> None:
    """An object is in the queue once: passes come 5 s behind the poll, not behind what was due before it."""
    assert labelled_s(rows_of("op-delete", recording), "w-0") == pytest.approx(recorded_s, abs=0.2)


@pytest.mark.parametrize(("recording", "recorded_s"), [("4", 3.48), ("15", 4.77)])
def test_a_change_of_slurm_conf_is_read_three_gathered_passes_and_a_mount_later(
    recording: str, recorded_s: float
) -> None:
    """In 15 a poll's pass comes 1.3 s into the mount's 3 s, which begin anew with it."""
    started = [at_ns for at_ns, _ in behind_fault(rows_of("op-config-change", recording), Kind.SLURMCTLD_STARTED)]
    assert started[0] / SECOND == pytest.approx(recorded_s, abs=0.06)


def done_s(name: str, looks_ms: tuple[int, int], action: str) -> list[float]:
    """When the operator's actions of a name are done, where a look takes so long beside the Cluster's and alone."""
    path = SCENARIOS / "operator" / f"{name}.yaml"
    looks = {"operator-look": (looks_ms[0] * MS,), "operator-look-alone": (looks_ms[1] * MS,)}
    laws = still_durations()
    laws["pod-create"] = laws["pod-patch"]  # else looks move what watches draw while the workers are made, 1 to 8 ms
    options = TwinOptions(keep=True, durations={**laws, **looks}, still=True, times=StartTimes(poll_ns=-2 * SECOND))
    rows = run_scenario(load_scenario(path), path.parent, options).kept or []
    return [at_ns / SECOND for at_ns, row in behind_fault(rows, Kind.ACTION_ISSUED) if f'"{action}"' in str(row.detail)]


@pytest.mark.parametrize(("name", "action"), [("op-delete", "drain"), ("op-kubectl-drain", "label-pod")])
def test_the_cluster_looks_beside_a_pass_that_a_spec_or_a_poll_brings(name: str, action: str) -> None:
    """A deletion's first drain, and the protection that the first poll behind a job's end takes off."""
    at_once = done_s(name, (20, 20), action)[0]
    assert done_s(name, (220, 20), action)[0] - at_once == pytest.approx(0.2, abs=0.001)
    assert done_s(name, (20, 220), action)[0] == pytest.approx(at_once, abs=0.001)
