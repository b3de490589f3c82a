"""What one pass may know: cached Kubernetes objects, answers of Slurm with their age. Frozen, in no special order.

Times are integer nanoseconds of the shell's clock. A view may be late; what it says was true at its `at_ns`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from slurmtwin_operator.core.spec import ClusterSpec, DispatchSpec, NodeSetSpec, PodGroupSpec
from slurmtwin_operator.core.switches import SAFEST, Switches

PREFIX: Final = "slurmtwin: "
"""Every reason that we write into Slurm begins so; reasons that do not are foreign."""
TERMINATING: Final = PREFIX + "pod is terminating"
"""The reason that slurmd's preStop hook gives (core/manifests.py renders the hook)."""
MIRRORED: Final = "slurmtwin.dev/drained-in-slurm"
"""Annotation of a Kubernetes node that was cordoned because its Slurm node is drained."""

ObjectKind = Literal[
    "ConfigMap", "Secret", "Service", "StatefulSet", "Deployment", "PodDisruptionBudget", "PersistentVolumeClaim",
    "Pod", "Job",
]  # fmt: skip
BUSY_STATES: Final = ("ALLOCATED", "MIXED")


@dataclass(frozen=True, slots=True)
class Pod:
    """A slurmd pod. Its name is the name of its Slurm node."""

    name: str
    uid: str
    slot: str
    """The ordinal, or the Kubernetes node's name in per-node sets: the part of the name after the set's."""
    revision: str
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Pending"
    ready: bool = False
    ready_since_ns: int = 0
    created_ns: int = 0
    deleting: bool = False
    kube_node: str = ""
    protected: bool = False
    """Carries the label that the PodDisruptionBudget selects."""
    cordoned: bool = False
    """A user asked for a drain by annotation slurmtwin.dev/cordon."""
    deletion_cost: int = 0


@dataclass(frozen=True, slots=True)
class KubeNode:
    """A Kubernetes node that a pod of the set runs on, or may run on."""

    name: str
    instance: str = ""
    """The machine behind it (providerID): another one means it was replaced."""
    unschedulable: bool = False
    mirrored: bool = False
    """Carries the annotation MIRRORED."""
    ready: bool = True
    not_ready_since_ns: int = 0
    conditions: tuple[str, ...] = ()
    """Types of the conditions that are True, Ready left out."""
    selected: bool = True
    """Matches the set's node selector and tolerations (unschedulable counts as matching)."""
    locked: Literal["", "pending", "locked"] = ""
    foreign_pods: int = 0
    """Pods that do not tolerate the lock, daemons of the system left out."""


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node record of slurmctld, as slurmrestd lists it."""

    name: str
    state: str
    """Base state: IDLE, ALLOCATED, MIXED, DOWN, UNKNOWN, ERROR, FUTURE."""
    flags: tuple[str, ...] = ()
    """DRAIN, COMPLETING, NOT_RESPONDING, MAINTENANCE, INVALID_REG, POWERED_DOWN ..."""
    reason: str = ""
    comment: str = ""
    features: tuple[str, ...] = ()
    """Among them the name of its node set."""
    registered_ns: int = 0
    """When slurmd last registered."""
    dynamic: bool = True
    lock_asked: bool = False
    """A prolog waits for the lock of this node's machine."""

    @property
    def busy(self) -> bool:
        """A job, or the end of one, holds it."""
        return self.state in BUSY_STATES or "COMPLETING" in self.flags

    @property
    def drained(self) -> bool:
        """No job will start on it."""
        return "DRAIN" in self.flags

    @property
    def ours(self) -> bool:
        """Drained or taken down by the operator."""
        return self.reason.startswith(PREFIX)


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """A job record that matters to a decision."""

    id: int
    state: str
    nodes: tuple[str, ...] = ()
    end_ns: int = 0
    """Expected end (start + time limit)."""
    partition: str = ""
    name: str = ""


@dataclass(frozen=True, slots=True)
class Slurm:
    """The last answers of slurmrestd."""

    answer: Literal["fresh", "away", "absent"] = "fresh"
    """fresh: it answered this pass; away: it did not, the rest is the last answer; absent: there is no REST API."""
    at_ns: int = 0
    nodes: tuple[SlurmNode, ...] = ()
    jobs: tuple[SlurmJob, ...] = ()
    reservations: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of an object's status, as metav1.Condition."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""
    since_ns: int = 0


