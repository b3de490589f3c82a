"""Service addresses of a new cluster: when they answer, and what dialled them too early.

kind starts CoreDNS and the storage provisioner at once. Where one of them runs before kube-proxy has written its node's
rules, its first call goes out to the API server's service address as it is, nobody answers, and it waits 30 s: CoreDNS
is Ready so much later, the provisioner ends with code 1 and is restarted (docs/surprises.md).
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.docker import docker

if TYPE_CHECKING:
    from slurmtwin_e2e.kind.cluster import Cluster

SERVICE: Final = (
    "get",
    "service",
    "kubernetes",
    "-o",
    "jsonpath=https://{.spec.clusterIP}:{.spec.ports[0].port}/livez",
)
LIMIT_S: Final = 120.0
PODS_FOLDER: Final = "/var/lib/kubelet/pods"
CONTROL_PLANE: Final = {"node-role.kubernetes.io/control-plane": ""}


def wait_for_services(cluster: Cluster) -> None:
    """Until every node reaches the API server by its service address. Raises EnvironmentMissingError with the nodes."""
    address = cluster.kubectl(*SERVICE)
    limit = time.monotonic() + LIMIT_S
    waiting = list(cluster.nodes)
    while waiting := [node for node in waiting if not _answers(node, address)]:
        if time.monotonic() > limit:
            raise EnvironmentMissingError(f"{address} does not answer on {', '.join(waiting)} after {LIMIT_S:.0f} s")
        time.sleep(0.5)


def replace_early(cluster: Cluster) -> None:
    """Start anew what is in the pod network: it came before service addresses answered on every node.

    CoreDNS stays on the control plane, where kind starts it while there is no worker yet: with a name server on a
    worker, a pause of that machine would be an outage of every second name as well (recorded in x70).
    """
    pinned = {"spec": {"template": {"spec": {"nodeSelector": CONTROL_PLANE}}}}
    cluster.kubectl("patch", "deployment", "coredns", "-n", "kube-system", "-p", json.dumps(pinned))
    cluster.kubectl("rollout", "status", "deployment", "coredns", "-n", "kube-system", f"--timeout={LIMIT_S:.0f}s")
    for pod in cluster.items("pods", "-A"):
        if not pod["spec"].get("hostNetwork"):
            meta = pod["metadata"]
            cluster.kubectl("delete", "pod", meta["name"], "-n", meta["namespace"], "--grace-period=0", "--force")


def wait_for_kubelets(cluster: Cluster) -> None:
    """Until no kubelet keeps the directory of a pod that is gone: it removes one some seconds behind the pod.

    The record of a cluster's first state would have such a directory, and no cleaning brings it back.
    Raises EnvironmentMissingError with the directories.
    """
    limit = time.monotonic() + LIMIT_S
    while left := sorted(_directories(cluster) - {pod["metadata"]["uid"] for pod in cluster.items("pods", "-A")}):
        if time.monotonic() > limit:
            raise EnvironmentMissingError(
                f"{cluster.name}: pods gone, directories kept {LIMIT_S:.0f} s: {', '.join(left)}"
            )
        time.sleep(0.5)


def _directories(cluster: Cluster) -> set[str]:
    """Names in all kubelets' pod directories that are UIDs of API objects; a static pod's is a hash without a dash."""
    listed = [docker("exec", node, "ls", PODS_FOLDER).stdout.split() for node in cluster.nodes]
    return {name for names in listed for name in names if "-" in name}


def _answers(node: str, address: str) -> bool:
    return docker("exec", node, "curl", "-sk", "--max-time", "1", address, check=False).stdout == "ok"
