"""What a pass decides: actions in order, memory for the next pass, a status, reasons.

Contract with whoever applies a plan (the kopf shell, the twin's adapter, the test doubles):

1. The memory is stored before the first action (write-ahead): it may name things that never happened.
2. Actions are applied in order. Each is safe to repeat. One that fails ends only itself, or the plan too
   (switch failed_action); the core sees the failure in what it observes next, never as an exception.
3. A delete carries the uid it was decided for: another object of that name is left alone.
4. `only_if` of an action names what must still hold when Slurm is asked again just before: see Guard.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from slurmtwin_operator.core.observed import Condition, ObjectKind, SlurmNode


@dataclass(frozen=True, slots=True)
class Guard:
    """Ask Slurm and the API server, not a cache, just before acting; do nothing unless all that is set holds."""

    node: str = ""
    """A Slurm node; empty: the guard is about none."""
    idle: bool = False
    """It is drained and no job is on it, or Slurm answers and does not know it."""
    reason: str | None = None
    """Its reason is still this one."""
    no_pod: bool = False
    """There is no pod of this name."""
    job: str = ""
    """The name of a placeholder job: what `held` says of it."""
    held: bool | None = None
    """True: the job runs on the node; False: it does not; None: no job of that name waits or runs anywhere."""
    childless: bool = False
    """Nothing that belongs to the object is left: no NodeSet of a Cluster, no pod of a PodGroup that has not ended."""

    def met_by(self, node: SlurmNode | None) -> bool:
        """What `idle` and `reason` ask of the Slurm node as it is now; None: Slurm answers and does not know it."""
        if node is None:
            return self.idle
        if self.reason is not None and node.reason != self.reason:
            return False
        return not self.idle or (node.drained and not node.busy)


@dataclass(frozen=True, slots=True)
class Apply:
    """Server-side apply of an object we own; `hash` goes into annotation slurmtwin.dev/hash."""

    kind: ObjectKind
    name: str
    manifest: str
    """Canonical JSON."""
    hash: str
    do: Literal["apply"] = "apply"


@dataclass(frozen=True, slots=True)
class EnsureSecret:
    """Create a Secret of random keys unless it exists; the values never pass through the core."""

    name: str
    keys: tuple[tuple[str, int], ...]
    """(key, number of random bytes)."""
    do: Literal["ensure-secret"] = "ensure-secret"


@dataclass(frozen=True, slots=True)
class CreatePod:
    """Create a slurmd pod; that it exists already is no failure."""

    name: str
    slot: str
    revision: str
    kube_node: str
    """Pin to this node; empty: the scheduler chooses."""
    manifest: str
    at_most: int = -1
    """Count the set's pods in the API server itself, not in a cache: create only below this number; -1: no count."""
    do: Literal["create-pod"] = "create-pod"


@dataclass(frozen=True, slots=True)
class DeleteObject:
    """Delete the object of that name if it still has that uid (empty: whatever uid)."""

    kind: ObjectKind
    name: str
    uid: str = ""
    only_if: Guard | None = None
    do: Literal["delete"] = "delete"


@dataclass(frozen=True, slots=True)
class LabelPod:
    """Set (or with value None remove) a label of a pod with that uid."""

    name: str
    uid: str
    key: str
    value: str | None
    do: Literal["label-pod"] = "label-pod"


@dataclass(frozen=True, slots=True)
class BindPod:
    """Bind a pod to a node, as a scheduler does."""

    name: str
    uid: str
    node: str
    only_if: Guard | None = None
    do: Literal["bind-pod"] = "bind-pod"


@dataclass(frozen=True, slots=True)
class CordonNode:
    """Cordon or uncordon a Kubernetes node, and set or remove the annotation MIRRORED with it."""

    node: str
    on: bool
    do: Literal["cordon-node"] = "cordon-node"


@dataclass(frozen=True, slots=True)
class LockNode:
    """Set the lock of a Kubernetes node: pending puts the NoExecute taint on, empty takes it off."""

    node: str
    state: Literal["", "pending", "locked"]
    do: Literal["lock-node"] = "lock-node"


@dataclass(frozen=True, slots=True)
class DeleteNode:
    """Delete a Kubernetes node: the cloud makes a new machine."""

    node: str
    instance: str
    do: Literal["delete-node"] = "delete-node"


@dataclass(frozen=True, slots=True)
class DrainNode:
    """Slurm: State=DRAIN with this reason."""

    node: str
    reason: str
    do: Literal["drain"] = "drain"


@dataclass(frozen=True, slots=True)
class ResumeNode:
    """Slurm: State=RESUME: no longer drained or DOWN; `undrain`: State=UNDRAIN, which leaves DOWN as it is."""

    node: str
    only_if: Guard | None = None
    undrain: bool = False
    do: Literal["resume"] = "resume"


@dataclass(frozen=True, slots=True)
class CommentNode:
    """Slurm: set the node's comment, which names the Kubernetes node its pod runs on."""

    node: str
    comment: str
    do: Literal["comment"] = "comment"


@dataclass(frozen=True, slots=True)
class DeleteSlurmNode:
    """Slurm: delete the record of a dynamic node."""

    node: str
    only_if: Guard | None = None
    do: Literal["delete-slurm-node"] = "delete-slurm-node"


