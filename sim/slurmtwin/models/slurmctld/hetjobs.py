"""Heterogeneous jobs: components that are submitted, started, ended and purged together (slurm.md 9).

The first component leads: it alone runs the batch script. They start only from backfill.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Job


class HetJobs:
    """The heterogeneous jobs of one slurmctld."""

    def __init__(self, ctld: Slurmctld) -> None:
        self._ctld = ctld
        self._group = 0
        self._components: list[Job] = []

    def add(self, job: Job) -> None:
        """A component arrives; those of one group follow each other in the same submit RPC."""
        group, before = job.request.het_group, self._components
        if group != self._group or not before or before[0].request.submit_ns != job.request.submit_ns:
            self._group = group
            self._components = []
        self._components.append(job)
        job.het_job = self._components

    @staticmethod
    def components(job: Job) -> list[Job]:
        """All components, leader first; the job itself when it is none."""
        return job.het_job or [job]
