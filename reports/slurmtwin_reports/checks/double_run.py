"""No double run: a job's script never lives twice at once, and starts again only after a requeue.

Judged on what the nodes did (`script.started`, `script.ended`), whatever slurmctld believed. A slurmctld that
crashed may have forgotten a start, and then starts the job again without a requeue: that is no finding as long as
the first script is over.
"""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.history import History, JobKey, Row, at, label
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "no-double-run"


def check(history: History) -> Verdict:
    """Broken at a second live script or a restart nobody asked for; unknown when no script rows were written."""
    findings: list[str] = []
    live: dict[JobKey, list[Row]] = {}
    ran: dict[JobKey, bool] = {}
    scripts = 0
    for row in history.rows():
        if row.kind == "slurmctld.crashed":
            ran.clear()
        if row.job_id is None:
            continue
        if row.kind == "script.started":
            scripts += 1
            key = row.key
            for other in live.get(key, ()):
                if other.t_ns + other.t_err_ns < row.t_ns - row.t_err_ns:
                    findings.append(
                        f"job {label(key)} started on {row.node} at {at(row.t_ns)} while it ran on {other.node}"
                    )
            if ran.get(key):
                findings.append(f"job {label(key)} ran again at {at(row.t_ns)} without a requeue")
            live.setdefault(key, []).append(row)
            ran[key] = True
        elif row.kind == "script.ended":
            _end(live.get(row.key, []), row.node)
        elif row.kind == "job.requeued":
            ran[row.key] = False
    if findings:
        return broken(NAME, findings)
    return holds(NAME, f"{scripts} scripts") if scripts else unknown(NAME, "no script rows")


def _end(live: list[Row], node: str | None) -> None:
    """Take away the script that ended: the one on that node, else the oldest."""
    for place, row in enumerate(live):
        if node is None or row.node == node:
            del live[place]
            return
    del live[:1]
