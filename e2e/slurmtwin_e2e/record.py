"""Record scenarios on real Slurm, one after the other: only what is missing, until the budget is used up.

A recording is written when its run has ended; whatever stops this program leaves only whole ones, and the next
call goes on behind them.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from slurmtwin.contract.errors import ModelError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.docker import sweep
from slurmtwin_e2e.images import make_image, package_versions
from slurmtwin_e2e.recording import IncompleteRunError, LateRunError, Place, write_recording
from slurmtwin_e2e.run import DEFAULT_FACTOR, run_raw

ATTEMPTS: Final = 3
"""A run that came out too late is made again, so many times in all."""
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """One recording to be made."""

    place: Place
    scenario: Scenario
    jobs: tuple[JobRequest, ...]


def usual_factor(root: Path, scenario: str, version: str) -> float:
    """The acceleration at which most repetitions of a scenario are recorded (k = 1 aside), or the harness's own."""
    counts = {
        float(folder.name[1:]): len(list(folder.glob("*/manifest.json")))
        for folder in sorted((root / scenario / version).glob("k*"))
        if folder.name != "k1"
    }
    return max(counts, key=lambda k: (counts[k], -k), default=DEFAULT_FACTOR)


def missing(
    scenarios: Sequence[tuple[Scenario, Sequence[JobRequest]]], versions: Sequence[str], factor: float | None,
    repetitions: int, root: Path,
) -> Iterator[Wanted]:  # fmt: skip
    """What the folder of recordings lacks: every scenario once before any a second time.

    factor None: the acceleration that its recordings have already, else the harness's own.
    """
    for repetition in range(1, repetitions + 1):
        for scenario, jobs in scenarios:
            for version in versions:
                place = Place(scenario.name, version, factor or usual_factor(root, scenario.name, version), repetition)
                if not (place.folder(root) / "manifest.json").exists():
                    yield Wanted(place, scenario, tuple(jobs))


@dataclass(slots=True)
class Outcome:
    """What became of the recordings that were wanted."""

    made: int = 0
    late: int = 0
    """Runs thrown away and repeated, because the host was too busy."""
    failed: list[str] = field(default_factory=list)


def record(wanted: Sequence[Wanted], root: Path, budget_s: float, say: Say) -> Outcome:
    """Make them one after the other. Raises EnvironmentMissingError without Docker or an image."""
    sweep()
    deadline = time.monotonic() + budget_s
    out = Outcome()
    for number, one in enumerate(wanted, 1):
        if time.monotonic() > deadline:
            say(f"budget used up: {len(wanted) - number + 1} recordings are still missing")
            break
        make_image(one.place.version, say)
        say(f"[{number}/{len(wanted)}] {one.place.run_id}")
        _record_one(one, root, deadline, say, out)
    return out


def _record_one(one: Wanted, root: Path, deadline: float, say: Say, out: Outcome) -> None:
    place = one.place
    for attempt in range(1, ATTEMPTS + 1):
        try:
            with tempfile.TemporaryDirectory(prefix="slurmtwin-record-") as folder:
                raw = run_raw(one.scenario, one.jobs, place.version, place.factor, Path(folder, "run"))
                write_recording(root, place, one.scenario, one.jobs, raw, package_versions(place.version))
            out.made += 1
            return
        except LateRunError as error:
            out.late += 1
            say(f"thrown away: {error}")
            if attempt == ATTEMPTS or time.monotonic() > deadline:
                out.failed.append(str(error))
                return
        except (IncompleteRunError, ModelError) as error:
            out.failed.append(f"{place.run_id}: {error}")
            say(out.failed[-1])
            return
