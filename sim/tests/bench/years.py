"""Simulated years at the intensity of w20000 on two processors: `python sim/tests/bench/years.py [YEARS] [WORKERS]`.

Each year is a run of its own: a seed of the w workload (1,000 one-CPU nodes, load 0.90, some 270,000 jobs), events
hashed and written as a replay writes them. 33 years are the campaign of ScSF. Prints a line per year, and at the end
what all took; the hash over the years' hashes is that of any split.
"""

from __future__ import annotations

import hashlib
import math
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from slurmtwin.campaign.pool import run_tasks
from slurmtwin.contract.clock import DAY
from slurmtwin.workload.synthetic import LOADS, synthetic, synthetic_jobs
from slurmtwin.worlds.replay import replay_scenario
from slurmtwin.worlds.twin import TwinOptions, run_scenario

YEAR_DAYS = 365.25


@dataclass(frozen=True, slots=True)
class Year:
    """One run: its seed, jobs, simulated days, CPU seconds with the making of its jobs, and event hash."""

    seed: int
    jobs: int
    days: float
    cpu_s: float
    event_hash: str


def play(task: tuple[int, int]) -> Year:
    """(seed, jobs): one run."""
    seed, jobs = task
    began = time.process_time()
    workload = synthetic_jobs(jobs, LOADS["w"], seed)
    with tempfile.TemporaryDirectory() as folder:
        run = run_scenario(replay_scenario(["1000x1"]), ".", TwinOptions(folder=Path(folder)), workload.requests())
    results = run.manifest.results
    assert results["stop_reason"] == "done"
    cpu_s = time.process_time() - began
    return Year(seed, jobs, results["simulated_ns"] / DAY, cpu_s, results["event_hash"])


def main(years: int, workers: int) -> int:
    """Print the figures; 1 when fewer years were played than asked for."""
    month = synthetic("w20000")
    jobs = round(len(month) * YEAR_DAYS * 86_400 / month.span_s)
    tasks = [(seed, jobs) for seed in range(1, years + 1)]
    began = time.monotonic()
    done = run_tasks(play, tasks, workers, lambda now, of: print(f"{now} of {of}", flush=True))  # noqa: T201
    wall_s = time.monotonic() - began
    for year in done:
        print(f"seed {year.seed}: {year.jobs} jobs, {year.days:.1f} days, {year.cpu_s:.1f} s of CPU, {year.event_hash}")  # noqa: T201
    played = math.fsum(year.days for year in done) / YEAR_DAYS
    total, cpu_s = sum(year.jobs for year in done), math.fsum(year.cpu_s for year in done)
    mark = hashlib.blake2b("".join(year.event_hash for year in done).encode(), digest_size=16).hexdigest()
    print(  # noqa: T201
        f"{played:.2f} simulated years, {total} jobs, {workers} workers: {wall_s:.1f} s wall, {cpu_s:.1f} s of CPU, "
        f"{total / wall_s:,.0f} jobs/s; load {os.getloadavg()[0]:.1f}; {mark}"
    )
    return 0 if played >= 0.98 * years else 1


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(given + [33, 2][len(given) :])))
