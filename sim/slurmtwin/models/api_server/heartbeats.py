"""Which kubelets renew their leases. A renewal of a healthy node changes nothing, so none is written (DESIGN 7).

A kubelet, or whoever freezes or cuts it off, says when its renewals cease to arrive and when they come again; the
node lifecycle controller needs no more. Times are ns of the run.
"""

from __future__ import annotations

from collections.abc import Callable


class Heartbeats:
    """The leases of all nodes, as far as they matter."""

    def __init__(self) -> None:
        self.silent: dict[str, int] = {}
        """Node -> its last renewal that reached the API server."""
        self.on_silent: list[Callable[[str], None]] = []
        self.on_heard: list[Callable[[str], None]] = []

    def cease(self, node: str, last_ns: int) -> None:
        """Nothing comes from the node's kubelet any more; its last renewal arrived at last_ns."""
        if node in self.silent:
            return
        self.silent[node] = last_ns
        for told in self.on_silent:
            told(node)

    def resume(self, node: str) -> None:
        """A renewal arrives now, and others will."""
        if node in self.silent:
            del self.silent[node]
            for told in self.on_heard:
                told(node)
