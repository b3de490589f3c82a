"""Cached objects as the core's observations: the twin's counterpart of the operator's shell/objects.py."""

from __future__ import annotations

from typing import Final, Literal, cast

from slurmtwin.models.api_server.objects import NO_EXECUTE, Node, Pod
from slurmtwin_operator.core.manifests import GROUP
from slurmtwin_operator.core.observed import MIRRORED, KubeNode
from slurmtwin_operator.core.observed import Pod as PodView
from slurmtwin_operator.core.spec import NodeSetSpec

NODE_SET: Final = f"{GROUP}/nodeset"
SLOT: Final = f"{GROUP}/slot"
REVISION: Final = f"{GROUP}/revision"
CORDON: Final = f"{GROUP}/cordon"
PROTECT: Final = f"{GROUP}/protect"
LOCK: Final = f"{GROUP}/lock"
COST: Final = "controller.kubernetes.io/pod-deletion-cost"
_OWN_TAINTS: Final = (
    "node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", LOCK,
)  # fmt: skip


def pod_view(pod: Pod, node_set: str) -> PodView:
    """A slurmd pod."""
    meta = pod.meta
    ready = pod.status.conditions.get("Ready")
    return PodView(
        name=meta.name, uid=meta.uid, slot=meta.annotations.get(SLOT) or meta.name.removeprefix(f"{node_set}-"),
        revision=meta.labels.get(REVISION, ""),
        phase=cast('Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]', pod.status.phase),
        ready=pod.ready, ready_since_ns=ready.since_ns if ready is not None and pod.ready else 0,
        created_ns=meta.created_ns, deleting=meta.deleting, kube_node=pod.spec.node_name,
        protected=meta.labels.get(PROTECT) == "true", cordoned=meta.annotations.get(CORDON) == "true",
        deletion_cost=int(meta.annotations.get(COST, "0")),
    )  # fmt: skip


def node_view(node: Node, spec: NodeSetSpec, foreign_pods: int) -> KubeNode:
    """A machine as a node set sees it. One that came back under its name is another instance: its uid says so."""
    ready = node.status.conditions.get("Ready")
    lock = next((t.value for t in node.spec.taints if t.key == LOCK), "")
    others = [name for name, c in node.status.conditions.items() if c.status == "True" and name != "Ready"]
    return KubeNode(
        name=node.meta.name, instance=node.meta.uid, unschedulable=node.spec.unschedulable,
        mirrored=MIRRORED in node.meta.annotations, ready=node.ready == "True",
        not_ready_since_ns=ready.since_ns if ready is not None and ready.status != "True" else 0,
        conditions=tuple(sorted(others)), selected=selected(node, spec),
        locked=cast('Literal["", "pending", "locked"]', lock), foreign_pods=foreign_pods,
    )  # fmt: skip


def selected(node: Node, spec: NodeSetSpec) -> bool:
    """May the set's pods run there? A cordon, silence and our own lock do not count."""
    if any(node.meta.labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    wanted = {(t.key, t.effect) for t in spec.tolerations}
    return all(
        t.key in _OWN_TAINTS or t.effect not in ("NoSchedule", NO_EXECUTE)
        or any(key in ("", t.key) and effect in ("", t.effect) for key, effect in wanted)
        for t in node.spec.taints
    )  # fmt: skip
