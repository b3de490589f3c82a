"""Node-pressure eviction: thresholds, conditions, and the pod that has to go (kubernetes.md 2.15, 2.16).

Pure: `EvictionState.look` is one pass of pkg/kubelet/eviction/eviction_manager.go synchronize(), v1.34.2. Sizes are
bytes, times nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import ROUND_DOWN, Decimal
from typing import Final

from slurmtwin.contract.clock import SECOND, parse_duration
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.quantity import parse_quantity
from slurmtwin.models.kubelet.quality_of_service import CRITICAL_PRIORITY, QosClass

CONDITION: Final[Mapping[str, str]] = {
    "memory.available": "MemoryPressure",
    "allocatableMemory.available": "MemoryPressure",
    "nodefs.available": "DiskPressure",
    "nodefs.inodesFree": "DiskPressure",
    "imagefs.available": "DiskPressure",
    "imagefs.inodesFree": "DiskPressure",
    "pid.available": "PIDPressure",
}
"""helpers.go signalToNodeCondition. A node taint of the same name follows from the condition."""
RESOURCE: Final[Mapping[str, str]] = {
    "memory.available": "memory",
    "allocatableMemory.available": "memory",
    "nodefs.available": "ephemeral-storage",
    "nodefs.inodesFree": "inodes",
    "imagefs.available": "ephemeral-storage",
    "imagefs.inodesFree": "inodes",
    "pid.available": "pids",
}
HARD_GRACE_NS: Final = SECOND
"""eviction_manager.go immediateEvictionGracePeriodSeconds."""


@dataclass(frozen=True, slots=True)
class Threshold:
    """`signal` below `amount` (absolute) or below `part` of the capacity, for `grace_ns` (0: hard)."""

    signal: str
    amount: int = 0
    part: Decimal | None = None
    grace_ns: int = 0
    reclaim: int = 0
    """evictionMinimumReclaim: once met, it stays met until so much more is free."""

    def value(self, capacity: int) -> int:
        """Bytes, inodes or processes (api/types.go GetThresholdQuantity())."""
        if self.part is None:
            return self.amount
        return int((self.part * capacity).to_integral_value(rounding=ROUND_DOWN))


@dataclass(frozen=True, slots=True)
class Observation:
    """What a node has of one signal."""

    available: int
    capacity: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PodUse:
    """A pod as the eviction manager ranks it. disk: writable layers, logs and emptyDir on disk together."""

    uid: str
    priority: int = 0
    quality: QosClass = "Burstable"
    memory: int = 0
    asked_memory: int = 0
    disk: int = 0
    asked_disk: int = 0
    inodes: int = 0
    processes: int = 0
    grace_ns: int = 30 * SECOND
    over_local_limit: bool = False
    """An emptyDir is over its sizeLimit, or the pod or a container over its ephemeral-storage limit."""

    @property
    def critical(self) -> bool:
        """Never evicted (kubelet/types/pod_update.go IsCriticalPod())."""
        return self.priority >= CRITICAL_PRIORITY


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that is killed now, and how long it is given."""

    uid: str
    grace_ns: int
    resource: str


@dataclass(frozen=True, slots=True)
class Look:
    """What one pass decided."""

    evictions: tuple[Eviction, ...]
    conditions: tuple[str, ...]
    """Pressure conditions of the node, by name."""


