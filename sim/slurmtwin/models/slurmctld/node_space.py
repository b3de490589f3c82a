"""The backfill map: node_space_map_t (plugins/sched/backfill/backfill.c; slurm.md 2.2 "Map").

A list of time slots [begin, end) from now, rounded down to bf_resolution, to now + bf_window. Each holds
the bitmap of nodes free of backfill reservations then (whole nodes), and with bf_licenses what is left of
the licences. Times are Unix seconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

Licenses = dict[str, int]

FAR_S: Final = 1 << 40
"""No bound: later than every time that occurs."""


class NodeSpace:
    """Slots in time order, as four parallel lists."""

    __slots__ = ("begin", "end", "free", "licenses", "records", "resolution_s", "version")

    def __init__(self, now_s: int, window_s: int, resolution_s: int, free: int, licenses: Licenses | None) -> None:
        self.resolution_s = resolution_s
        self.begin: list[int] = [now_s // resolution_s * resolution_s]
        self.end: list[int] = [(now_s + window_s) // resolution_s * resolution_s]
        self.free: list[int] = [free]
        self.licenses: list[Licenses | None] = [licenses]
        self.records = 1
        """Records ever used: merging slots does not give them back (bf_node_space_size counts these)."""
        self.version = 0

    def slot(self, start_s: int, length_s: int, round_up: bool) -> tuple[int, int]:
        """The slot times of a reservation: start rounded down; the end up since 24.11, down in 22.05."""
        resolution = self.resolution_s
        end_s = start_s + length_s + (resolution - 1 if round_up else 0)
        return start_s // resolution * resolution, end_s // resolution * resolution

    def reserve(
        self, start_s: int, end_s: int, nodes: int, licenses: Iterable[tuple[str, int]] = ()
    ) -> tuple[int, int]:
        """_add_reservation(): take `nodes` (and licences) out of all slots from start to end, at least one slot.

        Returns how many slots at the beginning and at the end of the map are as they were.
        """
        begin, end, free = self.begin, self.end, self.free
        self.version += 1
        start_s = max(start_s, begin[0])
        end_s = max(end_s, start_s + self.resolution_s)
        first = bisect_right(end, start_s - 1)
        if first == len(end):
            return len(end), 0
        before = max(0, first - 1)
        if end[first] > start_s:
            self._split(first, start_s)
        last = first + 1
        stop = None
        while last < len(begin):
            if end_s < end[last]:
                self._split(last, end_s)
            free[last] &= ~nodes
            self._deduct(last, licenses)
            if end[last] == end_s:
                stop = last + 1
                break
            last += 1
        same_at_end = max(0, len(begin) - last - 2)
        self._merge_one(before, stop)
        return before, same_at_end

    def _split(self, place: int, at_s: int) -> None:
        self.begin.insert(place + 1, at_s)
        self.end.insert(place + 1, self.end[place])
        self.end[place] = at_s
        self.free.insert(place + 1, self.free[place])
        held = self.licenses[place]
        self.licenses.insert(place + 1, None if held is None else dict(held))
        self.records += 1

    def _deduct(self, place: int, licenses: Iterable[tuple[str, int]]) -> None:
        left = self.licenses[place]
        if left is not None:
            for name, count in licenses:
                left[name] = max(0, left.get(name, 0) - count)

    def _merge_one(self, before: int, stop: int | None) -> None:
        """Equal neighbours become one slot, but only the first such pair."""
        free, licenses = self.free, self.licenses
        most = len(free) - 1 if stop is None or stop >= len(free) else stop
        for place in range(before, most):
            if free[place] == free[place + 1] and licenses[place] == licenses[place + 1]:
                self.end[place] = self.end[place + 1]
                del self.begin[place + 1], self.end[place + 1], free[place + 1], licenses[place + 1]
                return

    def scan(
        self, start_s: int, now_s: int, length_s: int, avail: int, licenses: Iterable[tuple[str, int]],
        stop_at_licenses: bool,
    ) -> tuple[int, int, bool, int]:  # fmt: skip
        """AND all slots that a job from start_s on would touch: (nodes, next try, licences lacking, bound).

        The next try is the first slot end behind which other nodes are free (not a subset of the present ones); 0:
        none. bound: the second at which the outcome of a try at now_s may change by itself. Since 24.11 the first
        slot without the licences ends the scan; in 22.05 (stop_at_licenses False) the last one is the next try.
        """
        begin, end, free = self.begin, self.end, self.free
        end_s = max(start_s, now_s) + length_s
        everywhere, later_s, lacking, bound_s = avail, 0, False, FAR_S
        last = len(begin) - 1
        place = bisect_right(end, start_s)
        if start_s <= now_s and place <= last:
            bound_s = end[place]
        while place <= last:
            if not later_s and place < last and (everywhere & free[place + 1]) & ~(avail & free[place]):
                later_s = end[place]
            if begin[place] > end_s:
                if stop_at_licenses and not later_s and place + 1 < last:
                    later_s = end[place + 1]
                if start_s <= now_s:
                    bound_s = min(bound_s, begin[place] - length_s)
                break
            avail &= free[place]
            if licenses and not self.has_licenses(place, licenses):
                later_s, lacking = end[place], True
                if stop_at_licenses:
                    break
            place += 1
        return avail, later_s, lacking, bound_s

    def overlaps(self, start_s: int, end_s: int, nodes: int, licenses: Iterable[tuple[str, int]] = ()) -> bool:
        """_test_resv_overlap(): some slot in that time lacks one of the nodes or licences."""
        begin, end, free = self.begin, self.end, self.free
        for place in range(bisect_right(end, start_s), len(begin)):
            if begin[place] >= end_s:
                break
            if nodes & ~free[place] or not self.has_licenses(place, licenses):
                return True
        return False

    def has_licenses(self, place: int, licenses: Iterable[tuple[str, int]]) -> bool:
        """bf_licenses_avail()."""
        left = self.licenses[place]
        return left is None or all(left.get(name, 0) >= count for name, count in licenses)
