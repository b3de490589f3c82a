"""Runs beside each other on one cluster: they begin when all are ready and are taken down when all are over.

An operator that serves several Slurm clusters waits for a slurmrestd that is not up yet, or gone, and everyone else's
passes wait with it (docs/surprises.md). So nobody's beginning or end may fall into another one's phases. Nor may
their faults fall together: all nodes are one host, and a container that comes back while another run's pods begin takes
twice as long.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from slurmtwin.contract.clock import MS, SECOND

APART_NS: Final = 4 * SECOND
"""Faults of two runs are so far from each other: a daemon that was killed, or a pod deleted, is back by then."""
STEP_NS: Final = 100 * MS


class Beside:
    """The meeting points of `members` runs, each in a thread of its own."""

    def __init__(self, members: int) -> None:
        self.members = members
        self._came: defaultdict[str, set[int]] = defaultdict(set)
        self._left = 0
        self._change = threading.Condition()
        self._faults_ns: list[int] = []

    def wait(self, point: str) -> None:
        """Block until every member has come to this point, or has left."""
        with self._change:
            self._came[point].add(threading.get_ident())
            self._change.notify_all()
            self._change.wait_for(lambda: len(self._came[point]) + self._left >= self.members)

    def zero_ns(self, earliest_ns: int, faults_ns: Sequence[int]) -> int:
        """Time zero of a run, in unix ns: not before earliest_ns, and with its faults, which come so long after it,
        APART_NS from those of the members that asked before. Its own times stay what they are.
        """
        with self._change:
            zero_ns = earliest_ns
            while any(abs(zero_ns + at - other) < APART_NS for at in faults_ns for other in self._faults_ns):
                zero_ns += STEP_NS
            self._faults_ns += [zero_ns + at for at in faults_ns]
            return zero_ns

    def leave(self) -> None:
        """The calling member comes to no further point: nobody waits for it. Its thread may be the next one's."""
        with self._change:
            self._left += 1
            self._change.notify_all()
