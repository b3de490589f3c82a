"""One watch of one kind of object, kept up over lost connections without a hole, or the hole is told.

A list gives a resource version; the watch goes on from it, and after a lost connection from the last version seen
(bookmarks move it on). A server that started anew refuses older versions (410 Gone) though etcd still has them: then
lists at exact versions, halved until each step is one version, give every change that the watch missed. Only when etcd
has dropped them too are changes lost: the hole stands in the record.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from slurmtwin_e2e.kind.api import ApiError

GONE: Final = 410
SILENCE_S: Final = 15.0
"""A watch on which nothing came for so long is opened anew at the same version: a cut connection does not tell."""
RETRY_S: Final = 0.2
MOST_LISTS: Final = 500
"""Lists at exact versions for one gap; a longer one is told as a hole."""
Items = dict[str, dict[str, Any]]
"""Objects by uid."""


class Server(Protocol):
    """What an informer asks of an API server."""

    def request(self, method: str, path: str) -> Any:
        """One request; the JSON answer."""

    def watch(self, path: str, read_s: float) -> Iterator[dict[str, Any]]:
        """Lines of a watch."""


@dataclass(frozen=True, slots=True)
class Change:
    """One line of a watch (or one object of the first list) with its receipt time, unix ns."""

    t_ns: int
    verb: str
    """LISTED, ADDED, MODIFIED, DELETED, BROKEN, RESUMED or HOLE."""
    resource: str
    object: dict[str, Any] = field(default_factory=dict)
    note: str = ""


class Informer:
    """Watches one resource path, such as /api/v1/pods; `sink` gets every Change in order."""

    def __init__(
        self, server: Server, path: str, sink: Callable[[Change], None],
        clock: Callable[[], int] = time.time_ns, rest: Callable[[float], None] = time.sleep,
    ) -> None:  # fmt: skip
        self._server, self._path, self._sink, self._clock, self._rest = server, path, sink, clock, rest
        self.resource = path.rstrip("/").split("/")[-1]
        self._version = ""
        self._known: dict[str, dict[str, Any]] = {}
        self._stopping = threading.Event()
        self._broken = False
        self._refused = ""
        """The server's words when it no longer knew our version."""
        self._lists = 0

    def run(self) -> None:
        """List and watch until stop()."""
        while not self._stopping.is_set():
            try:
                if not self._version or self._refused:
                    self._list()
                self._watch()
            except ApiError as error:
                if error.status == GONE:
                    self._refused = str(error)
                else:
                    self._break(str(error))
                    self._rest(RETRY_S)

    def stop(self) -> None:
        """End run() at its next line or silence."""
        self._stopping.set()

    def _emit(self, verb: str, found: dict[str, Any] | None = None, note: str = "") -> None:
        self._sink(Change(self._clock(), verb, self.resource, found or {}, note))

    def _list(self) -> None:
        """All objects now; what the watch missed since its last version is emitted as late changes."""
        page = self._server.request("GET", self._path)
        seen, version = _by_uid(page), page["metadata"]["resourceVersion"]
        if not self._version:
            for item in seen.values():
                self._emit("LISTED", item)
        else:
            self._catch_up(seen, version)
        self._known, self._version, self._refused = seen, version, ""
        self._mend()

    def _catch_up(self, seen: Items, version: str) -> None:
        """Emit the changes from what is known up to a list; a hole where not every version can be had."""
        self._lists = 0
        try:
            steps = list(self._steps(int(self._version), self._known, int(version), seen))
        except ApiError as error:
            if error.status != GONE:
                raise
            self._emit("HOLE", note=f"{self._refused}; {error}"[:200])
            steps = [(self._known, seen)]
        for old, new in steps:
            self._changes(old, new)

    def _steps(self, low: int, old: Items, high: int, new: Items) -> Iterator[tuple[Items, Items]]:
        """States before and after each version in (low, high] that changed anything. Raises ApiError."""
        if _versions(old) == _versions(new):
            return
        if high - low <= 1:
            yield old, new
            return
        self._lists += 1
        if self._lists > MOST_LISTS:
            raise ApiError(GONE, f"more than {MOST_LISTS} lists between {low} and {high}")
        middle = (low + high) // 2
        joiner = "&" if "?" in self._path else "?"
        exact = f"{self._path}{joiner}resourceVersion={middle}&resourceVersionMatch=Exact"
        found = _by_uid(self._server.request("GET", exact))
        yield from self._steps(low, old, middle, found)
        yield from self._steps(middle, found, high, new)

    def _changes(self, old: Items, new: Items) -> None:
        for uid, item in new.items():
            if uid not in old:
                self._emit("ADDED", item)
            elif old[uid]["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._emit("MODIFIED", item)
        for uid in old.keys() - new.keys():
            self._emit("DELETED", old[uid])

    def _watch(self) -> None:
        joiner = "&" if "?" in self._path else "?"
        path = f"{self._path}{joiner}watch=true&allowWatchBookmarks=true&resourceVersion={self._version}"
        for line in self._server.watch(path, SILENCE_S):
            self._mend()
            found, verb = line["object"], line["type"]
            if verb == "ERROR":
                raise ApiError(int(found.get("code", 0)), str(found.get("message", "")))
            self._version = found["metadata"]["resourceVersion"]
            if verb != "BOOKMARK":
                uid = found["metadata"]["uid"]
                self._known.pop(uid, None)
                if verb != "DELETED":
                    self._known[uid] = found
                self._emit(verb, found)
            if self._stopping.is_set():
                return

    def _break(self, why: str) -> None:
        if not self._broken:
            self._broken = True
            self._emit("BROKEN", note=why[:200])

    def _mend(self) -> None:
        if self._broken:
            self._broken = False
            self._emit("RESUMED")


def _by_uid(page: Any) -> Items:
    return {item["metadata"]["uid"]: item for item in page["items"]}


def _versions(items: Items) -> dict[str, str]:
    return {uid: item["metadata"]["resourceVersion"] for uid, item in items.items()}
