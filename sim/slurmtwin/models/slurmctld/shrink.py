"""A job goes on without one of its nodes (--no-kill)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.allocation import Allocation
    from slurmtwin.models.slurmctld.tables import Node

T = TypeVar("T")


def _cut(items: tuple[T, ...] | None, place: int) -> tuple[T, ...] | None:
    return None if items is None else items[:place] + items[place + 1 :]


def without(allocation: Allocation, node: Node) -> Allocation:
    """The same allocation less that node's share (excise_node_from_job())."""
    place = (allocation.nodes & (node.bit - 1)).bit_count()
    own = node.conf.cpus if allocation.cpus is None else allocation.cpus[place]

    return replace(
        allocation,
        nodes=allocation.nodes & ~node.bit,
        cpus=_cut(allocation.cpus, place),
        cpu_total=allocation.cpu_total - own,
        cores=_cut(allocation.cores, place),
        mem_mib=_cut(allocation.mem_mib, place),
        gres=_cut(allocation.gres, place) or (),
    )
