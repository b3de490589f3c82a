"""The twin on one candidate: the judge of what the quick model found."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slurmtwin.campaign.planning.guide import AFTER_S, Guide
from slurmtwin.campaign.planning.outages import draw_outages, tried_again, twin_faults
from slurmtwin.campaign.planning.shapes import Counts
from slurmtwin.campaign.planning.trace import PlanTrace
from slurmtwin.contract.clock import SECOND
from slurmtwin.worlds.twin import TwinOptions, run_scenario

if TYPE_CHECKING:
    from slurmtwin.contract.jobs import JobRequest

PER_JOB_S: Final = 0.45e-3
PER_QUEUED_JOB_S: Final = 0.13e-3
"""What a job costs the twin, alone and for each job that waits when it is submitted: processor seconds, from replays of
wagap-2013 on 140, 104 and 68 of its nodes with the compiled planner, other work beside them. They choose how much of a
trace is judged, so they are numbers and no clock: equal plans everywhere.
"""


def twin_waits(guide: Guide, trace: PlanTrace, counts: Counts) -> Any:
    """Seconds from submission to first start of each job, infinite for one that never starts."""
    scenario = guide.cluster.with_counts(counts)
    requests: Sequence[JobRequest] = trace.requests
    if guide.rates:
        until_s = int(trace.columns.submit[-1]) + AFTER_S
        rows = draw_outages(guide.rates, sum(counts), until_s, guide.seed)
        conf = {**scenario.slurm.conf, "ReturnToService": 2}
        slurm = scenario.slurm.model_copy(update={"conf": conf})
        requests = tried_again(requests, rows)
        faults = twin_faults(rows, guide.cluster.names(counts))
        scenario = scenario.model_copy(update={"slurm": slurm, "faults": faults})
    with tempfile.TemporaryDirectory(prefix="slurmtwin-plan-") as scratch:
        options = TwinOptions(seed=guide.seed, folder=Path(scratch))
        run_scenario(scenario, scratch, options, iter(requests))
        started = _first_starts(Path(scratch))
    waits = [
        (started[job.job_id] - job.submit_ns) / SECOND if job.job_id in started else np.inf for job in trace.requests
    ]
    return np.array(waits)


def _first_starts(folder: Path) -> dict[int, int]:
    """Job number -> first start in ns."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    table = pq.read_table(folder / "events.parquet", columns=["kind", "job_id", "t_ns"])
    starts = table.filter(pc.equal(table["kind"], "job.started"))
    first = starts.group_by("job_id").aggregate([("t_ns", "min")])
    return dict(zip(first["job_id"].to_pylist(), first["t_ns_min"].to_pylist(), strict=True))


def affordable(trace: PlanTrace, waits_s: Any, budget_s: float) -> int:
    """How many leading jobs the twin can replay for about `budget_s` processor seconds, by the quick model's waits."""
    submit = trace.columns.submit
    starts = np.sort(submit + waits_s)
    queue = np.arange(1, len(submit) + 1) - np.searchsorted(starts, submit, side="right")
    cost = np.cumsum(PER_JOB_S + PER_QUEUED_JOB_S * queue)
    return int(np.searchsorted(cost, budget_s, side="right"))
