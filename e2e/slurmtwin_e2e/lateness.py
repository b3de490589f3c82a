"""How late the host ran its processes during a run, and how late is too late to be kept.

A thread in the container sleeps half a simulated second again and again; what a sleep takes beyond that is the host's
lateness, in simulated time. slurmctld decides in whole seconds: half a second now and then moves a decision by one
step of its loop, as k = 1 runs do among themselves.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

MILLI: Final = 1_000_000
P99_LIMIT_MS: Final = 500.0
MAX_LIMIT_MS: Final = 5000.0


@dataclass(frozen=True, slots=True)
class Lateness:
    """Of one run, in simulated milliseconds."""

    median_ms: float
    p99_ms: float
    max_ms: float

    def to_dict(self) -> dict[str, float]:
        """Keys of manifest.resources."""
        return {"late_median_ms": self.median_ms, "late_p99_ms": self.p99_ms, "late_max_ms": self.max_ms}

    @property
    def excess(self) -> str:
        """Which bound is broken and by what; empty when the run may be kept."""
        for name, value, limit in (("p99", self.p99_ms, P99_LIMIT_MS), ("maximum", self.max_ms, MAX_LIMIT_MS)):
            if value > limit:
                return f"{name} of the host's lateness is {value:.0f} ms, more than {limit:.0f} ms of simulated time"
        return ""


def lateness_of(notes: Iterable[dict[str, Any]]) -> Lateness | None:
    """What the driver noted; None when it did not come that far."""
    for note in notes:
        if note["what"] == "lateness":
            values = (round(note[f"{name}_ns"] / MILLI, 1) for name in ("median", "p99", "max"))
            return Lateness(*values)
    return None
