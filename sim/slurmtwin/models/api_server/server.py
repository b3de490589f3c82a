"""What etcd and the API server hold: objects with versions, graceful deletion, watches.

Sources: apiserver registry/generic/registry/store.go, registry/rest/{create,update,delete}.go, pkg/registry/core/pod/
strategy.go (v1.34). Methods act at once, at the server; a Client adds the way there and back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from slurmtwin.engine.records import changed
from slurmtwin.models.api_server.errors import (
    AlreadyExistsError,
    ConflictError,
    InvalidError,
    NotFoundError,
    UnreachableError,
)
from slurmtwin.models.api_server.heartbeats import Heartbeats
from slurmtwin.models.api_server.objects import KINDS, AnyObject, Custom, KubeEvent, Meta, Object, Pod, key_of
from slurmtwin.models.api_server.watch import ADDED, DELETED, MODIFIED, Handler, Wanted, Watch

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.engine.environment import Environment
    from slurmtwin.models.api_server.bursts import Bursts

Admission = Callable[[Any], Any]
"""Changes or refuses (InvalidError) an object that is created."""


class ApiServer:
    """The server and its store."""

    def __init__(
        self, env: Environment, watch_delay: Callable[[], int] | None = None, removal: Callable[[], int] = lambda: 0
    ) -> None:  # fmt: skip
        self.env = env
        self.up = True
        self.bursts: list[Bursts] = []
        """While the server is slow."""
        self.resource_version = 0
        self.writes = 0
        """Changes so far, for tests and figures."""
        self.heartbeats = Heartbeats()
        self.on_write: list[Callable[[str, Any, Any], None]] = []
        """Told of every change as it is made: verb, old object or None, new one (DELETED: the last)."""
        self.on_stamp: list[Callable[[Any], None]] = []
        """Told of what a kubelet dates before the server knows (collector.py Fact)."""
        self.on_life: list[Callable[[bool], None]] = []
        """Told when the server goes (False) and serves again (True)."""
        self.admissions: list[tuple[type, Admission]] = []
        self._objects: dict[type, dict[str, Any]] = {kind: {} for kind in KINDS}
        self._watches: dict[type, list[Watch]] = {kind: [] for kind in KINDS}
        self._node_watches: dict[tuple[type, str], list[Watch]] = {}
        self._watch_delay = watch_delay
        self._removal = removal
        """From the mark of a deletion without grace until the object is gone, ns."""
        self._uids = 0

    # reads

    def get(self, kind: type[AnyObject], key: str) -> AnyObject:
        """The object. Raises NotFoundError."""
        found = self._objects[kind].get(key)
        if found is None:
            raise NotFoundError(f"{kind.__name__} {key}")
        return cast(AnyObject, found)

    def find(self, kind: type[AnyObject], key: str) -> AnyObject | None:
        """The object, or None."""
        return cast("AnyObject | None", self._objects[kind].get(key))

    def list_of(self, kind: type[AnyObject], node: str | None = None) -> list[AnyObject]:
        """All objects of a kind in order of creation; node: only pods bound there."""
        found = self._objects[kind].values()
        return [item for item in found if node is None or item.spec.node_name == node]

    # writes

    def create(self, item: AnyObject) -> AnyObject:
        """Store a new object. Raises AlreadyExistsError, also while the old one of that name is being deleted."""
        kind, key = type(item), key_of(item)
        for applies, admit in self.admissions:
            if applies is kind:
                item = admit(item)
        table = self._objects[kind]
        if key in table:
            raise AlreadyExistsError(f"{kind.__name__} {key}")
        self._uids += 1
        meta = changed(
            item.meta, uid=f"{item.meta.name}.{self._uids}", created_ns=self.env.now_ns, deletion_ns=None, grace_ns=0,
            generation=1, resource_version=self._next(),
        )  # fmt: skip
        item = _with(item, meta=meta)
        table[key] = item
        self._tell(ADDED, None, item)
        return item

    def update(self, item: AnyObject) -> AnyObject:
        """Replace all but the status. Raises ConflictError unless item.meta.resource_version is the current one."""
        current = self._expect(item)
        return self._write(current, _status_of(item, current))

    def update_status(self, item: AnyObject) -> AnyObject:
        """Replace the status alone. Raises ConflictError unless item.meta.resource_version is the current one."""
        current = self._expect(item)
        return self._write(current, _status_of(current, item))

    def patch(
        self, kind: type[AnyObject], key: str, change: Callable[[AnyObject], AnyObject], uid: str = ""
    ) -> AnyObject:
        """Change whatever is there now: no version is asked for. uid: only that object, else ConflictError."""
        current = self.get(kind, key)
        if uid and current.meta.uid != uid:
            raise ConflictError(f"{kind.__name__} {key} is not {uid}")
        return self._write(current, change(current))

    def _expect(self, item: AnyObject) -> AnyObject:
        current = self.get(type(item), key_of(item))
        if current.meta.resource_version != item.meta.resource_version:
            raise ConflictError(f"{type(item).__name__} {key_of(item)} was changed meanwhile")
        return current

    def _write(self, current: AnyObject, item: AnyObject) -> AnyObject:
        """Nothing changes when nothing differs: no version, no watch event (store.go GuaranteedUpdate())."""
        if item is current or item == current:
            return current
        meta, version = item.meta, self._next()
        if _spec_differs(current, item):
            meta = changed(meta, resource_version=version, generation=current.meta.generation + 1)
        else:
            meta = changed(meta, resource_version=version)
        item = _with(item, meta)
        if meta.deletion_ns is not None and not meta.finalizers and meta.grace_ns == 0:
            return self._remove(item)
        self._objects[type(item)][key_of(item)] = item
        self._tell(MODIFIED, current, item)
        return item

    # deletion

    def delete(self, kind: type[AnyObject], key: str, grace_ns: int | None = None, uid: str = "") -> AnyObject:
        """Delete, or begin to (registry/rest/delete.go BeforeDelete()).

        A pod keeps grace_ns (None: its own) unless it is unscheduled or finished; a second request can only shorten
        it; the kubelet's last request has grace 0. A pod that is to go at once is marked first, and removed by a second
        write (store.go Delete()). Finalizers hold any object. Returns the object as it is now, or was.
        """
        current = self.get(kind, key)
        if uid and current.meta.uid != uid:
            raise ConflictError(f"{kind.__name__} {key} is not {uid}")
        grace = _grace(current, grace_ns)
        meta = current.meta
        if meta.deletion_ns is not None and (grace >= meta.grace_ns and grace > 0):
            return current
        forced = kind is Pod and grace_ns == 0 and meta.deletion_ns is None and bool(_grace(current, None))
        if grace == 0 and not meta.finalizers and not forced:
            return self._remove(current)
        if meta.deletion_ns is not None and grace == meta.grace_ns:
            return current
        began_ns = self.env.now_ns if meta.deletion_ns is None else meta.deletion_ns - meta.grace_ns
        marked = changed(
            meta, deletion_ns=began_ns + grace, grace_ns=grace, resource_version=self._next(),
            generation=meta.generation + (meta.deletion_ns is None),
        )  # fmt: skip
        item: AnyObject = _with(current, marked)
        self._objects[kind][key] = item
        self._tell(MODIFIED, current, item)
        if forced and not meta.finalizers:
            delay_ns = self._removal()
            if not delay_ns:
                return self._remove(item)
            self.env.call_at(self.env.now_ns + delay_ns, self._remove_marked, item)
        return item

    def _remove_marked(self, marked: Any) -> None:
        """The second write, unless somebody else was first."""
        current = self.find(type(marked), marked.meta.key)
        if current is not None and current.meta.uid == marked.meta.uid:
            self._remove(current)

    def _remove(self, item: AnyObject) -> AnyObject:
        del self._objects[type(item)][key_of(item)]
        self.resource_version += 1
        self._tell(DELETED, item, item)
        return item

    # watches

    def watch(
        self, kind: type[AnyObject], handler: Handler, node: str | None = None, clock: Clock | None = None,
        wanted: Wanted | None = None,
    ) -> Watch:  # fmt: skip
        """Changes from now on, each a watch delay late and in order; node: only pods bound there.

        clock: of the process that watches; it hears nothing while frozen. The server's end: handler.broken().
        """
        watch = Watch(clock or self.env, handler, None if self._watch_delay is None else self._heard_ns, wanted)
        if node is None:
            self._watches[kind].append(watch)
        else:
            self._node_watches.setdefault((kind, node), []).append(watch)
        return watch

    def _tell(self, verb: str, old: AnyObject | None, new: AnyObject) -> None:
        self.writes += 1
        kind = type(new)
        for written in self.on_write:
            written(verb, old, new)
        for watch in self._watches[kind]:
            watch.push(verb, old, new)
        if kind is Pod and new.spec.node_name:  # type: ignore[union-attr]
            told = self._node_watches.get((kind, new.spec.node_name), ())  # type: ignore[union-attr]
            appears = verb == MODIFIED and old is not None and not old.spec.node_name  # type: ignore[union-attr]
            for watch in told:
                watch.push(ADDED if appears else verb, old, new)

    def _heard_ns(self) -> int:
        assert self._watch_delay is not None
        return self.took_ns(self._watch_delay())

    def _all_watches(self) -> Iterator[list[Watch]]:
        yield from self._watches.values()
        yield from self._node_watches.values()

    def forget(self, watch: Watch) -> None:
        """The client has closed it."""
        watch.close()
        for watches in self._all_watches():
            if watch in watches:
                watches.remove(watch)

    # life

    def stop(self) -> None:
        """The server is gone: requests are refused, watches break; the store stays."""
        if not self.up:
            return
        self.up = False
        for told in self.on_life:
            told(False)
        for watches in self._all_watches():
            broken, watches[:] = list(watches), []
            for watch in broken:
                watch.break_off()

    def start(self) -> None:
        """It serves again."""
        if not self.up:
            self.up = True
            for told in self.on_life:
                told(True)

    def slow(self, bursts: Bursts) -> None:
        """From now on it runs in these bursts."""
        self.bursts.append(bursts)

    def quick(self, bursts: Bursts) -> None:
        """They end; what waits is served when it runs again."""
        bursts.end(self.env.now_ns)
        assert bursts.until_ns is not None
        self.env.call_at(bursts.until_ns, self.bursts.remove, bursts)

    def took_ns(self, work_ns: int) -> int:
        """How long something takes from now on that takes work_ns while the server runs."""
        if not self.bursts:
            return work_ns
        now_ns = self.env.now_ns
        return max(bursts.done_ns(now_ns, work_ns) for bursts in self.bursts) - now_ns

    def check(self) -> None:
        """Raises UnreachableError when the server is down."""
        if not self.up:
            raise UnreachableError("connection refused")

    def note(self, event: KubeEvent) -> None:
        """An Event object is written. Nobody in the twin reads one, so it is told and not kept."""
        for written in self.on_write:
            written(ADDED, None, event)

    def stamp(self, fact: Any) -> None:
        """Something that an object will tell later happens now: a row of the event table, where one is written."""
        for stamped in self.on_stamp:
            stamped(fact)

    def _next(self) -> int:
        self.resource_version += 1
        return self.resource_version


def _with(item: Any, meta: Meta) -> Any:
    return Pod(meta=meta, spec=item.spec, status=item.status) if type(item) is Pod else changed(item, meta=meta)


_FLAT_STATUS = {"Claim": ("phase",), "DisruptionBudget": ("allowed", "healthy", "desired", "expected", "disrupted",
                "observed_generation"), "VolumeAttachment": ("attached",)}  # fmt: skip
"""Status fields of the kinds that have no `status`."""


def _status_of(item: AnyObject, status: AnyObject) -> AnyObject:
    """`item` with the status of another version of it."""
    if hasattr(item, "status"):
        newer: Any = status
        return item if item.status is newer.status else cast(AnyObject, changed(cast(Any, item), status=newer.status))
    fields = _FLAT_STATUS.get(type(item).__name__, ())
    return changed(item, **{name: getattr(status, name) for name in fields}) if fields else item


def _spec_differs(old: Object, new: Object) -> bool:
    """Whether generation grows: something beside metadata and status changed."""
    if type(old) is Pod or type(old) is Custom:
        return old.spec is not new.spec and old.spec != new.spec  # type: ignore[union-attr]
    if hasattr(old, "spec"):
        return bool(old.spec != new.spec)  # type: ignore[union-attr]
    if hasattr(old, "status"):
        return bool(changed(old, meta=new.meta, status=new.status) != new)  # type: ignore[union-attr]
    return False


def _grace(item: Object, asked_ns: int | None) -> int:
    """Grace that a deletion gets (pod/strategy.go CheckGracefulDelete())."""
    if type(item) is not Pod:
        return 0
    if asked_ns is not None and asked_ns < 0:
        raise InvalidError("a grace period below zero")
    grace = item.spec.grace_ns if asked_ns is None else asked_ns
    if not item.spec.node_name or item.finished:
        return 0
    return grace


__all__ = ["Admission", "ApiServer"]
