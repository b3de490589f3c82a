"""Jobs move only as Slurm's state machine allows: submitted, started, ended, completed, in that order.

The machine is a table (after h11's `_state.py`). COMPLETING is a flag beside the state, as in Slurm: a requeued
job is PENDING and COMPLETING at once, and cannot start before the flag is gone (a world that never writes
`job.completed` does not see the flag). A job that is to be requeued and held is held while it still runs. A
slurmctld that crashed may have forgotten up to its last state save, so the first odd step of a job after a crash is
forgiven. Rows with a time error may have happened in another order than the table's: a job's steps are legal if
some order within their intervals is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from slurmtwin_reports.history import History, JobKey, Row, at, forgets, label
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "legal-states"

OBSERVED: Final = ("job.state", "job.accounted")
"""What somebody who asked slurmctld or slurmdbd was told: an observation, no step of the job."""

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
        "job.held": "running", "job.released": "running",
    },
    "suspended": {
        "job.resumed": "running", "job.ended": "ended", "job.preempted": "suspended", "job.signaled": "suspended",
        "job.updated": "suspended", "job.requeued": "pending", "job.lost": "lost", "job.shrunk": "suspended",
        "job.held": "suspended", "job.released": "suspended",
    },
    "ended": {
        "job.completed": "ended", "job.requeued": "pending", "job.signaled": "ended", "job.updated": "ended",
        "job.purged": "purged", "job.lost": "lost", "job.held": "ended", "job.released": "ended",
    },
    "rejected": {"job.rejected": "rejected", "job.submitted": "pending"},  # a user tries again
    "purged": {}, "lost": {"job.ended": "lost", "job.completed": "lost", "job.signaled": "lost"},
}  # fmt: skip


RANK: Final = {
    "job.submitted": 0, "job.held": 1, "job.released": 1, "job.updated": 1, "job.pending": 1, "job.planned": 1,
    "job.started": 2, "job.ended": 4, "job.requeued": 5, "job.completed": 6, "job.purged": 7,
}  # fmt: skip
"""Which of two legal steps of uncertain order comes first: the one that leaves the other legal; 3 for all others."""


@dataclass(slots=True)
class _Job:
    state: str = "new"
    completing: bool = False
    crashes: int = 0
    """How many crashes of slurmctld the job's story already accounts for."""


@dataclass(slots=True)
class _Walk:
    """All jobs of a run, and what was found."""

    requests: Mapping[int, Mapping[str, Any]]
    jobs: dict[JobKey, _Job] = field(default_factory=dict)
    vague: dict[JobKey, list[tuple[Row, int]]] = field(default_factory=dict)
    """Jobs with uncertain times: their rows and the crashes before each, ordered at the end."""
    findings: list[str] = field(default_factory=list)
    sees_completing: bool = False

    def take(self, row: Row, crashes: int) -> None:
        """The next row of the table: at once when its time is certain, else kept with the job's others."""
        key = row.key
        if key in self.vague:
            self.vague[key].append((row, crashes))
        elif row.t_err_ns:
            self.vague[key] = [(row, crashes)]
        else:
            self.step(self.job(key, crashes), key, row, crashes)

    def job(self, key: JobKey, crashes: int) -> _Job:
        """The job's state. A task of an array starts from the array's own, a later component of a hetjob as pending."""
        found = self.jobs.get(key)
        if found is None:
            array = self.jobs.get((key[0], -1))
            found = _Job(array.state, array.completing, crashes) if array else _Job(crashes=crashes)
            if not array and self.is_later_component(key[0]):
                found.state = "pending"
            self.jobs[key] = found
        return found

    def is_later_component(self, number: int) -> bool:
        """A real slurmctld logs the submit of a heterogeneous job once, for its first component."""
        group = self.requests.get(number, {}).get("het_group")
        return bool(group) and self.requests.get(number - 1, {}).get("het_group") == group

    def step(self, job: _Job, key: JobKey, row: Row, crashes: int) -> None:
        """Move the job, note what was wrong."""
        problem = self.problem(job, row)
        if problem and job.crashes == crashes:
            self.findings.append(f"job {label(key)} at {at(row.t_ns)}: {problem}")
        if problem:
            job.crashes = crashes
        before = job.state
        job.state = MACHINE[before].get(row.kind) or _forced(row.kind, before)
        if row.kind in ("job.completed", "job.started"):
            job.completing = False
        elif row.kind in ("job.ended", "job.requeued") and (before in ("running", "suspended") or problem):
            job.completing = self.sees_completing
        if row.kind == "job.ended" and '"requeued":true' in (row.detail or ""):
            job.state = "pending"

    def problem(self, job: _Job, row: Row) -> str:
        """Why the machine refuses this row now; empty if it does not."""
        if row.kind == "job.submitted" and job.state == "pending" and self.is_later_component(row.key[0]):
            return ""
        if row.kind not in MACHINE[job.state]:
            return f"{row.kind} while {job.state}{' and completing' if job.completing else ''}"
        if row.kind == "job.started" and job.completing:
            return "started while still completing"
        if row.kind == "job.completed" and not job.completing:
            return f"completed while {job.state} and not completing"
        if row.kind == "job.purged" and job.completing:
            return "purged while completing"
        return ""

    def order_vague(self) -> None:
        """Take each job's uncertain rows in a legal order: a row may go first if no other surely precedes it."""
        for key in sorted(self.vague, key=lambda k: k[1] >= 0):
            waiting = self.vague[key]
            while waiting:
                horizon = min(row.t_ns + row.t_err_ns for row, _ in waiting)
                allowed = [i for i, (row, _) in enumerate(waiting) if row.t_ns - row.t_err_ns <= horizon]
                job = self.job(key, waiting[0][1])
                legal = [i for i in allowed if not self.problem(job, waiting[i][0])]
                place = min(legal, key=lambda i: RANK.get(waiting[i][0].kind, 3), default=0)
                row, crashes = waiting.pop(place)
                self.step(job, key, row, crashes)


def check(history: History) -> Verdict:
    """Broken at a step the machine does not know in any order the times allow; unknown without job rows."""
    walk = _Walk(history.jobs, sees_completing=any(row.kind == "job.completed" for row in history.rows()))
    crashes = steps = 0
    for row in history.rows():
        if forgets(row):
            crashes += 1
        elif row.kind.startswith("job.") and row.kind not in OBSERVED and row.job_id is not None:
            steps += 1
            walk.take(row, crashes)
    walk.order_vague()
    if walk.findings:
        return broken(NAME, walk.findings)
    return holds(NAME, f"{steps} steps of {len(walk.jobs)} jobs") if steps else unknown(NAME, "no job rows")


def _forced(kind: str, before: str) -> str:
    """Where an illegal step leads, so that one mistake gives one finding."""
    return next((table[kind] for table in MACHINE.values() if kind in table), before)
