"""Exponential back-off per key, as the kubelet keeps it for containers and for images (kubernetes.md 2.9 to 2.12).

Follows client-go util/flowcontrol/backoff.go and kuberuntime_manager.go doBackOff(), v0.34.2 and v1.34.2. Times are
nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slurmtwin.models.kubelet.defaults import KubeletDefaults


@dataclass(slots=True)
class _Entry:
    delay_ns: int
    moved_ns: int
    """When it was last advanced: the last start that was allowed."""


class BackOff:
    """Delays of many keys: base, 2 base, 4 base ... most.

    A first failure has no entry, so it never waits (kubernetes.md 2.9).
    """

    def __init__(self, base_ns: int, most_ns: int, reset_ns: int) -> None:
        self._base_ns = min(base_ns, most_ns)
        self._most_ns = most_ns
        self._reset_ns = reset_ns
        self._entries: dict[str, _Entry] = {}

    @classmethod
    def of(cls, defaults: KubeletDefaults) -> BackOff:
        """As a kubelet with these defaults keeps it."""
        return cls(defaults.back_off_base_ns, defaults.back_off_most_ns, defaults.back_off_reset_ns)

    def delay_ns(self, key: str) -> int:
        """The present delay of a key; 0 when it has none."""
        entry = self._entries.get(key)
        return entry.delay_ns if entry is not None else 0

    def rest_ns(self, key: str, event_ns: int, now_ns: int) -> int:
        """How long a start must still wait, given the event (the container's end); 0: it may start now."""
        entry = self._entries.get(key)
        if entry is None or event_ns - entry.moved_ns > self._reset_ns:
            return 0
        return max(0, event_ns + entry.delay_ns - now_ns)

    def rest_since_last_ns(self, key: str, now_ns: int) -> int:
        """How long a try must still wait, counted from the last failure (images: IsInBackOffSinceUpdate())."""
        entry = self._entries.get(key)
        if entry is None or now_ns - entry.moved_ns > self._reset_ns:
            return 0
        return max(0, entry.moved_ns + entry.delay_ns - now_ns)

    def advance(self, key: str, event_ns: int, now_ns: int) -> None:
        """A start after that event was allowed: the next one waits longer."""
        entry = self._entries.get(key)
        if entry is None or event_ns - entry.moved_ns > self._reset_ns:
            self._entries[key] = _Entry(self._base_ns, now_ns)
            return
        entry.delay_ns = min(2 * entry.delay_ns, self._most_ns)
        entry.moved_ns = now_ns

    def collect(self, now_ns: int) -> None:
        """Housekeeping (Backoff.GC()): forgets what has not moved for the reset time, even while somebody waits."""
        stale = [key for key, entry in self._entries.items() if now_ns - entry.moved_ns > self._reset_ns]
        for key in stale:
            del self._entries[key]


def wake_range_ns(rest_ns: int, exact_wake: bool, error_retry_ns: tuple[int, int]) -> tuple[int, int]:
    """When a pod that waits is synced again: a uniform draw from this range (kubernetes.md 2.12)."""
    if not exact_wake:
        return error_retry_ns
    rest_ns = min(rest_ns, 60_000_000_000)
    return rest_ns, rest_ns + rest_ns // 2
