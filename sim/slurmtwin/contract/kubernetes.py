"""A scenario's `cluster` section: the Kubernetes clusters that the world `kind` makes and the twin models.

Sizes are Kubernetes quantities in Kubernetes' own words; kubelet options keep the kubelet's own values.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from slurmtwin.contract.fields import DurationNs, Strict

NAME = r"^[a-z0-9][a-z0-9-]{0,30}$"
QUANTITY = r"^[0-9]+(\.[0-9]+)?(m|k|M|G|T|Ki|Mi|Gi|Ti)?$"
CPU_LIST = r"^[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*$"


class Kubelet(Strict):
    """KubeletConfiguration of a group of nodes; what is not given keeps the kubelet's default."""

    cpu_manager: Literal["none", "static"] = "none"
    topology_manager: Literal["none", "best-effort", "restricted", "single-numa-node"] = "none"
    topology_scope: Literal["container", "pod"] = "container"
    memory_manager: Literal["None", "Static"] = "None"
    reserved_cpus: str = Field("", pattern=rf"{CPU_LIST}|^$", description="reservedSystemCPUs, a CPU list such as 0-1")
    exclusive_cpus: int = Field(0, ge=0, description="CPUs that the scenario's pods want for themselves on one node")
    system_reserved_memory: str = Field("", pattern=rf"{QUANTITY}|^$")
    eviction_hard: dict[str, str] = Field(default_factory=dict, description="signal: threshold; empty: kind's (off)")
    eviction_soft: dict[str, str] = Field(default_factory=dict)
    eviction_soft_grace: dict[str, str] = Field(default_factory=dict)
    max_pods: int = Field(110, ge=1, le=1000)
    options: dict[str, str | int | bool | list[str] | dict[str, str | int | bool]] = Field(
        default_factory=dict, description="any other KubeletConfiguration field"
    )


class Taint(Strict):
    """A taint that a node registers with."""

    key: str
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class NodeGroup(Strict):
    """`count` equal workers."""

    count: int = Field(1, ge=1, le=64)
    labels: dict[str, str] = Field(default_factory=dict)
    taints: list[Taint] = Field(default_factory=list)
    kubelet: Kubelet = Kubelet()


class ClusterAutoscaler(Strict):
    """The Cluster Autoscaler on the last group of workers (kubernetes.md 7): machines come and go with pods."""

    most: int = Field(ge=1, le=64, description="machines of that group at most")
    provision: DurationNs = Field(90_000_000_000, description="a machine is asked for until its node is Ready")
    unneeded: DurationNs = Field(600_000_000_000, description="--scale-down-unneeded-time")


class KubernetesCluster(Strict):
    """One Kubernetes cluster: a control plane and groups of workers."""

    name: str = Field("main", pattern=NAME)
    kubernetes: str = Field("1.34", pattern=r"^1\.[0-9]{2}$", description="minor version")
    workers: list[NodeGroup] = Field(default_factory=lambda: [NodeGroup(count=3)])
    autoscaler: ClusterAutoscaler | None = Field(None, description="adds and removes machines (twin)")
    kubelet: Kubelet = Field(Kubelet(), description="the control plane's kubelet")
    feature_gates: dict[str, bool] = Field(default_factory=dict)
    pod_subnet: str = "10.244.0.0/16"
    service_subnet: str = "10.96.0.0/16"
    shared_directory: str = Field("/shared", pattern=r"^/[a-z0-9/_-]+$", description="one directory, in every node")
