"""Memory over simulated months: `nox -s bench`. Finished jobs leave the tables, rows stream to disk."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.models.slurmctld import compiled_planner  # noqa: F401  loaded before anything is measured
from slurmtwin.workload.synthetic import synthetic_jobs
from slurmtwin.worlds.replay import replay_scenario
from slurmtwin.worlds.twin import TwinOptions, run_scenario

MONTH_NS = 30 * 86_400 * SECOND
JOBS, LOAD = 60_000, 0.24
"""Ten and a half months of arrivals on 1,000 nodes."""


def resident_mb() -> float:
    """What the process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.bench
@pytest.mark.timeout(1800)
def test_memory_is_flat(benchmark: Any) -> None:
    """At simulated month 10 the process holds no more than 5 % beyond what it held at month 2."""
    held: dict[int, float] = {}

    def watched(requests: Iterator[JobRequest]) -> Iterator[JobRequest]:
        for request in requests:
            month = request.submit_ns // MONTH_NS
            if month not in held:
                held[month] = resident_mb()
            yield request

    def run() -> None:
        with tempfile.TemporaryDirectory() as folder:
            jobs = watched(synthetic_jobs(JOBS, LOAD).requests())
            run_scenario(replay_scenario(["1000x1"]), ".", TwinOptions(folder=Path(folder)), jobs)

    benchmark.pedantic(run, rounds=1)
    benchmark.extra_info["mb_by_month"] = {month: round(mb, 1) for month, mb in held.items()}
    assert held[10] <= 1.05 * held[2], held
