"""Pods that live and go: how many, at what cost, and that nothing of them stays."""

from __future__ import annotations

import gc
import tracemalloc
from typing import Any

import pytest
import slinky_cluster
from bridge_cluster import run_bridged
from pod_cluster import PodRun, run_pods

from slurmtwin.contract.clock import SECOND
from slurmtwin.engine.event_sink import EventSink

COUNTS = (4240, 9260, 1520)
"""(rows, events of the engine, changes at the server) of 300 pods on 10 nodes: they move when the models do."""

BRIDGED = (4374, 18_763, 2320, 0)
"""(rows, events of the engine, changes at the server, pods left) of 200 pods under slurm-bridge on 40 nodes."""

SLINKY = (7401, 69_120)
"""(rows, events of the engine) of the first 60 jobs of w20000 under slinky on 30 nodes, with faults."""


@pytest.fixture(scope="module")
def small() -> PodRun:
    return run_pods(300, 10)


def test_the_number_of_events_of_a_pod_is_what_it_was(small: PodRun) -> None:
    """More events for the same pods is a slower twin on any machine."""
    assert (small.rows, small.engine_events, small.writes) == COUNTS


def test_the_number_of_events_of_a_bridged_pod_is_what_it_was() -> None:
    """The same under slurm-bridge, slurmctld and the bridge included; no pod is left, and no row is missing."""
    run = run_bridged(200, 40, run_ns=2 * SECOND)
    assert (run.rows, run.engine_events, run.writes, run.left) == BRIDGED


def test_the_number_of_events_of_jobs_under_slinky_is_what_it_was() -> None:
    """Operator, labels and deadlines included: it had doubled in four days that nobody counted (docs/speed.md)."""
    run, _ = slinky_cluster.play(slinky_cluster.first_jobs(60, 30), 30)
    assert (run.event_count, run.manifest.results["engine_events"]) == SLINKY


def test_every_pod_comes_and_goes(small: PodRun) -> None:
    """14 rows each: eight facts, six of them dated by kubelet or server as well as received."""
    assert small.left == 0
    assert small.rows >= 14 * small.pods


def test_a_run_ten_times_as_long_holds_no_more() -> None:
    """Python's own count of live bytes when 200 pods have come, and when 2,000 have: 60 of them live at a time."""
    held: dict[int, int] = {}

    def look(number: int, sink: EventSink) -> None:
        if number in (200, 2000):
            assert sink.event_hash  # rows that wait for their block are written
            gc.collect()
            held[number] = tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        run_pods(2001, 10, SECOND // 2, look)
    finally:
        tracemalloc.stop()
    assert held[2000] <= 1.05 * held[200], held


@pytest.mark.bench
@pytest.mark.timeout(1800)
def test_states_per_second(figures: dict[str, float]) -> None:
    """20,000 pods, one per job, on 1,000 nodes: CPU time, best of three (bar: 20,000 states/s)."""
    best: Any = min((run_pods(20_000, 1000) for _ in range(3)), key=lambda run: run.cpu_s)
    figures["states/s"] = round(best.states_per_s)
    figures["facts/s"] = round(best.facts_per_s)
    figures["us a pod"] = round(1e6 * best.cpu_s / best.pods)


@pytest.mark.bench
@pytest.mark.timeout(1800)
def test_transitions_per_second_under_slurm_bridge(figures: dict[str, float]) -> None:
    """20,000 pods, one external job each, on 1,000 nodes: CPU time, best of three (bar: 20,000 transitions/s)."""
    best = min((run_bridged(20_000, 1000) for _ in range(3)), key=lambda run: run.cpu_s)
    figures["bridged transitions/s"] = round(best.states_per_s)
    figures["us a bridged pod"] = round(1e6 * best.cpu_s / best.pods)


@pytest.mark.bench
@pytest.mark.timeout(1800)
def test_jobs_per_second_under_slinky(figures: dict[str, float]) -> None:
    """The first 2,000 jobs of w20000 on 1,000 nodes, a fault each hour: CPU time, without the start's (bar: 1,000)."""
    requests = slinky_cluster.first_jobs(2000, 1000)
    _, boot_s = slinky_cluster.play(requests[:1], 1000)
    _, cpu_s = slinky_cluster.play(requests, 1000)
    figures["jobs/s under slinky"] = round(len(requests) / (cpu_s - boot_s))
