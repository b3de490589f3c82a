"""priority/basic: first come, first served by counting priorities down (plugins/priority/basic)."""

from __future__ import annotations

from typing import Final

from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.models.slurmctld.tables import Job

TOP_PRIORITY: Final = 0xFFFF_0000
"""slurmctld starts to count down from here (job_mgr.c lowest_prio = TOP_PRIORITY)."""


class PriorityBasic:
    """parts.PriorityPlugin: each new job gets the last priority less one, less its nice value."""

    def __init__(self, slurmctld: Slurmctld) -> None:
        self._ctl = slurmctld
        self._last = TOP_PRIORITY

    def start(self) -> None:
        """Nothing periodic."""

    def set_priority(self, job: Job) -> None:
        """set_job_prio() with priority_p_set(); a priority set by hand stays, a held job keeps 0."""
        if job.held:
            job.priority = 0
            return
        if job.direct_prio and job.priority > 1:
            return
        new = self._last - 1 if self._last >= 2 else 1
        if job.nice <= 0 or new > job.nice + 1:
            new -= job.nice
        job.priority = max(new, 1)
        if not job.direct_prio:
            self._last = min(self._last, job.priority + job.nice)

    def recovered(self, job: Job) -> None:
        """A record was loaded at start: counting goes on below the lowest priority given out (_load_job_state())."""
        if job.priority > 1:
            self._last = min(self._last, job.priority)

    def catch_up(self) -> None:
        """No usage is kept."""

    def job_started(self, job: Job) -> None:
        """No usage is kept."""

    def job_ended(self, job: Job) -> None:
        """No usage is kept."""
