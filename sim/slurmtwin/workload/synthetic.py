"""The synthetic benchmark workloads w5000, w20000, o5000 ...: SWF-like jobs on 1,000 one-unit nodes.

They are those of the peer comparison (reference/peers.md 4): the random generator, its seed and the order
of its draws are part of the definition, so the same jobs come out on any Python. Sizes: three in four a
power of two, else log-uniform, 1..256. Run times: log-normal, median 20 minutes, 30 s to 24 h. Requests:
the run time times 1 + an exponential draw of mean 1.5, rounded up to a limit that people ask for. Arrivals:
hours are weighted by a daily and weekly cycle over the span that gives the offered load.
"""

from __future__ import annotations

import random
import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from math import log, log2, pi, sin
from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.workload.trace_file import RequestFactory

LIMITS_S: Final = (300, 600, 900, 1800, 3600, 7200, 14_400, 28_800, 43_200, 86_400, 172_800)
"""Time limits that people ask for, in seconds."""
LARGEST: Final = 256
SHORTEST_S: Final = 30
LONGEST_S: Final = 86_400
MEDIAN_S: Final = 1200
SIGMA: Final = 1.4
OVER_ASK: Final = 1.5
USERS: Final = 50
LOADS: Final = {"w": 0.90, "o": 1.20}
NODES: Final = 1000


@dataclass(frozen=True, slots=True)
class SyntheticJobs:
    """A synthetic workload: columns in submit order, and the span of its arrivals in seconds."""

    submit_s: list[int]
    size: list[int]
    run_s: list[int]
    limit_s: list[int]
    user: list[int]
    span_s: float

    def __len__(self) -> int:
        return len(self.submit_s)

    def requests(self) -> Iterator[JobRequest]:
        """One request per job, numbered from 1; a processor is one task."""
        rows = zip(self.submit_s, self.size, self.run_s, self.limit_s, self.user, strict=True)
        build = RequestFactory("job_id", "submit_ns", "run_ns", "limit_ns", "ntasks", "user")
        names = [f"user{number}" for number in range(USERS + 1)]
        for number, (submit, size, run, limit, user) in enumerate(rows, 1):
            yield build(number, submit * SECOND, run * SECOND, limit * SECOND, size, names[user])


def synthetic(name: str, seed: int = 1, nodes: int = NODES) -> SyntheticJobs:
    """The workload of a name: w (load 0.90) or o (load 1.20) and the number of jobs, e.g. w20000."""
    found = re.fullmatch(r"([wo])([1-9]\d{0,7})", name)
    if not found:
        raise InputError(f"unknown synthetic workload {name!r}", hint="w5000, w20000, o5000, o20000, w1000000")
    return synthetic_jobs(int(found[2]), LOADS[found[1]], seed, nodes)


def synthetic_jobs(jobs: int, load: float, seed: int = 1, nodes: int = NODES) -> SyntheticJobs:
    """`jobs` jobs of offered load `load` on `nodes` nodes; equal arguments give equal jobs everywhere."""
    draw = random.Random(seed)  # noqa: S311  the definition names this generator
    sizes, runs, limits = [], [], []
    for _ in range(jobs):
        exponent = draw.random() * log2(LARGEST)
        size = 1 << int(exponent) if draw.random() < 0.75 else max(1, int(2**exponent))
        run = int(min(LONGEST_S, max(SHORTEST_S, draw.lognormvariate(log(MEDIAN_S), SIGMA))))
        wanted = run * (1.0 + draw.expovariate(1 / OVER_ASK))
        limit = LIMITS_S[min(len(LIMITS_S) - 1, bisect_left(LIMITS_S, wanted))]
        sizes.append(min(size, nodes))
        runs.append(run)
        limits.append(max(limit, run))
    work = sum(size * run for size, run in zip(sizes, runs, strict=True))
    span = work / (nodes * load)
    cumulated = list(accumulate(hour_weight(hour) for hour in range(int(span // 3600) + 1)))
    total = cumulated[-1]
    times = sorted(
        min(span, 3600.0 * (bisect_left(cumulated, draw.random() * total) + draw.random())) for _ in range(jobs)
    )
    pick = random.Random(seed + 1)  # noqa: S311
    users = [pick.randrange(1, USERS + 1) for _ in range(jobs)]
    return SyntheticJobs([int(t) for t in times], sizes, runs, limits, users, span)


def hour_weight(hour: int) -> float:
    """Relative arrivals in an hour counted from a Monday midnight: a bump by day, 60 % at the weekend."""
    of_day, day = hour % 24, hour // 24 % 7
    weight = 0.45 + 0.55 * max(0.0, sin(pi * (of_day - 6) / 14)) if 6 <= of_day <= 20 else 0.45
    return weight * (0.6 if day >= 5 else 1.0)
