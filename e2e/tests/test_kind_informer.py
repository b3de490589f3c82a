"""A watch that is lost goes on where it was, or the hole is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from slurmtwin_e2e.kind.api import ApiError
from slurmtwin_e2e.kind.collect.informer import Change, Informer
from slurmtwin_e2e.kind.collect.kube_rows import KubeRows


def pod(name: str, version: int, **status: Any) -> dict[str, Any]:
    """A pod object."""
    meta = {"uid": f"uid-{name}", "name": name, "namespace": "x", "resourceVersion": str(version), "labels": {}}
    return {"metadata": meta, "spec": {}, "status": status}


class Server:
    """An API server that keeps a history: watches replay what came after a version, and may break or forget."""

    def __init__(self) -> None:
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.forgotten = 0
        """Watches know nothing before this version, nor do lists at versions before `dropped`."""
        self.dropped = 0
        self.breaks: list[int] = []
        """A watch ends with an error after so many lines, once each."""
        self.asked: list[str] = []
        self.informer: Informer | None = None
        self.stop_at = 10**9

    def request(self, method: str, path: str) -> Any:
        """The list now, or at an exact version."""
        assert method == "GET"
        exact = path.partition("resourceVersion=")[2].partition("&")[0]
        if exact and int(exact) < self.dropped:
            raise ApiError(410, "compacted")
        now: dict[str, dict[str, Any]] = {}
        for at, verb, found in self.history:
            if exact and at > int(exact):
                break
            now[found["metadata"]["uid"]] = found
            if verb == "DELETED":
                del now[found["metadata"]["uid"]]
        version = exact or (self.history[-1][0] if self.history else 1)
        self.asked.append("exact" if exact else "list")
        return {"items": list(now.values()), "metadata": {"resourceVersion": str(version)}}

    def watch(self, path: str, read_s: float) -> Iterator[dict[str, Any]]:
        """Lines after the version in the path."""
        after = int(path.rpartition("resourceVersion=")[2])
        self.asked.append(f"watch {after}")
        if after < self.forgotten:
            yield {"type": "ERROR", "object": {"code": 410, "message": "too old"}}
            return
        limit = self.breaks.pop(0) if self.breaks else 10**9
        for sent, (version, verb, found) in enumerate([h for h in self.history if h[0] > after]):
            if sent == limit:
                raise ApiError(0, "connection reset")
            yield {"type": verb, "object": found}
            if version >= self.stop_at:
                assert self.informer is not None
                self.informer.stop()
                return
        if limit < 10**9:
            raise ApiError(0, "connection reset")


def run(server: Server, until: int) -> list[Change]:
    """All changes until the version `until` was seen."""
    changes: list[Change] = []
    ticks = iter(range(10**6))
    server.informer = Informer(server, "/api/v1/pods", changes.append, lambda: next(ticks), lambda _: None)
    server.stop_at = until
    server.informer.run()
    return changes


def grow(server: Server, count: int, start: int = 2) -> None:
    """History: pods p2, p3 … each added once."""
    server.history += [(n, "ADDED", pod(f"p{n}", n)) for n in range(start, start + count)]


def versions(changes: list[Change]) -> list[int]:
    """Resource versions of the objects, in order of receipt."""
    return [int(c.object["metadata"]["resourceVersion"]) for c in changes if c.object]


def test_changes_after_a_lost_connection_come_once_each() -> None:
    """Three broken connections: every change arrives exactly once, and the break is in the record."""
    server = Server()
    server.breaks = [0, 2, 1]
    changes_before = pod("old", 1)
    server.history.append((1, "ADDED", changes_before))
    informer_history = [(n, "ADDED", pod(f"p{n}", n)) for n in range(2, 12)]

    class Later(Server):
        """The history grows only after the list."""

        def request(self, method: str, path: str) -> Any:
            """The list, then the rest of the history."""
            page = super().request(method, path)
            self.history += informer_history
            return page

    later = Later()
    later.history, later.breaks = server.history, [0, 2, 1]
    changes = run(later, 11)
    assert versions(changes) == list(range(1, 12))
    assert [c.verb for c in changes if not c.object] == ["BROKEN", "RESUMED"] * (
        sum(c.verb == "BROKEN" for c in changes)
    )
    assert sum(c.verb == "BROKEN" for c in changes) >= 2
    assert later.asked.count("list") == 1


def test_a_forgotten_version_is_a_hole() -> None:
    """Gone, and dropped by etcd too: the informer tells the hole, and the differences come as late changes."""

    class Forgets(Server):
        """Forgets everything after the first list."""

        def request(self, method: str, path: str) -> Any:
            """The first list forgets what follows it."""
            page = super().request(method, path)
            if self.asked.count("list") == 1:
                self.history += [(2, "DELETED", pod("gone", 2)), (3, "ADDED", pod("new", 3))]
                self.forgotten = self.dropped = 3
            else:
                self.history.append((4, "ADDED", pod("last", 4)))
            return page

    server = Forgets()
    server.history = [(1, "ADDED", pod("gone", 1))]
    changes = run(server, 4)
    assert [c.verb for c in changes] == ["LISTED", "HOLE", "ADDED", "DELETED", "ADDED"]
    rows = KubeRows(1)
    for change in changes:
        rows.take(change)
    assert rows.holes == 1


def test_a_server_that_started_anew_costs_no_change() -> None:
    """Its watches refuse the old version, lists at exact versions give every change once and in order: no hole."""

    class Restarts(Server):
        """After the first list come changes that no watch will tell."""

        def request(self, method: str, path: str) -> Any:
            """The first list forgets what follows it."""
            page = super().request(method, path)
            if self.asked == ["list"]:
                self.history += [
                    (4, "MODIFIED", pod("a", 4)),
                    (9, "ADDED", pod("b", 9)),
                    (17, "MODIFIED", pod("a", 17)),
                ]
                self.history += [(30, "DELETED", pod("b", 30)), (41, "ADDED", pod("c", 41))]
                self.forgotten = 41
            return page

    class Goes(Restarts):
        """And then a last change, by watch."""

        def watch(self, path: str, read_s: float) -> Iterator[dict[str, Any]]:
            """The last one comes when the gap is filled."""
            if int(path.rpartition("resourceVersion=")[2]) == 41:
                self.history.append((42, "ADDED", pod("last", 42)))
            yield from super().watch(path, read_s)

    server = Goes()
    server.history = [(1, "ADDED", pod("a", 1))]
    changes = run(server, 42)
    assert [c.verb for c in changes] == ["LISTED", "MODIFIED", "ADDED", "MODIFIED", "DELETED", "ADDED", "ADDED"]
    assert versions(changes) == [1, 4, 9, 17, 9, 41, 42]
    assert server.asked.count("exact") < 40


def test_a_server_that_skips_a_change_is_seen() -> None:
    """The test's own check can fail: a server that loses a line gives another list of versions."""

    class Loses(Server):
        """Never sends version 5."""

        def watch(self, path: str, read_s: float) -> Iterator[dict[str, Any]]:
            """All lines but one."""
            for line in super().watch(path, read_s):
                if line["object"]["metadata"]["resourceVersion"] != "5":
                    yield line

    server = Loses()
    server.history = [(1, "ADDED", pod("old", 1))]
    original = server.request

    def request(method: str, path: str) -> Any:
        page = original(method, path)
        grow(server, 8)
        return page

    server.request = request  # type: ignore[method-assign]
    assert versions(run(server, 9)) != list(range(1, 10))
