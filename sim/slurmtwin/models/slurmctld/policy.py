"""Policies of one's own: a queue order, a placement rule, each a plain function.

    def shortest_first(job, part, priority):
        return (job.limit_s or 0, job.submit_s, job.slurm_id, part.index)

    use_order(ctld, shortest_first)

An order key must be unique per (job, partition): end it with job.slurm_id and part.index. Rules of Slurm that
look at the queue (partitions close, backfill plans in order) stay as they are.

A placement rule gets what is asked (selection/pick.py Ask), what the usable nodes offer, and their weights; it
returns the nodes or None. It serves the main pass and backfill with select/cons_tres.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld.scheduler import Scheduler
from slurmtwin.models.slurmctld.selection.select_nodes import Selection

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.pending_queue import OrderKey
    from slurmtwin.models.slurmctld.selection.node_choice import Placement
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld


def use_order(ctld: Slurmctld, key: OrderKey) -> None:
    """Sort the pending queue by `key(job, partition, priority)`, ascending, from now on."""
    assert isinstance(ctld.schedulers, Scheduler)
    ctld.schedulers.queue.order = key
    ctld.schedulers.queue.resort()


def use_placement(ctld: Slurmctld, rule: Placement) -> None:
    """Choose nodes by `rule` from now on."""
    assert isinstance(ctld.selection, Selection)
    ctld.selection.placement = rule
    ctld.selection.rebuild()
