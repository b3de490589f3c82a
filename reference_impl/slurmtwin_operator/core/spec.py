"""What users write: the specs of Cluster, NodeSet, PodGroup and Dispatch. The CRDs are generated from these types.

Every text that reaches slurm.conf, a shell or a pod is limited to safe characters here, by patterns that the API
server enforces too (crds/); a tenant cannot write lines of slurm.conf, mount host paths or become privileged.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import AfterValidator, Field, StringConstraints, model_validator

from slurmtwin_operator.core.switches import Frozen, Switches

DNS_LABEL: Final = r"^[a-z]([-a-z0-9]{0,51}[a-z0-9])?$"
Name = Annotated[str, StringConstraints(pattern=DNS_LABEL)]
"""A name that is also the first part of pod and host names (RFC 1035, with room for an ordinal)."""
Image = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z0-9][-a-zA-Z0-9_]*([./:@][-a-zA-Z0-9_]+)*$", max_length=255)]
"""An image's reference. No part of it is `..`, which would lead out of a prefix that the administrator allows."""
Quantity = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,12}(\.[0-9]{1,3})?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$")]
LABEL_KEY: Final = r"[a-zA-Z0-9][-a-zA-Z0-9_]*([./][-a-zA-Z0-9_]+)*"
LabelKey = Annotated[str, StringConstraints(pattern=rf"^{LABEL_KEY}$", max_length=127)]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([a-zA-Z0-9]([-a-zA-Z0-9._]{0,61}[a-zA-Z0-9])?)?$")]
Feature = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z][-a-zA-Z0-9_.]{0,62}$")]
CONF_WORD: Final = r"^[-A-Za-z0-9_.,:;/*@%+()=\[\]|&]{1,512}$"
ConfValue = Annotated[str, StringConstraints(pattern=CONF_WORD)]
"""One word of slurm.conf: no blank, quote, backslash, hash or line end."""

CONF_OPTIONS: Final = frozenset(
    """AccountingStorageEnforce AccountingStorageTRES BatchStartTimeout CompleteWait DebugFlags DefCpuPerGPU
    DefMemPerCPU DefMemPerGPU DefMemPerNode DisableRootJobs EnforcePartLimits EpilogMsgTime
    FairShareDampeningFactor FirstJobId GetEnvTimeout GresTypes HealthCheckInterval InactiveLimit JobRequeue
    KeepAliveTime KillOnBadExit KillWait Licenses MaxArraySize MaxBatchRequeue MaxDBDMsgs MaxJobCount MaxJobId
    MaxMemPerCPU MaxMemPerNode MaxNodeCount MaxStepCount MaxTasksPerNode MessageTimeout MinJobAge MpiDefault
    OverTimeLimit PreemptExemptTime PreemptMode PreemptType PriorityCalcPeriod PriorityDecayHalfLife
    PriorityFavorSmall PriorityFlags PriorityMaxAge PriorityType PriorityUsageResetPeriod PriorityWeightAge
    PriorityWeightAssoc PriorityWeightFairshare PriorityWeightJobSize PriorityWeightPartition PriorityWeightQOS
    PriorityWeightTRES ProctrackType PropagateResourceLimits ResumeRate ResumeTimeout ReturnToService
    SchedulerParameters SchedulerTimeSlice SchedulerType SelectType SelectTypeParameters SlurmctldParameters
    SlurmctldDebug SlurmctldTimeout SlurmdDebug SlurmdParameters SlurmdTimeout SuspendRate SuspendTime
    SuspendTimeout TCPTimeout TaskPlugin TaskPluginParam TopologyParam TopologyPlugin TreeWidth
    UnkillableStepTimeout VSizeFactor WaitTime""".split()
)
"""Options of slurm.conf a user may set: none runs a program, names a path or changes who is trusted."""
PARTITION_OPTIONS: Final = frozenset(
    """AllowAccounts AllowGroups AllowQos CpuBind DefCpuPerGPU DefMemPerCPU DefMemPerGPU DefMemPerNode DefaultTime
    Default DenyAccounts DenyQos DisableRootJobs ExclusiveUser GraceTime Hidden LLN MaxCPUsPerNode MaxMemPerCPU
    MaxMemPerNode MaxNodes MaxTime MinNodes OverSubscribe OverTimeLimit PowerDownOnIdle PreemptMode PriorityJobFactor
    PriorityTier
    QOS ReqResv ResumeTimeout RootOnly State SuspendTime SuspendTimeout TRESBillingWeights""".split()
)
"""Options of a PartitionName line a user may set; Nodes is the operator's own."""


