"""A new cluster's service addresses answer before anything in the pod network is trusted."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.kind import services
from slurmtwin_e2e.kind.cluster import Cluster

CLUSTER = Cluster("test", ("plane", "worker"), Path("/shared"), "/shared")
ADDRESS = "https://10.96.0.1:443/livez"


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """What kubectl was asked."""
    asked: list[tuple[str, ...]] = []

    def kubectl(_self: Cluster, *arguments: str, stdin: str | None = None, check: bool = True) -> str:
        asked.append(arguments)
        if arguments == services.SERVICE:
            return ADDRESS
        proxy = {"name": "proxy", "namespace": "kube-system", "uid": "proxy-uid"}
        network = {"metadata": proxy, "spec": {"hostNetwork": True}}
        storage = {"metadata": {"name": "storage", "namespace": "local", "uid": "storage-uid"}, "spec": {}}
        return json.dumps({"items": [network, storage]})

    monkeypatch.setattr(Cluster, "kubectl", kubectl)
    monkeypatch.setattr(services.time, "sleep", lambda _seconds: None)
    return asked


def docker_where(monkeypatch: pytest.MonkeyPatch, silent: dict[str, int]) -> list[str]:
    """A Docker whose nodes reach the service after so many tries; returns the nodes asked."""
    asked: list[str] = []

    def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        node = arguments[1]
        assert arguments[-1] == ADDRESS
        asked.append(node)
        silent[node] = silent.get(node, 0) - 1
        return subprocess.CompletedProcess(arguments, 0, "ok" if silent[node] < 0 else "", "")

    monkeypatch.setattr(services, "docker", docker)
    return asked


def test_each_node_is_asked_until_it_reaches_the_service(
    monkeypatch: pytest.MonkeyPatch, said: list[tuple[str, ...]]
) -> None:
    """A node that answered is left alone; the one whose rules come late is asked again."""
    asked = docker_where(monkeypatch, {"worker": 2})
    services.wait_for_services(CLUSTER)
    assert asked == ["plane", "worker", "worker", "worker"]


def test_a_node_that_never_reaches_the_service_is_named(
    monkeypatch: pytest.MonkeyPatch, said: list[tuple[str, ...]]
) -> None:
    """After the limit the message names the node and the address."""
    docker_where(monkeypatch, {"worker": 10**6})
    ticks = iter(range(0, 10**6, 30))
    monkeypatch.setattr(services.time, "monotonic", lambda: float(next(ticks)))
    with pytest.raises(EnvironmentMissingError, match=r"10\.96\.0\.1:443/livez does not answer on worker after 120 s"):
        services.wait_for_services(CLUSTER)


def test_only_pods_of_the_pod_network_are_started_anew(said: list[tuple[str, ...]]) -> None:
    """kube-proxy and the control plane are in the node's network and stay."""
    services.replace_early(CLUSTER)
    assert [call[:4] for call in said if call[0] == "delete"] == [("delete", "pod", "storage", "-n")]


def test_the_name_servers_go_back_to_the_control_plane(said: list[tuple[str, ...]]) -> None:
    """A worker that is paused must not take names with it. Pods are listed when none of the workers' is left."""
    services.replace_early(CLUSTER)
    assert [call[:3] for call in said[:2]] == [("patch", "deployment", "coredns"), ("rollout", "status", "deployment")]
    assert json.loads(said[0][-1])["spec"]["template"]["spec"] == {"nodeSelector": services.CONTROL_PLANE}
    assert said[2][:2] == ("get", "pods")


def kubelets_that_keep(monkeypatch: pytest.MonkeyPatch, kept: list[str]) -> list[str]:
    """A Docker whose nodes have a static pod's directory, that of "proxy-uid", and each name of `kept` for one look."""
    looks: list[str] = []

    def docker(*arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        looks.append(arguments[1])
        late = [kept.pop()] if kept and arguments[1] == "plane" else []
        return subprocess.CompletedProcess(arguments, 0, "\n".join(["0a1b2c", "proxy-uid", *late]), "")

    monkeypatch.setattr(services, "docker", docker)
    return looks


def test_a_first_state_is_without_the_directories_of_replaced_pods(
    monkeypatch: pytest.MonkeyPatch, said: list[tuple[str, ...]]
) -> None:
    """A kubelet removes a pod's directory behind the pod; all nodes are looked at until none has such a one."""
    looks = kubelets_that_keep(monkeypatch, ["gone-uid", "gone-uid"])
    services.wait_for_kubelets(CLUSTER)
    assert looks == ["plane", "worker"] * 3


def test_a_directory_that_stays_is_named(monkeypatch: pytest.MonkeyPatch, said: list[tuple[str, ...]]) -> None:
    """After the limit the message names the cluster and the directory."""
    kubelets_that_keep(monkeypatch, ["gone-uid"] * 10)
    ticks = iter(range(0, 10**6, 60))
    monkeypatch.setattr(services.time, "monotonic", lambda: float(next(ticks)))
    with pytest.raises(EnvironmentMissingError, match="test: pods gone, directories kept 120 s: gone-uid"):
        services.wait_for_kubelets(CLUSTER)
