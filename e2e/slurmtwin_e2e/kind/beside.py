"""Runs beside each other on one cluster: they begin when all are ready and are taken down when all are over.

An operator that serves several Slurm clusters waits for a slurmrestd that is not up yet, or gone, and everyone else's
passes wait with it (docs/surprises.md). So nobody's beginning or end may fall into another one's phases.
"""

from __future__ import annotations

import threading
from collections import defaultdict


class Beside:
    """The meeting points of `members` runs, each in a thread of its own."""

    def __init__(self, members: int) -> None:
        self.members = members
        self._came: defaultdict[str, set[int]] = defaultdict(set)
        self._left: set[int] = set()
        self._change = threading.Condition()

    def wait(self, point: str) -> None:
        """Block until every member has come to this point, or has left."""
        with self._change:
            self._came[point].add(threading.get_ident())
            self._change.notify_all()
            self._change.wait_for(lambda: len(self._came[point] | self._left) >= self.members)

    def leave(self) -> None:
        """The calling member comes to no further point: nobody waits for it."""
        with self._change:
            self._left.add(threading.get_ident())
            self._change.notify_all()