def _known(allowed: frozenset[str]) -> AfterValidator:
    lower = {name.lower() for name in allowed}

    def check(values: dict[str, str]) -> dict[str, str]:
        bad = sorted(name for name in values if name.lower() not in lower)
        if bad:
            raise ValueError(f"not an option that may be set here: {', '.join(bad)}")
        return values

    return AfterValidator(check)


Conf = Annotated[dict[str, ConfValue], Field(max_length=64), _known(CONF_OPTIONS)]
PartitionConf = Annotated[dict[str, ConfValue], Field(max_length=32), _known(PARTITION_OPTIONS)]


class Spec(Frozen):
    """Base of the specs: its digest is computed once and is its hash."""

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the canonical JSON of the spec."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy with other values; what was computed from the old ones is not taken over."""
        copy = super().model_copy(update=update, deep=deep)
        for name in ("digest", "revision"):
            copy.__dict__.pop(name, None)
        return copy

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)


class Toleration(Frozen):
    """A toleration of worker pods, as in core/v1."""

    key: Annotated[str, StringConstraints(pattern=rf"^({LABEL_KEY})?$", max_length=127)] = ""
    operator: Literal["Exists", "Equal"] = "Exists"
    value: LabelValue = ""
    effect: Literal["", "NoSchedule", "PreferNoSchedule", "NoExecute"] = ""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None


class Volume(Frozen):
    """A volume of worker pods: a claim, a ConfigMap or an empty directory. Host paths do not exist here."""

    name: Name
    mount_path: Annotated[
        str, StringConstraints(pattern=r"^(/\.?[-a-zA-Z0-9_][-a-zA-Z0-9._]*){1,20}$", max_length=200)
    ] = Field(description="absolute, without .. and without a slash at its end")
    claim: Name | None = Field(None, description="a PersistentVolumeClaim of the namespace")
    config_map: Name | None = None
    read_only: bool = False


class Partition(Frozen):
    """The partition of a node set; its name is the node set's."""

    enabled: bool = True
    options: PartitionConf = Field(default_factory=dict, description="options of the PartitionName line")


class Update(Frozen):
    """How pods of an old revision are replaced."""

    type: Literal["rolling", "on-delete", "scheduled"] = "rolling"
    max_unavailable: Annotated[str, StringConstraints(pattern=r"^([0-9]{1,4}|[0-9]{1,2}%|100%)$")] = Field(
        "25%",
        description="number, or percentage of the wanted nodes (rounded down, at least 1), out of service at once",
    )
    start_s: Annotated[int, Field(ge=0)] = Field(0, description="scheduled: begin of the window, Unix seconds")
    duration_s: Annotated[int, Field(ge=60)] = Field(1800, description="scheduled: length of the window in seconds")


