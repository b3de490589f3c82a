"""The present with running jobs taken away in the order in which they end: what will_run() tests on.

Most nodes run one job, or a job holds all it shares alone: such nodes come free as whole bitmaps, so a step of
the chain costs one `or`. Nodes with several jobs are followed through their states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from slurmtwin.models.slurmctld.selection.query import Profile, Query
from slurmtwin.models.slurmctld.selection.select_cons_tres import Found
from slurmtwin.models.slurmctld.selection.usage import State, Usage
from slurmtwin.models.slurmctld.tables import Job


@dataclass(slots=True)
class Answers:
    """What one chain has answered one query."""

    query: Query
    serving: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Jobs gone (-1: the present) -> ConsTres.serving()."""
    found: dict[tuple[int, int], Found | None] = field(default_factory=dict)
    """(jobs gone, nodes that serve) -> the test."""
    starts: dict[tuple[int, int, int, int, bool], tuple[int, int] | None] = field(default_factory=dict)
    """(nodes, now, start, until, now only) -> WillRun.test()."""


class FutureChain:
    """Usage after the first k jobs of `jobs` are gone, for any k; nothing is computed before it is asked for."""

    def __init__(
        self, usage: Usage, jobs: Sequence[Job], ends_s: Sequence[int], shape_nodes: Sequence[int], full: int,
        differs: bool = False,
    ) -> None:  # fmt: skip
        """full: nodes on which no job could get a CPU as they are used now; differs: `usage` is not the present's."""
        self.differs = differs
        self._answers: dict[Profile, Answers] = {}
        self.jobs = jobs
        self.ends_s = ends_s
        self.nodes = [usage.held[j.slurm_id].nodes if j.slurm_id in usage.held else 0 for j in jobs]
        self._usage = usage
        self._shape_nodes = shape_nodes
        self._plain = not usage.crowded
        solo = 0
        for state, members in usage.classes.items():
            if state.jobs == 1:
                solo |= members
        self._solo = solo if self._plain else 0
        self._full = full & self._solo
        self._freed = [0]
        self._mixed: list[int] = []
        """Places of jobs that hold nodes together with others."""
        for place, nodes in enumerate(self.nodes):
            if nodes & ~self._solo:
                self._mixed.append(place)
        self._mixed_usage: dict[int, Usage] = {0: usage}
        self._snapshots: dict[int, Usage] = {0: usage}

    def answers(self, query: Query) -> Answers:
        """The memory for a query; the last one of each profile is kept."""
        known = self._answers.get(query.profile)
        if known is None or known.query is not query:
            known = self._answers[query.profile] = Answers(query)
        return known

    def after(self, count: int) -> Usage:
        """Usage once the first `count` jobs are gone. Not to be changed."""
        found = self._snapshots.get(count)
        if found is None:
            found = self._snapshots[count] = self._build(count)
        return found

    def freed(self, count: int) -> int:
        """Nodes that run nothing any more once the first `count` jobs are gone, of those with one job now."""
        freed = self._freed
        while len(freed) <= count:
            freed.append(freed[-1] | self.nodes[len(freed) - 1])
        return freed[count] & self._solo

    def full(self, count: int) -> int:
        """Nodes that surely have no room once the first `count` jobs are gone."""
        return self._full & ~self.freed(count)

    def _build(self, count: int) -> Usage:
        freed = self.freed(count)
        mixed = self._without_mixed(count)
        if not freed:
            return mixed
        classes: dict[State, int] = {}
        for state, members in mixed.classes.items():
            rest = members & ~freed
            if rest:
                classes[state] = rest
        for shape, members in enumerate(self._shape_nodes):
            some = members & freed
            if some:
                bare = State(shape)
                classes[bare] = classes.get(bare, 0) | some
        return Usage(classes, mixed.rows_of, mixed.held, mixed.crowded, mixed.stale)

    def _without_mixed(self, count: int) -> Usage:
        places = self._mixed
        many = 0
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) >> 1
            if places[middle] < count:
                low = middle + 1
            else:
                high = middle
        many = low
        known = self._mixed_usage
        if many in known:
            return known[many]
        start = max(n for n in known if n <= many)
        usage = known[start].copy()
        for place in places[start:many]:
            usage.remove(self.jobs[place].slurm_id, ~self._solo)
        known[many] = usage
        return usage
