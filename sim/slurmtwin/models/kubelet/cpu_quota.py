"""A container's CPU limit: so much CPU time in each period of 100 ms, then all its processes wait for the next one.

The kubelet's quota is the limit times the period, at least 1 ms (pkg/kubelet/cm/helpers_linux.go MilliCPUToQuota(),
v1.34.2). The kernel fills it up at each period and keeps nothing of the last one (CFS bandwidth control). Periods are
taken to lie on a grid that begins at random with the cgroup.
"""

from __future__ import annotations

from typing import Final

from slurmtwin.contract.clock import MS

PERIOD_NS: Final = 100 * MS
LEAST_NS: Final = MS


class CpuQuota:
    """The CPU time of one container, whose processes rested and work one after the other now. A limit of 0 is none."""

    def __init__(self, milli_cpu: int, phase_ns: int) -> None:
        """phase_ns: when the next period begins."""
        self._quota_ns = max(LEAST_NS, milli_cpu * PERIOD_NS // 1000) if milli_cpu else PERIOD_NS
        self._next_ns = phase_ns
        self._left_ns = self._quota_ns

    def done_ns(self, now_ns: int, work_ns: int) -> int:
        """When so much CPU time has been had, for a process that is ready from now on."""
        while True:
            if now_ns >= self._next_ns:
                self._next_ns += (now_ns - self._next_ns) // PERIOD_NS * PERIOD_NS + PERIOD_NS
                self._left_ns = self._quota_ns
            runs_ns = min(work_ns, self._left_ns, self._next_ns - now_ns)
            work_ns -= runs_ns
            self._left_ns -= runs_ns
            if not work_ns:
                return now_ns + runs_ns
            now_ns = self._next_ns
