"""The objects of a Slurm cluster in pods: what the world kind applies (docs/kind-slurm.md), as the twin's objects."""

from __future__ import annotations

import re
from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.hostlist import expand
from slurmtwin.contract.kubernetes import Kubelet, KubernetesCluster
from slurmtwin.contract.pods import PodsSection
from slurmtwin.contract.pods import Probe as ProbeSection
from slurmtwin.contract.quantity import milli_cpu, quantity_bytes
from slurmtwin.contract.scenario import Scenario
from slurmtwin.models.api_server.objects import (
    NO_EXECUTE,
    NO_SCHEDULE,
    ClaimTemplate,
    Container,
    Deployment,
    Meta,
    Node,
    NodeSpec,
    NodeStatus,
    NodeTerm,
    Object,
    Pod,
    PodAntiAffinity,
    PodSpec,
    PodTemplate,
    Probe,
    Service,
    Spread,
    StatefulSet,
    Taint,
    Toleration,
    Volume,
)
from slurmtwin.models.controllers.node_lifecycle import NOT_READY, UNREACHABLE

ROLE: Final = "slurmtwin.org/role"
CONTROL_PLANE: Final = "node-role.kubernetes.io/control-plane"
NODE_MILLI_CPU: Final = 2000
NODE_MEMORY: Final = 8 << 30
"""Every kind node reports the whole host (kubernetes.md 8.8)."""
MEMORY_STATE: Final = 64 << 20


def kube_nodes(cluster: KubernetesCluster) -> list[Node]:
    """control-plane, then worker1, worker2 ... in the order of the groups; the first worker is the controller's."""

    def node(name: str, labels: dict[str, str], taints: tuple[Taint, ...], pods: int) -> Node:
        status = NodeStatus(milli_cpu=NODE_MILLI_CPU, memory=NODE_MEMORY, pods=pods)
        meta = Meta(name=name, labels={"kubernetes.io/hostname": name, **labels})
        return Node(meta=meta, spec=NodeSpec(taints=taints), status=status)

    plane = Taint(key=CONTROL_PLANE, effect=NO_SCHEDULE)
    nodes = [node("control-plane", {CONTROL_PLANE: ""}, (plane,), cluster.kubelet.max_pods)]
    for group in cluster.workers:
        taints = tuple(Taint(key=t.key, value=t.value, effect=t.effect) for t in group.taints)
        for _ in range(group.count):
            role = "controller" if len(nodes) == 1 else "compute"
            labels = {ROLE: role, **group.labels}
            nodes.append(node(f"worker{len(nodes)}", labels, taints, group.kubelet.max_pods))
    return nodes


def kubelets(cluster: KubernetesCluster) -> list[Kubelet]:
    """The kubelet options of each node, in the order of kube_nodes()."""
    return [cluster.kubelet, *(group.kubelet for group in cluster.workers for _ in range(group.count))]


def worker_names(scenario: Scenario) -> list[str]:
    """Pod names of the workers: NodeName of the one line."""
    return expand(str(scenario.slurm.nodes[0]["NodeName"]))


def controller_names(pods: PodsSection) -> tuple[str, ...]:
    """Host names of the controllers, primary first."""
    return ("slurmctld-0", "slurmctld-1") if pods.controller == "primary-backup" else ("slurmctld-0",)


