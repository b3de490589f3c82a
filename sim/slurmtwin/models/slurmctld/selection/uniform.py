"""Node choice where every node is either free or full: one-CPU nodes of one weight.

There the general rules of consecutive.py shrink to: the shortest run of consecutive nodes that suffices, else the
longest, until enough are taken. Backfill plans thousands of jobs with it; a test proves it equal to the general path.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from slurmtwin.models.slurmctld.selection.bitmaps import longest_run, lowest, shortest_run

Choice = Callable[[int, int], int]
"""(free nodes, how many) -> the nodes; there are enough."""

_MOST_REMEMBERED: Final = 40_000


def best_fit(free: int, count: int) -> int:
    """_eval_nodes() for equal nodes."""
    taken = 0
    while True:
        run = shortest_run(free, count) or longest_run(free)
        size = run.bit_count()
        if size >= count:
            return taken | lowest(run, count)
        taken |= run
        free ^= run
        count -= size


def first_node(free: int, _count: int) -> int:
    """26.05 for a job of at most one node (job_test.c _get_one_res())."""
    return free & -free


def wanted(uniform: tuple[int, Choice] | bool | None) -> int:
    """NodeSelection.uniform() as a number: nodes by best_fit(), -1 for first_node(), 0 for anything else."""
    if not isinstance(uniform, tuple):
        return 0
    count, choose = uniform
    if choose is first_node:
        return -1 if count == 1 else 0
    return count if isinstance(choose, Remembered) and choose.rule is best_fit else 0


class Remembered:
    """A choice rule that remembers its answers: the same nodes are asked about again and again."""

    __slots__ = ("_known", "rule")

    def __init__(self, rule: Choice) -> None:
        self.rule = rule
        self._known: dict[tuple[int, int], int] = {}

    def __call__(self, free: int, count: int) -> int:
        key = (free, count)
        nodes = self._known.get(key)
        if nodes is None:
            if len(self._known) >= _MOST_REMEMBERED:
                self._known.clear()
            nodes = self._known[key] = self.rule(free, count)
        return nodes
