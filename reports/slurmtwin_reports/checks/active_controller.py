"""One active controller: no two slurmctld serve at once (slurm.md 5.1 "Two actives").

`slurmctld.started` and `took_over` begin a service, `stopped`, `crashed` and `standby` end it. A frozen process
serves nobody until it is thawed: if a backup took over meanwhile, both are active from then on. `scontrol
takeover` asks the active one to stop; where that stop is not seen, nothing can be said.
"""

from __future__ import annotations

from typing import Final

from slurmtwin_reports.history import History, Row, at, fault_of
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "one-active-controller"
BEGINS: Final = ("slurmctld.started", "slurmctld.took_over")
ENDS: Final = ("slurmctld.stopped", "slurmctld.crashed", "slurmctld.standby")


def check(history: History) -> Verdict:
    """Broken when a second controller surely serves while another does; unknown without controller rows."""
    findings: list[str] = []
    active: dict[str, Row] = {}
    frozen: dict[str, Row] = {}
    begun, asked = 0, ""
    for row in history.rows():
        host = row.node or row.actor
        if row.kind in BEGINS:
            begun += 1
            found = _beside(row, host, active)
            if found and asked and not history.sees_all:
                asked = found[0]
                active.clear()
            else:
                findings += found
            active[host] = row
        elif row.kind in ENDS:
            active.pop(host, None)
            frozen.pop(host, None)
        elif row.kind == "fault.injected":
            fault = fault_of(row)
            host = str(fault.get("target") or next(iter([*active, *frozen]), ""))
            if fault.get("kind") == "slurmctld.freeze" and host in active:
                frozen[host] = active.pop(host)
            elif fault.get("kind") == "slurmctld.thaw" and host in frozen:
                findings += _beside(row, host, active)
                active[host] = frozen.pop(host)
            elif fault.get("kind") == "slurmctld.takeover":
                asked = asked or "takeover"
    if findings:
        return broken(NAME, findings)
    if asked not in ("", "takeover"):
        return unknown(NAME, f"{asked}; the stop that scontrol takeover asked for was not seen")
    return holds(NAME, f"became active: {begun}") if begun else unknown(NAME, "no controller rows")


def _beside(row: Row, host: str, active: dict[str, Row]) -> list[str]:
    """Who else surely served when `host` became active."""
    others = [o for o, since in active.items() if o != host and since.t_ns + since.t_err_ns < row.t_ns - row.t_err_ns]
    return [f"{host} became active at {at(row.t_ns)} while {other} was" for other in others]
