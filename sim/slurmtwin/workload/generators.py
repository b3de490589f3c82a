"""Workload generators: Lublin-Feitelson-like with cycles, bursts, and closed-loop users.

Draws come from a named stream (engine/random_streams.py): equal seeds give equal jobs, whatever else is drawn.
Lublin, Feitelson: The workload on parallel supercomputers, JPDC 63 (2003): sizes are serial, powers of two or
two-stage log-uniform; run times are hyper-gamma with a mix that depends on the size; arrivals follow the day.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from math import exp, log, log2
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import DAY, HOUR, MINUTE, SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import GenerateBurst, GenerateFeedback, GenerateLublin
from slurmtwin.workload.synthetic import LIMITS_S

if TYPE_CHECKING:
    import numpy as np

SERIAL: Final = 0.244
POWER_OF_TWO: Final = 0.576
SIZE_LOW: Final = 0.8
"""log2 of the smallest parallel size; two-stage uniform up to SIZE_MEDIUM with SIZE_SMALL, then to the largest."""
SIZE_MEDIUM: Final = 4.5
SIZE_SMALL: Final = 0.86
GAMMA_SHORT: Final = (4.2, 0.94)
GAMMA_LONG: Final = (312.0, 0.03)
"""Shape and scale of the natural logarithm of run times in seconds: short and long jobs."""
MIX_SLOPE: Final = -0.0054
MIX_BASE: Final = 0.78
"""Probability of a short job: base + slope * size."""
DAY_SHAPE: Final = 8.1737
DAY_SCALE: Final = 1.6
DAY_START: Final = 4
"""Arrivals over the day: a gamma density in hours after DAY_START. The shape is the model's, scale and start are
ours, so that the peak lies at half past three in the afternoon."""
NIGHT: Final = 0.1
"""Floor of the arrivals, as part of the peak."""
WEEKEND: Final = 0.6
LONGEST_S: Final = 5 * 86_400
MAX_JOBS: Final = 20_000_000
MAX_HOURS: Final = 1_000_000
LONGEST_PAUSE: Final = 100 * 365 * DAY


def generate(
    spec: GenerateLublin | GenerateBurst | GenerateFeedback, seed: int = 0, first_id: int = 1
) -> Iterator[JobRequest]:
    """The jobs of a scenario's `generate` in submit order; `seed` is the run's, spec.seed the workload's."""
    from slurmtwin.engine.random_streams import generator

    _check(spec)
    draw = generator(spec.seed, seed, f"workload.{spec.model}")
    if isinstance(spec, GenerateLublin):
        return lublin(spec, draw, first_id)
    if isinstance(spec, GenerateBurst):
        return bursts(spec, draw, first_id)
    return feedback(spec, draw, first_id)


def _check(spec: GenerateLublin | GenerateBurst | GenerateFeedback) -> None:
    """Bounds that keep a workload finite. Raises InputError."""
    jobs = spec.users * spec.sessions * spec.jobs_per_session if isinstance(spec, GenerateFeedback) else spec.jobs
    if jobs > MAX_JOBS or spec.users > MAX_JOBS:
        raise InputError(f"generate asks for {jobs} jobs of {spec.users} users", hint=f"at most {MAX_JOBS}")
    pause = spec.gap if isinstance(spec, GenerateBurst) else spec.think if isinstance(spec, GenerateFeedback) else 0
    if not 0 < spec.median_run <= LONGEST_PAUSE or not 0 <= pause <= LONGEST_PAUSE:
        raise InputError("generate needs a median run above 0, and no pause below 0 or above 100 years")
    if isinstance(spec, GenerateLublin):
        return
    if not spec.cpus or min(spec.cpus) < 1 or max(spec.cpus) > MAX_JOBS:
        raise InputError("generate.cpus lists the CPUs of jobs, each at least 1")