def _probe(section: ProbeSection | None) -> Probe | None:
    if section is None:
        return None
    whole_s = max(1, section.timeout // SECOND)
    return Probe(period_ns=section.period, timeout_ns=whole_s * SECOND, failures=section.failures)


def _tolerations(pods: PodsSection) -> tuple[Toleration, ...]:
    if pods.toleration is None:
        return ()
    return tuple(Toleration(key=key, effect=NO_EXECUTE, for_ns=pods.toleration) for key in (NOT_READY, UNREACHABLE))


def _role_term(role: str, weight: int = 0) -> NodeTerm:
    return NodeTerm(expressions=((ROLE, "In", (role,)),), weight=weight)


def controller(namespace: str, pods: PodsSection) -> list[Object]:
    """The slurmctld pods with their Services."""
    names = controller_names(pods)
    container = Container(
        name="slurmctld", image="slurmctld", pull_policy="Never", liveness=_probe(pods.liveness),
        env={"process": pods.slurmctld_process},
    )  # fmt: skip
    volumes = (Volume(name="state", memory=True, size=MEMORY_STATE),) if pods.state == "memory" else ()
    labels = {"app": "slurmctld"}
    spec = PodSpec(
        containers=(container,), volumes=volumes, grace_ns=pods.grace, tolerations=_tolerations(pods),
        affinity=(NodeTerm(expressions=((ROLE, "Exists", ()),)),), preferred=(_role_term("controller", 100),),
        anti_affinity=(PodAntiAffinity(labels=labels),) if len(names) > 1 else (),
        hostname=names[0] if pods.controller == "deployment" else "",
    )  # fmt: skip
    template = PodTemplate(labels=labels, spec=spec)
    meta = Meta(name="slurmctld", namespace=namespace, labels=labels)
    services: list[Object] = [
        Service(meta=Meta(name=name, namespace=namespace), selector=_selector(pods, name), publish_not_ready=True)
        for name in names
    ]
    if pods.controller == "deployment":
        return [*services, Deployment(meta=meta, selector=labels, template=template, recreate=True)]
    claims = (ClaimTemplate(name="state"),) if pods.state == "claim" else ()
    return [*services, StatefulSet(meta=meta, replicas=len(names), selector=labels, template=template, claims=claims)]


def _selector(pods: PodsSection, name: str) -> dict[str, str]:
    return {"app": "slurmctld"} if pods.controller == "deployment" else {"statefulset.kubernetes.io/pod-name": name}


def workers(
    namespace: str, scenario: Scenario, pods: PodsSection, tolerations: tuple[Toleration, ...] = ()
) -> list[Object]:
    """The slurmd pods with their headless Service; tolerations: beside those that the scenario gives them."""
    names = worker_names(scenario)
    found = re.match(r"(.*)-\d+$", names[0])
    assert found is not None
    memory = quantity_bytes(pods.memory) if pods.memory else 0
    cpu = milli_cpu(pods.cpu) if pods.cpu else 0
    container = Container(
        name="slurmd", image="slurmd", pull_policy="Never", liveness=_probe(pods.slurmd_liveness), memory=memory,
        memory_limit=memory, milli_cpu=cpu, milli_cpu_limit=cpu, env={"process": pods.slurmd_process},
    )  # fmt: skip
    scratch = (Volume(name="scratch", memory=True, size=quantity_bytes(pods.scratch)),) if pods.scratch else ()
    labels = {"app": "slurmd"}
    spec = PodSpec(
        containers=(container,), volumes=scratch, grace_ns=pods.grace, tolerations=(*_tolerations(pods), *tolerations),
        affinity=(_role_term("compute"),), spread=(Spread(labels=labels),),
    )  # fmt: skip
    meta = Meta(name=found[1], namespace=namespace, labels=labels)
    template = PodTemplate(labels=labels, spec=spec)
    service = Service(
        meta=Meta(name="slurmd", namespace=namespace), selector=labels, publish_not_ready=True, headless=True
    )
    return [service, StatefulSet(meta=meta, replicas=len(names), selector=labels, template=template, parallel=True)]


def onlookers(namespace: str) -> list[Object]:
    """slurmrestd and the observer on the control plane: no fault of a worker reaches them."""

    def spec(name: str) -> PodSpec:
        return PodSpec(
            containers=(Container(name=name, image=name, pull_policy="Never"),), grace_ns=SECOND,
            node_selector={CONTROL_PLANE: ""}, tolerations=(Toleration(),),
        )  # fmt: skip

    rest = {"app": "slurmrestd"}
    return [
        Service(meta=Meta(name="slurmrestd", namespace=namespace), selector=rest, publish_not_ready=True),
        Deployment(
            meta=Meta(name="slurmrestd", namespace=namespace, labels=rest), selector=rest,
            template=PodTemplate(labels=rest, spec=spec("slurmrestd")),
        ),
        Pod(meta=Meta(name="observer", namespace=namespace, labels={"app": "observer"}), spec=spec("observer")),
    ]  # fmt: skip
