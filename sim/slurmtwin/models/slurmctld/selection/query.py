"""One question to the select plugin, and what is remembered between equal questions."""

from __future__ import annotations

from dataclasses import dataclass, field

from slurmtwin.contract.cluster import PartitionConf
from slurmtwin.models.slurmctld.selection.node_test import Fit, NodeRules
from slurmtwin.models.slurmctld.selection.pick import Ask
from slurmtwin.models.slurmctld.selection.usage import State
from slurmtwin.models.slurmctld.selection.weights import WeightGroups

_MOST_REMEMBERED = 20_000


@dataclass(slots=True, eq=False)
class Profile:
    """A demand in a partition: shared by all jobs that ask the same there."""

    rules: NodeRules
    part_conf: PartitionConf
    now: dict[State, Fit | None] = field(default_factory=dict)
    """What a node in that state offers beside the running jobs."""
    empty: dict[State, Fit | None] = field(default_factory=dict)
    """What it would offer with nothing allocated (SELECT_MODE_TEST_ONLY)."""
    ever: dict[tuple[int, int, int, int, int], bool] = field(default_factory=dict)
    """(nodes, counts, required) -> could the job run on those nodes when they are empty."""

    _last: Query | None = None

    def query(self, ask: Ask, weights: WeightGroups, waited_s: int) -> Query:
        """The question; the last one is kept, as the same is asked again and again."""
        last = self._last
        if last is not None and last.ask is ask and last.weights is weights and last.waited_s == waited_s:
            return last
        self.forget()
        self._last = made = Query(self, ask, weights, waited_s)
        return made

    def forget(self) -> None:
        """Keep the memory small: states that never come back are dropped with the rest."""
        if len(self.now) > _MOST_REMEMBERED:
            self.now.clear()
        if len(self.empty) > _MOST_REMEMBERED:
            self.empty.clear()
        if len(self.ever) > _MOST_REMEMBERED:
            self.ever.clear()


@dataclass(frozen=True, slots=True)
class Query:
    """A profile with counts, required nodes and weights."""

    profile: Profile
    ask: Ask
    weights: WeightGroups
    waited_s: int = 0
    """How long the job waits for its switches."""
