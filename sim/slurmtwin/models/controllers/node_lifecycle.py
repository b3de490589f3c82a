"""Node lifecycle: silent kubelets, conditions, taints, and how fast nodes may be given up (kubernetes.md 4.2).

Source: pkg/controller/nodelifecycle/node_lifecycle_controller.go v1.34.2. The real loop looks at every node each 5 s;
here a node is looked at, at those same instants, while it is silent, not ready, or tainted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import MS
from slurmtwin.contract.events import Kind
from slurmtwin.models.api_server.collector import node_ready_fact, pod_fact
from slurmtwin.models.api_server.errors import ApiError, ConflictError
from slurmtwin.models.api_server.objects import NO_EXECUTE, NO_SCHEDULE, Condition, Node, Pod, Taint
from slurmtwin.models.controllers.zones import ZoneTainter, zone_of

if TYPE_CHECKING:
    from slurmtwin.models.controllers.controller_manager import ControllerManager

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
EXCLUDED: Final = "node.kubernetes.io/exclude-disruption"
KUBELET_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_CONDITION_TAINTS: Final = {
    ("Ready", "False"): NOT_READY, ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}  # fmt: skip
_OF_CONDITIONS: Final = frozenset(_CONDITION_TAINTS.values())
TAINT_TRIES: Final = 5
TAINT_AGAIN_NS: Final = (100 * MS, 200 * MS)
"""UpdateTaintBackoff of pkg/controller/controller_utils.go: 5 steps of 100 ms with jitter 1."""


@dataclass(slots=True)
class _Health:
    """What the loop remembers of a node: when it last saw a sign of life, by its own clock."""

    probe_ns: int
    beating: bool = True


class NodeLifecycle:
    """The controller."""

    def __init__(self, plane: ControllerManager) -> None:
        self.plane = plane
        self._client = plane.client()
        self._health: dict[str, _Health] = {}
        self._looking = False
        period = plane.defaults.node_monitor_ns
        self._phase_ns = plane.streams.uniform_ns("node_monitor.phase", 0, period)()
        self._taint_again = plane.streams.uniform_ns("node_taint.again", *TAINT_AGAIN_NS)
        self._swapping: dict[str, bool] = {}
        """Nodes whose NoSchedule taints are being written -> whether they have changed meanwhile."""
        self._zones: dict[str, ZoneTainter] = {}
        self._all_disrupted = False
        plane.nodes.tell(self._node_changed)
        beats = plane.server.heartbeats
        beats.on_silent.append(self._silent)
        beats.on_heard.append(self._heard)

    # when to look

    def tick_after(self, at_ns: int) -> int:
        """The first look at or after a time."""
        period = self.plane.defaults.node_monitor_ns
        return at_ns + (self._phase_ns - at_ns) % period

    def _look_by(self, at_ns: int) -> None:
        if not self._looking:
            self._looking = True
            self.plane.clock.call_at(self.tick_after(max(at_ns, self.plane.now_ns)), self._look)

    def _silent(self, node: str) -> None:
        """The last renewal was seen at the first look after it arrived."""
        health = self._health.get(node)
        if health is not None:
            health.beating = False
            health.probe_ns = self.tick_after(self.plane.server.heartbeats.silent[node])
            self._look_by(self.plane.now_ns)

    def _heard(self, node: str) -> None:
        health = self._health.get(node)
        if health is not None:
            health.beating = True

    def _node_changed(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._health.pop(old.meta.name, None)
            return
        if new.meta.name not in self._health:
            silent = new.meta.name in self.plane.server.heartbeats.silent
            self._health[new.meta.name] = _Health(self.plane.now_ns, not silent)
        self._no_schedule(new)
        if self._unsettled(new):
            self._look_by(self.plane.now_ns)

    def _unsettled(self, node: Node) -> bool:
        """The loop has, or may have, something to do with it."""
        marked = any(t.effect == NO_EXECUTE and t.key in (NOT_READY, UNREACHABLE) for t in node.spec.taints)
        return node.ready != "True" or marked or node.meta.name in self.plane.server.heartbeats.silent

    # the look

    def _look(self, _argument: object) -> None:
        """monitorNodeHealth()."""
        self._looking = False
        now_ns = self.plane.now_ns
        zones: dict[str, list[str]] = {}
        unsettled = False
        grace_ns, silent = self.plane.defaults.node_grace_ns, self.plane.server.heartbeats.silent
        for node in self.plane.nodes:
            health = self._health[node.meta.name]
            if health.beating:
                health.probe_ns = now_ns
            well = not node.spec.taints and node.ready == "True" and now_ns < health.probe_ns + grace_ns
            if well:
                self.zone(node).drop(node.meta.name)
            status = "True" if well else self._examine(node, health)
            if EXCLUDED not in node.meta.labels:
                zones.setdefault(zone_of(node), []).append(status)
            unsettled = unsettled or (node.meta.name in silent if well else self._unsettled(node))
        disrupted = self._disruption(zones)
        if unsettled or disrupted:
            self._look_by(now_ns + 1)

    def _examine(self, node: Node, health: _Health) -> str:
        """tryUpdateNodeHealth() of one node, then its taints; returns its Ready status."""
        now_ns, defaults = self.plane.now_ns, self.plane.defaults
        never = "Ready" not in node.status.conditions
        grace_ns = defaults.node_startup_grace_ns if never else defaults.node_grace_ns
        status = node.ready
        # ">" there, but the real looks are 5 s and their own work apart: the tenth is later than 50 s
        if now_ns >= health.probe_ns + grace_ns and (never or status != "Unknown"):
            self._give_up(node, was_ready=status == "True")
            return "Unknown"
        if not never:
            self._mark(node, status)
        return status

    def _mark(self, node: Node, status: str) -> None:
        """processTaintBaseEviction()."""
        keys = {t.key for t in node.spec.taints if t.effect == NO_EXECUTE}
        if status == "True":
            if keys & {NOT_READY, UNREACHABLE}:
                self._swap(node, None)
            self.zone(node).drop(node.meta.name)
        else:
            wanted, other = (NOT_READY, UNREACHABLE) if status == "False" else (UNREACHABLE, NOT_READY)
            if other in keys:
                self._swap(node, wanted)
            elif wanted not in keys:
                self.zone(node).add(node.meta.name)

    def _give_up(self, node: Node, was_ready: bool) -> None:
        """The kubelet stopped posting: conditions become Unknown, its pods not ready at once."""
        now_ns = self.plane.now_ns
        changed = {
            name: replace(c, status="Unknown", since_ns=now_ns, reason="NodeStatusUnknown")
            for name, c in node.status.conditions.items()
            if name in KUBELET_CONDITIONS and c.status != "Unknown"
        }
        if "Ready" not in node.status.conditions:
            changed["Ready"] = Condition("Unknown", now_ns, "NodeStatusNeverUpdated")
        conditions = {**node.status.conditions, **changed}
        self.plane.server.stamp(node_ready_fact(node, "Unknown"))
        self._client.patch(
            Node, node.meta.name, lambda n: replace(n, status=replace(n.status, conditions=conditions)),
            lambda _: self._mark(node, "Unknown"), uid=node.meta.uid,
        )  # fmt: skip
        if was_ready:
            self._client.event(
                f"Node/{node.meta.name}", "NodeNotReady", f"Node {node.meta.name} status is now: NodeNotReady"
            )
            for pod in self.plane.pods.on_node(node.meta.name):
                self._unready(pod)

    def _unready(self, pod: Pod) -> None:
        """MarkPodsNotReady()."""
        if not pod.ready:
            return
        condition = Condition("False", self.plane.now_ns, "NodeNotReady")
        self.plane.server.stamp(pod_fact(Kind.POD_UNREADY, pod))
        self._client.patch(
            Pod, pod.meta.key,
            lambda p: replace(p, status=replace(p.status, conditions={**p.status.conditions, "Ready": condition})),
            uid=pod.meta.uid,
        )  # fmt: skip
        self._client.event(f"Pod/{pod.meta.name}", "NodeNotReady", "Node is not ready")

    # taints

    def _no_schedule(self, node: Node) -> None:
        """doNoScheduleTaintingPass(): each change of a node, conditions and cordon as NoSchedule taints.

        One write of a node's at a time.
        """
        name = node.meta.name
        if name in self._swapping:
            self._swapping[name] = True
            return
        wanted = {
            _CONDITION_TAINTS[name, c.status]
            for name, c in node.status.conditions.items()
            if (name, c.status) in _CONDITION_TAINTS
        }
        if node.spec.unschedulable:
            wanted.add(UNSCHEDULABLE)
        ours = {
            t.key for t in node.spec.taints if t.effect == NO_SCHEDULE and t.key in _OF_CONDITIONS | {UNSCHEDULABLE}
        }
        if wanted == ours:
            return
        added = tuple(Taint(key=key, effect=NO_SCHEDULE, since_ns=self.plane.now_ns) for key in sorted(wanted - ours))
        gone = ours - wanted

        def change(n: Node) -> Node:
            kept = tuple(t for t in n.spec.taints if not (t.effect == NO_SCHEDULE and t.key in gone | wanted - ours))
            return replace(n, spec=replace(n.spec, taints=kept + added))

        def written() -> None:
            now = self.plane.nodes.get(name)
            if self._swapping.pop(name) and now is not None:
                self._no_schedule(now)

        self._swapping[name] = False
        self._write_taints(node, change, written)

    def _swap(self, node: Node, key: str | None) -> None:
        """One of not-ready and unreachable with NoExecute, or neither (SwapNodeControllerTaint())."""
        added = (Taint(key=key, effect=NO_EXECUTE, since_ns=self.plane.now_ns),) if key else ()

        def change(n: Node) -> Node:
            kept = tuple(t for t in n.spec.taints if not (t.effect == NO_EXECUTE and t.key in (NOT_READY, UNREACHABLE)))
            return replace(n, spec=replace(n.spec, taints=kept + added))

        self._write_taints(node, change, _nothing)

    def _write_taints(
        self, node: Node, change: Callable[[Node], Node], done: Callable[[], None], tries: int = TAINT_TRIES
    ) -> None:
        """The node is read, and written as of the version read; where it has changed meanwhile, a while later again
        (controller_utils.go AddOrUpdateTaintOnNode(), PatchNodeTaints()).
        """

        def read(answer: Any) -> None:
            if isinstance(answer, ApiError) or answer.meta.uid != node.meta.uid:
                done()
            else:
                self._client.update(change(answer), written)

        def written(answer: Any) -> None:
            if isinstance(answer, ConflictError) and tries > 1:
                again_ns = self._taint_again()
                self.plane.clock.call_in(again_ns, lambda _: self._write_taints(node, change, done, tries - 1))
            else:
                done()

        self._client.get(Node, node.meta.name, read)

    def _taint_now(self, name: str) -> None:
        """Its turn in the queue of its zone (doNoExecuteTaintingPass())."""
        node = self.plane.nodes.get(name)
        if node is not None and node.ready != "True":
            self._swap(node, NOT_READY if node.ready == "False" else UNREACHABLE)

    # zones

    def zone(self, node: Node) -> ZoneTainter:
        """The queue of a node's zone."""
        name = zone_of(node)
        found = self._zones.get(name)
        if found is None:
            found = self._zones[name] = ZoneTainter(self.plane, self._taint_now)
        return found

    def _disruption(self, zones: dict[str, list[str]]) -> bool:
        """handleDisruption(): rates by zone; when every zone is fully down all evictions stop, taints are taken off.

        Returns whether some zone is not as usual: the loop has to look again.
        """
        states = {name: zone_state(found, self.plane.defaults.unhealthy_zone) for name, found in zones.items()}
        all_down = bool(states) and all(state == "full" for state in states.values())
        if all_down and self._all_disrupted:
            return True
        if all_down:
            self._all_disrupted = True
            for node in self.plane.nodes:
                self._swap(node, None)
            for tainter in self._zones.values():
                tainter.set_gap(None)
            return True
        if self._all_disrupted:
            self._all_disrupted = False
            for health in self._health.values():
                health.probe_ns = self.plane.now_ns
        for name, state in states.items():
            if name in self._zones:
                self._zones[name].set_gap(self._gap(state, len(zones[name])))
        return any(state != "normal" for state in states.values())

    def _gap(self, state: str, size: int) -> int | None:
        """Time between two nodes; None: never."""
        defaults = self.plane.defaults
        if state != "partial":
            return defaults.eviction_gap_ns
        return defaults.reduced_gap_ns if size > defaults.large_zone else None


def _nothing() -> None:
    return None


def zone_state(statuses: list[str], threshold: tuple[int, int]) -> str:
    """normal, partial (three or more not ready and at least the threshold) or full (ComputeZoneState())."""
    down = sum(status != "True" for status in statuses)
    part, whole = threshold
    if down and down == len(statuses):
        return "full"
    if down > 2 and down * whole >= part * len(statuses):
        return "partial"
    return "normal"
