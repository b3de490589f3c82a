"""Which nodes a pod may go to (pkg/scheduler/framework/plugins v1.34.2): one reason why not, or none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from slurmtwin.models.api_server.objects import NO_EXECUTE, NO_SCHEDULE, Node, NodeTerm, Pod, fits, tolerates
from slurmtwin.models.kube_scheduler.node_info import NodeInfo

HOSTNAME = "kubernetes.io/hostname"


def term_fits(term: NodeTerm, labels: Mapping[str, str]) -> bool:
    """All expressions of a node selector term."""
    for label, operator, values in term.expressions:
        value = labels.get(label)
        good = {
            "In": value in values, "NotIn": value not in values, "Exists": value is not None,
            "DoesNotExist": value is None,
        }[operator]  # fmt: skip
        if not good:
            return False
    return True


def domain_of(node: Node, topology: str) -> str:
    """The node's value of a topology label; its name for the host name."""
    return node.meta.name if topology == HOSTNAME else node.meta.labels.get(topology, "")


def why_not(pod: Pod, info: NodeInfo, cpu: int, memory: int) -> str:
    """The filters that need only this node; "": it passes. Order as in the default plugins.

    cpu, memory: what the pod asks for (requests_of()).
    """
    node, spec = info.node, pod.spec
    for taint in node.spec.taints:
        if taint.effect in (NO_SCHEDULE, NO_EXECUTE) and tolerates(spec.tolerations, taint) is None:
            return f"untolerated taint {taint.key}"
    if node.spec.unschedulable and not any(not t.key and t.exists for t in spec.tolerations):
        return "unschedulable"
    labels = {**node.meta.labels, HOSTNAME: node.meta.name} if spec.node_selector or spec.affinity else {}
    if spec.node_selector and not fits(spec.node_selector, labels):
        return "node selector"
    if spec.affinity and not any(term_fits(term, labels) for term in spec.affinity):
        return "node affinity"
    if not info.room_for(cpu, memory):
        return "insufficient resources"
    return ""


def anti_affine(pod: Pod, info: NodeInfo, infos: Iterable[NodeInfo]) -> bool:
    """Required anti-affinity, of this pod and of those that are there against it (interpodaffinity)."""
    for rule in pod.spec.anti_affinity:
        domain = domain_of(info.node, rule.topology)
        near = [info] if rule.topology == HOSTNAME else [i for i in infos if domain_of(i.node, rule.topology) == domain]
        if any(fits(rule.labels, other.meta.labels) for i in near for other in i.pods.values()):
            return True
    return any(
        fits(rule.labels, pod.meta.labels)
        for other in info.guards.values()
        for rule in other.spec.anti_affinity
        if rule.topology == HOSTNAME
    )


def skew_after(pod: Pod, labels: Mapping[str, str], topology: str, info: NodeInfo, infos: Iterable[NodeInfo]) -> int:
    """Matching pods in this node's domain with the pod, less those of the emptiest domain (podtopologyspread)."""
    counts: dict[str, int] = {}
    for other in infos:
        domain = domain_of(other.node, topology)
        counts[domain] = counts.get(domain, 0) + sum(
            fits(labels, p.meta.labels) and not p.meta.deleting for p in other.pods.values()
        )
    own = fits(labels, pod.meta.labels)
    return counts.get(domain_of(info.node, topology), 0) + own - min(counts.values(), default=0)
