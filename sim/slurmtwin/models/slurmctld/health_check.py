"""HealthCheckProgram as far as it changes results: one more RPC that finds silent nodes (slurm.md 4.6; ping_nodes.c).

Each HealthCheckInterval every node that is not known to be silent gets the RPC, and its answer moves
last_response. What the program itself does to a node (drain it) is a node action of the scenario. Only
HealthCheckNodeState=ANY (with or without CYCLE) is played; the other states reach too few nodes to find silence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.slurmctld.background import Duty, Periodic
from slurmtwin.models.slurmctld.states import NodeBase, NodeFlag
from slurmtwin.models.slurmctld.tables import bits

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.pings import Pings
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_SKIPPED = NodeFlag.NO_RESPOND | NodeFlag.POWERED_DOWN | NodeFlag.POWERING_DOWN | NodeFlag.EXTERNAL


class HealthChecks:
    """The health check timer of one slurmctld."""

    def __init__(self, ctld: Slurmctld, pings: Pings) -> None:
        self._ctld = ctld
        self._pings = pings
        timers = ctld.conf.timers
        words = {word.strip().upper() for word in timers.health_check_node_state.split(",")}
        runs = "ANY" in words and not words & {"START_ONLY", "REBOOT_ONLY"}
        self.interval_s = timers.health_check_interval_ns // SECOND if runs else 0
        self._start_s = 0
        self._period: Periodic | None = None

    def start(self) -> None:
        """The loop has begun: its start is the phase of the checks."""
        if self.interval_s:
            background = self._ctld.background
            self._start_s = background.start_s
            background.register(Duty.HEALTH_CHECK, self._look)
            self._period = Periodic(background, self._ctld, self.interval_s)  # type: ignore[arg-type]

    def last_s(self, now_s: int) -> int:
        """The second of the last check up to now; 0: there was none."""
        rounds = (now_s - self._start_s) // self.interval_s if self.interval_s else 0
        return self._start_s + rounds * self.interval_s if rounds > 0 else 0

    def arm(self) -> None:
        """A node is silent and slurmctld does not know: the next check will find it."""
        if self._period is not None:
            self._ctld.background.arm(Duty.HEALTH_CHECK, self._period.next_s())

    def _look(self) -> None:
        assert self._period is not None
        self._period.acted()
        ctld = self._ctld
        for index in bits(ctld.slurmds.deaf):
            node = ctld.nodes.nodes[index]
            if node.base is not NodeBase.FUTURE and not node.flags & _SKIPPED:
                self._pings.ask_deaf(node, retried=True, register=False)
