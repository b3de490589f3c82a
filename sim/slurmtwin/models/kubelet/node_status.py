"""The node as its kubelet reports it: lease, Ready and pressure conditions, and when each goes out.

Source: pkg/kubelet/kubelet_node_status.go, runtime.go, component-helpers lease controller, v1.34.2; kubernetes.md 4.1,
4.2, 4.13. A healthy node's heartbeats are not simulated (heartbeat.py); the API server is told when they cease and
return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from slurmtwin.models.api_server.collector import node_ready_fact
from slurmtwin.models.api_server.errors import ApiError, NotFoundError
from slurmtwin.models.api_server.objects import Condition, Meta, Node, NodeStatus
from slurmtwin.models.kubelet.heartbeat import Rhythm

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.api_server.client import Client
    from slurmtwin.models.kubelet.defaults import KubeletDefaults

PRESSURES = ("MemoryPressure", "DiskPressure", "PIDPressure")


class NodeReport:
    """Lease and status of one node, as long as its kubelet runs."""

    def __init__(
        self, clock: Clock, client: Client, node: Node, defaults: KubeletDefaults, draw: Callable[[int, int], int],
        health: Callable[[], str], pressures: Callable[[], tuple[str, ...]],
    ) -> None:  # fmt: skip
        self._clock = clock
        self._client = client
        self._node = node
        self.name = node.meta.name
        self._health = health
        """Why the node is not Ready; "" when it is."""
        self._pressures = pressures
        low_ns, high_ns = defaults.heartbeat_ns
        now_ns = clock.now_ns

        def gap() -> int:
            return draw(low_ns, high_ns)

        def phase() -> int:
            return draw(0, low_ns)

        self.lease = Rhythm(now_ns, gap, phase)
        self.status = Rhythm(now_ns, gap, phase)
        self._armed = False
        self._told: dict[str, str] = {}
        """Condition -> status, as the API server has them from this kubelet."""

    def begin(self) -> None:
        """The kubelet has started: it registers its node and reports at once."""
        meta = Meta(name=self.name, labels=self._node.meta.labels)
        made = Node(meta=meta, spec=self._node.spec, status=replace(self._node.status, conditions={}))
        self._client.create(made, self._registered)
        self._client.server.heartbeats.resume(self.name)

    def _registered(self, _answer: Any) -> None:
        self._compute(None)

    def changed(self) -> None:
        """Something that the status tells is different: the next computation finds it."""
        if not self._armed:
            self._armed = True
            self._clock.call_at(self.status.next_after(self._clock.now_ns), self._compute)

    def now(self) -> None:
        """The status is computed at once: its timer was overdue. What others wrote over it is seen by the next one."""
        self.status.begin_anew(self._clock.now_ns)
        self._compute(None)

    def silent(self) -> None:
        """Nothing of this kubelet reaches the API server from now on."""
        heartbeats = self._client.server.heartbeats
        heartbeats.cease(self.name, self.lease.last_before(self._clock.environment.now_ns))

    def heard(self) -> None:
        """Its renewals arrive again. A renewal that was overdue comes at once."""
        self.lease.begin_anew(self._clock.environment.now_ns)
        self._client.server.heartbeats.resume(self.name)
        self._client.get(Node, self.name, self._seen)

    def _compute(self, _argument: object) -> None:
        self._armed = False
        conditions = self._conditions()
        if {name: c.status for name, c in conditions.items()} == self._told:
            return
        ready = conditions["Ready"]
        if self._told.get("Ready") != ready.status:
            self._client.server.stamp(node_ready_fact(self._node, ready.status))
        self._client.patch(Node, self.name, lambda node: _merged(node, conditions, self._node.status),
                           partial(self._sent, {name: c.status for name, c in conditions.items()}))  # fmt: skip

    def _conditions(self) -> dict[str, Condition]:
        now_ns = self._clock.now_ns
        reason = self._health()
        found = {"Ready": Condition("False" if reason else "True", now_ns, reason or "KubeletReady", now_ns)}
        pressures = self._pressures()
        for name in PRESSURES:
            found[name] = Condition("True" if name in pressures else "False", now_ns, "", now_ns)
        return found

    def _sent(self, told: dict[str, str], answer: Any) -> None:
        if isinstance(answer, NotFoundError):
            self._told = {}  # a node that was deleted is registered again by the kubelet's next start alone
        elif isinstance(answer, ApiError):
            self.changed()
        else:
            self._told = told

    def _seen(self, answer: Any) -> None:
        """The object after a silence: a status that others wrote over (Ready Unknown) is put right by the next one."""
        if isinstance(answer, ApiError):
            return
        for name, status in self._told.items():
            there = answer.status.conditions.get(name)
            if there is None or there.status != status:
                self._told = {}
                self.changed()
                return


def _merged(node: Node, conditions: dict[str, Condition], mine: NodeStatus) -> Node:
    """Conditions keep the time of their last transition."""
    merged = dict(node.status.conditions)
    for name, condition in conditions.items():
        before = merged.get(name)
        if before is not None and before.status == condition.status:
            condition = replace(condition, since_ns=before.since_ns)
        merged[name] = condition
    status = replace(
        node.status, conditions=merged, milli_cpu=mine.milli_cpu, memory=mine.memory, pods=mine.pods
    )  # fmt: skip
    return node if status == node.status else replace(node, status=status)
