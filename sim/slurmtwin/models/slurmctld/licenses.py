"""Cluster-wide licence counters (slurmctld/licenses.c of 22.05 and 24.11, license_mgr.c in function).

A job's licences are counted as taken from its start until it ends; a job whose request exceeds the total is
refused at submit (slurm.md 9 "Licences").
"""

from __future__ import annotations

from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.models.slurmctld.tables import Job


class Licenses:
    """parts.LicensePool over `Licenses=` of slurm.conf."""

    def __init__(self, slurmctld: Slurmctld) -> None:
        self.total: dict[str, int] = dict(slurmctld.conf.controller.licenses)
        self.used: dict[str, int] = dict.fromkeys(self.total, 0)
        self._holders: dict[int, tuple[tuple[str, int], ...]] = {}

    def available(self, job: Job) -> bool:
        """license_job_test(): every licence has enough free now."""
        return all(self.total.get(name, 0) - self.used.get(name, 0) >= count for name, count in job.licenses)

    def ever(self, job: Job) -> bool:
        """license_validate(): every licence exists and in total suffices."""
        return all(name in self.total and count <= self.total[name] for name, count in job.licenses)

    def take(self, job: Job) -> None:
        """license_job_get(): at start."""
        if job.licenses:
            self._holders[job.slurm_id] = job.licenses
            for name, count in job.licenses:
                self.used[name] = self.used.get(name, 0) + count

    def give_back(self, job: Job) -> None:
        """license_job_return(): at the end of the run; a job that holds none changes nothing."""
        for name, count in self._holders.pop(job.slurm_id, ()):
            self.used[name] -= count
