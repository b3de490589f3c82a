"""Generated perturbations in Sieve's patterns: stale, reordered, skipped, partial views, doubled passes, crashes."""

from __future__ import annotations

import random
from typing import Any, Final

from slurmtwin_operator.testing.disturbance import PARTIAL, STALE, Disturbance, Pattern
from slurmtwin_operator.testing.slurm import SECOND

LAST_START_S: Final = 420
LENGTHS_S: Final = (1, 3, 7, 15, 40, 120)
PATTERNS: Final[tuple[Pattern, ...]] = ("stale", "stale", "back", "skip", "partial", "twice", "shuffle")


def perturbation(name: str, number: int, kind: str = "NodeSet") -> dict[str, Any]:
    """The arguments of a carrier for perturbation `number` of a story of that kind: the same for ever."""
    draw = random.Random(f"{name}-{number}")  # noqa: S311  a test's choice
    disturbances = []
    for _ in range(draw.choice((1, 1, 2))):
        pattern = draw.choice(PATTERNS)
        part = draw.choice((STALE if pattern in ("stale", "back") else PARTIAL)[kind])
        at_s, length_s = draw.randrange(LAST_START_S), draw.choice(LENGTHS_S)
        disturbances.append(Disturbance(pattern, at_s * SECOND, length_s * SECOND, part, draw.randrange(1000)))
    crash = draw.randrange(1, 25) if draw.random() < 0.3 else -1
    return {"disturbances": tuple(disturbances), "crash_after": crash, "lose_memory": draw.random() < 0.5}
