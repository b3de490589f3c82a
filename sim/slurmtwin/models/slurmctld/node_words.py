"""The state of a node as slurmrestd lists it: its base state, then flags in slurmctld's order.

Source: slurm_protocol_defs.c node_state_base_string(), node_state_flag_string(), 26.05.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from slurmtwin.models.slurmctld.states import NodeBase, NodeFlag

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld
    from slurmtwin.models.slurmctld.tables import Node

_FLAGS: Final = (
    (NodeFlag.DRAIN, "DRAIN"), (NodeFlag.COMPLETING, "COMPLETING"), (NodeFlag.MAINT, "MAINTENANCE"),
    (NodeFlag.NO_RESPOND, "NOT_RESPONDING"), (NodeFlag.INVALID_REG, "INVALID_REG"),
    (NodeFlag.POWER_DOWN, "POWER_DOWN"), (NodeFlag.POWERING_DOWN, "POWERING_DOWN"),
    (NodeFlag.POWERED_DOWN, "POWERED_DOWN"), (NodeFlag.POWERING_UP, "POWERING_UP"),
    (NodeFlag.DYNAMIC_NORM, "DYNAMIC_NORM"),
)  # fmt: skip


def node_mark(ctld: Slurmctld, node: Node) -> tuple[object, ...]:
    """All that node_words() goes by: equal marks, equal words."""
    lifecycle = ctld.nodes_lifecycle
    return node.base, node.flags, lifecycle.has_jobs(node), lifecycle.is_allocated(node)


def node_words(ctld: Slurmctld, node: Node) -> list[str]:
    """Base state and flags. ALLOCATED and COMPLETING are not kept in the record: the jobs of the node say them."""
    lifecycle = ctld.nodes_lifecycle
    flags = node.flags
    base = node.base.name
    if node.base is NodeBase.IDLE and lifecycle.has_jobs(node):
        if lifecycle.is_allocated(node):
            base = "ALLOCATED"
        else:
            flags |= NodeFlag.COMPLETING
    return [base, *(word for flag, word in _FLAGS if flags & flag)]
