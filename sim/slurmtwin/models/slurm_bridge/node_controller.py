"""slurm-bridge's controller of nodes (internal/controller/node/node_sync.go): the taint, and cordons told to Slurm."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from slurmtwin.engine.records import changed
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.informer import Informer
from slurmtwin.models.api_server.objects import Node
from slurmtwin.models.slurm_bridge import objects as marks
from slurmtwin.models.slurmctld.states import NodeFlag

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import DaemonClock
    from slurmtwin.models.slurm_bridge.bridge import Bridge
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

PREFIX: Final = "slurm-bridge: "
"""Reasons that begin so are its own; it undrains no other."""


class NodeController:
    """One life of it."""

    def __init__(self, bridge: Bridge, clock: DaemonClock) -> None:
        self.bridge = bridge
        self.clock = clock
        self.client = Client(bridge.server, clock, bridge.latency, bridge.requests)
        caches = Client(bridge.server, clock, bridge.latency)
        self.nodes: Informer[Node] = Informer(caches, Node, self._changed)
        self.clients = (self.client, caches)
        self.informers = (self.nodes,)

    def start(self) -> None:
        """Caches first."""
        self.nodes.start()

    def look(self, kube: str) -> None:
        """The node is bridged from now on."""
        node = self.nodes.get(kube)
        if node is not None:
            self._changed(None, node)

    def _changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            return
        name = self.bridge.slurm_name(new.meta.name)
        if not name:
            return
        if marks.TAINT not in new.spec.taints:
            self.client.patch(Node, new.meta.name, _tainted)
        if old is None or old.spec.unschedulable != new.spec.unschedulable:
            self._tell(new.meta.name)

    def _tell(self, kube: str) -> None:
        """syncState(): the Slurm node is drained while the Kubernetes node is cordoned, and resumed after."""
        node = self.nodes.get(kube)
        if node is None:
            return
        cordoned = node.spec.unschedulable

        def act(ctld: Slurmctld) -> bool:
            found = ctld.nodes.by_name.get(self.bridge.slurm_name(kube))
            if found is None:
                return True
            own = found.reason.startswith(PREFIX)
            if cordoned and not found.flags & NodeFlag.DRAIN:
                ctld.nodes_lifecycle.update(found, "DRAIN", f"{PREFIX}node ({kube}) is unschedulable")
            elif not cordoned and found.flags & NodeFlag.DRAIN and own:
                ctld.nodes_lifecycle.update(found, "UNDRAIN", f"{PREFIX}node ({kube}) is schedulable")
            return True

        self.bridge.rest.call(self.clock, 2, act, partial(self._told, kube))

    def _told(self, kube: str, answer: bool | None) -> None:
        if answer is None:  # the runnable brings it back
            self.clock.call_in(self.bridge.period_ns, self._again, kube)

    def _again(self, kube: str) -> None:
        self._tell(kube)


def _tainted(node: Node) -> Node:
    if marks.TAINT in node.spec.taints:
        return node
    return changed(node, spec=changed(node.spec, taints=(*node.spec.taints, marks.TAINT)))
