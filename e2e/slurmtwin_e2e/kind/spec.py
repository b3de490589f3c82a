"""What kind and kubeadm are told, from a scenario's cluster section; impossible clusters are refused here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.kubernetes import Kubelet, KubernetesCluster, NodeGroup
from slurmtwin.contract.quantity import quantity_bytes
from slurmtwin_e2e.kind.collect import kubelet_log
from slurmtwin_e2e.kind.host import Capacity
from slurmtwin_e2e.kind.pins import pins

PREFIX: Final = "slurmtwin-"
"""Clusters of ours begin with it; no fault is injected into any other."""
PATCHES: Final = "/kind/slurmtwin-patches"
KUBELET_PATCH: Final = "kubeletconfiguration+merge.json"
CONTROL_PLANE_BYTES: Final = 600 * 2**20
WORKER_BYTES: Final = 170 * 2**20
"""Memory of an idle control plane and worker; measured figures are in docs/kind.md."""
NODE_DISK_BYTES: Final = 400 * 2**20
"""What one node's volume takes with Slurm's image in it; the cluster's own images lie in the node image."""
POD_RANGE_BITS: Final = 24
KIND_EVICTION: Final = {"imagefs.available": "0%", "nodefs.available": "0%", "nodefs.inodesFree": "0%"}
"""kind's own: no eviction for disk."""


@dataclass(frozen=True, slots=True)
class NodePlan:
    """One node: kind's name for it, its role and its settings."""

    name: str
    role: str
    group: NodeGroup


def full_name(cluster: KubernetesCluster) -> str:
    """kind's name for the cluster."""
    return PREFIX + cluster.name


def nodes(cluster: KubernetesCluster) -> Iterator[NodePlan]:
    """The nodes in kind's order and with kind's names: control plane, then worker, worker2, worker3 …"""
    name = full_name(cluster)
    yield NodePlan(f"{name}-control-plane", "control-plane", NodeGroup(kubelet=cluster.kubelet))
    number = 0
    for group in cluster.workers:
        for _ in range(group.count):
            number += 1
            yield NodePlan(f"{name}-worker{number if number > 1 else ''}", "worker", group)


def cpus_in(text: str) -> set[int]:
    """The CPUs of a list such as 0,2-3."""
    out: set[int] = set()
    for part in filter(None, text.split(",")):
        low, _, high = part.partition("-")
        out |= set(range(int(low), int(high or low) + 1))
    return out


def refuse_impossible(clusters: Sequence[KubernetesCluster], capacity: Capacity) -> None:
    """Raise InputError, before anything is created, for clusters that this host or image cannot hold."""
    names = [cluster.name for cluster in clusters]
    if len(set(names)) < len(names):
        raise InputError(f"two clusters are called {max(names, key=names.count)}", hint="each needs its own name")
    have = ".".join(pins().kubernetes.lstrip("v").split(".")[:2])
    for cluster in clusters:
        if cluster.kubernetes != have:
            raise InputError(f"Kubernetes {cluster.kubernetes} has no node image here", hint=f"kubernetes: '{have}'")
        for plan in nodes(cluster):
            _refuse_kubelet(plan.name, plan.group.kubelet, capacity)
        _refuse_networks(cluster)
    _refuse_sizes(clusters, capacity)


def _refuse_kubelet(node: str, kubelet: Kubelet, capacity: Capacity) -> None:
    reserved = cpus_in(kubelet.reserved_cpus)
    if reserved and max(reserved) >= capacity.cpus:
        raise InputError(f"{node}: reserved_cpus {kubelet.reserved_cpus}, but the host has {capacity.cpus} CPUs")
    if kubelet.cpu_manager == "static":
        if not reserved:
            raise InputError(f"{node}: a static CPU manager needs reserved CPUs", hint="reserved_cpus: '0'")
        if len(reserved) >= capacity.cpus:
            raise InputError(f"{node}: all {capacity.cpus} CPUs are reserved, none is left for exclusive use")
    if kubelet.exclusive_cpus > exclusive_cpus(kubelet, capacity):
        raise InputError(
            f"{node}: {kubelet.exclusive_cpus} exclusive CPUs are asked for, "
            f"{exclusive_cpus(kubelet, capacity)} can be had on this host"
        )
    if kubelet.system_reserved_memory and quantity_bytes(kubelet.system_reserved_memory) >= capacity.memory:
        raise InputError(f"{node}: {kubelet.system_reserved_memory} for the system, more than the host has")
    if kubelet.memory_manager == "Static" and not kubelet.system_reserved_memory:
        raise InputError(f"{node}: a static memory manager needs system_reserved_memory")
    if set(kubelet.eviction_soft) != set(kubelet.eviction_soft_grace):
        raise InputError(f"{node}: eviction_soft and eviction_soft_grace name different signals")


def _refuse_networks(cluster: KubernetesCluster) -> None:
    try:
        pods, services = ip_network(cluster.pod_subnet), ip_network(cluster.service_subnet)
    except ValueError as error:
        raise InputError(f"{full_name(cluster)}: not a network: {error}") from error
    if pods.overlaps(services):
        raise InputError(f"{full_name(cluster)}: pod and service networks overlap")
    ranges = 2 ** max(0, POD_RANGE_BITS - pods.prefixlen)
    if pods.prefixlen > POD_RANGE_BITS or ranges < sum(1 for _ in nodes(cluster)):
        raise InputError(f"{full_name(cluster)}: pod network {pods} is too small, each node takes a /{POD_RANGE_BITS}")


