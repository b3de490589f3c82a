"""The requeue hold is respected: a requeued job starts no earlier than its requeue row allows.

The row carries the earliest start; where it does not, the cluster's hold counts from the requeue
(slurm.md 4.6: end of the old run + cred_expire + 1 s, or requeue_delay).
"""

from __future__ import annotations

from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin_reports.history import History, JobKey, at, label
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "requeue-hold"


def check(history: History) -> Verdict:
    """Broken for a start that surely came too early; holds with nothing requeued; unknown if no hold is stated."""
    findings: list[str] = []
    waiting: dict[JobKey, int] = {}
    requeues, unstated = 0, 0
    for row in history.rows():
        if row.kind == "job.requeued":
            requeues += 1
            if row.value is not None:
                waiting[row.key] = row.value
            elif history.facts is not None:
                # the hold counts in whole seconds of slurmctld's clock: a requeue at .9 s may be cut by .9 s
                waiting[row.key] = row.t_ns - row.t_err_ns + history.facts.requeue_hold_ns - SECOND
            else:
                unstated += 1
        elif row.kind == "job.updated" and row.job_id is not None and "begin" in str(row.detail).lower():
            waiting.pop(row.key, None)
        elif row.kind == "job.started" and waiting:
            earliest = waiting.pop(row.key, None)
            if earliest is not None and row.t_ns + row.t_err_ns < earliest:
                findings.append(f"job {label(row.key)} started at {at(row.t_ns)}, its hold ends at {at(earliest)}")
    if findings:
        return broken(NAME, findings)
    if unstated:
        return unknown(NAME, f"{unstated} requeues state no earliest start")
    return holds(NAME, f"{requeues} requeues")
