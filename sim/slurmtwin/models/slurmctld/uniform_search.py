"""When and where a job fits, where nodes are either free or full: select_p_job_test(WILL_RUN) on bitmaps alone.

The same answers as selection/will_run.py gives from 24.11 on (cons_tres job_test.c _will_run_test(),
_future_run_test(); slurm.md 2.2 "Expected start", "Precision loss"), in a few integer operations.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from slurmtwin.models.slurmctld.tables import INFINITE_S

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.tables import Job

_FIRST_WINDOW_S: Final = 30
_MOST_PER_GROUP: Final = 201


class UniformSearch:
    """The running jobs in order of their expected ends, and the nodes free after each."""

    __slots__ = ("_all_relevant", "_guess_end", "_jobs", "_linear_s", "ends", "freed", "held")

    def __init__(
        self, running: list[Job], everything: int, linear_s: int, all_relevant: bool,
        guess_end: Callable[[Job, int], int],
    ) -> None:  # fmt: skip
        running.sort(key=_end_s)
        self._jobs = running
        self._linear_s = linear_s
        self._all_relevant = all_relevant
        self._guess_end = guess_end
        self.ends = [job.end_s for job in running]
        self.held = [job.alloc.nodes if job.alloc is not None else 0 for job in running]
        busy = 0
        for nodes in self.held:
            busy |= nodes
        free = everything & ~busy
        self.freed = [free]
        """Nodes free once the first k jobs are gone."""
        for nodes in self.held:
            free |= nodes
            self.freed.append(free)

    def freed_by(self, unix_s: int) -> int:
        """Nodes free when all jobs are gone that should end by then."""
        return self.freed[bisect_right(self.ends, unix_s)]

    def will_run(
        self, usable: int, count: int, choose: Callable[[int, int], int], now_s: int, start_s: int, until_s: int,
        now_only: bool,
    ) -> tuple[int, int] | None:  # fmt: skip
        """(expected start, nodes), or None. Arguments as parts.NodeSelection.will_run."""
        freed, ends = self.freed, self.ends
        if start_s <= now_s:
            free = freed[0] & usable
            if free.bit_count() >= count:
                return now_s, choose(free, count)
        if now_only:
            return None
        # a job that ends in the very second tried is gone only since 26.05 (_build_cr_job_list())
        gone = (bisect_left if self._all_relevant else bisect_right)(ends, start_s)
        if gone or start_s > now_s:
            free = freed[gone] & usable
            if free.bit_count() >= count:
                return now_s, choose(free, count)
        total = bisect_right(ends, until_s) if until_s else len(ends)
        if (freed[total] & usable).bit_count() < count:
            return None
        return self._as_jobs_end(gone, total, usable, count, choose, now_s)

    def _as_jobs_end(
        self, first: int, total: int, usable: int, count: int, choose: Callable[[int, int], int], now_s: int
    ) -> tuple[int, int] | None:
        ends, held, freed = self.ends, self.held, self.freed
        every = len(ends)
        place, window_s, base_s = first, _FIRST_WINDOW_S, 0
        while place < total:
            last, removed, tested = -1, 0, True
            while place < total:
                if not held[place] & usable:
                    place += 1
                    continue
                if not base_s:
                    base_s = ends[place] + window_s - ends[place] % window_s
                last = place
                place += 1
                if place >= every or ends[place] > base_s + window_s:
                    break
                removed += 1
                if removed > _MOST_PER_GROUP:
                    tested = False
                    break
            if last < 0:
                return None
            if not tested:
                continue
            free = freed[place] & usable
            if free.bit_count() >= count:
                nodes = choose(free, count)
                if not self._all_relevant:
                    while last >= first and not held[last] & nodes:
                        last -= 1
                    last = max(last, first)
                end_s = ends[last]
                return (end_s if end_s > now_s else self._guess_end(self._jobs[last], now_s)), nodes
            if place >= total:
                return None
            window_s = widened_s(window_s, ends[place] - base_s, self._linear_s)
        return None


def widened_s(window_s: int, needed_s: int, linear_s: int) -> int:
    """The next window that reaches the next end, or a year: wider by bf_window_linear again and again, or doubled."""
    enough_s = min(needed_s, INFINITE_S + 1)
    if linear_s:
        return window_s + linear_s * max(1, -(-(enough_s - window_s) // linear_s))
    window_s *= 2
    while window_s < enough_s:
        window_s *= 2
    return window_s


def _end_s(job: Job) -> int:
    return job.end_s