@dataclass(frozen=True, slots=True)
class Reconfigure:
    """Slurm: read the configuration again; hash is that of the files."""

    hash: str
    do: Literal["reconfigure"] = "reconfigure"


@dataclass(frozen=True, slots=True)
class Reserve:
    """Slurm: a reservation with flags MAINT and IGNORE_JOBS, created (on) or deleted."""

    name: str
    on: bool
    nodes: tuple[str, ...] = ()
    start_s: int = 0
    duration_s: int = 0
    do: Literal["reserve"] = "reserve"


@dataclass(frozen=True, slots=True)
class SubmitJob:
    """Slurm: a placeholder job whose name makes it findable again."""

    name: str
    nodes: int
    cpus: int
    partition: str
    time_limit_s: int
    exclusive: bool
    external: bool
    """True: an external job without steps (slurm-bridge); False: a script that sleeps (SUNK)."""
    only_if: Guard | None = None
    do: Literal["submit"] = "submit"


@dataclass(frozen=True, slots=True)
class CancelJob:
    """Slurm: scancel."""

    id: int
    only_if: Guard | None = None
    do: Literal["cancel"] = "cancel"


@dataclass(frozen=True, slots=True)
class SetMirror:
    """Create or delete the copy of a workload in a worker cluster; `run`: it has won, and its job is made there."""

    cluster: str
    on: bool
    run: bool = False
    do: Literal["mirror"] = "mirror"


@dataclass(frozen=True, slots=True)
class SetFinalizer:
    """Put our finalizer on the object, or take it off."""

    on: bool
    only_if: Guard | None = None
    do: Literal["finalizer"] = "finalizer"


Action = (
    Apply | EnsureSecret | CreatePod | DeleteObject | LabelPod | BindPod | CordonNode | LockNode | DeleteNode
    | DrainNode | ResumeNode | CommentNode | DeleteSlurmNode | Reconfigure | Reserve | SubmitJob | CancelJob
    | SetMirror | SetFinalizer
)  # fmt: skip
TaggedAction = Annotated[Action, Field(discriminator="do")]
"""Action for readers of JSON: `do` says which."""


class Why(StrEnum):
    """Closed list of reasons; also the `reason` of Kubernetes events (CamelCase)."""

    CREATED = "Created"
    SCALE_IN = "ScaleIn"
    UPDATE = "Update"
    CORDONED = "Cordoned"
    UNHEALTHY = "Unhealthy"
    REPLACED_DEAD = "ReplacedDeadPod"
    WAITS_FOR_JOBS = "WaitsForJobs"
    WAITS_FOR_SLURM = "WaitsForSlurm"
    WAITS_FOR_CREATION = "WaitsForCreation"
    UNREGISTERED = "Unregistered"
    RESUMED = "Resumed"
    DRAIN_UNDONE = "DrainUndone"
    FOREIGN_DRAIN = "ForeignDrain"
    MIRRORED = "Mirrored"
    PRUNED = "Pruned"
    LOCKED = "Locked"
    UNLOCKED = "Unlocked"
    NODE_REPLACED = "NodeReplaced"
    NODE_LOST = "NodeLost"
    BUDGET = "BudgetUsedUp"
    STALE = "StaleObject"
    REFUSED = "Refused"
    DELETING = "Deleting"
    APPLIED = "Applied"
    RECONFIGURED = "Reconfigured"
    ACTIVE_MOVED = "ActiveControllerMoved"
    PARTITION_KEPT = "PartitionKept"
    SUBMITTED = "Submitted"
    BOUND = "Bound"
    JOB_ENDED = "JobEnded"
    NOMINATED = "Nominated"
    ADMITTED = "Admitted"
    CLUSTER_LOST = "ClusterLost"
    WAITS_FOR_CLUSTER = "WaitsForCluster"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why, and about what."""

    why: Why
    about: str = ""


@dataclass(frozen=True, slots=True)
class Memory:
    """What the next pass should know beyond what it observes. Losing it is safe."""

    generation: int = 0
    """The newest generation of the object that was acted on."""
    since_ns: int = -1
    """What was seen before says nothing: when this memory began, or last told a cluster something; -1: it is lost."""
    deleted: tuple[tuple[str, int], ...] = ()
    """(pod uid, when) of deletes asked for."""
    drained: tuple[tuple[str, int], ...] = ()
    """(Slurm node, when) of drains asked for."""
    created: tuple[tuple[str, int], ...] = ()
    """(pod name, when) of creations asked for; used with unseen_creation wait."""
    orphans: tuple[tuple[str, int], ...] = ()
    """(Slurm node, since when) of records without a pod."""
    dropped: tuple[str, ...] = ()
    """Cluster: partitions that slurm.conf was decided to lose while Slurm answered."""
    submitted_ns: int = -1
    """When the placeholder job was submitted."""
    rounds: int = 0
    """Dispatch: clusters offered to so far."""
    round_ns: int = -1
    admitted: str = ""
    """Dispatch: the cluster that won."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The decision of one pass."""

    actions: tuple[TaggedAction, ...]
    memory: Memory
    requeue_ns: int
    """Look again after so long even if nothing changes."""
    status: tuple[tuple[str, Any], ...] = ()
    """Fields of the object's status, by name."""
    conditions: tuple[Condition, ...] = ()
    reasons: tuple[Reason, ...] = field(default=())
