"""One watch of one kind of object, kept up over lost connections without a hole, or the hole is told.

A list gives a resource version; the watch goes on from it, and after a lost connection from the last version seen
(bookmarks move it on). Only when the server no longer knows that version (410 Gone) are changes lost: then it lists
anew, and the hole stands in the record with its length.
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

    def run(self) -> None:
        """List and watch until stop()."""
        while not self._stopping.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
            except ApiError as error:
                if error.status == GONE:
                    self._forget(str(error))
                else:
                    self._break(str(error))
                    self._rest(RETRY_S)

    def stop(self) -> None:
        """End run() at its next line or silence."""
        self._stopping.set()

    def _emit(self, verb: str, found: dict[str, Any] | None = None, note: str = "") -> None:
        self._sink(Change(self._clock(), verb, self.resource, found or {}, note))

    def _list(self) -> None:
        """All objects now. After a hole, what differs from before is emitted as late changes."""
        page = self._server.request("GET", self._path)
        verb = "MODIFIED" if self._known else "LISTED"
        seen = {}
        for item in page["items"]:
            uid = item["metadata"]["uid"]
            seen[uid] = item
            before = self._known.get(uid)
            if before is None or before["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._emit(verb if before is not None or verb == "LISTED" else "ADDED", item)
        for uid in self._known.keys() - seen.keys():
            self._emit("DELETED", self._known[uid])
        self._known = seen
        self._version = page["metadata"]["resourceVersion"]
        self._mend()

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

    def _forget(self, why: str) -> None:
        self._version = ""
        self._emit("HOLE", note=why[:200])
