"""The log-normal law of measured spans, as worlds/pod_durations.py has those that no quiet run shows."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def log_normal(each_ms: Sequence[float], digits: int = 1, least_ms: float = 0.001) -> tuple[float | None, float | None]:
    """(median in ms, sigma of the logarithm): None without a span, and a sigma needs two.

    least_ms: what a span counts as that is shorter; a stamp that is cut may say 0.
    """
    median = round(statistics.median(each_ms), digits) if each_ms else None
    logs = [math.log(max(ms, least_ms)) for ms in each_ms]
    return median, round(statistics.stdev(logs), 3) if len(logs) > 1 else None
