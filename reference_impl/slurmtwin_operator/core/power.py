"""Slurm's power saving as the source of scale (switch scale_source power): Slurm names the nodes that shall be there.

As Soperator (NS): nodes are State=CLOUD in slurm.conf, slurmctld marks those it wants up or down by name, and a pod is
there for each that is not powered down. Soperator's ResumeProgram edits an object that its operator follows; here the
operator reads the marks themselves from the node list, so no program runs. slurmd registers as freshly booted (`-b`):
slurmctld believes a node that it powers up only then (26.05 node_mgr.c waiting_for_node_boot()).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from slurmtwin.contract.quantity import milli_cpu, quantity_bytes
from slurmtwin_operator.core.observed import NodeSetFact, SlurmNode

DOWN_FLAGS: Final = ("POWERED_DOWN", "POWERING_DOWN")
MEBI: Final = 1 << 20
SETTINGS: Final = {"ResumeProgram": "/bin/true", "SuspendProgram": "/bin/true"}
"""Without both slurmctld saves no power (power_save.c); the marks alone matter here."""
DEFAULTS: Final = {"SuspendTime": "600", "SuspendTimeout": "90", "ResumeTimeout": "1800"}
"""Soperator's (NS); a user may override them."""


def suspended(node: SlurmNode) -> bool:
    """slurmctld has powered it down, or is about to: no job is on it."""
    return any(flag in DOWN_FLAGS for flag in node.flags)


def wanted_up(nodes: Iterable[SlurmNode], node_set: str) -> tuple[str, ...]:
    """The slots of a node set that slurmctld wants up."""
    prefix = f"{node_set}-"
    mine = [n for n in nodes if node_set in n.features and n.name.startswith(prefix) and not suspended(n)]
    return tuple(sorted(n.name.removeprefix(prefix) for n in mine))


def node_line(fact: NodeSetFact) -> str:
    """The NodeName line of a set: as many nodes as it may ever have, all in the cloud."""
    last = f"[0-{fact.nodes - 1}]" if fact.nodes > 1 else "0"
    cpus, memory = max(1, milli_cpu(fact.cpu) // 1000), max(1, quantity_bytes(fact.memory) // MEBI)
    features = ",".join((fact.name, *fact.features))
    return f"NodeName={fact.name}-{last} Feature={features} CPUs={cpus} RealMemory={memory} State=CLOUD"
