"""Do the recordings of one hour hang together? `python -m slurmtwin.campaign.hours VERDICTS` (of `check --verdicts`).

The joint test of a phase (slurmtwin_reports.faults.ranks) draws the replications of each recording by themselves. That
is right where a span goes by timers; where it goes by a calibrated duration, recordings of one batch share what their
quiet runs did not tell, and what the hour did behind them. The places a and b of two recordings of a phase say so:
where these have nothing in common but a twin that is right, 12 (a - 1/2) (b - 1/2) is 0 on the mean; where they are
always equal, 1. It is worked out for pairs of one batch and, beside it, for pairs of two.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final

from slurmtwin.campaign.recordings import RECORDINGS, recorded_durations
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.manifest import read_manifest

FEWEST: Final = 6
"""Pairs of one batch that a phase has, to be told by itself."""


@dataclass(slots=True)
class Pairs:
    """Pairs of places, and the sum of what each says."""

    count: int = 0
    total: float = 0.0

    def add(self, one: float, other: float) -> None:
        """A pair of places, each 0 to 1."""
        self.count += 1
        self.total += 12 * (one - 0.5) * (other - 0.5)

    @property
    def correlation(self) -> float | None:
        """Of uniform places; None without a pair."""
        return self.total / self.count if self.count else None


def pairs_of(places: Sequence[float], batches: Sequence[str]) -> tuple[Pairs, Pairs]:
    """(pairs of one batch, pairs of two) of the places of one phase."""
    together, apart = Pairs(), Pairs()
    for (one, of_one), (other, of_other) in combinations(zip(places, batches, strict=True), 2):
        (together if of_one == of_other else apart).add(one, other)
    return together, apart


def hang_together(phases: Iterable[Mapping[str, Any]], recordings: Path = RECORDINGS) -> dict[str, Any]:
    """Over the phases of a check, sharp ones and others, and of each with enough pairs: how much these hang together.

    Raises InputError where a recording is not there any more.
    """
    found = {name: (Pairs(), Pairs()) for name in ("sharp", "not sharp")}
    each = []
    for phase in phases:
        if phase["claim"] or phase["sharp"] is None:
            continue
        folder = recordings / phase["scenario"] / phase["version"] / "pods"
        batches = [recorded_durations(read_manifest(folder / name)).name for name in phase["recordings"]]
        pairs = pairs_of(phase["places"], batches)
        for total, more in zip(found["sharp" if phase["sharp"] else "not sharp"], pairs, strict=True):
            total.count += more.count
            total.total += more.total
        if pairs[0].count >= FEWEST:
            each.append({**{name: phase[name] for name in ("scenario", "version", "phase")}, **_told(*pairs)})
    return {**{name: _told(*pairs) for name, pairs in found.items()}, "phases": each}


def _told(together: Pairs, apart: Pairs) -> dict[str, Any]:
    return {
        "pairs_of_one_batch": together.count, "correlation_of_one_batch": _short(together.correlation),
        "pairs_of_two_batches": apart.count, "correlation_of_two_batches": _short(apart.correlation),
    }  # fmt: skip


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print JSON. Exit 0. Raises InputError for a file that is no document of `check`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verdicts", type=Path, help="written by slurmtwin check --verdicts")
    parser.add_argument("--recordings", type=Path, default=RECORDINGS)
    options = parser.parse_args(arguments)
    try:
        phases = json.loads(options.verdicts.read_text(encoding="utf-8"))["phases"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"no document of check: {error}", Where(str(options.verdicts)), "slurmtwin check --verdicts FILE"
        ) from error
    sys.stdout.write(json.dumps(hang_together(phases, options.recordings), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
