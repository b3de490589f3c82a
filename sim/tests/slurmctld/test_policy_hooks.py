"""A queue order or a placement rule of one's own plugs in with a few lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mini_cluster import MiniCluster

from slurmtwin.models.slurmctld.policy import use_order, use_placement
from slurmtwin.models.slurmctld.selection.bitmaps import highest
from slurmtwin.models.slurmctld.selection.pick import Ask, Chosen, Offers, Pick, fit_at, union
from slurmtwin.models.slurmctld.selection.select_nodes import Selection

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.selection.weights import WeightGroups
    from slurmtwin.models.slurmctld.tables import Job, Partition


def shortest_first(job: Job, part: Partition, priority: int) -> tuple[int, ...]:
    """Shortest job first."""
    return (job.limit_s or 0, job.submit_s, job.slurm_id, part.index)


def last_nodes_first(ask: Ask, offers: Offers, weights: WeightGroups) -> Chosen | None:
    """Nodes from the end of the table."""
    pick, left = Pick(ask), union(offers)
    while left and pick.max_nodes > 0 and not pick.done:
        bit = highest(left)
        left ^= bit
        fit = fit_at(offers, bit)
        assert fit is not None
        pick.take_one(bit, fit)
    return pick.chosen() if pick.acceptable else None


def test_an_order_of_ones_own_decides_who_starts_first() -> None:
    """Three jobs for one node, the longest first in the queue: the shortest runs first."""
    c = MiniCluster(nodes=1)
    use_order(c.ctld, shortest_first)
    for number, limit_s in ((1, 600), (2, 300), (3, 60)):
        c.submit(number, limit_s=limit_s, run_s=limit_s)
    c.run()
    assert c.order() == [3, 2, 1]


def test_a_placement_rule_of_ones_own_decides_where() -> None:
    """Main pass and backfill both fill the table from its end."""
    c = MiniCluster("SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU", passes=False)
    c.ctld.selection = Selection(c.ctld)
    use_placement(c.ctld, last_nodes_first)
    c.submit(1, nodes=2, ntasks=2, limit_s=600)
    c.scheduler.run_pass()
    c.submit(2, nodes=4, ntasks=4, limit_s=600)
    c.submit(3, nodes=1, ntasks=1, limit_s=60)
    c.scheduler.backfill.run_cycle()
    assert c.nodes_of(1) == [2, 3]
    assert c.nodes_of(3) == [1]
