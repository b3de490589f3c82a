"""QoS classes and the oom_score_adj that a container's processes are given (kubernetes.md 2.3).

Source: pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS(), pkg/kubelet/qos/policy.go GetContainerOOMScoreAdjust(),
v1.34.2. Sizes are bytes, CPU thousandths of a core; 0 means not given.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

from slurmtwin.engine.records import dataclass

QosClass = Literal["Guaranteed", "Burstable", "BestEffort"]

GUARANTEED_ADJ: Final = -997
BEST_EFFORT_ADJ: Final = 1000
CRITICAL_PRIORITY: Final = 2_000_000_000
"""system-cluster-critical and above; node-critical is 1,000 more (scheduling/types.go)."""
NODE_CRITICAL_PRIORITY: Final = CRITICAL_PRIORITY + 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Amounts:
    """Requests and limits of one container. A limit without a request is its request too (apiserver defaulting)."""

    milli_cpu: int = 0
    memory: int = 0
    milli_cpu_limit: int = 0
    memory_limit: int = 0

    @property
    def asked_cpu(self) -> int:
        """Request, or the limit where there is none."""
        return self.milli_cpu or self.milli_cpu_limit

    @property
    def asked_memory(self) -> int:
        """Request, or the limit where there is none."""
        return self.memory or self.memory_limit


def qos_class(containers: Iterable[Amounts]) -> QosClass:
    """Of a pod, from all its containers, init containers included."""
    amounts = list(containers)
    if not any(a.asked_cpu or a.asked_memory for a in amounts):
        return "BestEffort"
    if all(
        a.milli_cpu_limit and a.memory_limit and a.asked_cpu == a.milli_cpu_limit and a.asked_memory == a.memory_limit
        for a in amounts
    ):
        return "Guaranteed"
    return "Burstable"


def oom_score_adj(
    quality: QosClass, asked_memory: int, node_memory: int, priority: int = 0, sidecar_beside: int | None = None
) -> int:
    """Of a container that asks for so many bytes on a node with so many.

    sidecar_beside: for a restartable init container, the least request of the regular containers.
    """
    if quality == "Guaranteed" or priority >= NODE_CRITICAL_PRIORITY:
        return GUARANTEED_ADJ
    if quality == "BestEffort":
        return BEST_EFFORT_ADJ
    score = 1000 - 1000 * asked_memory // node_memory
    if sidecar_beside is not None:
        score = min(score, 1000 - 1000 * sidecar_beside // node_memory)
    return min(max(score, 1000 + GUARANTEED_ADJ), BEST_EFFORT_ADJ - 1)
