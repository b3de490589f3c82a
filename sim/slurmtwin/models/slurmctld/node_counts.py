"""Counts per node as bit planes: adding one to ten thousand nodes is a handful of integer operations.

Plane k is a bitmap over the node table of the nodes whose count has bit k set. So slurmctld's run_job_cnt
and comp_job_cnt (node_mgr.c make_node_alloc(), make_node_comp(), make_node_idle()) need no loop over nodes.
"""

from __future__ import annotations


class NodeCounts:
    """One non-negative count per node."""

    __slots__ = ("_planes", "some")

    def __init__(self) -> None:
        self._planes: list[int] = [0]
        self.some = 0
        """Bitmap of the nodes whose count is not zero."""

    def add(self, nodes: int) -> None:
        """One more on each of the nodes."""
        self.some |= nodes
        planes = self._planes
        carry = nodes
        place = 0
        while carry:
            if place == len(planes):
                planes.append(0)
            plane = planes[place]
            planes[place] = plane ^ carry
            carry &= plane
            place += 1

    def take(self, nodes: int) -> int:
        """One less on each of the nodes that have any; returns those nodes that now have none."""
        nodes &= self.some
        planes = self._planes
        borrow = nodes
        place = 0
        while borrow:
            plane = planes[place]
            planes[place] = plane ^ borrow
            borrow &= ~plane
            place += 1
        left = 0
        for plane in planes:
            left |= plane
        gone = nodes & ~left
        self.some = left
        return gone

    def of(self, index: int) -> int:
        """The count of the node at `index`."""
        total = 0
        for place, plane in enumerate(self._planes):
            total |= (plane >> index & 1) << place
        return total

    def clear(self, bit: int) -> None:
        """Zero on the nodes of `bit`."""
        keep = ~bit
        self._planes = [plane & keep for plane in self._planes]
        self.some &= keep
