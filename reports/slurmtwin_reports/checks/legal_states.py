"""Jobs move only as Slurm's state machine allows: submitted, started, ended, completed, in that order.

The machine is a table (after h11's `_state.py`). COMPLETING is a flag beside the state, as in Slurm: a requeued
job is PENDING and COMPLETING at once, and cannot start before the flag is gone. A slurmctld that crashed may
have forgotten up to its last state save, so the first odd step of a job after a crash is forgiven.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from slurmtwin_reports.history import History, JobKey, Row, at, label
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "legal-states"

# state -> event -> next state; a missing entry is illegal
MACHINE: Final[dict[str, dict[str, str]]] = {
    "new": {"job.submitted": "pending", "job.rejected": "rejected"},
    "pending": {
        "job.started": "running", "job.ended": "ended", "job.requeued": "pending", "job.held": "pending",
        "job.released": "pending", "job.updated": "pending", "job.planned": "pending", "job.pending": "pending",
        "job.completed": "pending", "job.signaled": "pending", "job.lost": "lost",
    },
    "running": {
        "job.ended": "ended", "job.suspended": "suspended", "job.preempted": "running", "job.signaled": "running",
        "job.updated": "running", "job.shrunk": "running", "job.requeued": "pending", "job.lost": "lost",
    },
    "suspended": {
        "job.resumed": "running", "job.ended": "ended", "job.preempted": "suspended", "job.signaled": "suspended",
        "job.updated": "suspended", "job.requeued": "pending", "job.lost": "lost", "job.shrunk": "suspended",
    },
    "ended": {
        "job.completed": "ended", "job.requeued": "pending", "job.signaled": "ended", "job.updated": "ended",
        "job.purged": "purged", "job.lost": "lost",
    },
    "rejected": {}, "purged": {}, "lost": {"job.ended": "lost", "job.completed": "lost", "job.signaled": "lost"},
}  # fmt: skip


@dataclass(slots=True)
class _Job:
    state: str = "new"
    completing: bool = False
    crashes: int = 0
    t_ns: int = 0
    """Earliest time the last step may have happened: a later row must not surely lie before it."""


def check(history: History) -> Verdict:
    """Broken at a step the machine does not know or that surely went back in time; unknown without job rows."""
    findings: list[str] = []
    jobs: dict[JobKey, _Job] = {}
    crashes = steps = 0
    for row in history.rows():
        if row.kind == "slurmctld.crashed":
            crashes += 1
        elif row.kind.startswith("job.") and row.job_id is not None:
            steps += 1
            key = row.key
            job = jobs.get(key)
            if job is None:
                job = jobs[key] = _born(jobs.get((key[0], -1)), crashes)
            problem = _step(job, row)
            if problem and job.crashes == crashes:
                findings.append(f"job {label(key)} at {at(row.t_ns)}: {problem}")
            job.crashes = crashes if problem else job.crashes
    if findings:
        return broken(NAME, findings)
    return holds(NAME, f"{steps} steps of {len(jobs)} jobs") if steps else unknown(NAME, "no job rows")


def _born(array: _Job | None, crashes: int) -> _Job:
    """A task of an array starts from the array's own state."""
    if array is None:
        return _Job(crashes=crashes)
    return _Job(array.state, array.completing, crashes, array.t_ns)


def _step(job: _Job, row: Row) -> str:
    """Move the job; returns what was wrong, empty if nothing."""
    before, following = job.state, MACHINE[job.state].get(row.kind)
    problem = ""
    if following is None:
        problem = f"{row.kind} while {before}{' and completing' if job.completing else ''}"
        following = _forced(row.kind, before)
    elif row.kind == "job.started" and job.completing:
        problem = "started while still completing"
    elif row.kind == "job.completed" and not job.completing:
        problem = f"completed while {before} and not completing"
    elif row.kind == "job.purged" and job.completing:
        problem = "purged while completing"
    if row.t_ns + row.t_err_ns < job.t_ns:
        problem = problem or f"{row.kind} surely lies before the step that led to {before}"
    job.t_ns = row.t_ns - row.t_err_ns
    job.state = following
    if row.kind == "job.completed" or row.kind == "job.started":
        job.completing = False
    elif row.kind in ("job.ended", "job.requeued") and (before in ("running", "suspended") or problem):
        job.completing = True
    return problem


def _forced(kind: str, before: str) -> str:
    """Where an illegal step leads, so that one mistake gives one finding."""
    return next((table[kind] for table in MACHINE.values() if kind in table), before)
