"""When which object is looked at, by client-go's rules: each key once at a time, the earliest wish wins, back-off.

A plain data structure: times in ns come from the caller, waiting is the caller's.
"""

from __future__ import annotations

from typing import Final

from slurmtwin_operator.shell.cache import Key

MILLI: Final = 1_000_000
SECOND: Final = 1_000_000_000


class WorkQueue:
    """Keys with the time at which they are due. Back-off doubles from base to cap with each failure of a key."""

    def __init__(self, base_ms: int, cap_s: int) -> None:
        self._base, self._cap = base_ms * MILLI, cap_s * SECOND
        self._due: dict[Key, int] = {}
        self._running: set[Key] = set()
        self._failures: dict[Key, int] = {}

    def __len__(self) -> int:
        return len(self._due)

    @property
    def running(self) -> int:
        """Keys that are being looked at."""
        return len(self._running)

    def add(self, key: Key, at_ns: int) -> None:
        """Look at the key at that time, or before if somebody wished so."""
        self._due[key] = min(at_ns, self._due.get(key, at_ns))

    def next_ns(self) -> int | None:
        """When the next key may be taken; None: there is none."""
        return min((at for key, at in self._due.items() if key not in self._running), default=None)

    def due_ns(self, key: Key) -> int | None:
        """When this key may be taken; None: it does not wait."""
        return self._due.get(key)

    def take(self, now_ns: int) -> Key | None:
        """The key that has been due longest and is not being looked at; it is ours until done()."""
        ready = [(at, key) for key, at in self._due.items() if at <= now_ns and key not in self._running]
        if not ready:
            return None
        _, key = min(ready)
        del self._due[key]
        self._running.add(key)
        return key

    def done(self, key: Key, now_ns: int, again_ns: int) -> None:
        """It was looked at well; look again after so long (negative: never, it is gone)."""
        self._running.discard(key)
        self._failures.pop(key, None)
        if again_ns >= 0:
            self.add(key, now_ns + again_ns)

    def failed(self, key: Key, now_ns: int) -> int:
        """It went wrong; it waits for its back-off whatever else woke it. Returns the pause in ns."""
        self._running.discard(key)
        count = self._failures.get(key, 0)
        self._failures[key] = count + 1
        pause = min(self._cap, self._base << min(count, 40))
        self._due[key] = now_ns + pause
        return pause
