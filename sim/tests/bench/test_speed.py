"""Speed of whole replays on one core, events written. `nox -s bench`; the counts below are the gate of every CI run.

Workloads are those of workload/synthetic.py: 1,000 one-CPU nodes, 26.05's default scheduler settings.
"""

import resource
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from simpy_floor import easy_starts

from slurmtwin.contract.clock import DAY, HOUR, MINUTE, SECOND
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.workload.synthetic import synthetic
from slurmtwin.worlds.replay import replay_scenario
from slurmtwin.worlds.run import Run
from slurmtwin.worlds.twin import TwinOptions, run_scenario

COUNTS = {"w2000": (24191, 31683), "o1000": (13517, 16601)}
"""(rows of the event table, events of the engine): both move only when the model does."""


def replay_of(requests: Iterable[JobRequest], folder: Path | None = None, nodes: str = "1000x1") -> Run:
    return run_scenario(replay_scenario([nodes]), ".", TwinOptions(folder=folder), requests)


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_the_number_of_events_is_what_it_was(name: str) -> None:
    """More events for the same jobs is a slower twin on any machine."""
    run = replay_of(synthetic(name).requests())
    assert (run.event_count, run.manifest.results["engine_events"]) == COUNTS[name]


@pytest.mark.bench
@pytest.mark.timeout(1800)
@pytest.mark.benchmark(timer=time.process_time)
@pytest.mark.parametrize(("name", "rounds"), [("w20000", 3), ("o5000", 3)])
def test_jobs_per_second(benchmark: Any, figures: dict[str, float], name: str, rounds: int) -> None:
    """CPU time of a whole run beside that of the SimPy floor on the same jobs (bar: 10,000 and 2,500 jobs/s)."""
    requests = list(synthetic(name).requests())
    floor_s = min(floor_seconds(requests) for _ in range(rounds))
    with tempfile.TemporaryDirectory() as folder:
        run = benchmark.pedantic(replay_of, (requests, Path(folder)), rounds=rounds, warmup_rounds=1)
    took_s = benchmark.stats.stats.min
    figures["jobs/s"] = round(len(requests) / took_s)
    figures["SimPy floor jobs/s"] = round(len(requests) / floor_s)
    figures["times the floor"] = round(took_s / floor_s, 1)
    figures["events"] = run.event_count


def floor_seconds(requests: Sequence[JobRequest]) -> float:
    """CPU time of the same jobs under bare EASY in SimPy: what is above it, Slurm's rules and the event table cost."""
    jobs = [
        (j.submit_ns // SECOND, j.ntasks or 1, (j.run_ns or 0) // SECOND, (j.limit_ns or 0) // SECOND) for j in requests
    ]
    began = time.process_time()
    easy_starts(jobs, 1000)
    return time.process_time() - began


@pytest.mark.bench
@pytest.mark.timeout(7200)
@pytest.mark.benchmark(timer=time.process_time)
def test_a_million_jobs(benchmark: Any, figures: dict[str, float]) -> None:
    """CPU time and peak memory of one run of 1,000,000 jobs (bar: 120 s, 1 GB)."""
    jobs = synthetic("w1000000")
    with tempfile.TemporaryDirectory() as folder:
        run = benchmark.pedantic(replay_of, (jobs.requests(), Path(folder)), rounds=1)
    figures["CPU s"] = round(benchmark.stats.stats.min, 1)
    figures["jobs/s"] = round(len(jobs) / benchmark.stats.stats.min)
    figures["peak RSS MB"] = run.manifest.resources["max_rss_mb"]


MONTH_NS = 30 * DAY
MEMORY_JOBS = 1_000_000


@pytest.mark.bench
@pytest.mark.timeout(1800)
@pytest.mark.benchmark(timer=time.process_time)
def test_memory_is_flat(benchmark: Any, figures: dict[str, float]) -> None:
    """The process that replays a million jobs is as large in month 10 as in month 2 (bar: 5 %)."""
    seen: dict[int, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        benchmark.pedantic(replay_of, (steady_jobs(seen), Path(folder)), rounds=1)
    figures["RSS MB in month 2"], figures["in month 10"] = round(seen[2]), round(seen[10])
    assert seen[10] <= 1.05 * seen[2]


def steady_jobs(seen: dict[int, float]) -> Iterator[JobRequest]:
    """Ten months of jobs that keep half of 1,000 nodes busy; the largest RSS of each month (MB) goes to `seen`."""
    for number in range(1, MEMORY_JOBS + 1):
        submit_ns = 10 * MONTH_NS * number // MEMORY_JOBS
        month = submit_ns // MONTH_NS + 1
        if not number % 1000:
            seen[month] = max(seen.get(month, 0.0), rss_mb())
        yield JobRequest(
            job_id=number, submit_ns=submit_ns, run_ns=HOUR + number % 59 * MINUTE, limit_ns=2 * HOUR,
            ntasks=number % 4 + 1,
        )  # fmt: skip


def rss_mb() -> float:
    """Resident memory of this process now, MB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6
