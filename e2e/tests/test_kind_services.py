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
        network = {"metadata": {"name": "proxy", "namespace": "kube-system"}, "spec": {"hostNetwork": True}}
        storage = {"metadata": {"name": "storage", "namespace": "local"}, "spec": {}}
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
