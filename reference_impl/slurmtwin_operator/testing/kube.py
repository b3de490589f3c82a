"""Kubernetes in memory: machines, pods with uids and their lives, StatefulSets, applied objects, custom resources."""

from __future__ import annotations

import heapq
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from slurmtwin.contract.events import Event, Kind
from slurmtwin_operator.core.actions import Memory
from slurmtwin_operator.core.observed import TERMINATING, Applied, Condition, KubeNode, Pod
from slurmtwin_operator.core.spec import NodeSetSpec
from slurmtwin_operator.testing.slurm import SECOND, Clock, FakeSlurm, RefusedError

SCHEDULE_NS: Final = SECOND
START_NS: Final = 4 * SECOND
READY_NS: Final = 2 * SECOND
STOP_NS: Final = 2 * SECOND


@dataclass(slots=True)
class Machine:
    """A Kubernetes node."""

    name: str
    instance: str
    unschedulable: bool = False
    mirrored: bool = False
    ready: bool = True
    not_ready_since_ns: int = 0
    conditions: set[str] = field(default_factory=set)
    locked: str = ""
    foreign_pods: int = 0


@dataclass(slots=True)
class LivePod:
    """A pod and what a kubelet knows of it."""

    name: str
    uid: str
    node_set: str
    slot: str
    revision: str
    image: str
    prestop: bool
    pinned: str
    created_ns: int
    labels: dict[str, str]
    phase: str = "Pending"
    ready: bool = False
    ready_since_ns: int = 0
    deleting: bool = False
    machine: str = ""
    cordoned: bool = False
    deletion_cost: int = 0
    relabelled: tuple[int, bool] = (-1, False)
    """(when its protection last changed, what it was before)."""


@dataclass(slots=True)
class Resource:
    """A custom resource with what its carrier stores in it."""

    name: str
    spec: Any
    uid: str
    generation: int = 1
    deleting: bool = False
    finalizer: bool = False
    memory: Memory = field(default_factory=Memory)
    conditions: tuple[Condition, ...] = ()
    power: tuple[str, ...] = ()


