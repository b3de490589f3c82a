"""Cluster Autoscaler: machines for pods that fit nowhere, and no longer for nobody (kubernetes.md 7; autoscaler FAQ).

Pure rules. Only empty machines are taken away here; one whose few pods would fit elsewhere stays, which the real one
removes below half of its use.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from slurmtwin.contract.clock import MINUTE, SECOND

SCAN_NS: Final = 10 * SECOND
"""--scan-interval."""
PAUSE_NS: Final = 10 * MINUTE
"""--scale-down-delay-after-add: nothing is removed so long after a machine was asked for."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Requests of a pod, or what a machine has for pods: CPU in thousandths, memory in bytes, pods."""

    milli_cpu: int
    memory: int
    pods: int = 1


def machines_needed(waiting: Iterable[Asked], machine: Asked) -> int:
    """First fit, largest CPU request first (binpacking estimator); what no machine holds is left out."""
    free: list[Asked] = []
    for pod in sorted(waiting, key=lambda p: (-p.milli_cpu, -p.memory)):
        if not _fits(pod, machine):
            continue
        for place, room in enumerate(free):
            if _fits(pod, room):
                free[place] = _less(room, pod)
                break
        else:
            free.append(_less(machine, pod))
    return len(free)


def _fits(pod: Asked, room: Asked) -> bool:
    return pod.milli_cpu <= room.milli_cpu and pod.memory <= room.memory and room.pods >= 1


def _less(room: Asked, pod: Asked) -> Asked:
    return Asked(room.milli_cpu - pod.milli_cpu, room.memory - pod.memory, room.pods - 1)


@dataclass(slots=True)
class MachineScaler:
    """What it remembers between scans."""

    least: int
    most: int
    unneeded_ns: int
    _empty_since_ns: dict[str, int] = field(default_factory=dict)
    _added_ns: int | None = None

    def grow(self, now_ns: int, waiting: Iterable[Asked], machine: Asked, there: int, coming: int) -> int:
        """How many machines to ask for. there: those of the group, coming: of them, asked for and not Ready."""
        more = min(max(0, machines_needed(waiting, machine) - coming), self.most - there)
        if more > 0:
            self._added_ns = now_ns
        return max(0, more)

    def shrink(self, now_ns: int, empty: Iterable[str], there: int) -> list[str]:
        """Which empty machines go now, by name."""
        names = sorted(empty)
        self._empty_since_ns = {name: self._empty_since_ns.get(name, now_ns) for name in names}
        if self._added_ns is not None and now_ns - self._added_ns < PAUSE_NS:
            return []
        due = [name for name in names if now_ns - self._empty_since_ns[name] >= self.unneeded_ns]
        return due[: max(0, there - self.least)]
