"""An informer: list, then watch; a cache that lags the store (client-go reflector.go; kubernetes.md 6.7)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Generic

from slurmtwin.contract.clock import MINUTE, MS, SECOND
from slurmtwin.models.api_server.errors import ApiError
from slurmtwin.models.api_server.objects import AnyObject, Custom, Object, key_of
from slurmtwin.models.api_server.watch import DELETED, MODIFIED, Wanted, Watch, more_than_marks

if TYPE_CHECKING:
    from slurmtwin.models.api_server.client import Client

RETRY_FIRST_NS: Final = 800 * MS
RETRY_MOST_NS: Final = 30 * SECOND
RETRY_RESET_NS: Final = 2 * MINUTE

Changed = Callable[[Any, Any], None]
"""changed(old, new): None where the object was not there, or is there no more."""


class Informer(Generic[AnyObject]):
    """A cache of one kind, and who is told of its changes."""

    def __init__(
        self, client: Client, kind: type[AnyObject], changed: Changed | None = None, node: str | None = None,
        wanted: Wanted | None = None,
    ) -> None:  # fmt: skip
        self._client = client
        self._kind = kind
        self._node = node
        self._wanted = wanted
        self._told: list[Changed] = [changed] if changed is not None else []
        self._readers: list[Changed] = list(self._told)
        """Those of them who read labels and annotations."""
        self.cache: dict[str, AnyObject] = {}
        """Key -> object, as far as this process knows."""
        self.version = 0
        """Changes of the cache so far."""
        self.synced = False
        """The first list is in."""
        self.on_synced: list[Callable[[], None]] = []
        self._watch: Watch | None = None
        self._retry_ns = RETRY_FIRST_NS
        self._failed_ns = 0
        self._held = False

    def start(self) -> None:
        """List and watch."""
        self._client.read(self._list, self._listed)

    def tell(self, changed: Changed, marks: bool = True) -> None:
        """One more who is told; marks: also where labels or annotations of a pod alone are other ones."""
        self._told.append(changed)
        if marks:
            self._readers.append(changed)

    def get(self, key: str) -> AnyObject | None:
        """The object as last seen."""
        return self.cache.get(key)

    def __iter__(self) -> Iterator[AnyObject]:
        """The cached objects, in the order in which they were first seen."""
        return iter(list(self.cache.values()))

    def _list(self) -> list[AnyObject]:
        """At the server: the list, and a watch from that version on."""
        watch = self._client.watch(self._kind, self, self._node, self._wanted)
        watch.hold()
        self._watch = watch
        return self._client.server.list_of(self._kind, self._node)

    def _listed(self, answer: Any) -> None:
        if isinstance(answer, ApiError):
            self._again()
            return
        found = {key_of(item): item for item in answer}
        for key in [key for key in self.cache if key not in found]:
            self._changed(self.cache.pop(key), None)
        for key, item in found.items():
            old = self.cache.get(key)
            self.cache[key] = item
            if old is not item:
                self._changed(old, item)
        if not self.synced:
            self.synced = True
            for told in self.on_synced:
                told()
        assert self._watch is not None
        if self._client.connected and not self._held:
            self._watch.release()

    def _changed(self, old: Any, new: Any) -> None:
        self.version += 1
        told = self._told
        if len(told) != len(self._readers) and new is not None and not more_than_marks(MODIFIED, old, new):
            told = self._readers
        for tell in told:
            tell(old, new)

    def happened(self, verb: str, item: Object) -> None:
        """The watch says so."""
        key = key_of(item) if self._kind is Custom else item.meta.key
        if verb == DELETED:
            old = self.cache.pop(key, None)
            if old is not None:
                self._changed(old, None)
            return
        old = self.cache.get(key)
        self.cache[key] = item  # type: ignore[assignment]
        self._changed(old, item)

    def broken(self) -> None:
        """The server has gone: list and watch again."""
        self._watch = None
        self._again()

    def _again(self) -> None:
        clock = self._client.clock
        if clock.now_ns - self._failed_ns > RETRY_RESET_NS:
            self._retry_ns = RETRY_FIRST_NS
        self._failed_ns = clock.now_ns
        wait_ns, self._retry_ns = self._retry_ns, min(2 * self._retry_ns, RETRY_MOST_NS)
        clock.call_in(wait_ns, self._start_again)

    def _start_again(self, _argument: object) -> None:
        self.start()

    def hold(self) -> None:
        """The cache goes stale: the watch lives on, nothing arrives (fault watch.stale)."""
        self._held = True
        if self._watch is not None:
            self._watch.hold()

    def release(self) -> None:
        """The cache catches up."""
        self._held = False
        if self._watch is not None and self._client.connected:
            self._watch.release()