@dataclass(slots=True)
class FakeKube:
    """The API server, kubelets and the StatefulSet controller, on one clock with Slurm."""

    machines: dict[str, Machine] = field(default_factory=dict)
    pods: dict[str, LivePod] = field(default_factory=dict)
    objects: dict[tuple[str, str], tuple[str, Any]] = field(default_factory=dict)
    node_sets: dict[str, Resource] = field(default_factory=dict)
    bad_images: set[str] = field(default_factory=set)
    unregistered: set[str] = field(default_factory=set)
    """Pod names whose slurmd never reaches slurmctld."""
    buried: list[tuple[int, Pod]] = field(default_factory=list)
    """(when it went, the pod as a cache last saw it alive: before the pass that deleted it)."""
    events: list[Event] = field(default_factory=list)
    now: int = 0
    on_change: Callable[[], None] = lambda: None
    slurm: FakeSlurm = field(init=False)
    _queue: list[tuple[int, int, Callable[[], None]]] = field(default_factory=list)
    _serial: int = 0

    def __post_init__(self) -> None:
        self.slurm = FakeSlurm(Clock(self.after, lambda: self.now, self.note), machine_locked=self._is_locked)

    # time and the event table
    def after(self, delay_ns: int, call: Callable[[], None]) -> None:
        """Call later."""
        self._serial += 1
        heapq.heappush(self._queue, (self.now + delay_ns, self._serial, call))

    def run(self, until_ns: int) -> None:
        """Let time pass."""
        while self._queue and self._queue[0][0] <= until_ns:
            self.now, _, call = heapq.heappop(self._queue)
            call()
        self.now = until_ns

    def note(self, kind: Kind, actor: str, /, *, job_id: int | None = None, node: str | None = None,
             pod_uid: str | None = None, value: int | None = None, **detail: Any) -> None:  # fmt: skip
        """Write a row."""
        text = json.dumps(detail, sort_keys=True) if detail else None
        self.events.append(Event(self.now, kind, actor, job_id, node, value, None, text, pod_uid=pod_uid))

    # users and administrators
    def add_machines(self, number: int) -> None:
        """Machines k0, k1 ..."""
        for i in range(len(self.machines), len(self.machines) + number):
            self.machines[f"k{i}"] = Machine(f"k{i}", f"machine-{i}")
        self.on_change()

    def set_node_set(self, name: str, spec: NodeSetSpec) -> None:
        """Create a NodeSet, or change its spec."""
        found = self.node_sets.get(name)
        if found is None:
            self.node_sets[name] = Resource(name, spec, f"set-{name}")
        elif found.spec != spec:
            found.spec, found.generation = spec, found.generation + 1
        self._note_set(self.node_sets[name], spec.replicas)
        self.on_change()

    def set_power(self, name: str, slots: tuple[str, ...]) -> None:
        """Slurm's ResumeProgram and SuspendProgram want these nodes up."""
        self.node_sets[name].power = slots
        self._note_set(self.node_sets[name], len(slots))
        self.on_change()

    def _note_set(self, resource: Resource, replicas: int) -> None:
        spec: NodeSetSpec = resource.spec
        counted = spec.scaling == "count"
        self.note(
            Kind.OBJECT_CHANGED, "user", resource="nodesets", name=resource.name, replicas=replicas, counted=counted,
            max_unavailable=spec.update.max_unavailable, revision=spec.revision, update=spec.update.type,
        )  # fmt: skip

    def delete_node_set(self, name: str) -> None:
        """kubectl delete nodeset."""
        self.node_sets[name].deleting = True
        self.note(Kind.OBJECT_CHANGED, "user", resource="nodesets", name=name, deleted=True)
        self._collect()
        self.on_change()

    def change_machine(self, name: str, actor: str = "user", **facts: Any) -> None:
        """Set fields of a machine: unschedulable, conditions, ready ..."""
        machine = self.machines[name]
        for key, value in facts.items():
            setattr(machine, key, value)
        if "ready" in facts:
            self.note(Kind.KUBE_NODE_READY if machine.ready else Kind.KUBE_NODE_UNREADY, actor, node=name)
        if facts.get("ready") is False:
            machine.not_ready_since_ns = self.now
            for pod in self.pods.values():
                if pod.machine == name:
                    pod.ready = False
                    self.slurm.lose(pod.name)
        if facts.get("ready") is True:
            for pod in [p for p in self.pods.values() if p.machine == name]:
                call = self._gone if pod.deleting else self._start
                self.after(STOP_NS, partial(call, pod))
        if "unschedulable" in facts:
            kind = Kind.KUBE_NODE_CORDONED if machine.unschedulable else Kind.KUBE_NODE_UNCORDONED
            self.note(kind, actor, node=name)
        self.on_change()

    def fault(self, kind: str, target: str = "") -> None:
        """Note that something is broken on purpose."""
        self.note(Kind.FAULT_INJECTED, "fault", kind=kind, target=target)

    # pods
    def create_pod(self, manifest: str, actor: str = "operator") -> None:
        """Create a pod from its manifest; an existing name is left as it is."""
        document = json.loads(manifest)
        meta, spec = document["metadata"], document["spec"]
        name = meta["name"]
        if name in self.pods:
            return
        self._serial += 1
        labels, pinned = meta["labels"], _pin(spec)
        container = spec["containers"][0]
        pod = LivePod(
            name, f"uid-{self._serial}", labels["slurmtwin.dev/nodeset"], meta["annotations"]["slurmtwin.dev/slot"],
            labels["slurmtwin.dev/revision"], container["image"], "lifecycle" in container, pinned, self.now, labels,
        )  # fmt: skip
        self.pods[name] = pod
        self.note(
            Kind.POD_CREATED, actor, pod_uid=pod.uid, pod=f"ns/{name}", node_set=pod.node_set, revision=pod.revision
        )
        self.after(SCHEDULE_NS, lambda: self._place(pod))
        self.on_change()

    def annotate(self, name: str, **facts: Any) -> None:
        """kubectl annotate pod: cordoned, deletion_cost."""
        for key, value in facts.items():
            setattr(self.pods[name], key, value)
        self.on_change()

    def delete_pod(self, name: str, uid: str = "", actor: str = "user", *, force: bool = False) -> None:
        """Delete with grace (preStop runs), or at once. Raises RefusedError when there is no such pod."""
        pod = self.pods.get(name)
        if pod is None or (uid and pod.uid != uid):
            raise RefusedError(f'pods "{name}" not found')
        if not pod.deleting:
            (seen,) = [p for p in self.view_pods(pod.node_set) if p.uid == pod.uid]
            at, before = pod.relabelled
            self.buried.append((self.now, replace(seen, protected=before if at == self.now else seen.protected)))
            pod.deleting, pod.ready = True, False
            self.note(Kind.POD_DELETING, actor, node=pod.machine or None, pod_uid=pod.uid, pod=f"ns/{pod.name}")
            record = self.slurm.nodes.get(name)
            if pod.prestop and not force and pod.phase == "Running" and record and self.slurm.running:
                self.slurm.set_down(name, TERMINATING)
            self.after(0 if force else STOP_NS, lambda: self._gone(pod, force))
            self.on_change()

    def drain_machine(self, name: str) -> None:
        """kubectl drain: cordon, then evict again and again until all pods have left."""
        self.change_machine(name, unschedulable=True)
        self._evict(name)

    def _evict(self, machine: str) -> None:
        """An eviction is refused while a PodDisruptionBudget of 0 selects the pod."""
        left = [pod for pod in self.pods.values() if pod.machine == machine]
        for pod in left:
            held = (
                pod.labels.get("slurmtwin.dev/protect")
                and ("PodDisruptionBudget", f"{pod.node_set}-busy") in self.objects
            )
            if not held:
                self.delete_pod(pod.name, actor="eviction")
        if left:
            self.after(5 * SECOND, lambda: self._evict(machine))

    def fail_pod(self, name: str) -> None:
        """The pod ends (evicted, node shutdown): phase Failed."""
        pod = self.pods.get(name)
        if pod is None:
            raise RefusedError(f'pods "{name}" not found')
        pod.phase, pod.ready = "Failed", False
        self.note(Kind.POD_ENDED, "kubelet", node=pod.machine or None, pod_uid=pod.uid, pod=f"ns/{pod.name}")
        self.slurm.lose(name)
        self.on_change()

    def _place(self, pod: LivePod) -> None:
        """kube-scheduler: the pinned machine, or the one with the fewest pods."""
        if self.pods.get(pod.name) is not pod or pod.deleting:
            return
        able = [m for m in self.machines.values() if m.ready and (m.name == pod.pinned if pod.pinned else True)]
        able = [m for m in able if pod.pinned or not m.unschedulable]
        if not able:
            self.after(5 * SECOND, lambda: self._place(pod))
            return
        load = {m.name: 0 for m in able}
        for other in self.pods.values():
            if other.machine in load:
                load[other.machine] += 1
        pod.machine = min(able, key=lambda m: (load[m.name], m.name)).name
        self.note(Kind.POD_SCHEDULED, "apiserver", node=pod.machine, pod_uid=pod.uid, pod=f"ns/{pod.name}")
        if pod.image not in self.bad_images:
            self.after(START_NS, lambda: self._start(pod))
        self.on_change()

    def _start(self, pod: LivePod) -> None:
        if self.pods.get(pod.name) is not pod or pod.deleting:
            return
        pod.phase = "Running"
        if pod.name not in self.unregistered and self.slurm.running:
            self.slurm.register(pod.name, pod.node_set)
        self.after(READY_NS, lambda: self._ready(pod))
        self.on_change()

    def _ready(self, pod: LivePod) -> None:
        if self.pods.get(pod.name) is pod and not pod.deleting and pod.phase == "Running":
            pod.ready, pod.ready_since_ns = True, self.now
            self.note(Kind.POD_READY, "kubelet", node=pod.machine or None, pod_uid=pod.uid, pod=f"ns/{pod.name}")
            self._stateful_sets()
            self.on_change()

    def _gone(self, pod: LivePod, force: bool = False) -> None:
        machine = self.machines.get(pod.machine)
        lost = machine is not None and not machine.ready
        if self.pods.get(pod.name) is not pod or (lost and not force):
            return  # on a lost machine it stays Terminating until that comes back
        del self.pods[pod.name]
        self.note(Kind.POD_DELETED, "kubelet", node=pod.machine or None, pod_uid=pod.uid, pod=f"ns/{pod.name}")
        self.slurm.lose(pod.name)
        self._collect()
        self._stateful_sets()
        self.on_change()

    def _is_locked(self, slurm_node: str) -> bool:
        pod = self.pods.get(slurm_node)
        return pod is not None and self.machines[pod.machine].locked == "locked"

    # objects
    def apply(self, kind: str, name: str, manifest: str, digest: str) -> None:
        """Server-side apply."""
        self.objects[(kind, name)] = (digest, json.loads(manifest))
        self._stateful_sets()
        self.on_change()

    def delete_object(self, kind: str, name: str) -> None:
        """Delete an object that is not a pod."""
        if self.objects.pop((kind, name), None) is None:
            raise RefusedError(f"{kind} {name!r} not found")
        self.on_change()

    def delete_machine(self, name: str, instance: str) -> None:
        """The cloud replaces a machine: its pods are lost, a new one comes under a new name."""
        machine = self.machines.get(name)
        if machine is None or machine.instance != instance:
            raise RefusedError(f'nodes "{name}" not found')
        del self.machines[name]
        self.note(Kind.KUBE_NODE_DELETED, "operator", node=name)
        for pod in [p for p in self.pods.values() if p.machine == name]:
            self._gone(pod, force=True)
        self._serial += 1
        self.machines[f"{name}r"] = Machine(f"{name}r", f"machine-new-{self._serial}")
        self.on_change()

    def _collect(self) -> None:
        """The garbage collector: what belongs to an object that is gone goes too."""
        for resource in [r for r in self.node_sets.values() if r.deleting and not r.finalizer]:
            del self.node_sets[resource.name]
            self.note(Kind.OBJECT_CHANGED, "apiserver", resource="nodesets", name=resource.name, gone=True)
            for pod in [p for p in self.pods.values() if p.node_set == resource.name]:
                self.delete_pod(pod.name, actor="garbage-collector")
            for key in [k for k in self.objects if k[1].startswith(f"{resource.name}-") or k[1] == resource.name]:
                del self.objects[key]

    def set_finalizer(self, name: str, on: bool) -> None:
        """Put the finalizer on a NodeSet or take it off."""
        resource = self.node_sets.get(name)
        if resource is None:
            raise RefusedError(f"nodesets {name!r} not found")
        resource.finalizer = on
        self._collect()
        self.on_change()

    def _stateful_sets(self) -> None:
        """The StatefulSet controller: parallel creation, the highest ordinal dies first, blind to jobs."""
        for (kind, name), (_, document) in list(self.objects.items()):
            spec = document["spec"]
            if kind != "StatefulSet" or "slurmtwin.dev/nodeset" not in spec["selector"]["matchLabels"]:
                continue
            owned = {int(p.slot): p for p in self.pods.values() if p.node_set == name}
            for ordinal in range(spec["replicas"]):
                if ordinal not in owned:
                    self.create_pod(_ordinal_pod(name, ordinal, spec["template"]), "statefulset")
            for ordinal in sorted(owned, reverse=True):
                if ordinal >= spec["replicas"] and not owned[ordinal].deleting:
                    self.delete_pod(owned[ordinal].name, actor="statefulset")
            self._roll(spec["template"], owned)

    def _roll(self, template: Any, owned: dict[int, LivePod]) -> None:
        """One old pod at a time, the highest first, when all others are ready."""
        revision = template["metadata"]["labels"]["slurmtwin.dev/revision"]
        old = [p for _, p in sorted(owned.items(), reverse=True) if p.revision != revision]
        if old and all(p.ready for p in owned.values()):
            self.delete_pod(old[0].name, actor="statefulset")

    # what caches list
    def view_pods(self, node_set: str) -> tuple[Pod, ...]:
        """The pods of a node set as the core reads them."""
        return tuple(
            Pod(p.name, p.uid, p.slot, p.revision, p.phase, p.ready, p.ready_since_ns, p.created_ns, p.deleting,  # type: ignore[arg-type]
                p.machine, p.labels.get("slurmtwin.dev/protect") == "true", p.cordoned, p.deletion_cost)
            for p in self.pods.values() if p.node_set == node_set
        )  # fmt: skip

    def view_machines(self) -> tuple[KubeNode, ...]:
        """The machines as the core reads them."""
        return tuple(
            KubeNode(m.name, m.instance, m.unschedulable, m.mirrored, m.ready, m.not_ready_since_ns,
                     tuple(sorted(m.conditions)), True, m.locked, m.foreign_pods)  # type: ignore[arg-type]
            for m in self.machines.values()
        )  # fmt: skip

    def view_objects(self, node_set: str) -> tuple[Applied, ...]:
        """The applied objects of a node set."""
        return tuple(
            Applied(kind, name, digest)  # type: ignore[arg-type]
            for (kind, name), (digest, _) in self.objects.items()
            if name == node_set or name.startswith(f"{node_set}-")
        )


def _pin(spec: Any) -> str:
    """The machine that a pod manifest is pinned to, or an empty text."""
    if "affinity" not in spec:
        return ""
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return str(terms[0]["matchFields"][0]["values"][0])


def _ordinal_pod(name: str, ordinal: int, template: Any) -> str:
    meta = {
        "name": f"{name}-{ordinal}", "labels": template["metadata"]["labels"],
        "annotations": {"slurmtwin.dev/slot": str(ordinal)},
    }  # fmt: skip
    return json.dumps({"metadata": meta, "spec": template["spec"]})
