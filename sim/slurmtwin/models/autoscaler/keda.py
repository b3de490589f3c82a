"""KEDA's own part: from 0 to 1 when something is asked for, to 0 a while after nothing was (kubernetes.md 6.28).

Between, a HorizontalPodAutoscaler that KEDA makes decides. Source: KEDA ScaledObject specification (pollingInterval 30,
cooldownPeriod 300, minReplicaCount 0), pkg/scaling/executor scale_scaledobjects.go RequestScale(); a Prometheus query
without a result counts as 0 (trigger option ignoreNullValues, true by default).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Activation:
    """One ScaledObject's state between polls."""

    least: int
    cooldown_ns: int
    _active_ns: int = 0
    """When something was asked for the last time."""

    def look(self, now_ns: int, usage: int | None, current: int) -> int:
        """spec.replicas after this poll. usage None: the query has no result."""
        if usage:
            self._active_ns = now_ns
            return max(1, self.least) if current == 0 else current
        if current > 0 and self.least == 0 and now_ns - self._active_ns >= self.cooldown_ns:
            return 0
        return current
