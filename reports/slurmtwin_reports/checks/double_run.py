"""No double run: a job's script never lives twice at once, and starts again only after a requeue.

Judged on what the nodes did (`script.started`, `script.ended`), whatever slurmctld believed. A slurmctld that
crashed may have forgotten a start, and then starts the job again without a requeue: that is no finding as long as
the first script is over. A real script that is killed cannot write its end: in a world that does not see all, two
scripts surely lived at once only where as many ends as starts were written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from slurmtwin_reports.history import History, JobKey, Row, at, forgets, label
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "no-double-run"


@dataclass(slots=True)
class _Scripts:
    """One job's scripts so far."""

    live: list[Row] = field(default_factory=list)
    started: int = 0
    ended: int = 0
    allowed: int = 1
    """How many starts slurmctld had reason for: the first, and one after each requeue or crash."""
    again: bool = False
    """Requeued, or perhaps forgotten, since the last start of the job."""
    launches_failed: bool = True
    """Every start so far was taken back: the job was requeued."""
    overlaps: list[str] = field(default_factory=list)
    unasked: list[str] = field(default_factory=list)


def check(history: History) -> Verdict:
    """Broken at a second live script or a restart nobody asked for; unknown when no script rows were written."""
    jobs: dict[JobKey, _Scripts] = {}
    for row in history.rows():
        if forgets(row):
            for scripts in jobs.values():
                scripts.again = True
        elif row.kind == "job.started":
            scripts = jobs.setdefault(row.key, _Scripts())
            _allow(scripts)
            scripts.launches_failed = False
        elif row.kind == "script.started":
            _start(jobs.setdefault(row.key, _Scripts()), row)
        elif row.kind == "script.ended":
            _end(jobs.setdefault(row.key, _Scripts()), row.node)
        elif _requeues(row) and row.key in jobs:
            jobs[row.key].again = jobs[row.key].launches_failed = True
    unseen = 0
    findings: list[str] = []
    for scripts in jobs.values():
        findings += scripts.unasked
        if history.sees_all or scripts.ended >= scripts.started:
            findings += scripts.overlaps
        else:
            unseen += scripts.started - scripts.ended
    if findings:
        return broken(NAME, findings)
    started = sum(s.started for s in jobs.values())
    note = f"; {unseen} ends not seen" if unseen else ""
    if started:
        return holds(NAME, f"{started} scripts{note}")
    if jobs and all(s.launches_failed for s in jobs.values()):
        return holds(NAME, f"no launch of {len(jobs)} jobs got as far as its script")
    return unknown(NAME, "no script rows")


def _requeues(row: Row) -> bool:
    """A real end may say itself that it is a requeue, with or without a row of its own."""
    return row.kind == "job.requeued" or (row.kind == "job.ended" and bool(row.details.get("requeued")))


def _start(scripts: _Scripts, row: Row) -> None:
    where = f" on {row.node}" if row.node else ""
    for other in scripts.live:
        if other.t_ns + other.t_err_ns < row.t_ns - row.t_err_ns:
            scripts.overlaps.append(
                f"job {label(row.key)} started{where} at {at(row.t_ns)} while it ran since {at(other.t_ns)}"
            )
    if scripts.started >= scripts.allowed:
        _allow(scripts)
    if scripts.started >= scripts.allowed:
        scripts.unasked.append(f"job {label(row.key)} ran again at {at(row.t_ns)} without a requeue")
    scripts.started += 1
    scripts.live.append(row)


def _allow(scripts: _Scripts) -> None:
    """One more start, if there was a reason for it."""
    scripts.allowed += scripts.again
    scripts.again = False


def _end(scripts: _Scripts, node: str | None) -> None:
    """Take away the script that ended: the one on that node, else the oldest."""
    scripts.ended += 1
    place = next((i for i, row in enumerate(scripts.live) if node is None or row.node == node), 0)
    del scripts.live[place : place + 1]
