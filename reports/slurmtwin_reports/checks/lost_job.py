"""No job is lost without a fault: each job of the workload is submitted or refused, and each submitted one
ends, or the run says why it did not.

Why may be: the run was cut by its budget, or the job's last pending reason is one that waits for somebody
(held, dependency, node down ...). Being forgotten by slurmctld (`job.lost`) needs a fault before it; a real
slurmctld that crashed cannot say what it has forgotten.
"""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.history import History, JobKey, forgets, label
from slurmtwin_reports.job_table import JobRecord, job_table
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "no-job-lost"
NOT_A_REASON: Final = ("", "None", "Priority", "Resources")
"""squeue's words for a job that merely waits its turn: with an idle end of the run they explain nothing."""


def check(history: History) -> Verdict:
    """Broken for a job that vanished or never ended without a stated reason; unknown when the run has no end row."""
    why, faults, lost_early, crash_ns = None, 0, [], None
    for row in history.rows():
        if forgets(row):
            crash_ns = row.t_ns
        if row.kind == "run.ended":
            why = str(row.details.get("why", ""))
        elif row.kind == "fault.injected":
            faults += 1
        elif row.kind == "job.lost" and not faults:
            lost_early.append(f"job {label(row.key)} was lost with no fault before it")
    if lost_early:
        return broken(NAME, lost_early)
    if why is None:
        return unknown(NAME, "the run has no run.ended row")
    records = job_table(history).records
    if not records and not history.jobs:
        return unknown(NAME, "the run has no jobs")
    if why != "done":
        return holds(NAME, f"{len(records)} jobs; the run was ended early ({why})")
    findings = [f"job {number} never reached slurmctld" for number in _unsubmitted(history, records)]
    forgot_ns = None if history.sees_all else crash_ns
    findings += [text for key, record in records.items() if (text := _unexplained(key, record, forgot_ns))]
    if findings:
        return broken(NAME, findings)
    lost = sum(r.state == "LOST" for r in records.values())
    return holds(NAME, f"{len(records)} jobs" + (f", {lost} lost after {faults} faults" if lost else ""))


def _unsubmitted(history: History, records: dict[JobKey, JobRecord]) -> list[int]:
    seen = dict.fromkeys(key[0] for key in records)
    return [number for number in history.jobs if number not in seen]


def _unexplained(key: JobKey, record: JobRecord, forgot_ns: int | None) -> str:
    last = record.attempts[-1].start_ns if record.attempts else record.submit_ns
    if forgot_ns is not None and last is not None and last <= forgot_ns:
        return ""
    if record.state == "RUNNING":
        return f"job {label(key)} started and never ended"
    if record.state == "PENDING" and record.reason in NOT_A_REASON:
        return f"job {label(key)} is still pending, reason {record.reason or 'not given'}"
    return ""
