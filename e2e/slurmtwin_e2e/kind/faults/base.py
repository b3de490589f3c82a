"""What every fault can reach, how its targets are named, and the protocol it keeps.

No fault is injected into a cluster that this tool did not make: reach() refuses any other.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import InputError, SlurmtwinError
from slurmtwin_e2e.kind.api import Api
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.deploy import Deployed
from slurmtwin_e2e.kind.node_shell import NodeShell
from slurmtwin_e2e.kind.owner import records

PROOF_LIMIT_S: Final = 30.0
SYSTEM_DAEMONS: Final = ("kubelet", "containerd")
POD_APPS: Final = ("slurmctld", "slurmrestd", "slurmdbd", "observer", "operator")


class FaultError(SlurmtwinError):
    """A fault could not be injected, or its effect did not show."""


@dataclass(frozen=True, slots=True)
class PodPlace:
    """A pod now: its object, node, address, and the id of its first container."""

    name: str
    namespace: str
    uid: str
    node: str
    address: str
    container: str


@dataclass(slots=True)
class Reach:
    """The cluster as faults see it."""

    cluster: Cluster
    deployed: Deployed
    api: Api
    shells: dict[str, NodeShell] = field(default_factory=dict)

    def shell(self, node: str) -> NodeShell:
        """The open shell of a node."""
        if node not in self.shells:
            self.shells[node] = NodeShell(node)
        return self.shells[node]

    def close(self) -> None:
        """End all shells."""
        for shell in self.shells.values():
            shell.close()

    def pod(self, target: str) -> PodPlace:
        """The pod that a target names. Raises FaultError when none runs."""
        operator, reader = self.deployed.operator, self.deployed.reader
        if target == "operator" and operator is not None:
            target = operator.pod
        space, _, start = target.rpartition("/")
        namespace = space or self.deployed.namespace
        app, _, name = start.partition(":")
        if app == "slurmctld" and name.isdigit():
            name = f"slurmctld-{name}"
        for item in self.api.request("GET", f"/api/v1/namespaces/{namespace}/pods")["items"]:
            meta, status = item["metadata"], item["status"]
            if space:
                fits = meta["name"].startswith(start)
            else:
                fits = reader.app(item) == app and (not name or reader.name(item) == name)
            if fits and status.get("phase") == "Running" and "deletionTimestamp" not in meta:
                statuses = status.get("containerStatuses") or [{}]
                container = str(statuses[0].get("containerID", "")).rpartition("//")[2]
                return PodPlace(
                    meta["name"], namespace, meta["uid"], item["spec"]["nodeName"], status.get("podIP", ""), container
                )
        raise FaultError(f"no running pod is called {target} in {namespace}")

    def node(self, target: str) -> str:
        """The Kubernetes node that a target names: worker1, control-plane, node-of:POD-TARGET, or its own name."""
        if target.startswith("node-of:"):
            return self.pod(target.removeprefix("node-of:")).node
        if target == "control-plane":
            return self.cluster.control_plane
        if target.startswith("worker") and target[6:].isdigit() and 1 <= int(target[6:]) <= len(self.cluster.workers):
            return self.cluster.workers[int(target[6:]) - 1]
        if target in self.cluster.nodes:
            return target
        raise InputError(f"no node of {self.cluster.name} is called {target!r}", hint="worker1, node-of:slurmctld")

    def pids(self, node: str, container: str, name: str = "") -> list[int]:
        """Processes of a container as its node numbers them, the oldest first; `name`: only those with this comm."""
        script = (
            f"for f in $(grep -ls {container} /proc/[0-9]*/cgroup); do d=${{f%/cgroup}}; "
            f'read -r c < $d/comm; [[ -z "{name}" || $c == "{name}" ]] && echo ${{d#/proc/}}; done 2>/dev/null; true'
        )
        return sorted(int(word) for word in self.shell(node).run(script).text.split())

    def daemon(self, target: str) -> tuple[str, list[int]]:
        """(node, process ids) of a daemon: kubelet@NODE, or the main daemon of a pod. Raises FaultError if none."""
        name, _, where = target.partition("@")
        if where:
            if name not in SYSTEM_DAEMONS:
                raise InputError(f"{target}: only {' and '.join(SYSTEM_DAEMONS)} run on the node itself")
            node = self.node(where)
            text = self.shell(node).run(f"systemctl show -p MainPID --value {name}").text
            found = [int(text)] if text.isdigit() and text != "0" else []
        else:
            pod = self.pod(target)
            node = pod.node
            comm = target.partition(":")[0].rpartition("/")[2]
            found = self.pids(node, pod.container, comm)[:1] if pod.namespace == self.deployed.namespace else []
            found = found or self.pids(node, pod.container)[:1]
        if not found:
            raise FaultError(f"{target}: no such process runs")
        return node, found

    def main_pid(self, pod: PodPlace) -> int:
        """The first process of a pod's container."""
        found = self.pids(pod.node, pod.container)
        if not found:
            raise FaultError(f"{pod.name}: no process runs in it")
        return found[0]


def reach(cluster: Cluster, deployed: Deployed, api: Api) -> Reach:
    """Access for faults. Raises InputError for a cluster that this tool did not make."""
    if cluster.name not in {record.name for record in records()}:
        raise InputError(f"cluster {cluster.name!r} was not made by slurmtwin: no fault is injected into it")
    return Reach(cluster, deployed, api)


class Fault(ABC):
    """One fault of a scenario. prepare() looks up; inject() is the one act at the planned time; prove() waits for
    its effect and says it; clear() ends it. Any of them raises FaultError when it fails.
    """

    kinds: ClassVar[tuple[str, ...]]
    signals: Sequence[tuple[str, int]] = ()
    """Those that it sent by itself while it lasted, and when (unix ns); known once it is cleared."""

    def __init__(self, fault: ClusterFault, tools: Reach) -> None:
        self.fault = fault
        self.tools = tools

    @property
    def kind(self) -> str:
        """What the scenario calls it."""
        return self.fault.kind

    def prepare(self) -> None:
        """Look up what inject() needs, shortly before its time."""
        return

    @abstractmethod
    def inject(self) -> None:
        """Do it."""

    @abstractmethod
    def prove(self) -> str:
        """Wait until the effect shows; one sentence that says what was seen."""

    def clear(self) -> None:
        """End it, where it does not end by itself."""
        return

    def nodes(self) -> str | None:
        """What the fault's rows name in their node column: Slurm node or Kubernetes node, where there is one."""
        return self.fault.target.partition(":")[2] or None if self.fault.target.startswith("slurmd:") else None


def until(what: Callable[[], str], fail: str, limit_s: float = PROOF_LIMIT_S, step_s: float = 0.05) -> str:
    """Call `what` until it says something. Raises FaultError with `fail` after limit_s."""
    limit = time.monotonic() + limit_s
    while True:
        said = what()
        if said:
            return said
        if time.monotonic() > limit:
            raise FaultError(f"no proof of effect: {fail}")
        time.sleep(step_s)


def container_status(item: dict[str, Any]) -> dict[str, Any]:
    """The status of a pod's first container."""
    statuses = item["status"].get("containerStatuses") or [{}]
    return dict(statuses[0])
