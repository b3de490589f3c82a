"""Timers of the control plane by Kubernetes version: the data, and where each value is read.

Times are nanoseconds. A version that is not listed takes the row of the last one before it. Sources: kubernetes.md 4
to 6; kube-controller-manager and kube-scheduler of v1.34.2 where nothing else is named.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from slurmtwin.contract.clock import MINUTE, MS, SECOND
from slurmtwin.contract.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlaneDefaults:
    """One version's constants."""

    node_monitor_ns: int = 5 * SECOND
    """nodeMonitorPeriod (kubernetes.md 4.3)."""
    node_grace_ns: int = 50 * SECOND
    """nodeMonitorGracePeriod: 50 s since 1.32, 40 s before (kubernetes.md 4.3)."""
    node_startup_grace_ns: int = 60 * SECOND
    """nodeStartupGracePeriod (4.4)."""
    toleration_ns: int = 300 * SECOND
    """Admission DefaultTolerationSeconds, not-ready and unreachable (4.5)."""
    eviction_poll_ns: int = 100 * MS
    """How often the queue of nodes to taint is looked at (4.6)."""
    eviction_gap_ns: int = 10 * SECOND
    """Between two nodes of a zone: nodeEvictionRate 0.1/s (4.6)."""
    reduced_gap_ns: int = 100 * SECOND
    """The same in a large zone in partial disruption: 0.01/s (4.7)."""
    large_zone: int = 50
    unhealthy_zone: tuple[int, int] = (55, 100)
    """unhealthyZoneThreshold as a fraction (4.7)."""
    pod_gc_ns: int = 20 * SECOND
    orphan_quarantine_ns: int = 40 * SECOND
    """(4.9)"""
    terminated_pods: int = 12_500
    attach_loop_ns: int = 100 * MS
    force_detach_ns: int = 6 * MINUTE
    """maxWaitForUnmountDuration (4.10)."""
    requests_per_second: float = 20
    burst: int = 30
    """Client of each controller (6.1)."""
    job_back_off_ns: int = 10 * SECOND
    job_back_off_most_ns: int = 600 * SECOND
    job_batch_ns: int = SECOND
    """(6.20)"""
    endpoints_batch_ns: int = SECOND
    """Least time between two changes of a Service's slices (3.11)."""
    disruption_entry_ns: int = 2 * MINUTE
    """A granted eviction is forgotten after so long (6.21)."""
    # kube-scheduler
    schedule_requests_per_second: float = 50
    schedule_burst: int = 100
    back_off_first_ns: int = SECOND
    back_off_most_ns: int = 10 * SECOND
    """(5.2)"""
    pops_back_off: bool = True
    """SchedulerPopFromBackoffQ, since 1.33: an empty queue takes from those that wait (5.2)."""
    unschedulable_ns: int = 5 * MINUTE
    unschedulable_sweep_ns: int = 30 * SECOND
    """(5.3)"""


_BY_VERSION: Final = {
    "1.28": ControlPlaneDefaults(node_grace_ns=40 * SECOND, pops_back_off=False),
    "1.32": ControlPlaneDefaults(pops_back_off=False),
    "1.33": ControlPlaneDefaults(),
}


def defaults_of(version: str, grace_factor: float = 1) -> ControlPlaneDefaults:
    """The row of a minor version such as 1.34. grace_factor scales node_grace_ns (a verdict's power).

    Raises InputError for a version before the first row.
    """
    wanted = tuple(int(part) for part in version.split("."))
    rows = [row for name, row in _BY_VERSION.items() if tuple(int(part) for part in name.split(".")) <= wanted]
    if not rows:
        raise InputError(f"Kubernetes {version} is not modelled", hint=f"from {next(iter(_BY_VERSION))} on")
    return (
        rows[-1] if grace_factor == 1 else replace(rows[-1], node_grace_ns=round(rows[-1].node_grace_ns * grace_factor))
    )
