"""The objects of the API that the twin's parts read and write (Kubernetes API reference v1.34, field by field).

Frozen and shared: nobody may change one in place, mappings included. Times are ns of the run, durations ns, sizes
bytes, CPU thousandths of a core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, TypeVar

from slurmtwin.contract.clock import SECOND
from slurmtwin.engine.records import dataclass

EMPTY: Final[Mapping[str, Any]] = {}
NO_EXECUTE: Final = "NoExecute"
NO_SCHEDULE: Final = "NoSchedule"


@dataclass(frozen=True, slots=True)
class Owner:
    """An ownerReference; `controller` objects are collected when the owner is gone."""

    kind: str
    name: str
    uid: str
    controller: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Meta:
    """metadata. The server sets uid, resource_version, generation, created_ns, deletion_ns and grace_ns."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: int = 0
    generation: int = 1
    created_ns: int = 0
    deletion_ns: int | None = None
    """deletionTimestamp: when the grace period is over; None: not being deleted."""
    grace_ns: int = 0
    """deletionGracePeriodSeconds, while deletion_ns is set."""
    labels: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    annotations: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    finalizers: tuple[str, ...] = ()
    owner: Owner | None = None
    key: str = field(init=False, compare=False, repr=False)
    """namespace/name, or name."""

    def __post_init__(self) -> None:
        """Make the key once."""
        object.__setattr__(self, "key", f"{self.namespace}/{self.name}" if self.namespace else self.name)

    @property
    def deleting(self) -> bool:
        """deletionTimestamp is set."""
        return self.deletion_ns is not None


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition of a pod or node: True, False or Unknown."""

    status: str
    since_ns: int
    """lastTransitionTime."""
    reason: str = ""
    heartbeat_ns: int = 0


# pods


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """A probe; defaults of v1.34 (kubernetes.md 3.1)."""

    period_ns: int = 10 * SECOND
    timeout_ns: int = SECOND
    failures: int = 3
    successes: int = 1
    initial_delay_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """A container of a pod. memory, milli_cpu: requests; 0 limits: none."""

    name: str
    image: str = ""
    pull_policy: str = "IfNotPresent"
    milli_cpu: int = 0
    memory: int = 0
    milli_cpu_limit: int = 0
    memory_limit: int = 0
    startup: Probe | None = None
    liveness: Probe | None = None
    readiness: Probe | None = None
    pre_stop_ns: int = 0
    """How long the preStop hook runs; 0: none."""
    restartable: bool = False
    """An init container with restartPolicy Always: a sidecar."""
    env: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A volume of a pod: of a claim, in memory (emptyDir medium Memory), or a directory of the host."""

    name: str
    claim: str = ""
    memory: bool = False
    size: int = 0
    """sizeLimit of a volume in memory, bytes; 0: none."""
    host_path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Toleration:
    """key "" with exists tolerates everything; effect "": every effect; seconds None: for ever."""

    key: str = ""
    value: str = ""
    exists: bool = True
    effect: str = ""
    for_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Taint:
    """A taint of a node."""

    key: str
    effect: str
    value: str = ""
    since_ns: int = 0
    """timeAdded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeTerm:
    """One term of node affinity: every expression must fit. (label, operator In|NotIn|Exists|DoesNotExist, values)."""

    expressions: tuple[tuple[str, str, tuple[str, ...]], ...]
    weight: int = 0
    """Of a preferred term."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodAntiAffinity:
    """Required: no other pod with these labels in the same domain."""

    labels: Mapping[str, str]
    topology: str = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """A topologySpreadConstraint."""

    labels: Mapping[str, str]
    max_skew: int = 1
    topology: str = "kubernetes.io/hostname"
    required: bool = False
    """DoNotSchedule; else ScheduleAnyway."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PodSpec:
    """What a pod asks for."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    volumes: tuple[Volume, ...] = ()
    node_name: str = ""
    node_selector: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    affinity: tuple[NodeTerm, ...] = ()
    """Required node affinity: one term must fit."""
    preferred: tuple[NodeTerm, ...] = ()
    anti_affinity: tuple[PodAntiAffinity, ...] = ()
    spread: tuple[Spread, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    priority: int = 0
    preemption: str = "PreemptLowerPriority"
    gates: tuple[str, ...] = ()
    restart_policy: str = "Always"
    grace_ns: int = 30 * SECOND
    hostname: str = ""
    scheduler: str = "default-scheduler"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerEnd:
    """A terminated state."""

    container_id: str
    exit_code: int
    signal: int = 0
    reason: str = ""
    started_ns: int = 0
    finished_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerStatus:
    """Exactly one of waiting (a reason), running_ns (startedAt) and ended is set; last_ended is lastState."""

    name: str
    container_id: str = ""
    waiting: str = ""
    running_ns: int | None = None
    ended: ContainerEnd | None = None
    last_ended: ContainerEnd | None = None
    restart_count: int = 0
    ready: bool = False
    started: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PodStatus:
    """What the kubelet says of a pod."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: Mapping[str, Condition] = field(default_factory=lambda: EMPTY)
    """Type (PodScheduled, Ready, DisruptionTarget ...) -> condition."""
    containers: tuple[ContainerStatus, ...] = ()
    init_containers: tuple[ContainerStatus, ...] = ()
    ip: str = ""
    started_ns: int | None = None
    nominated_node: str = ""
    qos: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pod:
    """A pod."""

    meta: Meta
    spec: PodSpec = field(default_factory=PodSpec)
    status: PodStatus = field(default_factory=PodStatus)

    @property
    def ready(self) -> bool:
        """The Ready condition is True."""
        condition = self.status.conditions.get("Ready")
        return condition is not None and condition.status == "True"

    @property
    def finished(self) -> bool:
        """Phase Succeeded or Failed."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def active(self) -> bool:
        """Neither finished nor being deleted (controller_utils.go IsPodActive)."""
        return self.meta.deletion_ns is None and self.status.phase not in ("Succeeded", "Failed")


# nodes


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSpec:
    """What is asked of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeStatus:
    """What the kubelet says of its node."""

    conditions: Mapping[str, Condition] = field(default_factory=lambda: EMPTY)
    milli_cpu: int = 0
    """Allocatable."""
    memory: int = 0
    pods: int = 110
    volumes_in_use: tuple[str, ...] = ()
    volumes_attached: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node."""

    meta: Meta
    spec: NodeSpec = field(default_factory=NodeSpec)
    status: NodeStatus = field(default_factory=NodeStatus)

    @property
    def ready(self) -> str:
        """Status of the Ready condition; "Unknown" when there is none."""
        condition = self.status.conditions.get("Ready")
        return condition.status if condition is not None else "Unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """A lease: of a node (namespace kube-node-lease) or of a leader."""

    meta: Meta
    holder: str = ""
    duration_ns: int = 40 * SECOND
    renewed_ns: int = 0
    transitions: int = 0


# workloads


@dataclass(frozen=True, slots=True, kw_only=True)
class PodTemplate:
    """metadata and spec of the pods to make."""

    labels: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    annotations: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    spec: PodSpec = field(default_factory=PodSpec)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimTemplate:
    """One of volumeClaimTemplates: claim NAME-POD, volume NAME of the pod."""

    name: str
    storage_class: str = ""
    access: str = "ReadWriteOnce"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadStatus:
    """Counts that StatefulSet, Deployment and ReplicaSet report."""

    observed_generation: int = 0
    replicas: int = 0
    ready: int = 0
    available: int = 0
    updated: int = 0
    current_revision: str = ""
    update_revision: str = ""
    progressing: str = ""
    """Reason of the Progressing condition: NewReplicaSetAvailable, ReplicaSetUpdated, ProgressDeadlineExceeded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatefulSet:
    """Spec and status of a StatefulSet."""

    meta: Meta
    replicas: int = 1
    selector: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    template: PodTemplate = field(default_factory=PodTemplate)
    claims: tuple[ClaimTemplate, ...] = ()
    parallel: bool = False
    """podManagementPolicy Parallel; else OrderedReady."""
    on_delete: bool = False
    """updateStrategy OnDelete; else RollingUpdate."""
    partition: int = 0
    min_ready_ns: int = 0
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """Spec and status of a Deployment; surge and unavailable as an int or a percentage text."""

    meta: Meta
    replicas: int = 1
    selector: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    template: PodTemplate = field(default_factory=PodTemplate)
    recreate: bool = False
    max_surge: int | str = "25%"
    max_unavailable: int | str = "25%"
    min_ready_ns: int = 0
    progress_deadline_ns: int = 600 * SECOND
    paused: bool = False
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaSet:
    """Spec and status of a ReplicaSet."""

    meta: Meta
    replicas: int = 1
    selector: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    template: PodTemplate = field(default_factory=PodTemplate)
    min_ready_ns: int = 0
    status: WorkloadStatus = field(default_factory=WorkloadStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """What the Job controller reports."""

    active: int = 0
    succeeded: int = 0
    failed: int = 0
    condition: str = ""
    """Complete, Failed or none yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Spec and status of a batch/v1 Job without indexes."""

    meta: Meta
    template: PodTemplate = field(default_factory=PodTemplate)
    completions: int = 1
    parallelism: int = 1
    backoff_limit: int = 6
    replace_failed_only: bool = False
    """podReplacementPolicy Failed; else TerminatingOrFailed."""
    suspend: bool = False
    status: JobStatus = field(default_factory=JobStatus)


# storage, network, policy


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A PersistentVolumeClaim."""

    meta: Meta
    storage_class: str = ""
    access: str = "ReadWriteOnce"
    volume: str = ""
    phase: str = "Pending"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersistentVolume:
    """A PersistentVolume; node: where a local one lies, "" where it is attached over the network."""

    meta: Meta
    claim: str = ""
    node: str = ""
    attachable: bool = False
    access: str = "ReadWriteOnce"


@dataclass(frozen=True, slots=True, kw_only=True)
class VolumeAttachment:
    """A volume's attachment to a node."""

    meta: Meta
    volume: str
    node: str
    attached: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """A Service: selector, and whether pods that are not ready are published too."""

    meta: Meta
    selector: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    publish_not_ready: bool = False
    headless: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """The slices of one Service, as one object: addresses that serve, by pod name."""

    meta: Meta
    addresses: Mapping[str, str] = field(default_factory=lambda: EMPTY)


@dataclass(frozen=True, slots=True, kw_only=True)
class DisruptionBudget:
    """A PodDisruptionBudget with its computed allowance."""

    meta: Meta
    selector: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    always_allow_unhealthy: bool = False
    allowed: int = 0
    """disruptionsAllowed."""
    healthy: int = 0
    desired: int = 0
    expected: int = 0
    disrupted: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Pods that were granted and are not seen deleting yet: name -> when granted."""
    observed_generation: int = 0


@dataclass(frozen=True, slots=True)
class KubeEvent:
    """An Event object."""

    meta: Meta
    reason: str
    about: str
    """Kind/name."""
    message: str = ""
    count: int = 1
    last_ns: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Custom:
    """An object of a custom resource, its spec and status as plain data."""

    meta: Meta
    resource: str
    """Its kind, e.g. NodeSet."""
    spec: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    status: Mapping[str, Any] = field(default_factory=lambda: EMPTY)


Object = (
    Pod | Node | Lease | StatefulSet | Deployment | ReplicaSet | Job | Claim | PersistentVolume | VolumeAttachment
    | Service | Endpoints | DisruptionBudget | KubeEvent | Custom
)  # fmt: skip
KINDS: Final = (
    Pod, Node, Lease, StatefulSet, Deployment, ReplicaSet, Job, Claim, PersistentVolume, VolumeAttachment, Service,
    Endpoints, DisruptionBudget, KubeEvent, Custom,
)  # fmt: skip
AnyObject = TypeVar("AnyObject", bound=Object)


def key_of(item: Object) -> str:
    """Its key within its kind: namespace/name; of a custom resource the resource before it."""
    return f"{item.resource}/{item.meta.key}" if type(item) is Custom else item.meta.key


def fits(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """A matchLabels selector; an empty one fits everything."""
    for name in selector:  # noqa: SIM110  a generator costs twice as much
        if labels.get(name) != selector[name]:
            return False
    return True


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> Toleration | None:
    """The first toleration that tolerates the taint (toleration.go ToleratesTaint); None: none does."""
    for toleration in tolerations:
        if toleration.effect and toleration.effect != taint.effect:
            continue
        if toleration.key and toleration.key != taint.key:
            continue
        if toleration.exists or (toleration.key and toleration.value == taint.value):
            return toleration
    return None
