"""HorizontalPodAutoscaler on one external metric, without `behavior` (kubernetes.md 6.25 to 6.27).

Pure: `HorizontalAutoscaler.look` is one reconcileAutoscaler() of pkg/controller/podautoscaler v1.34.2 (horizontal.go,
replica_calculator.go). Ratios are compared as whole numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

UP_FACTOR: Final = 2
UP_LEAST: Final = 4
"""One look grows the number to twice itself, or to 4 (scaleUpLimitFactor, scaleUpLimitMinimum)."""
TOLERANCE_PARTS: Final = 10
"""A ratio within 1/10 of 1 changes nothing (--horizontal-pod-autoscaler-tolerance)."""
Form = Literal["Value", "AverageValue"]


def wanted(form: Form, usage: int, target: int, current: int, pods: int, ready: int) -> int:
    """Replicas that the metric asks for.

    Value: GetExternalMetricReplicas(), ready pods times the ratio; a set at 0 takes the ratio itself. AverageValue:
    GetExternalPerPodMetricReplicas(), the metric over the target. current: spec.replicas; pods: those that exist.
    """
    if form == "Value":
        if current == 0:
            return -(-usage // target)
        if within(usage, target):
            return current
        return -(-usage * ready // target)
    if pods and within(usage, target * pods):
        return pods
    return -(-usage // target)


def within(usage: int, target: int) -> bool:
    """abs(usage / target - 1) <= 0.1."""
    return TOLERANCE_PARTS * abs(usage - target) <= target


@dataclass(slots=True)
class HorizontalAutoscaler:
    """One object's state between looks."""

    form: Form
    target: int
    least: int
    most: int
    stabilization_ns: int
    _recommended: list[tuple[int, int]] = field(default_factory=list)
    """(time, replicas) of the looks in the window."""

    def look(self, now_ns: int, usage: int | None, current: int, pods: int, ready: int) -> int:
        """spec.replicas after this look. usage None: the metric could not be read, nothing changes."""
        if current == 0 and self.least != 0:
            return 0  # ScalingDisabled
        if current > self.most:
            return self.most
        if current < self.least:
            return self.least
        if usage is None:
            return current
        asked = wanted(self.form, usage, self.target, current, pods, ready)
        stable = self._stabilized(now_ns, asked)
        ceiling = min(self.most, max(UP_FACTOR * current, UP_LEAST))
        return max(self.least, min(stable, ceiling))

    def _stabilized(self, now_ns: int, asked: int) -> int:
        """stabilizeRecommendation(): the highest one of the window."""
        since_ns = now_ns - self.stabilization_ns
        self._recommended = [(at_ns, many) for at_ns, many in self._recommended if at_ns >= since_ns]
        self._recommended.append((now_ns, asked))
        return max(many for _, many in self._recommended)
