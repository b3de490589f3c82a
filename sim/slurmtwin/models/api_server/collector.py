"""The collector: what happened to pods, nodes and claims as rows of the event table, as on a real cluster.

Each fact has two rows there: the object's own stamp (actor apiserver), and when the collector's watch told of it
(actor collector), tied by cause_seq. A kubelet dates what it sees before the server learns of it: `stamp()` writes
the first row then. A fact that nobody stamped is dated when the server has it. Facts without a stamp of their own
(taints, claims, waiting containers) have the receipt alone. Leases carry their own time and have no receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.event_sink import detail_text, text_of
from slurmtwin.models.api_server.objects import Claim, ContainerStatus, Custom, KubeEvent, Lease, Node, Object, Pod
from slurmtwin.models.api_server.watch import DELETED

if TYPE_CHECKING:
    from slurmtwin.engine.environment import Environment
    from slurmtwin.engine.event_sink import EventSink
    from slurmtwin.models.api_server.server import ApiServer

WATCHED: Final = ("events", "leases", "nodes", "persistentvolumeclaims", "pods")
RETRY_NS: Final = SECOND // 5
QUIET: Final = ("ContainerCreating", "PodInitializing")
"""Waiting reasons of every start."""


@dataclass(slots=True)
class Fact:
    """One change of one object; `dated`: it has a stamp of its own."""

    kind: Kind
    dated: bool = True
    node: str | None = None
    pod_uid: str | None = None
    value: int | None = None
    unit: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)
    """Values that are None or "" are not told."""
    text: str | None = None
    """The detail as its row has it, once one was written."""

    @property
    def mark(self) -> tuple[Kind, str | None, str | None, str | None, int | None]:
        """What its stamp and its receipt have in common."""
        return self.kind, self.pod_uid, self.node, self.detail.get("container"), self.value


def pod_fact(kind: Kind, pod: Pod, dated: bool = True, value: int | None = None, unit: str | None = None,
             **detail: Any) -> Fact:  # fmt: skip
    """A fact about a pod or, with `container`, about one of its containers."""
    detail["pod"] = pod.meta.key
    detail["app"] = pod.meta.labels.get("app")
    return Fact(kind, dated, pod.spec.node_name or None, pod.meta.uid, value, unit, detail)


def container_started(pod: Pod, name: str, restart_count: int) -> Fact:
    """A container runs."""
    return pod_fact(Kind.CONTAINER_STARTED, pod, value=restart_count, unit="restart", container=name)


def container_ended(pod: Pod, name: str, reason: str, exit_code: int, signal: int = 0) -> Fact:
    """A container is over. (A signal is not told by containerd: its exit code is 128 + signal.)"""
    return pod_fact(
        Kind.CONTAINER_ENDED, pod, container=name, reason=reason, exit_code=exit_code, signal=signal or None
    )


def pod_facts(verb: str, old: Pod | None, new: Pod) -> list[Fact]:
    """What happened to a pod between two of its versions."""
    if verb == DELETED:
        return [pod_fact(Kind.POD_DELETED, new, dated=False)]
    facts: list[Fact] = []
    if old is None:
        facts.append(pod_fact(Kind.POD_CREATED, new))
    if new.spec.node_name and (old is None or not old.spec.node_name):
        facts.append(pod_fact(Kind.POD_SCHEDULED, new))
    if old is None or new.status is not old.status:
        _status_facts(old, new, facts)
    if new.meta.deletion_ns is not None and (old is None or old.meta.deletion_ns is None):
        facts.append(pod_fact(Kind.POD_DELETING, new, value=new.meta.grace_ns // SECOND, unit="s"))
    if new.finished and (old is None or not old.finished):
        facts.append(pod_fact(Kind.POD_ENDED, new, dated=False, phase=new.status.phase, reason=new.status.reason))
    return facts


def _status_facts(old: Pod | None, new: Pod, facts: list[Fact]) -> None:
    status = new.status
    if old is None or status.containers is not old.status.containers:
        before = {s.name: s for s in old.status.containers} if old is not None else {}
        for container in status.containers:
            _container_facts(new, before.get(container.name), container, facts)
    was = old.status.conditions.get("Ready") if old is not None else None
    now = status.conditions.get("Ready")
    if (
        now is not None and now is not was and (was is None or was.status != now.status)
        and (now.status == "True" or was is not None)
    ):  # fmt: skip
        facts.append(pod_fact(Kind.POD_READY if now.status == "True" else Kind.POD_UNREADY, new))


def _container_facts(pod: Pod, old: ContainerStatus | None, new: ContainerStatus, facts: list[Fact]) -> None:
    if new.ended is not None or new.last_ended is not None:
        known = [e.container_id for e in (old.ended, old.last_ended) if e is not None] if old is not None else []
        for end in (new.ended, new.last_ended):
            if end is not None and end.container_id not in known:
                facts.append(container_ended(pod, new.name, end.reason, end.exit_code, end.signal))
    ran = old.container_id if old is not None and old.running_ns is not None else None
    if new.running_ns is not None and new.container_id != ran:
        facts.append(container_started(pod, new.name, new.restart_count))
    if new.waiting and new.waiting not in QUIET and new.waiting != (old.waiting if old is not None else ""):
        facts.append(pod_fact(Kind.CONTAINER_WAITING, pod, dated=False, container=new.name, reason=new.waiting))


def node_ready_fact(node: Node, status: str) -> Fact:
    """The Ready condition of a node changed to True, False or Unknown."""
    kind = Kind.KUBE_NODE_READY if status == "True" else Kind.KUBE_NODE_UNREADY
    return Fact(kind, node=node.meta.name, detail={"status": status})


def node_facts(verb: str, old: Node | None, new: Node) -> Iterator[Fact]:
    """What happened to a Kubernetes node."""
    name = new.meta.name
    if verb == DELETED:
        yield Fact(Kind.KUBE_NODE_DELETED, dated=False, node=name)
        return
    if old is None:
        yield Fact(Kind.KUBE_NODE_CREATED, node=name)
    was = old.status.conditions.get("Ready") if old is not None else None
    now = new.status.conditions.get("Ready")
    if now is not None and (was is None or was.status != now.status):
        yield node_ready_fact(new, now.status)
    marks, before = ([f"{t.key}:{t.effect}" for t in n.spec.taints] if n is not None else [] for n in (new, old))
    if sorted(marks) != sorted(before):
        yield Fact(Kind.KUBE_NODE_TAINTED, dated=False, node=name, detail={"taints": ",".join(sorted(marks)) or None})
    cordoned = old is not None and old.spec.unschedulable
    if new.spec.unschedulable != cordoned:
        kind = Kind.KUBE_NODE_CORDONED if new.spec.unschedulable else Kind.KUBE_NODE_UNCORDONED
        yield Fact(kind, dated=False, node=name)


def claim_facts(verb: str, old: Claim | None, new: Claim) -> Iterator[Fact]:
    """A claim was bound, or lost its volume."""
    kind = {"Bound": Kind.CLAIM_BOUND, "Lost": Kind.CLAIM_LOST}.get(new.phase)
    if verb != DELETED and kind is not None and (old is None or old.phase != new.phase):
        yield Fact(kind, dated=False, detail={"claim": new.meta.key})


def event_facts(verb: str, old: KubeEvent | None, new: KubeEvent) -> Iterator[Fact]:
    """An Event object was written or counted up."""
    if verb != DELETED and (old is None or old.count != new.count):
        said = {"reason": new.reason, "about": new.about, "message": new.message[:160], "count": new.count}
        yield Fact(Kind.KUBE_EVENT, detail=said)


def custom_facts(verb: str, old: Custom | None, new: Custom) -> Iterator[Fact]:
    """An object of a custom resource changed."""
    gone = True if verb == DELETED else None
    if gone or old is None or old.status != new.status or old.meta.generation != new.meta.generation:
        said = {"resource": new.resource, "name": new.meta.key, "generation": new.meta.generation, "gone": gone}
        yield Fact(Kind.OBJECT_CHANGED, dated=False, detail=said)


_READERS: Final[dict[type, Callable[..., Iterable[Fact]]]] = {
    Pod: pod_facts, Node: node_facts, Claim: claim_facts, KubeEvent: event_facts, Custom: custom_facts,
}  # fmt: skip


class Collector:
    """Writes the rows of one cluster's objects."""

    def __init__(
        self, env: Environment, server: ApiServer, sink: EventSink, delay: Callable[[], int] | None = None,
        cluster: str | None = None,
    ) -> None:  # fmt: skip
        self._env = env
        self._sink = sink
        self._delay = delay
        self._cluster = cluster
        self._stamps: dict[Any, tuple[int, Fact]] = {}
        """Mark -> seq of the row, and the fact, of what the server does not know yet."""
        self._last_ns = env.now_ns
        server.on_write.append(self._written)
        server.on_stamp.append(self.stamp)
        server.on_life.append(self._life)

    def stamp(self, fact: Fact) -> None:
        """A kubelet or controller dates this now; the server will learn of it."""
        self._stamps[fact.mark] = self._emit(fact, "apiserver"), fact

    def _life(self, up: bool) -> None:
        """Its own watches: a server that is gone breaks them; tries are 0.2 s apart."""
        kind = Kind.WATCH_RESUMED if up else Kind.WATCH_BROKEN
        self._env.call_in(RETRY_NS if up else 0, self._watches, kind)

    def _watches(self, kind: Kind) -> None:
        for resource in WATCHED:
            self._sink.emit_pod(self._env.now_ns, kind, "collector", None, detail=detail_text(resource=resource))

    def _written(self, verb: str, old: Object | None, new: Object) -> None:
        kind = type(new)
        if kind is Lease:
            if new.meta.namespace == "kube-node-lease" and verb != DELETED:
                self._emit(Fact(Kind.LEASE_RENEWED, node=new.meta.name), "kubelet")
            return
        reader = _READERS.get(kind)
        if reader is None:
            return
        facts = [(fact, self._own(fact)) for fact in reader(verb, old, new)]
        if not facts:
            return
        now_ns = self._env.now_ns
        at_ns = now_ns if self._delay is None else max(now_ns + self._delay(), self._last_ns)
        self._last_ns = at_ns
        self._env.call_at(at_ns, self._received, facts)

    def _own(self, fact: Fact) -> int | None:
        if not fact.dated:
            return None
        stamped = self._stamps.pop(fact.mark, None)
        if stamped is None:
            return self._emit(fact, "apiserver")
        if stamped[1].detail == fact.detail:
            fact.text = stamped[1].text
        return stamped[0]

    def _received(self, facts: list[tuple[Fact, int | None]]) -> None:
        for fact, cause in facts:
            self._emit(fact, "collector", cause)

    def _emit(self, fact: Fact, actor: str, cause: int | None = None) -> int:
        if fact.text is None and fact.detail:
            detail = {name: value for name, value in fact.detail.items() if value is not None and value != ""}
            fact.text = text_of(detail) if detail else None
        return self._sink.emit_pod(
            self._env.now_ns, fact.kind, actor, fact.pod_uid, fact.node, fact.value, fact.unit, fact.text, cause
        )
