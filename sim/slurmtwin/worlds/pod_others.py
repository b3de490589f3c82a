"""Pods beside Slurm's in the twin of pods (`pods.others`): services, batch pods, other tenants."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.quantity import milli_cpu, quantity_bytes
from slurmtwin.models.api_server.objects import Container, Meta, Pod, PodSpec, Toleration
from slurmtwin.models.kubelet.program import Program, Service

if TYPE_CHECKING:
    from slurmtwin.contract.pods import OtherPod

IMAGE: Final = "other"


def other_pod(item: OtherPod, namespace: str, node: Callable[[str], str]) -> Pod:
    """The pod as it is created; node: the machine of a target, which the pod is then bound to by its node name's label.

    A guaranteed pod's limits are its requests, so that the static CPU manager gives it whole CPUs.
    """
    cpu, memory = milli_cpu(item.cpu), quantity_bytes(item.memory)
    container = Container(
        name=IMAGE, image=IMAGE, pull_policy="Never", milli_cpu=cpu, memory=memory,
        milli_cpu_limit=cpu if item.guaranteed else 0, memory_limit=memory if item.guaranteed else 0,
        env={"run_ns": str(item.run), "stubborn": str(int(item.stubborn))},
    )  # fmt: skip
    spec = PodSpec(
        containers=(container,), restart_policy="Never" if item.run else "Always",
        grace_ns=item.grace // SECOND * SECOND, tolerations=(Toleration(key="node.kubernetes.io/unschedulable"),),
        node_selector={"kubernetes.io/hostname": node(item.node)} if item.node else {},
    )  # fmt: skip
    return Pod(meta=Meta(name=item.name, namespace=namespace, labels={"app": IMAGE}), spec=spec)


def other_program(_pod: Pod, container: Container) -> Program:
    """What runs in a container that is not Slurm's."""
    run_ns = int(container.env.get("run_ns", "0"))
    return Service(run_ns=run_ns or None, stop_ns=None if container.env.get("stubborn") == "1" else 0)
