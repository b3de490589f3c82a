"""Speed of whole replays on one core, events written. `nox -s bench`; the counts below are the gate of every CI run.

Workloads are those of workload/synthetic.py: 1,000 one-CPU nodes, 26.05's default scheduler settings.
"""

import tempfile
from pathlib import Path
from typing import Any

import pytest
from simpy_floor import easy_starts

from slurmtwin.contract.clock import SECOND
from slurmtwin.workload.synthetic import synthetic
from slurmtwin.worlds.replay import replay_scenario
from slurmtwin.worlds.run import Run
from slurmtwin.worlds.twin import TwinOptions, run_scenario

COUNTS = {"w2000": (24216, 31668), "o1000": (13574, 16618)}
"""(rows of the event table, events of the engine): both move only when the model does."""


def replay(name: str, folder: Path | None = None) -> Run:
    return run_scenario(replay_scenario(["1000x1"]), ".", TwinOptions(folder=folder), synthetic(name).requests())


@pytest.mark.parametrize("name", sorted(COUNTS))
def test_the_number_of_events_is_what_it_was(name: str) -> None:
    """More events for the same jobs is a slower twin on any machine."""
    run = replay(name)
    assert (run.event_count, run.manifest.results["engine_events"]) == COUNTS[name]


@pytest.mark.bench
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["w20000", "o5000"])
def test_jobs_per_second(benchmark: Any, name: str) -> None:
    """Jobs per second of a whole run, in extra_info, beside the bar."""
    with tempfile.TemporaryDirectory() as folder:
        run = benchmark.pedantic(replay, (name, Path(folder)), rounds=3, warmup_rounds=1)
    jobs = int(name[1:])
    benchmark.extra_info["jobs_per_s"] = round(jobs / benchmark.stats.stats.median)
    benchmark.extra_info["events"] = run.event_count


@pytest.mark.bench
@pytest.mark.parametrize("name", ["w20000", "o5000"])
def test_simpy_floor(benchmark: Any, name: str) -> None:
    """The same jobs under bare EASY in SimPy: the ratio to the twin is what Slurm's rules and the event table cost."""
    jobs = [(j.submit_ns // SECOND, j.ntasks or 1, (j.run_ns or 0) // SECOND, (j.limit_ns or 0) // SECOND)
            for j in synthetic(name).requests()]  # fmt: skip
    starts = benchmark.pedantic(easy_starts, (jobs, 1000), rounds=3, warmup_rounds=1)
    benchmark.extra_info["jobs_per_s"] = round(len(starts) / benchmark.stats.stats.median)


@pytest.mark.bench
@pytest.mark.timeout(1800)
def test_a_million_jobs(benchmark: Any) -> None:
    """One run of 1,000,000 jobs: wall time and peak memory in extra_info (bar: 120 s, 1 GB)."""
    with tempfile.TemporaryDirectory() as folder:
        run = benchmark.pedantic(replay, ("w1000000", Path(folder)), rounds=1)
    benchmark.extra_info["max_rss_mb"] = run.manifest.resources["max_rss_mb"]
