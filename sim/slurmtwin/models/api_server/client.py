"""A process that talks to the API server: latency, client-side rate limit, a network that may be cut.

Each request reaches the server half its latency after it was sent, and its answer the process as long again, counted
while the server runs. Verbs
take `done(answer)`, called with the object (a list for list_of) or with the ApiError.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.api_server.errors import ApiError, UnreachableError
from slurmtwin.models.api_server.objects import AnyObject, KubeEvent, Meta, Object

if TYPE_CHECKING:
    from slurmtwin.engine.daemon_clock import Clock
    from slurmtwin.models.api_server.server import ApiServer
    from slurmtwin.models.api_server.watch import Handler, Wanted, Watch

Done = Callable[[Any], None]
"""Takes the answer: an object, or an ApiError."""
Request = tuple[int, int, Callable[[], Any], Done | None]
"""How long it takes to the server, and its answer back; what it does there, and who takes the answer."""
DEFAULT_TIMEOUT_NS: Final = 10 * SECOND
Takes = Callable[[], tuple[int, int]]
"""What a request takes to the server, with its work there before the object is changed, and its answer back."""
EVENTS_KEPT: Final = 4096
"""An event that was not among the last so many counts from one again (events_cache.go maxLruCacheEntries)."""


@dataclass(frozen=True, slots=True)
class RateLimit:
    """A token bucket: requests per second and burst (client-go rest.Config; kubernetes.md 6.1)."""

    per_second: float
    burst: int


class Client:
    """One client; its clock is that of its process."""

    def __init__(
        self, server: ApiServer, clock: Clock, latency: Callable[[], int] | None = None,
        limit: RateLimit | None = None, timeout_ns: int = DEFAULT_TIMEOUT_NS, event: Callable[[], int] | None = None,
        takes: Mapping[tuple[str, type], Takes] | None = None,
    ) -> None:  # fmt: skip
        self.server = server
        self.clock = clock
        self._env = clock.environment
        self.timeout_ns = timeout_ns
        """After so long a request over a cut network has failed."""
        self.connected = True
        self.on_request: Callable[[str], bool] | None = None
        """Told before each write (its verb and key); False: the process dies instead (crash points)."""
        self._latency = latency
        self._takes = takes or {}
        """By verb, patch or delete, and kind; other requests take `latency`, half of it each way."""
        self._limit = limit
        self._full_ns = clock.now_ns
        """When the bucket is full again, if nothing more is taken."""
        self._watches: list[Watch] = []
        self._event = event
        """From an Event to the next one that waits behind it, at the server; None: a request's latency."""
        self._to_record: deque[tuple[int, Request]] = deque()
        """Events that are not answered yet, the one that is written first, and when each may be."""
        self._events: dict[tuple[str, str, str], int] = {}
        """The EVENTS_KEPT that were seen last, oldest first."""

    # verbs

    def get(self, kind: type[AnyObject], key: str, done: Done) -> None:
        """One object."""
        self._send(partial(self.server.get, kind, key), done)

    def list_of(self, kind: type[AnyObject], done: Done, node: str | None = None) -> None:
        """All objects of a kind."""
        self._send(partial(self.server.list_of, kind, node), done)

    def read(self, act: Callable[[], Any], done: Done) -> None:
        """Any other read at the server."""
        self._send(act, done)

    def create(self, item: Object, done: Done | None = None) -> None:
        """ApiServer.create()."""
        if self._lives("create", type(item), item.meta.key):
            self._send(partial(self.server.create, item), done)

    def update(self, item: Object, done: Done | None = None) -> None:
        """ApiServer.update()."""
        if self._lives("update", type(item), item.meta.key):
            self._send(partial(self.server.update, item), done)

    def update_status(self, item: Object, done: Done | None = None) -> None:
        """ApiServer.update_status()."""
        if self._lives("status", type(item), item.meta.key):
            self._send(partial(self.server.update_status, item), done)

    def patch(
        self, kind: type[AnyObject], key: str, change: Callable[[AnyObject], AnyObject], done: Done | None = None,
        uid: str = "", reads: bool = False, way_ns: int | None = None,
    ) -> None:  # fmt: skip
        """ApiServer.patch(); reads: behind a request that reads the object. way_ns: measured, until it is there."""
        if self._lives("patch", kind, key):
            takes = self._takes.get(("patch", kind))
            self._send(partial(self.server.patch, kind, key, change, uid), done, reads, way_ns, takes)

    def delete(
        self, kind: type[AnyObject], key: str, grace_ns: int | None = None, uid: str = "", done: Done | None = None,
        reads: bool = False, way_ns: int | None = None,
    ) -> None:  # fmt: skip
        """ApiServer.delete(); reads and way_ns: as patch()."""
        if self._lives("delete", kind, key):
            takes = self._takes.get(("delete", kind))
            self._send(partial(self.server.delete, kind, key, grace_ns, uid), done, reads, way_ns, takes)

    def call(
        self, what: str, act: Callable[[], Any], done: Done | None = None, takes: Takes | None = None
    ) -> None:  # fmt: skip
        """Any other write at the server, e.g. an eviction; `what` names it. takes: None: as other requests."""
        if self.on_request is None or self.on_request(what):
            self._send(act, done, takes=takes)

    def event(self, about: str, reason: str, message: str = "") -> None:
        """Record an Event about KIND/NAME; equal ones are counted up. Each is written behind the answer to the one
        before (client-go tools/record/event.go, recordToSink()).
        """
        mark = (about, reason, message)
        count = self._events[mark] = self._events.pop(mark, 0) + 1
        if len(self._events) > EVENTS_KEPT:
            del self._events[next(iter(self._events))]
        now_ns = self.clock.now_ns
        said = KubeEvent(Meta(name=about), reason, about, message, count, now_ns)
        from_ns = now_ns + (self._wait_ns() if self._limit is not None else 0)
        way_ns = self._way_ns()
        each_ns = 2 * way_ns if self._event is None else self._event()
        waits = len(self._to_record) > 0
        request = (0 if waits else way_ns, each_ns, partial(self.server.note, said), self._recorded)
        self._to_record.append((from_ns, request))
        if not waits:
            self._record()

    def _record(self) -> None:
        from_ns, request = self._to_record[0]
        wait_ns = from_ns - self.clock.now_ns
        if wait_ns > 0:
            self.clock.call_in(wait_ns, self._leave, request)
        else:
            self._leave(request)

    def _recorded(self, _answer: object) -> None:
        self._to_record.popleft()
        if self._to_record:
            self._record()

    def tell(self, about: str, why: tuple[str, str], took_ns: int, done: Done) -> None:
        """Write an Event (its reason, its message) whose writer waits; a request of so long, each an object."""
        said = KubeEvent(Meta(name=about), why[0], about, why[1], 1, self.clock.now_ns)
        self._leave((took_ns // 2, took_ns - took_ns // 2, partial(self.server.note, said), done))

    # the way

    def _lives(self, verb: str, kind: type, key: str) -> bool:
        """The process does not die before this write."""
        return self.on_request is None or self.on_request(f"{verb} {kind.__name__} {key}")

    def _send(
        self, act: Callable[[], Any], done: Done | None, reads: bool = False, measured_ns: int | None = None,
        takes: Takes | None = None,
    ) -> None:  # fmt: skip
        wait_ns = self._wait_ns() if self._limit is not None else 0
        if takes is None:
            there_ns = way_ns = self._way_ns()
        else:
            there_ns, way_ns = takes()
        if reads:
            there_ns += 2 * self._way_ns()
        request = (there_ns if measured_ns is None else measured_ns, way_ns, act, done)
        if wait_ns:
            self.clock.call_in(wait_ns, self._leave, request)
        else:
            self._leave(request)

    def _way_ns(self) -> int:
        """To the server, or back."""
        return 0 if self._latency is None else self._latency() // 2

    def _wait_ns(self) -> int:
        """How long the limiter holds this request: a bucket that is full again `burst` periods after it was empty."""
        assert self._limit is not None
        now_ns = self.clock.now_ns
        each_ns = round(SECOND / self._limit.per_second)
        self._full_ns = max(self._full_ns, now_ns) + each_ns
        return max(0, self._full_ns - now_ns - self._limit.burst * each_ns)

    def _leave(self, request: Request) -> None:
        if not self.connected:
            if request[3] is not None:
                self.clock.call_in(self.timeout_ns, request[3], UnreachableError("no answer in time"))
            return
        env = self._env
        if self.server.bursts:  # what it takes is the server's work, which is done when the change is made
            there_ns, back_ns, act, done = request
            request = (there_ns + back_ns, 0, act, done)
        env.call_at(env.now_ns + self.server.took_ns(request[0]), self._arrive, request)

    def _arrive(self, request: Request) -> None:
        """At the server."""
        _, back_ns, act, done = request
        answer: Any
        try:
            self.server.check()
            answer = act()
        except ApiError as error:
            answer = error.with_traceback(None)  # its frames would name it: a ring that only the collector frees
        if done is None:
            return
        if not self.connected:
            self.clock.call_in(self.timeout_ns, done, UnreachableError("no answer in time"))
        else:
            self.clock.call_in(self.server.took_ns(back_ns), done, answer)

    # watches and the network

    def watch(
        self, kind: type[AnyObject], handler: Handler, node: str | None = None, wanted: Wanted | None = None
    ) -> Watch:
        """ApiServer.watch(), held while the network is cut."""
        watch = self.server.watch(kind, handler, node, self.clock, wanted)
        if not self.connected:
            watch.hold()
        self._watches = [w for w in self._watches if w.open]
        self._watches.append(watch)
        return watch

    def cut(self) -> None:
        """The network to the server is gone: requests time out, watches hear nothing."""
        self.connected = False
        for watch in self._watches:
            watch.hold()

    def heal(self) -> None:
        """The network is back: what waited arrives."""
        self.connected = True
        for watch in self._watches:
            if watch.open:
                watch.release()

    def close(self) -> None:
        """The process has ended: its connections are gone."""
        for watch in self._watches:
            self.server.forget(watch)
        self._watches.clear()
