"""The fewest nodes by the twin: met there, missed one below. The quick model only says where to look next.

Where the twin's figure differs from the quick model's, the bound is scaled by what they differ at the nearest count
judged, and the quick model says which count meets that. Two counts are judged at a time, one beside the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

from slurmtwin.campaign.planning.guide import Guide
from slurmtwin.campaign.planning.judge import affordable
from slurmtwin.campaign.planning.plan_work import Bench, Work
from slurmtwin.campaign.planning.search import fewest
from slurmtwin.campaign.planning.target import Target, classes_of, wait_table
from slurmtwin.campaign.planning.trace import PlanTrace

FURTHEST: Final = 2
"""The twin looks up to so many times the quick model's answer."""
SCALED_ROUNDS: Final = 2
"""Looks that follow the scaled quick model; from then on what is left is halved."""
MOST_JUDGED: Final = 24

Point = dict[str, Any]


class Judgement:
    """The counts that the twin has judged."""

    def __init__(
        self, trace: PlanTrace, guide: Guide, bench: Bench, judge_s: float, say: Callable[[str], None]
    ) -> None:
        self._trace = trace
        self._guide = guide
        self._bench = bench
        self._judge_s = judge_s
        self._say = say
        self._quick: dict[int, Any] = {}
        self.points: dict[int, Point] = {}

    def leading(self, count: int) -> int:
        """How many jobs a candidate is judged on: all, unless that is more than may be spent."""
        return affordable(self._trace, self._waits(count), self._judge_s)

    def add(self, count: int, waits: Any) -> None:
        """Take in the twin's waits of the leading jobs with so many nodes."""
        self.points[count] = self._point(count, waits)

    def look(self, counts: Sequence[int]) -> None:
        """Judge those that are not yet, side by side."""
        todo = [n for n in counts if n >= 1 and n not in self.points]
        if todo:
            self._say(f"the twin judges {' and '.join(map(str, todo))} nodes")
        works = [Work("twin", self._guide.cluster.counts(n), leading=self.leading(n)) for n in todo]
        for count, waits in zip(todo, self._bench.all(works), strict=True):
            self.add(count, waits)

    def settle(self, found: int) -> int | None:
        """The fewest, searched from the quick model's answer; None when no count up to FURTHEST times it will do."""
        self.look((found, found - 1))
        most = FURTHEST * found
        for turn in range(MOST_JUDGED):
            missed, met = self._bounds()
            if met == missed + 1:
                return met
            if missed >= most:
                return None
            last = most if met is None else met - 1
            guess = self._scaled(most) if turn < SCALED_ROUNDS else (missed + last + 1) // 2
            guess = min(max(guess, missed + 1), last)
            below = guess - 1 if guess - 1 > missed else guess + 1
            self.look((guess, below) if below <= last else (guess,))
        return None

    def _bounds(self) -> tuple[int, int | None]:
        """(the most that misses below the fewest that meets, 0 for none; the fewest that meets)."""
        met = min((n for n, point in self.points.items() if point["met"]), default=None)
        missed = max(
            (n for n, point in self.points.items() if not point["met"] and (met is None or n < met)), default=0
        )
        return missed, met

    def _scaled(self, most: int) -> int:
        """The quick model's fewest when its bound is scaled to the twin's figures at the count nearest to the edge."""
        missed, met = self._bounds()
        nearest = self.points[met if met is not None else missed]
        shares = [
            row["guide_s"] / row["judged_s"] if row["guide_s"] and row["judged_s"] else 1.0
            for row in nearest["figures"]
        ]
        counted = self._trace.counted == 1
        names = classes_of(self._trace.columns)[counted]

        def meets(count: int) -> bool:
            waits = self._waits(count)[counted]
            return all(
                not target.figure(waits, names) >= target.bound_s * share
                for target, share in zip(self._guide.targets, shares, strict=True)
            )

        return fewest(meets, nearest["nodes"], 1, most, look_above=False) or most

    def _waits(self, count: int) -> Any:
        if count not in self._quick:
            self._quick[count] = self._guide.waits(self._trace.columns, self._guide.cluster.counts(count))
        return self._quick[count]

    def _point(self, count: int, waits: Any) -> Point:
        """What the twin says of one count, beside the quick model on the same jobs.

        Of a trace judged in part the figure is the quick model's of the whole, times what the twin makes of it on the
        part: a part may have none of the bursts that the answer rests on.
        """
        part = self._trace.first(len(waits))
        counted, of_all = part.counted == 1, self._trace.counted == 1
        names, all_names = classes_of(part.columns)[counted], classes_of(self._trace.columns)[of_all]
        mine, quick, whole = waits[counted], self._waits(count)[: len(waits)][counted], self._waits(count)[of_all]
        figures = [_figures(target, mine, quick, names, whole, all_names) for target in self._guide.targets]
        met = all(
            row["of_no_job"] or _below(row["judged_s"], target)
            for row, target in zip(figures, self._guide.targets, strict=True)
        )
        return {
            "nodes": count, "counts": list(self._guide.cluster.counts(count)), "jobs": len(waits), "figures": figures,
            "met": met, "classes": wait_table(mine, names),
        }  # fmt: skip


def _figures(target: Target, mine: Any, quick: Any, names: Any, whole: Any, all_names: Any) -> dict[str, Any]:
    twin, guide, guide_all = target.figure(mine, names), target.figure(quick, names), target.figure(whole, all_names)
    judged = twin
    if len(whole) > len(mine):
        judged = guide_all * twin / guide if guide > 0 and math.isfinite(guide_all) else max(twin, guide_all)
    return {"target": target.text, "twin_s": _plain(twin), "guide_s": _plain(guide_all), "judged_s": _plain(judged),
            "of_no_job": math.isnan(twin)}  # fmt: skip


def _below(figure: float | None, target: Target) -> bool:
    return figure is not None and figure < target.bound_s


def _plain(value: float) -> float | None:
    return value if math.isfinite(value) else None
