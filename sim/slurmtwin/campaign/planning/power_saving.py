"""What power saving (Slurm's, or an autoscaler's) would make of a plan: node-hours that stay on, jobs that wait.

A node is off once it has been idle for SuspendTime, and boots for the next job that gets it. By the quick model's
placements, which fill nodes in their order as slurmctld does at equal weights; nodes that are off are not avoided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from slurmtwin.campaign.planning.guide import Guide
    from slurmtwin.campaign.planning.shapes import Counts
    from slurmtwin.campaign.planning.trace import PlanTrace

SUSPEND_S: Final = 600
BOOT_S: Final = 300
"""Assumed, and said on the page: ten idle minutes, five minutes to boot."""


def powered(trace: PlanTrace, guide: Guide, counts: Counts) -> dict[str, Any]:
    """Node-hours on with power saving and without, and the jobs that wait for a boot, over the counted span."""
    placed = guide.placements(trace.columns, counts)
    begin = int(trace.columns.submit[0]) + trace.warm_up_s
    end = int(trace.columns.submit[-1])
    on_s, booted = stays_on(placed, begin, end)
    all_s = sum(counts) * max(1, end - begin)
    counted = np.isin(np.arange(len(trace.columns)), booted) & (trace.counted == 1)
    return {
        "suspend_s": SUSPEND_S, "boot_s": BOOT_S, "node_hours": all_s / 3600, "node_hours_on": on_s / 3600,
        "share_on": on_s / all_s, "jobs_that_boot": int(counted.sum()) / max(1, int(trace.counted.sum())),
    }  # fmt: skip


def stays_on(placed: Any, begin: int, end: int) -> tuple[int, list[int]]:
    """(seconds that nodes are on between `begin` and `end`, jobs that start on a node that was off).

    placed: rows (node, start, end, job), whole seconds; the job that a node boots for ends so much later.
    """
    on_s, booted = 0, []
    ordered = placed[np.lexsort((placed[:, 3], placed[:, 1], placed[:, 0]))]
    node, since, until = -1, 0, 0
    for at_node, start, stop, job in ordered.tolist():
        if at_node != node or start > until + SUSPEND_S:
            on_s += _inside(since, until + SUSPEND_S, begin, end) if node >= 0 else 0
            booted.append(job)
            node, since, until = at_node, start, stop + BOOT_S
        until = max(until, stop)
    return on_s + (_inside(since, until + SUSPEND_S, begin, end) if node >= 0 else 0), booted


def _inside(since: int, until: int, begin: int, end: int) -> int:
    return max(0, min(until, end) - max(since, begin))
