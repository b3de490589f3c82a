"""Which jobs and partitions are so plain that every node is either free or full (uniform.py has the choice itself)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld.parts import Refusal
from slurmtwin.models.slurmctld.selection.asked import ByPartition, Requests
from slurmtwin.models.slurmctld.selection.demand import Demand, version_key
from slurmtwin.models.slurmctld.selection.uniform import Choice, Remembered, best_fit, first_node
from slurmtwin.models.slurmctld.tables import Job, Partition, bits

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld


class UniformNodes:
    """Answers NodeSelection.uniform() of one controller.

    oversubscribed: some partition has more than one row of jobs per node. placed: a placement rule of one's own is set.
    """

    def __init__(self, ctld: Slurmctld, requests: Requests, *, oversubscribed: bool, placed: bool) -> None:
        self._conf, self._table, self._requests = ctld.conf, ctld.nodes, requests
        self._version = version_key(ctld.conf.version)
        self._odd = oversubscribed or placed
        self._equal: ByPartition[bool] = ByPartition()
        self._best_fit: Choice = Remembered(best_fit)

    def choice(self, job: Job, part: Partition) -> tuple[int, Choice] | None:
        """(nodes needed, how they are chosen); None: not so simple."""
        if not self._requests.is_plain(job, part):
            return self._find(job, part)
        return self._requests.of(job).uniform.get(part, lambda: self._find(job, part))

    def _find(self, job: Job, part: Partition) -> tuple[int, Choice] | None:
        counts = self._requests.counts(job, part)
        asked = self._requests.of(job)
        if isinstance(counts, Refusal) or not self._is_plain(asked.demand):
            return None
        if not self._equal.get(part, lambda: self._has_equal_nodes(part)):
            return None
        least, requested, most = counts
        count = max(least, asked.demand.min_cpus)
        if requested > count or most < count or self._requests.candidates(asked, part) != part.nodes:
            return None
        if self._requests.usable(asked, part) != part.nodes:
            return None
        return count, first_node if most == 1 and self._version >= (26, 5) else self._best_fit

    def _is_plain(self, demand: Demand) -> bool:
        odd = demand.contiguous or demand.spread or demand.switches or demand.gres or demand.constraint
        return not (odd or demand.required or demand.excluded or demand.exclusive_user or demand.pn_min_cpus > 1)

    def _has_equal_nodes(self, part: Partition) -> bool:
        """One-CPU nodes of one weight, no sharing, no preemption, no other choice rule."""
        conf = self._conf
        preempting = conf.preempt.type != "preempt/none"
        if conf.select.type == "select/linear" or self._odd or self._version < (23, 2) or conf.switches or preempting:
            return False
        if conf.scheduler.time_min_as_soft_limit or conf.scheduler.pack_serial_at_end or conf.select.lln:
            return False
        if conf.scheduler.backfill.busy_nodes or part.conf.lln or part.conf.over_subscribe not in ("NO", "EXCLUSIVE"):
            return False
        table = self._table.nodes
        kinds = dict.fromkeys((table[i].conf.cpus, table[i].conf.weight, table[i].conf.gres) for i in bits(part.nodes))
        return len(kinds) == 1 and next(iter(kinds))[0] == 1