def _refuse_sizes(clusters: Sequence[KubernetesCluster], capacity: Capacity) -> None:
    workers = sum(group.count for cluster in clusters for group in cluster.workers)
    memory = len(clusters) * CONTROL_PLANE_BYTES + workers * WORKER_BYTES
    if memory > capacity.memory_free:
        raise InputError(
            f"these clusters take {memory / 2**30:.1f} GiB, {capacity.memory_free / 2**30:.1f} GiB of memory are free"
        )
    disk = (len(clusters) + workers) * NODE_DISK_BYTES
    if disk > capacity.disk_free:
        raise InputError(
            f"these clusters take {disk / 2**30:.1f} GiB, {capacity.disk_free / 2**30:.1f} GiB of disk are free"
        )


def exclusive_cpus(kubelet: Kubelet, capacity: Capacity) -> int:
    """CPUs that a node can give to containers alone: none without the static manager."""
    if kubelet.cpu_manager != "static":
        return 0
    return capacity.cpus - len(cpus_in(kubelet.reserved_cpus))


def kubelet_patch(kubelet: Kubelet) -> dict[str, Any]:
    """The KubeletConfiguration fields of one node, merged over the cluster's by kubeadm."""
    told = [{"filePattern": pattern, "verbosity": level} for pattern, level in kubelet_log.VMODULE.items()]
    out: dict[str, Any] = {"maxPods": kubelet.max_pods, "logging": {"vmodule": told}, **kubelet.options}
    if kubelet.cpu_manager != "none":
        out["cpuManagerPolicy"] = kubelet.cpu_manager
    if kubelet.topology_manager != "none":
        out |= {"topologyManagerPolicy": kubelet.topology_manager, "topologyManagerScope": kubelet.topology_scope}
    if kubelet.reserved_cpus:
        out["reservedSystemCPUs"] = kubelet.reserved_cpus
    if kubelet.system_reserved_memory:
        out["systemReserved"] = {"memory": kubelet.system_reserved_memory}
    if kubelet.memory_manager != "None":
        out["memoryManagerPolicy"] = kubelet.memory_manager
        out["reservedMemory"] = [{"numaNode": 0, "limits": {"memory": str(_reserved_memory(kubelet))}}]
    if kubelet.eviction_hard:
        out["evictionHard"] = KIND_EVICTION | kubelet.eviction_hard
    if kubelet.eviction_soft:
        out["evictionSoft"] = kubelet.eviction_soft
        out["evictionSoftGracePeriod"] = kubelet.eviction_soft_grace
    return out


def _reserved_memory(kubelet: Kubelet) -> int:
    """Bytes the memory manager must set aside: the kubelet refuses any other sum (system + hard eviction)."""
    hard = kubelet.eviction_hard.get("memory.available", "0")
    return quantity_bytes(kubelet.system_reserved_memory) + quantity_bytes(hard)


def write_patches(cluster: KubernetesCluster, folder: Path) -> None:
    """One folder of kubeadm patches per node."""
    for plan in nodes(cluster):
        target = folder / plan.name
        target.mkdir(parents=True, exist_ok=True)
        (target / KUBELET_PATCH).write_text(json.dumps(kubelet_patch(plan.group.kubelet), indent=1) + "\n")


def _node_config(plan: NodePlan, cluster: KubernetesCluster, patches: Path, shared: Path) -> dict[str, Any]:
    kind = "InitConfiguration" if plan.role == "control-plane" else "JoinConfiguration"
    registration: dict[str, Any] = {}
    if plan.group.taints:
        registration["taints"] = [taint.model_dump() for taint in plan.group.taints]
    patch = {"kind": kind, "patches": {"directory": PATCHES}}
    if registration:
        patch["nodeRegistration"] = registration
    out: dict[str, Any] = {
        "role": plan.role,
        "kubeadmConfigPatches": [json.dumps(patch)],
        "extraMounts": [
            {"hostPath": str(patches / plan.name), "containerPath": PATCHES, "readOnly": True},
            {"hostPath": str(shared), "containerPath": cluster.shared_directory},
        ],
    }
    if plan.group.labels:
        out["labels"] = plan.group.labels
    return out


def kind_config(cluster: KubernetesCluster, patches: Path, shared: Path, *, rootless_kubelet: bool) -> dict[str, Any]:
    """kind's configuration file as a mapping. rootless_kubelet: the host lacks CAP_SYS_RESOURCE."""
    gates = dict(cluster.feature_gates)
    if rootless_kubelet:
        gates["KubeletInUserNamespace"] = True
    return {
        "kind": "Cluster",
        "apiVersion": "kind.x-k8s.io/v1alpha4",
        "name": full_name(cluster),
        "featureGates": gates,
        "networking": {"podSubnet": cluster.pod_subnet, "serviceSubnet": cluster.service_subnet},
        "nodes": [_node_config(plan, cluster, patches, shared) for plan in nodes(cluster)],
    }
