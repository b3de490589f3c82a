"""What a slurmd says of itself when it registers (slurm.md 4.3 "Content"; slurmd.c _fill_registration_msg())."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmtwin.contract.cluster import NodeConf
    from slurmtwin.models.slurmd.parts import Work


@dataclass(frozen=True, slots=True)
class NodeReport:
    """One registration message."""

    name: str
    boot_s: int
    """now - uptime of the kernel: in a container the host's (slurm.md 4.3 "In a container")."""
    works: tuple[Work, ...] = ()
    """Jobs whose slurmstepd answers on this node."""
    hardware: NodeConf | None = None
    """What was found; None: what is configured."""
