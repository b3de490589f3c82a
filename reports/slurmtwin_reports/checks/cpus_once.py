"""No CPU is promised twice: jobs hold no more CPUs than the containers that run them have (designs.md X79).

Slurm counts the CPUs of slurm.conf, the kernel those of the container's set; rows `cpu.overbooked` say where the two
disagree while jobs run. Asked for by name: many a design shares CPUs on purpose.
"""

from __future__ import annotations

import json
from typing import Final

from slurmtwin.contract.events import Kind
from slurmtwin_reports.history import History, at
from slurmtwin_reports.verdict import Verdict, broken, holds, unknown

NAME: Final = "cpus-held-once"


def check(history: History) -> Verdict:
    """Broken at each row that tells of too many CPUs; unknown where no container's CPUs are known."""
    findings: list[str] = []
    known = False
    for row in history.rows():
        known = known or row.kind in (Kind.CONTAINER_PINNED, Kind.CONTAINER_STARTED)
        if row.kind == Kind.CPU_OVERBOOKED and row.value:
            said = json.loads(row.detail or "{}")
            jobs = ", ".join(str(job) for job in said.get("jobs", ()))
            cpus = f"{row.value} CPUs too many of {said.get('cpuset')} on {row.node}"
            findings.append(f"jobs {jobs} hold {cpus} at {at(row.t_ns)}")
    if findings:
        return broken(NAME, findings)
    return holds(NAME, "no row tells of too many") if known else unknown(NAME, "no container was seen")
