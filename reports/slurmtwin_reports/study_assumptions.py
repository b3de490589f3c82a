"""Does a study's conclusion hold when what was guessed is wrong? The factor called `assumption` says what was tried.

Its first level is the guess. A conclusion is that a design is better or worse than the reference in a metric, beyond
chance; under another level it holds, fades (no longer beyond chance) or turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from slurmtwin_reports.study_statistics import Difference, Point

FACTOR: Final = "assumption"


@dataclass(frozen=True, slots=True)
class Held:
    """One conclusion under one assumption."""

    design: str
    metric: str
    others: Point
    assumption: str
    guessed: Difference
    found: Difference

    @property
    def verdict(self) -> str:
        """holds, fades, turns; appears where nothing stood under the guess and something does now."""
        if not self.guessed.stands:
            return "appears" if self.found.stands else "holds"
        if not self.found.stands:
            return "fades"
        return "holds" if (self.found.difference.mean > 0) == (self.guessed.difference.mean > 0) else "turns"


def conclusions(found: Sequence[Difference]) -> list[Held]:
    """Each conclusion under each level of the factor `assumption` but the first; none without that factor."""
    guess: dict[tuple[str, str, Point], tuple[str, Difference]] = {}
    out = []
    for one in found:
        level = dict(one.point).get(FACTOR)
        if level is None:
            continue
        others = tuple((name, value) for name, value in one.point if name != FACTOR)
        key = (one.design, one.metric, others)
        if key not in guess:
            guess[key] = (level, one)
        elif level != guess[key][0]:
            out.append(Held(one.design, one.metric, others, level, guess[key][1], one))
    return out
