"""Generated perturbations in Sieve's patterns: stale, skipped, partial views, doubled passes, other orders, crashes."""

from __future__ import annotations

import random
from typing import Any, Final

from slurmtwin_operator.testing.carrier import Disturbance, Part
from slurmtwin_operator.testing.slurm import SECOND

LAST_START_S: Final = 420
LENGTHS_S: Final = (1, 3, 7, 15, 40, 120)
STALE_PARTS: Final[tuple[Part, ...]] = ("pods", "kube_nodes", "slurm", "spec", "all")
PARTIAL_PARTS: Final[tuple[Part, ...]] = ("pods", "kube_nodes", "slurm")


def perturbation(name: str, number: int) -> dict[str, Any]:
    """The arguments of a carrier for perturbation `number` of a story: the same for ever."""
    draw = random.Random(f"{name}-{number}")  # noqa: S311  a test's choice
    disturbances = []
    for _ in range(draw.choice((1, 1, 2))):
        kind = draw.choice(("stale", "stale", "skip", "partial", "twice", "shuffle"))
        part = draw.choice(STALE_PARTS if kind == "stale" else PARTIAL_PARTS)
        at_s, length_s = draw.randrange(LAST_START_S), draw.choice(LENGTHS_S)
        disturbances.append(
            Disturbance(kind, at_s * SECOND, length_s * SECOND, part, draw.randrange(1000))  # type: ignore[arg-type]
        )
    crash = draw.randrange(1, 25) if draw.random() < 0.3 else -1
    return {"disturbances": tuple(disturbances), "crash_after": crash, "lose_memory": draw.random() < 0.5}
