"""What the judge is given of one recorded repetition: its marks, and its replications' times.

Times are arrays [replication, phase, start or end] of ns (measurement.times_of), the phases in the scenario's order.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from slurmtwin_reports.faults.milestones import Marks

if TYPE_CHECKING:
    import numpy as np

    Times = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Repetition:
    """One recorded run beside the twin runs made from its own starts."""

    recorded: tuple[Marks, ...]
    epoch_ns: int
    base: Times
    """As the scenario says, calibrated durations bootstrapped."""
    still: Times | None = None
    """Calibrated durations at their medians (sharpness)."""
    own: Times | None = None
    """As base, with random streams that no other repetition shares: the pool of the joint test, where there are any."""
    changed: Mapping[tuple[str, float], Times] = field(default_factory=dict)
    """(parameter, 0.5 or 2) -> times with that parameter halved or doubled (power)."""
    name: str = ""
    """Of the recording's folder."""
