"""One active controller: no two slurmctld serve at once (slurm.md 5.1 "Two actives").

`slurmctld.started` with detail.role backup (or followed by `standby`) does not serve; `took_over` does.
"""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.history import History, Row, at
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "one-active-controller"


def check(history: History) -> Verdict:
    """Broken when a second controller surely serves while another does; unknown without controller rows."""
    findings: list[str] = []
    active: dict[str, Row] = {}
    rows = 0
    for row in history.rows():
        if not row.kind.startswith("slurmctld."):
            continue
        host = row.node or row.actor
        if row.kind == "slurmctld.took_over" or (
            row.kind == "slurmctld.started" and row.details.get("role", "primary") == "primary"
        ):
            rows += 1
            for other, since in active.items():
                if other != host and since.t_ns + since.t_err_ns < row.t_ns - row.t_err_ns:
                    findings.append(f"{host} became active at {at(row.t_ns)} while {other} was")
            active[host] = row
        elif row.kind in ("slurmctld.stopped", "slurmctld.crashed", "slurmctld.standby"):
            active.pop(host, None)
    if findings:
        return broken(NAME, findings)
    return holds(NAME, f"became active: {rows}") if rows else unknown(NAME, "no controller rows")