@dataclass(slots=True)
class EvictionState:
    """What the manager remembers between passes."""

    thresholds: tuple[Threshold, ...]
    transition_ns: int
    most_grace_ns: int = 0
    """evictionMaxPodGracePeriod, for soft thresholds."""
    conditions: tuple[str, ...] = ()
    _met: tuple[Threshold, ...] = ()
    _first_ns: dict[Threshold, int] = field(default_factory=dict)
    _condition_ns: dict[str, int] = field(default_factory=dict)

    def look(
        self, now_ns: int, observed: Mapping[str, Observation], pods: Sequence[PodUse],
        reclaimed: Mapping[str, Observation] | None = None,
    ) -> Look:  # fmt: skip
        """One pass: at most one pod for a node's pressure; every pod that is over a limit of its own.

        reclaimed: what would be free after unused containers and images were removed (disk signals only).
        """
        met = [t for t in self.thresholds if _met(t, observed)]
        met += [t for t in self._met if t not in met and _met(t, observed, with_reclaim=True)]
        self._first_ns = {t: self._first_ns.get(t, now_ns) for t in met}
        for threshold in met:
            self._condition_ns[CONDITION[threshold.signal]] = now_ns
        self.conditions = tuple(
            sorted(name for name, at_ns in self._condition_ns.items() if now_ns - at_ns < self.transition_ns)
        )
        due = [t for t in met if now_ns - self._first_ns[t] >= t.grace_ns]
        self._met = tuple(due)
        local = tuple(Eviction(p.uid, HARD_GRACE_NS, "local") for p in pods if p.over_local_limit and not p.critical)
        if local or not due:
            return Look(local, self.conditions)
        threshold = next((t for t in due if RESOURCE[t.signal] == "memory"), due[0])
        if reclaimed is not None and RESOURCE[threshold.signal] in ("ephemeral-storage", "inodes"):
            after = {**observed, **reclaimed}
            if not any(_met(t, after, with_reclaim=True) for t in self.thresholds):
                return Look((), self.conditions)
        chosen = next((pod for pod in rank(pods, threshold.signal) if not pod.critical), None)
        if chosen is None:
            return Look((), self.conditions)
        grace_ns = HARD_GRACE_NS if not threshold.grace_ns else min(self.most_grace_ns, chosen.grace_ns)
        return Look((Eviction(chosen.uid, grace_ns, RESOURCE[threshold.signal]),), self.conditions)

    def admits(self, quality: QosClass, priority: int, tolerates_memory_pressure: bool = False) -> bool:
        """May a pod begin under the present conditions (eviction_manager.go Admit())? Reason if not: Evicted."""
        if not self.conditions or priority >= CRITICAL_PRIORITY:
            return True
        if self.conditions != ("MemoryPressure",):
            return False
        return quality != "BestEffort" or tolerates_memory_pressure


def rank(pods: Sequence[PodUse], signal: str) -> list[PodUse]:
    """Who goes first: over its request, then lower priority, then most above its request (helpers.go rank...)."""
    resource = RESOURCE[signal]

    def key(pod: PodUse) -> tuple[bool, int, int]:
        if resource == "pids":
            return (False, pod.priority, -pod.processes)
        if resource == "inodes":
            return (pod.inodes == 0, pod.priority, -pod.inodes)
        memory = resource == "memory"
        used = pod.memory if memory else pod.disk
        asked = pod.asked_memory if memory else pod.asked_disk
        return (used <= asked, pod.priority, asked - used)

    return sorted(pods, key=key)


def _met(threshold: Threshold, observed: Mapping[str, Observation], with_reclaim: bool = False) -> bool:
    seen = observed.get(threshold.signal)
    if seen is None:
        return False
    wanted = threshold.value(seen.capacity) + (threshold.reclaim if with_reclaim else 0)
    return seen.available < wanted


def read_thresholds(
    hard: Mapping[str, str], soft: Mapping[str, str], soft_grace: Mapping[str, str], reclaim: Mapping[str, str]
) -> tuple[Threshold, ...]:
    """Thresholds from a KubeletConfiguration's words. Raises InputError for a signal or amount that is none.

    A hard memory.available counts for the node and for what pods may use of it (addAllocatableThresholds()).
    """
    found = [_threshold(signal, text, 0, reclaim) for signal, text in sorted(hard.items())]
    found += [replace(t, signal="allocatableMemory.available") for t in found if t and t.signal == "memory.available"]
    for signal, text in sorted(soft.items()):
        if signal not in soft_grace:
            raise InputError(f"evictionSoft {signal} has no evictionSoftGracePeriod")
        found.append(_threshold(signal, text, parse_duration(soft_grace[signal]), reclaim))
    return tuple(each for each in found if each is not None)


def _threshold(signal: str, text: str, grace_ns: int, reclaim: Mapping[str, str]) -> Threshold | None:
    if signal not in CONDITION:
        raise InputError(f"unknown eviction signal {signal!r}", hint=", ".join(CONDITION))
    more = int(parse_quantity(reclaim[signal])) if signal in reclaim and not reclaim[signal].endswith("%") else 0
    if not text.endswith("%"):
        amount = int(parse_quantity(text))
        if amount <= 0:
            raise InputError(f"eviction threshold {signal} {text!r} must be positive")
        return Threshold(signal, amount, None, grace_ns, more)
    if text in ("0%", "100%"):
        return None  # this turns it off (helpers.go parseThresholdStatement())
    try:
        part = Decimal(text[:-1]) / 100
    except ArithmeticError:
        raise InputError(f"not a percentage: {text!r}") from None
    if not 0 <= part <= 1:
        raise InputError(f"eviction threshold {signal} {text!r} is not between 0% and 100%")
    return Threshold(signal, 0, part, grace_ns, more)
