"""The quick model on one candidate: waits, and whether the targets are met."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np

from slurmtwin.campaign.planning.interval import crossing, met
from slurmtwin.campaign.planning.outages import OutageRate, draw_outages, kernel_outages
from slurmtwin.campaign.planning.search import MOST, fewest
from slurmtwin.campaign.planning.shapes import Cluster, Counts
from slurmtwin.campaign.planning.target import Target, classes_of
from slurmtwin.campaign.planning.trace_jobs import TraceColumns

NEVER: Final = 1 << 40
AFTER_S: Final = 60 * 86_400
"""Outages go on so long after the last submission."""


@dataclass(frozen=True, slots=True)
class Guide:
    """What all candidates share."""

    cluster: Cluster
    partitions: tuple[str, ...]
    targets: tuple[Target, ...]
    rates: list[OutageRate] = field(default_factory=list)
    seed: int = 0

    def waits(self, columns: TraceColumns, counts: Counts) -> Any:
        """Seconds that each job waits, infinite for one that never starts."""
        start, _, _ = self._simulate(columns, counts, np.ones(len(columns), np.uint8), NEVER, NEVER)
        return np.where(start >= 0, start - columns.submit, np.inf)

    def placements(self, columns: TraceColumns, counts: Counts) -> Any:
        """Rows (node, start, end, place of the job), seconds: which node had which job when.

        Of a job that an outage killed, the time of its first run on the nodes of its last.
        """
        start, held, count = self._simulate(columns, counts, np.ones(len(columns), np.uint8), NEVER, NEVER)
        offset = columns.kernel_jobs(sum(counts)).offset[:-1]
        jobs = np.repeat(np.arange(len(columns)), count)
        within = np.arange(jobs.size) - np.repeat(np.cumsum(count) - count, count)
        began = start[jobs]
        return np.stack([held[offset[jobs] + within], began, began + columns.run[jobs], jobs], axis=1)

    def meets(self, columns: TraceColumns, counted: Any, counts: Counts) -> bool:
        """Whether the counted jobs meet every target with so many nodes; gives up early where they cannot."""
        classes = classes_of(columns)
        first = self.targets[0]
        of_target = (counted == 1) & ((classes == first.group) if first.group else True)
        most = NEVER
        if first.quantile is not None:
            # a quantile above the bound needs more late jobs than stand behind it in order
            most = int((1 - first.quantile) * max(0, int(of_target.sum()) - 1)) + 1
        start, _, _ = self._simulate(columns, counts, of_target.astype(np.uint8), int(np.ceil(first.bound_s)), most)
        waits = np.where(start >= 0, start - columns.submit, np.inf)
        chosen = counted == 1
        return all(target.met(waits[chosen], classes[chosen]) for target in self.targets)

    def used(self, columns: TraceColumns, counted: Any, count: int) -> tuple[float, ...]:
        """What so many nodes use up of each target, below 1 where it is met; everything where there are none."""
        classes, chosen = classes_of(columns), counted == 1
        waits = self.waits(columns, self.cluster.counts(count)) if count else np.full(len(columns), np.inf)
        return tuple(target.used(waits[chosen], classes[chosen]) for target in self.targets)

    def crossing(self, columns: TraceColumns, counted: Any, guess: int, step: int = 0) -> float | None:
        """Nodes at which the targets are just met, a part of a node counted too; None when no count will do.

        Every count that is looked at is run to its end, so `guess` is a count near the answer.
        """
        used = cache(lambda count: self.used(columns, counted, count))
        found = fewest(lambda count: met(used(count)), guess, 1, MOST * guess, look_above=False, step=step)
        return None if found is None else crossing(used, found)

    def _simulate(
        self, columns: TraceColumns, counts: Counts, counted: Any, bound_s: int, most: int
    ) -> tuple[Any, Any, Any]:
        from slurmtwin.campaign.planning.queue_kernel import simulate

        total = sum(counts)
        until_s = int(columns.submit[-1]) + AFTER_S
        outages = kernel_outages(draw_outages(self.rates, total, until_s, self.seed) if self.rates else [])
        machines = self.cluster.machines(counts, self.partitions)
        start, _, held, count = simulate(columns.kernel_jobs(total), machines, outages, counted, bound_s, most)
        return start, held, count
