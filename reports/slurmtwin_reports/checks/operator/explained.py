"""Every job that was killed or requeued has a fault, or a person's act, before it."""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.history import History, at
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "killed-jobs-explained"
WITHIN_NS: Final = 3_600_000_000_000
"""A fault explains what happens within an hour of it."""
KILLED: Final = ("NODE_FAIL", "BOOT_FAIL")


def check(history: History) -> Verdict:
    """Broken for a requeue or NODE_FAIL with no fault in the hour before."""
    last_fault: int | None = None
    killed, seen, findings = 0, False, []
    for row in history.rows():
        seen = seen or row.kind.startswith("pod.")
        asked = row.kind in ("pod.deleting", "node.down", "job.preempted") and row.actor in ("user", "admin", "fault")
        if row.kind == "fault.injected" or asked:
            last_fault = row.t_ns
        elif row.kind == "job.requeued" or (row.kind == "job.ended" and row.details.get("state") in KILLED):
            killed += 1
            if last_fault is None or row.t_ns - last_fault > WITHIN_NS:
                findings.append(f"job {row.job_id} was lost at {at(row.t_ns)} with no fault before it")
    if findings:
        return broken(NAME, findings)
    return holds(NAME, f"{killed} killed or requeued") if seen else unknown(NAME, "no pod rows")