def asked_limit_ns(run_s: int, factor: float) -> int:
    """What a user asks for who needs run_s * factor: the next of the usual limits, else whole days."""
    wanted = run_s * factor
    for limit in LIMITS_S:
        if limit >= wanted:
            return limit * SECOND
    return max(-(-int(wanted) // 86_400), -(-run_s // 86_400)) * 24 * HOUR


def _day_weights() -> list[float]:
    """Relative arrivals per hour of the day: low before dawn, a peak in the afternoon."""
    base = [0.0] * 24
    for i in range(24):
        x = (i + 0.5) / DAY_SCALE
        base[(DAY_START + i) % 24] = exp((DAY_SHAPE - 1) * log(x) - x)
    top = max(base)
    return [NIGHT + weight / top for weight in base]


def lublin(spec: GenerateLublin, draw: np.random.Generator, first_id: int = 1) -> Iterator[JobRequest]:
    """Jobs whose work over the span of their submissions is spec.load of the cluster's capacity."""
    import numpy as np

    units = spec.nodes if spec.whole_nodes else spec.nodes * spec.cpus_per_node
    largest = min(spec.max_nodes or units, units)
    sizes = _lublin_sizes(spec.jobs, largest, draw)
    runs = _lublin_runs(sizes, spec.median_run, draw)
    factors = 1.0 + draw.exponential(1.5, spec.jobs)
    span_s = float(np.dot(sizes, runs)) / (units * spec.load)
    if span_s > MAX_HOURS * 3600:
        raise InputError(f"generate: a load of {spec.load} stretches these jobs over {span_s / 31_557_600:.0f} years")
    submits = _arrivals_ns(spec.jobs, span_s, spec.daily_cycle, draw)
    users = _users(spec.users, spec.jobs, draw)

    def requests() -> Iterator[JobRequest]:
        for i in range(spec.jobs):
            size, run = int(sizes[i]), int(runs[i])
            shape: dict[str, Any] = {"ntasks": size}
            if spec.whole_nodes:
                shape = {"nodes_min": size, "nodes_max": size, "ntasks": size * spec.cpus_per_node}
            yield JobRequest(
                job_id=first_id + i, submit_ns=int(submits[i]), run_ns=run * SECOND,
                limit_ns=asked_limit_ns(run, float(factors[i])), user=f"user{int(users[i]) + 1}", **shape,
            )  # fmt: skip

    return requests()


def _lublin_sizes(jobs: int, largest: int, draw: np.random.Generator) -> np.ndarray[Any, Any]:
    import numpy as np

    high = log2(largest) if largest > 1 else 0.0
    low, medium = min(SIZE_LOW, high), min(SIZE_MEDIUM, max(high - 0.5, SIZE_LOW), high)
    kind, stage, place = draw.random(jobs), draw.random(jobs), draw.random(jobs)
    exponent = np.where(stage < SIZE_SMALL, low + place * (medium - low), medium + place * (high - medium))
    power = kind < SERIAL + POWER_OF_TWO
    size = np.where(power, 2.0 ** np.floor(exponent + 0.5), np.floor(2.0**exponent))
    sizes: np.ndarray[Any, Any] = np.clip(np.where(kind < SERIAL, 1, size), 1, largest).astype(np.int64)
    return sizes


def _lublin_runs(sizes: np.ndarray[Any, Any], median_ns: int, draw: np.random.Generator) -> np.ndarray[Any, Any]:
    """Whole seconds; the sample is scaled so that its median is the one asked for."""
    import numpy as np

    count = len(sizes)
    short = draw.random(count) < np.clip(MIX_BASE + MIX_SLOPE * sizes, 0.0, 1.0)
    logs = np.where(short, draw.gamma(*GAMMA_SHORT, count), draw.gamma(*GAMMA_LONG, count))
    raw = np.exp(np.clip(logs, 0.0, log(LONGEST_S)))
    scaled = raw * (median_ns / SECOND) / float(np.median(raw))
    seconds: np.ndarray[Any, Any] = np.clip(np.rint(scaled), 1, LONGEST_S).astype(np.int64)
    return seconds


def _arrivals_ns(jobs: int, span_s: float, cycle: bool, draw: np.random.Generator) -> np.ndarray[Any, Any]:
    """Sorted submit times over the span, denser by day and on weekdays when `cycle`."""
    import numpy as np

    if not cycle:
        return np.sort((draw.random(jobs) * span_s * SECOND).astype(np.int64))
    day = _day_weights()
    hours = int(span_s // 3600) + 1
    weights = [day[h % 24] * (WEEKEND if h // 24 % 7 >= 5 else 1.0) for h in range(hours)]
    weights[-1] *= span_s / 3600 - (hours - 1)
    edges = np.fromiter(accumulate(weights), float, hours)
    hour = np.searchsorted(edges, draw.random(jobs) * edges[-1])
    within = draw.random(jobs)
    times = np.minimum((hour + within) * 3600.0, span_s)
    return np.sort((times * SECOND).astype(np.int64))


def _users(users: int, jobs: int, draw: np.random.Generator) -> np.ndarray[Any, Any]:
    """User of each job, few of them active and many rare: weights 1/rank."""
    import numpy as np

    weights = 1.0 / np.arange(1, users + 1)
    return draw.choice(users, jobs, p=weights / weights.sum())


def bursts(spec: GenerateBurst, draw: np.random.Generator, first_id: int = 1) -> Iterator[JobRequest]:
    """Bursts of one user each: geometric sizes, exponential gaps, jobs of a burst within a second of each other."""
    at_ns, made = 0, 0
    while made < spec.jobs:
        user = int(draw.integers(1, spec.users + 1))
        size = min(int(draw.geometric(1.0 / spec.burst_size)), spec.jobs - made)
        offsets = sorted(int(x) for x in draw.integers(0, SECOND, size))
        for offset in offsets:
            run_s = max(1, round(spec.median_run / SECOND * exp(spec.run_sigma * float(draw.standard_normal()))))
            factor = 1.0 + float(draw.exponential(spec.over_ask - 1.0)) if spec.over_ask > 1 else 1.0
            limit_ns = -(-int(run_s * factor * SECOND) // MINUTE) * MINUTE
            yield JobRequest(
                job_id=first_id + made, submit_ns=at_ns + offset, run_ns=run_s * SECOND, limit_ns=limit_ns,
                ntasks=spec.cpus[int(draw.integers(len(spec.cpus)))], user=f"user{user}",
            )  # fmt: skip
            made += 1
        at_ns += SECOND + int(draw.exponential(float(spec.gap)))


def feedback(spec: GenerateFeedback, draw: np.random.Generator, first_id: int = 1) -> Iterator[JobRequest]:
    """Each user submits a job, waits for its end, thinks, submits the next; between sessions a long break.

    Later jobs of a user carry after_job and think_ns; their submit_ns is that of the user's first job.
    """
    starts = sorted((int(draw.exponential(float(spec.think))), user) for user in range(1, spec.users + 1))
    number = first_id
    for start_ns, user in starts:
        before = 0
        for session in range(spec.sessions):
            for place in range(spec.jobs_per_session):
                pause = spec.think if place or not session else 20 * spec.think
                run_s = max(1, round(spec.median_run / SECOND * exp(float(draw.standard_normal()))))
                yield JobRequest(
                    job_id=number, submit_ns=start_ns, run_ns=run_s * SECOND, user=f"user{user}",
                    limit_ns=asked_limit_ns(run_s, 1.0 + float(draw.exponential(1.5))),
                    ntasks=spec.cpus[int(draw.integers(len(spec.cpus)))], after_job=before,
                    think_ns=int(draw.exponential(float(pause))) if before else 0,
                )  # fmt: skip
                before = number
                number += 1
