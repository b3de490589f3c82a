"""Nodes of one zone that are to get a NoExecute taint, one each so many seconds (nodelifecycle/scheduler)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from slurmtwin.models.api_server.objects import Node
    from slurmtwin.models.controllers.controller_manager import ControllerManager

REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"


def zone_of(node: Node) -> str:
    """Region and zone of a node; one zone for all without labels."""
    labels = node.meta.labels
    if REGION not in labels and ZONE not in labels:
        return ":"
    return f"{labels.get(REGION, '')}:{labels.get(ZONE, '')}"


class ZoneTainter:
    """A queue with a token bucket of one token, looked at each 100 ms (RateLimitedTimedQueue)."""

    def __init__(self, plane: ControllerManager, taint: Callable[[str], None]) -> None:
        self._plane = plane
        self._taint = taint
        self._queue: dict[str, None] = {}
        self._gap_ns: int | None = plane.defaults.eviction_gap_ns
        self._token_ns = plane.now_ns
        """When the next token is there."""
        poll_ns = plane.defaults.eviction_poll_ns
        self._phase_ns = plane.streams.uniform_ns("node_tainter.phase", 0, poll_ns)()
        self._armed = False

    def add(self, node: str) -> None:
        """The node is to be tainted; nothing happens when it waits already."""
        if node not in self._queue:
            self._queue[node] = None
            self._arm()

    def drop(self, node: str) -> None:
        """It is well again."""
        self._queue.pop(node, None)

    def set_gap(self, gap_ns: int | None) -> None:
        """Another rate; None: nothing is tainted. A bucket that was empty stays empty (SwapLimiter())."""
        if gap_ns == self._gap_ns:
            return
        now_ns = self._plane.now_ns
        empty = self._gap_ns is None or self._token_ns > now_ns
        self._gap_ns = gap_ns
        if gap_ns is not None:
            self._token_ns = now_ns + gap_ns if empty else now_ns
            self._arm()

    def _arm(self) -> None:
        if self._armed or not self._queue or self._gap_ns is None:
            return
        self._armed = True
        poll_ns = self._plane.defaults.eviction_poll_ns
        at_ns = max(self._plane.now_ns, self._token_ns)
        self._plane.clock.call_at(at_ns + (self._phase_ns - at_ns) % poll_ns, self._try)

    def _try(self, _argument: object) -> None:
        self._armed = False
        if self._queue and self._gap_ns is not None and self._token_ns <= self._plane.now_ns:
            node = next(iter(self._queue))
            del self._queue[node]
            self._token_ns = self._plane.now_ns + self._gap_ns
            self._taint(node)
        self._arm()
