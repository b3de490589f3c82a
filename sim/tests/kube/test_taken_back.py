"""What slurm-operator has done before a fault: workers that it took back, lists that are there already."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from replicated_runs import SCENARIOS, made, recorded, replicated

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.pod_operator import reserved_first
from slurmtwin.worlds.start_times import StartTimes

FAULTS = SCENARIOS / "faults"


def start_times(name: str, recording: str) -> StartTimes:
    """What replications of a recording stand on."""
    times = made(FAULTS / f"{name}.yaml", recording)[1].times
    assert times is not None
    return times


def readiness(rows: Iterable[Any], before_ns: int) -> list[tuple[str, bool, int]]:
    """Worker, whether it is ready, and when a watch told of that."""
    kinds = {"pod.ready": True, "pod.unready": False}
    heard = [row for row in rows if row.t_ns < before_ns and row.actor == "collector" and row.kind in kinds]
    found = [(str(row.detail).split("/")[-1].rstrip('"}'), kinds[row.kind], row.t_ns) for row in heard]
    return sorted((one for one in found if one[0].startswith("w-")), key=lambda one: one[2])


def unready(rows: Iterable[Any], before_ns: int) -> set[str]:
    """Workers that are not ready then, though they had been."""
    return {worker for worker, ready in {one[0]: one[1] for one in readiness(rows, before_ns)}.items() if not ready}


@pytest.mark.parametrize(
    ("name", "recording", "workers"),
    [
        ("x33-slinky", "42", {"w-0", "w-1"}), ("x37-slinky", "19", {"w-0", "w-1"}),
        ("x22-slinky", "10", {"w-0", "w-1"}),
        ("x25-slow-api", "2", set()), ("x33-slinky", "27", set()), ("x33-slinky", "7", set()),
    ],
)  # fmt: skip
def test_workers_that_a_pass_took_back_are_not_ready_when_the_last_one_before_the_fault_ends(
    name: str, recording: str, workers: set[str]
) -> None:
    """Just those that the recording has so, by the pass of the last status or, with #42, one before it."""
    times = start_times(name, recording)
    assert set(times.taken_back) == workers == unready(recorded(name, recording).rows(), times.fault_ns[0])
    assert times.told_ns is not None
    for number in range(4):
        rows = replicated(FAULTS / f"{name}.yaml", recording, number)
        assert unready(rows, times.told_ns + 500 * MS) == workers
        first = {worker: at_ns for worker, ready, at_ns in reversed(readiness(rows, times.fault_ns[0])) if not ready}
        for worker, at_ns in times.taken_back.items():
            assert first[worker] - at_ns == pytest.approx(0, abs=200 * MS)


@pytest.mark.parametrize(("name", "recording", "worker"), [("x18-slinky", "2", "w-1"), ("x22-slinky", "20", "w-0")])
def test_a_kubelet_puts_right_what_a_pass_took_back_when_it_did(name: str, recording: str, worker: str) -> None:
    """Its sweeps, 10 s apart, are known from a return before the fault."""
    times = start_times(name, recording)
    back = [
        [at_ns for one, ready, at_ns in readiness(rows, times.fault_ns[0]) if one == worker and ready][-1]
        for rows in (recorded(name, recording).rows(), replicated(FAULTS / f"{name}.yaml", recording))
    ]
    assert back[1] - back[0] == pytest.approx(0, abs=40 * MS)


@pytest.mark.parametrize(
    ("told_s", "first"), [(28.0, False), (31.9, False), (32.1, True), (41.5, True), (59.9, True), (60.5, False)]
)
def test_a_status_within_the_second_half_minute_says_that_reservations_were_asked_for_at_once(
    told_s: float, first: bool
) -> None:
    """In seconds since the RestApi object: where the client's first look came before, each pass hangs until 60."""
    times = StartTimes(rest_ns=-SECOND, told_ns=round((told_s - 1) * SECOND))
    assert reserved_first(times) is first
    assert not reserved_first(StartTimes(rest_ns=0))


def test_a_scale_in_that_met_no_list_drains_at_once() -> None:
    """x33-slinky #29: 0.12 s behind the order, 58.8 s behind the RestApi object; by the usual lists it takes 34 s."""
    times = start_times("x33-slinky", "29")
    rows = replicated(FAULTS / "x33-slinky.yaml", "29")
    drained_ns = next(row.t_ns for row in rows if row.kind == "node.drained")
    assert 0 < drained_ns - times.fault_ns[0] < 200 * MS
    deleting = next(row.t_ns for row in rows if row.kind == "pod.deleting" and '"slurmd"' in str(row.detail))
    assert deleting / SECOND == pytest.approx(78.6, abs=1.5)


def test_a_restapi_object_is_there_when_an_event_tells_of_it() -> None:
    """x33-slinky #4: a busy collector saw the object 0.47 s behind an event about it."""
    assert start_times("x33-slinky", "4").rest_ns == -45_270_821_000


def under_slurm_operator() -> Iterator[tuple[str, str]]:
    """Scenario and recording of all runs under it that replications stand on."""
    for path in sorted(FAULTS.glob("*.yaml")):
        pods = load_scenario(path).pods
        if pods is not None and pods.operator == "slinky" and not path.stem.startswith("quiet"):
            for folder in sorted((SCENARIOS / "recordings" / path.stem / "26.05" / "pods").glob("*")):
                yield path.stem, folder.name


def test_how_many_runs_have_such_workers_and_such_lists() -> None:
    """docs/surprises.md."""
    found = [start_times(*run) for run in under_slurm_operator()]
    assert len(found) == 238
    assert sum(bool(times.taken_back) for times in found) == 46
    assert sum(reserved_first(times) for times in found) == 9


def test_half_of_all_runs_have_workers_taken_back_until_the_kubelets_next_sweep() -> None:
    """docs/surprises.md: before a first fault, seven of eight right behind a status of the set, at any time of the 10 s
    between two sweeps.
    """
    apart_ms, unready_s = [], []
    for run in under_slurm_operator():
        rows = list(recorded(*run).rows())
        fault_ns = next(row.t_ns for row in rows if row.kind == "fault.injected")
        status_ns = [row.t_ns for row in rows if row.kind == "object.changed" and row.actor == "collector"]
        known: set[str] = set()
        gone: dict[str, int] = {}
        back_s = []
        for worker, ready, at_ns in readiness(rows, rows[-1].t_ns + 1):
            if not ready and worker in known and at_ns < fault_ns:
                gone[worker] = at_ns
                apart_ms.append(min((at_ns - told for told in status_ns if told <= at_ns), default=SECOND) / MS)
            elif ready and worker in gone:
                back_s.append((at_ns - gone.pop(worker)) / SECOND)
            known.add(worker)
        unready_s += back_s[:1]
    assert len(unready_s) == 121
    assert 0 < min(unready_s) < max(unready_s) < 10.4
    assert statistics.quantiles(unready_s, n=4) == pytest.approx([2.5, 5, 7.5], abs=1)
    assert sum(ms < 100 for ms in apart_ms) / len(apart_ms) == pytest.approx(0.88, abs=0.05)
