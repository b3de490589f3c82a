"""One open watch: changes of a kind, in order, each a delay later."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Protocol

from slurmtwin.engine.daemon_clock import DaemonClock

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.api_server.objects import Object, Pod

ADDED: Final = "ADDED"
MODIFIED: Final = "MODIFIED"
DELETED: Final = "DELETED"


class Handler(Protocol):
    """Who watches."""

    def happened(self, verb: str, item: Object) -> None:
        """An object was ADDED, MODIFIED or DELETED (its last version)."""
        ...

    def broken(self) -> None:
        """The connection ended; nothing more comes."""
        ...


Wanted = Callable[["str", "Any", "Any"], bool]
"""Says of a change (verb, the object before or None, the object) whether it can matter to who watches; what cannot
never arrives, so it costs nothing. Caches read nothing that it leaves out.
"""


def more_than_marks(verb: str, old: Pod | None, new: Pod) -> bool:
    """Something of a pod beside labels and annotations changed."""
    if verb != MODIFIED or old is None:
        return True
    before, now = old.meta, new.meta
    return (
        old.spec is not new.spec or old.status is not new.status
        or before.uid != now.uid or before.deletion_ns != now.deletion_ns or before.grace_ns != now.grace_ns
        or before.finalizers != now.finalizers or before.owner != now.owner
    )  # fmt: skip


def more_than_marks_of_running(verb: str, old: Pod | None, new: Pod) -> bool:
    """As above, or marks of a pod that waits: one whose containers all run is synced by them in vain."""
    return more_than_marks(verb, old, new) or waits(new)


def waits(pod: Pod) -> bool:
    """It is bound, and a container does not run: by other labels or annotations its kubelet tries once more.

    (config.go podsDifferSemantically().)
    """
    containers = pod.status.containers
    return pod.spec.node_name != "" and not (containers and all(one.running_ns is not None for one in containers))


def changed_labels(old: Object, new: Object) -> set[str]:
    """Names of labels whose value is another one."""
    before, now = old.meta.labels, new.meta.labels
    return {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}


class Watch:
    """A connection of a process (its clock); while it is `held` (a cut network) what comes waits in order."""

    __slots__ = ("_armed", "_delay", "_due", "_env", "_handler", "_last_ns", "_process", "_wanted", "held", "open")

    def __init__(
        self, clock: Clock, handler: Handler, delay: Callable[[], int] | None, wanted: Wanted | None = None
    ) -> None:
        env = clock.environment
        self._process = clock if isinstance(clock, DaemonClock) else None
        """Whose watch it is; None: nobody's that could die."""
        self._env = env
        self._handler = handler
        self._delay = delay
        self._wanted = wanted
        self._due: deque[tuple[int, str, Object]] = deque()
        self._last_ns = env.now_ns
        self._armed = False
        self.held = False
        self.open = True

    def push(self, verb: str, old: Object | None, item: Object) -> None:
        """The server has a change for it: it arrives a delay later, never before an earlier one."""
        if self._wanted is not None and not self._wanted(verb, old, item):
            return
        now_ns = self._env.now_ns
        at_ns = now_ns if self._delay is None else max(now_ns + self._delay(), self._last_ns)
        self._last_ns = at_ns
        self._due.append((at_ns, verb, item))
        if not self._armed and not self.held:
            self._armed = True
            self._env.call_at(at_ns, self._arrive, None, 0, self._process)

    def _arrive(self, _argument: object) -> None:
        self._armed = False
        due, now_ns = self._due, self._env.now_ns
        while due and not self.held and self.open and due[0][0] <= now_ns:
            _, verb, item = due.popleft()
            self._handler.happened(verb, item)
        if due and not self._armed and not self.held and self.open:
            self._armed = True
            self._env.call_at(max(due[0][0], self._env.now_ns), self._arrive, None, 0, self._process)

    def hold(self) -> None:
        """Nothing gets through until release()."""
        self.held = True

    def release(self) -> None:
        """What waited arrives now, in order."""
        self.held = False
        if self._due and self.open and not self._armed:
            self._armed = True
            self._env.call_at(max(self._due[0][0], self._env.now_ns), self._arrive, None, 0, self._process)

    def close(self) -> None:
        """The client's end: nothing more arrives, nobody is told."""
        self.open = False
        self._due.clear()

    def break_off(self) -> None:
        """The server's end."""
        if self.open:
            self.close()
            self._handler.broken()
