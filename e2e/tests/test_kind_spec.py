"""A scenario's cluster section becomes kind's configuration, and what cannot be is refused before anything is made."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.kubernetes import Kubelet, KubernetesCluster, NodeGroup, Taint
from slurmtwin_e2e.kind import spec
from slurmtwin_e2e.kind.host import Capacity

HOST = Capacity(cpus=2, memory=24 * 2**30, memory_free=20 * 2**30, disk_free=20 * 2**30, cgroup=1)


def config(cluster: KubernetesCluster, *, rootless_kubelet: bool = False) -> dict[str, Any]:
    """kind's configuration with fixed folders."""
    return spec.kind_config(cluster, Path("/p"), Path("/s"), rootless_kubelet=rootless_kubelet)


def test_node_names_are_those_that_kind_gives() -> None:
    """worker has no number, the second is worker2, over all groups."""
    cluster = KubernetesCluster(name="a", workers=[NodeGroup(count=2), NodeGroup()])
    names = [plan.name for plan in spec.nodes(cluster)]
    assert names == ["slurmtwin-a-control-plane", "slurmtwin-a-worker", "slurmtwin-a-worker2", "slurmtwin-a-worker3"]


def test_every_node_shares_one_directory() -> None:
    """The same host directory is mounted in each node at the section's path."""
    nodes = config(KubernetesCluster(shared_directory="/srv/share"))["nodes"]
    assert [mount for node in nodes for mount in node["extraMounts"] if mount["hostPath"] == "/s"] == [
        {"hostPath": "/s", "containerPath": "/srv/share"}
    ] * 4


def test_each_node_gets_its_own_kubelet_settings(tmp_path: Path) -> None:
    """Two groups of workers with different kubelets have different patches."""
    pinned = Kubelet(cpu_manager="static", reserved_cpus="0", topology_manager="restricted", topology_scope="pod")
    cluster = KubernetesCluster(workers=[NodeGroup(), NodeGroup(kubelet=pinned)])
    spec.write_patches(cluster, tmp_path)
    plain, static = (
        json.loads((tmp_path / f"slurmtwin-main-{name}" / spec.KUBELET_PATCH).read_text())
        for name in ("worker", "worker2")
    )
    assert "cpuManagerPolicy" not in plain
    assert static["cpuManagerPolicy"] == "static"
    assert static["reservedSystemCPUs"] == "0"
    assert (static["topologyManagerPolicy"], static["topologyManagerScope"]) == ("restricted", "pod")


def test_memory_manager_reserves_what_the_system_has() -> None:
    """The kubelet wants reservedMemory to equal system-reserved plus the hard eviction threshold."""
    patch = spec.kubelet_patch(
        Kubelet(memory_manager="Static", system_reserved_memory="512Mi", eviction_hard={"memory.available": "100Mi"})
    )
    assert patch["reservedMemory"] == [{"numaNode": 0, "limits": {"memory": str(612 * 2**20)}}]


def test_eviction_thresholds_keep_kinds_disk_ones() -> None:
    """A scenario that switches memory eviction on does not switch disk eviction on."""
    patch = spec.kubelet_patch(Kubelet(eviction_hard={"memory.available": "200Mi"}))
    assert patch["evictionHard"] == {**spec.KIND_EVICTION, "memory.available": "200Mi"}


def test_taints_are_registered_and_labels_set() -> None:
    """A group's taints and labels reach kubeadm and kind."""
    group = NodeGroup(labels={"pool": "a"}, taints=[Taint(key="slurm", effect="NoExecute")])
    worker = config(KubernetesCluster(workers=[group]))["nodes"][1]
    patch = json.loads(worker["kubeadmConfigPatches"][0])
    assert worker["labels"] == {"pool": "a"}
    assert patch["nodeRegistration"]["taints"] == [{"key": "slurm", "value": "", "effect": "NoExecute"}]


@pytest.mark.parametrize("lacking", [True, False])
def test_the_kubelet_is_told_of_a_missing_capability_only_where_it_is_missing(lacking: bool) -> None:
    """KubeletInUserNamespace changes what the kubelet does, so it is set only where it must be."""
    gates = config(KubernetesCluster(), rootless_kubelet=lacking)["featureGates"]
    assert gates == ({"KubeletInUserNamespace": True} if lacking else {})


def static(**more: Any) -> KubernetesCluster:
    """A cluster with one worker of a static CPU manager."""
    return KubernetesCluster(workers=[NodeGroup(kubelet=Kubelet(cpu_manager="static", **more))])


@pytest.mark.parametrize(
    ("clusters", "says"),
    [
        ([KubernetesCluster(kubernetes="1.99")], "no node image"),
        ([KubernetesCluster(), KubernetesCluster()], "two clusters are called main"),
        ([static()], "needs reserved CPUs"),
        ([static(reserved_cpus="0-1")], "none is left"),
        ([static(reserved_cpus="7")], "the host has 2 CPUs"),
        ([static(reserved_cpus="0", exclusive_cpus=2)], "2 exclusive CPUs"),
        ([KubernetesCluster(kubelet=Kubelet(memory_manager="Static"))], "system_reserved_memory"),
        ([KubernetesCluster(kubelet=Kubelet(system_reserved_memory="64Gi"))], "64Gi"),
        ([KubernetesCluster(kubelet=Kubelet(eviction_soft={"memory.available": "1Gi"}))], "different signals"),
        ([KubernetesCluster(workers=[NodeGroup(count=64), NodeGroup(count=64)])], "memory"),
        ([KubernetesCluster(workers=[NodeGroup(count=64), NodeGroup(count=10)])], "disk"),
        ([KubernetesCluster(pod_subnet="10.96.0.0/12")], "overlap"),
        ([KubernetesCluster(pod_subnet="10.244.0.0/26")], "too small"),
        ([KubernetesCluster(pod_subnet="nonsense")], "not a network"),
    ],
)
def test_an_impossible_cluster_is_refused(clusters: list[KubernetesCluster], says: str) -> None:
    """What this host or image cannot hold is an input error that says what does not fit."""
    with pytest.raises(InputError, match=says):
        spec.refuse_impossible(clusters, HOST)


def test_two_ordinary_clusters_fit_on_two_cores() -> None:
    """Two clusters of 1 + 3 nodes are not refused on 2 CPUs and 20 GiB."""
    spec.refuse_impossible([KubernetesCluster(name="a"), KubernetesCluster(name="b")], HOST)


@given(st.sets(st.integers(0, 127), min_size=1))
def test_a_cpu_list_reads_back(cpus: set[int]) -> None:
    """Any set of CPUs, written with commas, is read as itself."""
    assert spec.cpus_in(",".join(map(str, sorted(cpus)))) == cpus
