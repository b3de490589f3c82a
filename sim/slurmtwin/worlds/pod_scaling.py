"""Autoscalers in the twin of pods: the metric chain on the operator's node set, the Cluster Autoscaler on machines."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from slurmtwin.contract.clock import MS
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.objects import Node, Pod
from slurmtwin.models.autoscaler.machines import SCAN_NS, Asked, MachineScaler
from slurmtwin.models.autoscaler.metric_chain import Scaled
from slurmtwin.models.kubelet.admission import asked

if TYPE_CHECKING:
    from slurmtwin.contract.kubernetes import KubernetesCluster
    from slurmtwin.engine.environment import Environment
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.kubelet.machine import Machine
    from slurmtwin.models.slurm_cluster import SlurmCluster
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

SHUTDOWN_NS = 500 * MS
"""The cloud has taken the machine; its node object goes with it."""


def slurm_metric(cluster: SlurmCluster, name: str) -> Callable[[], int | None]:
    """A reader of slurmctld's /metrics: jobs that wait, nodes that they ask for, or nodes with jobs."""

    def read() -> int | None:
        ctld = cluster.ctld
        return None if ctld is None else _value(ctld, name)

    return read


def _value(ctld: Slurmctld, name: str) -> int:
    if name == "busy-nodes":
        busy = 0
        for job in ctld.running.values():
            if job.alloc is not None:
                busy |= job.alloc.nodes
        return busy.bit_count()
    waiting = [job for job in ctld.jobs.values() if job.pending and job.priority]
    if name == "pending-jobs":
        return len(waiting)
    return sum(job.request.nodes_min or 1 for job in waiting)


def scaled_set(
    metric: Callable[[], int | None], replicas: Callable[[], int | None], put: Callable[[int], None],
    server: ApiServer, label: tuple[str, str],
) -> Scaled:  # fmt: skip
    """A node set whose pods carry that label."""

    def pods() -> tuple[int, int]:
        mine = [p for p in server.list_of(Pod) if p.meta.labels.get(label[0]) == label[1] and not p.finished]
        return len(mine), sum(p.ready for p in mine)

    return Scaled(metric=metric, replicas=replicas, put=put, pods=pods)


class Machines:
    """The Cluster Autoscaler of the last group of workers."""

    def __init__(
        self, env: Environment, server: ApiServer, cluster: KubernetesCluster, machines: dict[str, Machine],
        make: Callable[[Node], Machine],
    ) -> None:  # fmt: skip
        section, group = cluster.autoscaler, cluster.workers[-1]
        assert section is not None
        self._env = env
        self._server = server
        self._client = Client(server, env)
        self._machines = machines
        self._make = make
        self._provision_ns = section.provision
        self._group = list(machines)[-group.count :]
        """Names of its machines."""
        self._like = machines[self._group[-1]]
        """What a new one is made like."""
        self._coming: list[str] = []
        self._scaler = MachineScaler(group.count, section.most, section.unneeded)
        self._next = len(machines)

    def start(self) -> None:
        """It scans from now on, while anything waits or any machine is spare."""
        self._env.call_in(SCAN_NS, self._scan)

    def _scan(self, _argument: object) -> None:
        now_ns = self._env.now_ns
        pods = [p for p in self._server.list_of(Pod) if not p.finished]
        waiting = [_asked(pod) for pod in pods if _waits(pod)]
        template = self._like.settings.capacity
        room = Asked(template.milli_cpu, template.memory, template.pods)
        for _ in range(self._scaler.grow(now_ns, waiting, room, len(self._group), len(self._coming))):
            self._ask()
        used = {pod.spec.node_name for pod in pods}
        empty = [name for name in self._group if name not in used and name not in self._coming]
        for name in self._scaler.shrink(now_ns, [] if waiting else empty, len(self._group)):
            self._remove(name)
        self._env.call_in(SCAN_NS, self._scan)

    def _ask(self) -> None:
        name = f"worker{self._next}"
        self._next += 1
        self._group.append(name)
        self._coming.append(name)
        self._env.call_in(self._provision_ns, self._come, name)

    def _come(self, name: str) -> None:
        """The machine boots; its kubelet registers it."""
        node = self._like.node
        labels = {**node.meta.labels, "kubernetes.io/hostname": name}
        machine = self._machines[name] = self._make(replace(node, meta=replace(node.meta, name=name, labels=labels)))
        self._coming.remove(name)
        machine.start_kubelet()

    def _remove(self, name: str) -> None:
        """Cordoned, taken by the cloud, and its node object deleted."""
        self._group.remove(name)
        self._client.patch(Node, name, lambda n: replace(n, spec=replace(n.spec, unschedulable=True)))
        self._env.call_in(SHUTDOWN_NS, self._gone, name)

    def _gone(self, name: str) -> None:
        self._machines[name].stop()
        self._client.delete(Node, name)


def _asked(pod: Pod) -> Asked:
    milli_cpu, memory = asked(pod)[:2]
    return Asked(milli_cpu, memory)


def _waits(pod: Pod) -> bool:
    """kube-scheduler has said that it fits nowhere."""
    known = pod.status.conditions.get("PodScheduled")
    return not pod.spec.node_name and known is not None and known.status == "False" and not pod.meta.deleting