@dataclass(frozen=True, slots=True)
class Applied:
    """An object that exists, with the hash of the manifest that was last applied to it."""

    kind: ObjectKind
    name: str
    hash: str
    ready: bool = True


@dataclass(frozen=True, slots=True)
class Policy:
    """What the administrator allows tenants, from the operator's own settings."""

    privileged: bool = False
    image_prefixes: tuple[str, ...] = ()
    """Prefixes an image must begin with; none: any image."""


@dataclass(frozen=True, slots=True)
class Identity:
    """Which object this is."""

    namespace: str
    name: str
    uid: str = ""
    generation: int = 1
    deleting: bool = False
    finalizer: bool = True
    """Ours is on it."""


@dataclass(frozen=True, slots=True)
class NodeSetObserved:
    """All that a pass over a NodeSet may know."""

    me: Identity
    spec: NodeSetSpec
    switches: Switches = SAFEST
    """Those of its Cluster."""
    policy: Policy = Policy()
    pods: tuple[Pod, ...] = ()
    kube_nodes: tuple[KubeNode, ...] = ()
    slurm: Slurm = Slurm()
    applied: tuple[Applied, ...] = ()
    conditions: tuple[Condition, ...] = ()
    power: tuple[str, ...] = ()
    """With scale_source power: slots that Slurm wants up (core/power.py wanted_up())."""
    unreachable_s: int = 300
    version: str = "26.05"
    """Slurm release, and tolerance of unreachable machines: those of its Cluster."""
    log_claim: str = ""
    """The Cluster's claim for logs; empty: logs go with their pod."""

    @property
    def stops_pass(self) -> bool:
        """Does the design end this pass at Slurm's silence? Its carrier counts such a pass as failed (back-off)."""
        return self.switches.rest_down == "stop-pass" and self.slurm.answer == "away"


@dataclass(frozen=True, slots=True)
class NodeSetFact:
    """What a Cluster needs to know of a node set."""

    name: str
    partition: bool = True
    options: tuple[tuple[str, str], ...] = ()
    nodes: int = 0
    """With scale_source power: how many nodes it may have, and what each is."""
    cpu: str = "1"
    memory: str = "1Gi"
    features: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Controller:
    """A slurmctld pod."""

    name: str
    uid: str
    ready: bool = True
    active_label: bool = False
    """Carries the label that the service selects."""


@dataclass(frozen=True, slots=True)
class ClusterObserved:
    """All that a pass over a Cluster may know."""

    me: Identity
    spec: ClusterSpec
    policy: Policy = Policy()
    node_sets: tuple[NodeSetFact, ...] = ()
    slurm: Slurm = Slurm()
    partitions: tuple[str, ...] = ()
    """Partitions that slurmctld has now."""
    applied: tuple[Applied, ...] = ()
    controllers: tuple[Controller, ...] = ()
    primary: str = ""
    """Pod whose slurmctld answers as the active one; empty: none is known."""
    mounted_conf: str = ""
    """Hash of the configuration that the controller's volume shows."""
    loaded_conf: str = ""
    """Hash of the configuration that slurmctld last read."""
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupPod:
    """A pod that Slurm schedules."""

    name: str
    uid: str
    node: str = ""
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Pending"
    deleting: bool = False


@dataclass(frozen=True, slots=True)
class PodGroupObserved:
    """Pods that wait for, or run under, one Slurm job."""

    me: Identity
    spec: PodGroupSpec
    switches: Switches = SAFEST
    pods: tuple[GroupPod, ...] = ()
    slurm: Slurm = Slurm()


@dataclass(frozen=True, slots=True)
class Mirror:
    """A worker cluster's copy of a workload."""

    cluster: str
    reachable: bool = True
    seen_ns: int = 0
    """When the cluster last answered: the rest was true then, also of one that is not reachable now."""
    exists: bool = False
    admitted: bool = False
    """Its quota is reserved; the job itself is made only for the copy that won."""
    running: bool = False
    finished: bool = False
    free_nodes: int = 0


@dataclass(frozen=True, slots=True)
class DispatchObserved:
    """A workload and its copies: one for each cluster of the spec, also where none is or nobody answers."""

    me: Identity
    spec: DispatchSpec
    switches: Switches = SAFEST
    mirrors: tuple[Mirror, ...] = ()


Observed = ClusterObserved | NodeSetObserved | PodGroupObserved | DispatchObserved
