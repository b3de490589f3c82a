"""Per-cycle caps of backfill: bf_max_job_user_part, _part, _assoc, _user, bf_job_part_count_reserve (slurm.md 2.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import BackfillOptions
    from slurmtwin.models.slurmctld.tables import Job, Partition


class BackfillCounts:
    """Jobs tested per user, partition and association in one cycle (_job_exceeds_max_bf_param())."""

    def __init__(self, options: BackfillOptions) -> None:
        self._caps = (
            options.max_job_user_part, options.max_job_part, options.max_job_assoc, options.max_job_user,
        )  # fmt: skip
        self.active = any(self._caps)
        self._tested: dict[tuple[str, object, object], int] = {}
        self._reserve_cap = options.job_part_count_reserve
        self._reserved: dict[int, int] = {}

    def exceeded(self, job: Job, part: Partition) -> bool:
        """One cap is reached: the job is skipped; otherwise it counts in all of them."""
        if not self.active:
            return False
        keys: list[tuple[str, object, object]] = []
        names: tuple[tuple[str, object, object], ...] = (
            ("user_part", job.user, part.index),
            ("part", part.index, None),
            ("assoc", job.assoc, None),
            ("user", job.user, None),
        )
        for cap, key in zip(self._caps, names, strict=True):
            if not cap or (key[0] == "assoc" and job.assoc is None):
                continue
            if self._tested.get(key, 0) >= cap:
                return True
            keys.append(key)
        for key in keys:
            self._tested[key] = self._tested.get(key, 0) + 1
        return False

    def may_reserve(self, part: Partition) -> bool:
        """bf_job_part_count_reserve: fewer reservations than that in the partition so far."""
        return not self._reserve_cap or self._reserved.get(part.index, 0) < self._reserve_cap

    def reserved(self, part: Partition) -> None:
        """The partition got one more."""
        if self._reserve_cap:
            self._reserved[part.index] = self._reserved.get(part.index, 0) + 1
