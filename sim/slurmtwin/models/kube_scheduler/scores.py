"""Which of the nodes that pass is best: the default plugins, 0 to 100, with their weights (kubernetes.md 5.7)."""

from __future__ import annotations

from typing import Final

from slurmtwin.models.api_server.objects import Pod, fits, tolerates
from slurmtwin.models.kube_scheduler.filters import HOSTNAME, domain_of, term_fits
from slurmtwin.models.kube_scheduler.node_info import NodeInfo, requests_of

MOST: Final = 100
TAINT_WEIGHT: Final = 3
AFFINITY_WEIGHT: Final = 2
SPREAD_WEIGHT: Final = 2
DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 << 20
"""What a container without requests counts for in scores (util/pod_resources.go)."""


def scores(pod: Pod, infos: list[NodeInfo]) -> list[int]:
    """The weighted sum of each node, in order. A plugin that gives all the same is left out."""
    cpu, memory = _wanted(pod)
    total = [_resources(info, cpu, memory) for info in infos]
    for weight, raw, low_is_good in (
        (TAINT_WEIGHT, [_prefer_no(pod, i) if i.node.spec.taints else 0 for i in infos], True),
        (AFFINITY_WEIGHT, [_preferred(pod, i) for i in infos] if pod.spec.preferred else [], False),
        (SPREAD_WEIGHT, _crowd(pod, infos) if pod.spec.spread else [], True),
    ):
        most = max(raw, default=0)
        if not most:
            continue
        for place, value in enumerate(raw):
            share = MOST * value // most
            total[place] += weight * (MOST - share if low_is_good else share)
    return total


def _wanted(pod: Pod) -> tuple[int, int]:
    cpu, memory = requests_of(pod)
    count = len(pod.spec.containers)
    return cpu or DEFAULT_MILLI_CPU * count, memory or DEFAULT_MEMORY * count


def _resources(info: NodeInfo, cpu: int, memory: int) -> int:
    """NodeResourcesFit (LeastAllocated: the emptier the better) and NodeResourcesBalancedAllocation (half the
    difference of the two shares counts against), of shares in thousandths with the pod."""
    status = info.node.status
    of_cpu = min(1000, 1000 * (info.milli_cpu + cpu) // status.milli_cpu) if status.milli_cpu else 1000
    of_memory = min(1000, 1000 * (info.memory + memory) // status.memory) if status.memory else 1000
    return (2000 - of_cpu - of_memory) * MOST // 2000 + MOST - abs(of_cpu - of_memory) * MOST // 2000


def _prefer_no(pod: Pod, info: NodeInfo) -> int:
    taints = info.node.spec.taints
    return sum(t.effect == "PreferNoSchedule" and tolerates(pod.spec.tolerations, t) is None for t in taints)


def _preferred(pod: Pod, info: NodeInfo) -> int:
    labels = {**info.node.meta.labels, HOSTNAME: info.node.meta.name} if pod.spec.preferred else {}
    return sum(term.weight for term in pod.spec.preferred if term_fits(term, labels))


def _crowd(pod: Pod, infos: list[NodeInfo]) -> list[int]:
    """PodTopologySpread: matching pods in the node's domain."""
    rules = [rule for rule in pod.spec.spread if not rule.required]
    if not rules:
        return [0] * len(infos)
    out = [0] * len(infos)
    for rule in rules:
        counts: dict[str, int] = {}
        for info in infos:
            here = sum(fits(rule.labels, p.meta.labels) for p in info.pods.values())
            domain = domain_of(info.node, rule.topology)
            counts[domain] = counts.get(domain, 0) + here
        for place, info in enumerate(infos):
            out[place] += counts[domain_of(info.node, rule.topology)]
    return out
