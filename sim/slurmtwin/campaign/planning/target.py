"""A target such as `p95 wait < 1h`, `mean wait of 1 CPU < 10m`, and the waits it is held against."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from slurmtwin.campaign.planning.interval import used_up
from slurmtwin.contract.clock import SECOND, format_duration, parse_duration
from slurmtwin.contract.errors import InputError

if TYPE_CHECKING:
    from slurmtwin.campaign.planning.trace_jobs import TraceColumns

_FORM = re.compile(r"(mean|median|p(\d{1,2}(?:\.\d{1,2})?))\s+wait(?:\s+of\s+(.+?))?\s*<\s*(\S+)\Z")
SIZES: Final = ((1, "1 CPU"), (8, "2-8 CPUs"), (64, "9-64 CPUs"), (512, "65-512 CPUs"))
"""The classes of jobs by CPUs asked for, as the reports have them; beyond them OVER."""
SHOWN: Final = (("median", 0.5), ("p95", 0.95), ("p99", 0.99))
OVER: Final = "over 512 CPUs"


@dataclass(frozen=True, slots=True)
class Target:
    """One bound on one figure of the waits."""

    text: str
    quantile: float | None
    """None: the mean."""
    group: str
    """The class it is about; "": all jobs."""
    bound_s: float

    def figure(self, waits_s: Any, classes: Any) -> float:
        """The figure in seconds; NaN when the class has no job. A job that never starts waits for ever."""
        chosen = self._mine(waits_s, classes)
        if not chosen.size:
            return float("nan")
        return float(chosen.mean()) if self.quantile is None else quantile(chosen, self.quantile)

    def used(self, waits_s: Any, classes: Any) -> float:
        """What of the target is used up, below 1 where it is met; NaN when the class has no job."""
        return used_up(self._mine(waits_s, classes), self.quantile, self.bound_s)

    def _mine(self, waits_s: Any, classes: Any) -> Any:
        return waits_s[classes == self.group] if self.group else waits_s

    def met(self, waits_s: Any, classes: Any) -> bool:
        """Whether the figure is below the bound; a class without jobs meets anything."""
        found = self.figure(waits_s, classes)
        return bool(np.isnan(found)) or found < self.bound_s


def quantile(values: Any, share: float) -> float:
    """Linear between order statistics (type 7); infinite as soon as an infinite one has a part in it."""
    ordered = np.sort(values)
    place = share * (ordered.size - 1)
    low = int(place)
    rest = place - low
    if rest == 0:
        return float(ordered[low])
    if np.isinf(ordered[low + 1]):
        return float("inf")
    return float(ordered[low] + rest * (ordered[low + 1] - ordered[low]))


def parse_target(text: str) -> Target:
    """The target in a text. Raises InputError with the forms that there are."""
    found = _FORM.match(" ".join(text.split()))
    hint = "'p95 wait < 1h', 'mean wait < 10m', 'median wait of 1 CPU < 5m'"
    if not found:
        raise InputError(f"not a target: {text!r}", hint=hint)
    word, percent, group, bound = found.groups()
    share = None if word == "mean" else 0.5 if word == "median" else float(percent) / 100
    if share is not None and not 0 < share < 1:
        raise InputError(f"no percentile: {word}", hint=hint)
    bound_ns = parse_duration(bound)
    if bound_ns <= 0:
        raise InputError(f"a bound above 0 is needed: {bound!r}", hint=hint)
    names = [name for _, name in SIZES] + [OVER]
    if group and group not in names:
        raise InputError(f"no class {group!r}", hint=f"the classes are {', '.join(names)}")
    name = f"{word} wait{f' of {group}' if group else ''} < {format_duration(bound_ns)}"
    return Target(name, share, group or "", bound_ns / SECOND)


def classes_of(columns: TraceColumns) -> Any:
    """The size class of each job."""
    asked = columns.total_cpus
    names = np.full(len(columns), OVER, dtype=object)
    for most, name in reversed(SIZES):
        names[asked <= most] = name
    return names


def wait_table(waits_s: Any, classes: Any) -> list[dict[str, Any]]:
    """Per class and over all: jobs, mean, median, p95 and p99 of the waits in seconds, and who never started."""
    rows = []
    order = ["all", *[name for _, name in SIZES], OVER]
    for name in order:
        chosen = waits_s if name == "all" else waits_s[classes == name]
        if not chosen.size:
            continue
        started = chosen[np.isfinite(chosen)]
        rows.append({
            "class": name, "jobs": int(chosen.size), "never": int(chosen.size - started.size),
            "mean_s": float(started.mean()) if started.size else None,
            **{f"{word}_s": _finite(quantile(chosen, share)) for word, share in SHOWN},
        })  # fmt: skip
    return rows


def _finite(value: float) -> float | None:
    return value if np.isfinite(value) else None