class NodeSetSpec(Spec):
    """A set of equal Slurm nodes."""

    cluster: Name = Field(description="the Cluster of this namespace that the nodes belong to")
    replicas: Annotated[int, Field(ge=0, le=10_000)] = Field(1, description="number of nodes; unused with per-node")
    scaling: Literal["count", "per-node"] = Field(
        "count", description="count: replicas; per-node: one on each matching Kubernetes node"
    )
    image: Image = Field(description="image with slurmd")
    cpu: Quantity = Field("1", description="CPUs of the slurmd pod, request and limit")
    memory: Quantity = Field("1Gi", description="memory of the slurmd pod, request and limit")
    resources: dict[LabelKey, Quantity] = Field(default_factory=dict, max_length=8, description="devices, e.g. GPUs")
    features: tuple[Feature, ...] = Field((), max_length=16, description="Slurm features beside the set's own name")
    partition: Partition = Partition()
    node_selector: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, max_length=16, description="labels of the Kubernetes nodes that may run the pods"
    )
    tolerations: tuple[Toleration, ...] = Field((), max_length=16, description="taints the pods may run on")
    volumes: tuple[Volume, ...] = Field((), max_length=8, description="claims, ConfigMaps or empty directories")
    privileged: bool = Field(False, description="slurmd may manage cgroups; refused unless the administrator allows it")
    grace_s: Annotated[int, Field(ge=1, le=86_400)] = Field(60, description="terminationGracePeriodSeconds")
    update: Update = Update()

    @model_validator(mode="after")
    def _window(self) -> NodeSetSpec:
        if self.update.type == "scheduled" and not self.update.start_s:
            raise ValueError("update.type scheduled needs update.startS")
        return self

    @cached_property
    def revision(self) -> str:
        """Hash of what a pod is made of: pods with another one are old."""
        part = self.model_dump(mode="json", exclude={"replicas", "update", "partition", "scaling", "cluster"})
        return hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest()[:10]


class Accounting(Frozen):
    """slurmdbd. Its settings hold the database's password, so they are a Secret that the operator never reads."""

    image: Image = Field(description="image with slurmdbd")
    config_secret: Name = Field(description="Secret with the key `slurmdbd.conf`")


class ClusterSpec(Spec):
    """One Slurm cluster: its controller, REST API and accounting."""

    version: Annotated[str, StringConstraints(pattern=r"^[0-9]{2}\.[0-9]{2}$")] = Field(
        "26.05", description="Slurm release of the images"
    )
    image: Image = Field(description="image with slurmctld and slurmrestd")
    conf: Conf = Field(default_factory=dict, description="options of slurm.conf; only those of a fixed list")
    switches: Switches = Switches()
    state_size: Quantity = Field("4Gi", description="size of StateSaveLocation")
    state_class: LabelValue = Field("", description="storage class of StateSaveLocation; empty: the default class")
    log_claim: Name | None = Field(
        None, description="a claim (ReadWriteMany) on which all daemons keep their logs, and slurmctld job completions"
    )
    node_selector: dict[LabelKey, LabelValue] = Field(
        default_factory=dict, max_length=16, description="labels of the Kubernetes nodes for controller and REST API"
    )
    rest_replicas: Annotated[int, Field(ge=1, le=8)] = 1
    accounting: Accounting | None = None
    worker_unreachable_s: Annotated[int, Field(ge=0, le=86_400)] = Field(
        300, description="how long worker pods tolerate an unreachable node, in seconds"
    )


class PodGroupSpec(Spec):
    """Pods that Slurm schedules as one job (slurm-bridge) or one job each (SUNK)."""

    nodes: Annotated[int, Field(ge=1, le=10_000)] = Field(1, description="Slurm nodes, one pod on each")
    partition: Feature = "main"
    time_limit_s: Annotated[int, Field(ge=60)] = 3600
    cpus: Annotated[int, Field(ge=1, le=4096)] = 1
    exclusive: bool = True
    grace_s: Annotated[int, Field(ge=0, le=600)] = 24


class DispatchSpec(Spec):
    """A workload that one of several clusters shall run (MultiKueue's protocol)."""

    clusters: tuple[Name, ...] = Field(min_length=1, max_length=64)
    nodes: Annotated[int, Field(ge=1)] = 1
    nominate: Annotated[int, Field(ge=1, le=64)] = Field(3, description="incremental: clusters per round")
    round_s: Annotated[int, Field(ge=1)] = Field(300, description="incremental: seconds per round")


def to_plain(spec: Frozen) -> dict[str, Any]:
    """The spec as a custom resource carries it: camelCase, defaults left out."""
    return spec.model_dump(mode="json", by_alias=True, exclude_defaults=True)
