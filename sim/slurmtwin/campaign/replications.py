"""Replications of a recorded fault scenario: the twin run again and again from the recording's own starts.

A batch of replications is one task of the process pool; what comes back, and what is kept, is the time of each
milestone (contract/phases.py) and nothing else. Kept under a hash of everything it depends on, the twin's own source
included: a batch that was made once is read.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import slurmtwin
from slurmtwin.campaign.parameters import Changed, change
from slurmtwin.campaign.pool import Progress, run_tasks
from slurmtwin.campaign.recordings import recorded_durations, recorded_jobs, start_times, with_poll
from slurmtwin.contract.events import Event
from slurmtwin.contract.jobs import JobRequest, to_dict
from slurmtwin.contract.manifest import Manifest, sha256_text
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.engine.random_streams import generator
from slurmtwin.workload.resolve import resolve_jobs
from slurmtwin.worlds.pod_durations import drawn_durations, still_durations
from slurmtwin.worlds.run import Run
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

if TYPE_CHECKING:
    import numpy as np

    from slurmtwin_reports.history import History

    Times = np.ndarray[Any, np.dtype[np.int64]]

BATCH: Final = 50
"""Replications of one task: some seconds of work."""
MOST_KEPT: Final = 4000
"""Files of the cache; older ones go."""
PARTS: Final = ("contract", "engine", "models", "workload", "worlds", "adapters")
"""Rooms whose source a replication's times depend on."""
BASE: Final = "base"
STILL: Final = "still"
OWN: Final = "own-noise"
"""As BASE, with random streams that no other recording has: replications of BASE with one number share theirs."""
UNCHANGED: Final = (BASE, STILL, OWN)
"""Variants of the scenario as it stands; the others are named after the parameter that is changed."""


@dataclass(frozen=True, slots=True)
class Variant:
    """base, still (calibrated durations at their medians), or a parameter times a factor."""

    name: str = BASE
    factor: float = 1.0

    def of(self, scenario: Scenario) -> Changed:
        """The scenario of this variant. Raises InputError as parameters.change does."""
        return Changed(scenario) if self.name in UNCHANGED else change(scenario, self.name, self.factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replication:
    """One run that the twin is asked for; run_twin answers it, tests have a stand-in."""

    scenario: Scenario
    base_dir: Path
    jobs: Sequence[JobRequest]
    times: StartTimes
    seed: int
    number: int
    durations: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    scaled: Mapping[str, float] = field(default_factory=dict)
    still: bool = False
    """Calibrated quantities are held at their medians."""


World = Callable[[Replication], Sequence[Event]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Replications first .. first + count of one variant, from one recording's starts."""

    scenario: Path
    recording: Path
    version: str
    variant: Variant = Variant()
    first: int = 0
    count: int = BATCH
    seed: int = 0
    cache: Path | None = None
    world: World


def run_twin(one: Replication) -> Sequence[Event]:
    """The rows of one replication in the twin."""
    return _run(one).kept or []


def _run(one: Replication) -> Run:
    options = TwinOptions(
        seed=one.seed, replication=one.number, keep=True, times=one.times, durations=one.durations, scaled=one.scaled,
        still=one.still,
    )  # fmt: skip
    return run_scenario(one.scenario, one.base_dir, options, one.jobs)


def batches(
    scenario: Path, recording: Path, version: str, variant: Variant, count: int, *, seed: int = 0,
    cache: Path | None = None, world: World = run_twin,
) -> list[Batch]:  # fmt: skip
    """The tasks that make `count` replications."""
    return [
        Batch(scenario=scenario, recording=recording, version=version, variant=variant, first=first,
              count=min(BATCH, count - first), seed=seed, cache=cache, world=world)
        for first in range(0, count, BATCH)
    ]  # fmt: skip


def run_all(todo: Sequence[Batch], workers: int = 0, progress: Progress | None = None) -> list[Times]:
    """The times of each batch, over the process pool."""
    return run_tasks(run_batch, todo, workers, progress)


def run_batch(batch: Batch) -> Times:
    """Times [replication, phase, start or end] in ns, measurement.NEVER where a milestone did not come."""
    import numpy as np

    from slurmtwin_reports.faults.measurement import times_of
    from slurmtwin_reports.faults.milestones import all_marks
    from slurmtwin_reports.history import rows_of_events

    made = _prepare(batch)
    kept = None if batch.cache is None else batch.cache / f"{_key(batch, made)}.npy"
    if kept is not None and kept.exists():
        found: Times = np.load(kept, allow_pickle=False)
        return found
    phases = made.changed.scenario.expect.phases
    runs = []
    for number in range(batch.first, batch.first + batch.count):
        events = batch.world(made.replication(batch, number))
        runs.append(all_marks(rows_of_events(events), phases))
    times = times_of(runs)
    if kept is not None:
        _keep(kept, times)
    return times


def run_one(batch: Batch, made: Made, number: int) -> tuple[Manifest | None, Sequence[Event]]:
    """One replication of a batch: the twin's manifest (None of another world), and the rows."""
    one = made.replication(batch, number)
    if batch.world is not run_twin:
        return None, batch.world(one)
    run = _run(one)
    return run.manifest, run.kept or []


@dataclass(frozen=True, slots=True)
class Made:
    """What the replications of a batch share."""

    changed: Changed
    times: StartTimes
    jobs: list[JobRequest]
    calibration: Path
    """The durations of the recording's batch."""

    def replication(self, batch: Batch, number: int) -> Replication:
        """What the world is asked for."""
        still = batch.variant.name == STILL
        durations = still_durations(self.calibration) if still else drawn_durations(number, self.calibration)
        for name, factor in self.changed.durations.items():
            durations[name] = tuple(round(value * factor) for value in durations[name])
        seed = own_seed(batch) if batch.variant.name == OWN else batch.seed
        within = generator(seed, number, "injection")
        times = self.times.injected_within(lambda low, high: int(within.integers(low, high, endpoint=True)))
        return Replication(
            scenario=self.changed.scenario, base_dir=batch.scenario.parent, jobs=self.jobs, times=times,
            seed=seed, number=number, durations=durations, scaled=self.changed.rules,
            still=still,
        )  # fmt: skip


def own_seed(batch: Batch) -> int:
    """A seed that goes by the recording (scenario, version, world, number), wherever it lies."""
    own = "/".join((str(batch.seed), *batch.recording.parts[-4:]))
    return int(sha256_text(own)[:16], 16)


def _prepare(batch: Batch) -> Made:
    from slurmtwin_reports.load import load_run

    return prepared(batch, load_scenario(batch.scenario).of_version(batch.version), load_run(batch.recording))


def prepared(batch: Batch, scenario: Scenario, real: History) -> Made:
    """Of a scenario and a recording that have been read."""
    times = with_poll(start_times(real.manifest, scenario, list(real.rows())), batch.recording, scenario)
    changed = batch.variant.of(scenario)
    if changed.scenario.workload == scenario.workload:
        jobs = recorded_jobs(batch.recording, batch.scenario)
    else:  # a parameter of the workload: the recorded jobs lack it
        jobs = list(resolve_jobs(changed.scenario, batch.scenario.parent))
    return Made(changed, times, jobs, recorded_durations(real.manifest))


# kept results


def default_cache() -> Path:
    """SLURMTWIN_CACHE, else the user's cache folder."""
    given = os.environ.get("SLURMTWIN_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(given) if given else home / "slurmtwin") / "replications"


def _key(batch: Batch, made: Made) -> str:
    document = {
        "scenario": made.changed.scenario.model_dump(mode="json", by_alias=True), "durations": made.changed.durations,
        "rules": made.changed.rules, "times": asdict(made.times), "jobs": [to_dict(job) for job in made.jobs],
        "variant": asdict(batch.variant), "first": batch.first, "count": batch.count, "seed": batch.seed,
        "world": f"{batch.world.__module__}.{batch.world.__qualname__}", "source": source_sha256(),
        "design": design_text(made.changed.scenario),
    }  # fmt: skip
    return sha256_text(json.dumps(document, sort_keys=True))


def design_text(scenario: Scenario) -> str:
    """The design of the scenario's operator, as it was read; empty without one."""
    from slurmtwin.worlds.pod_operator import design_of

    named = scenario.pods.operator if scenario.pods is not None else ""
    return repr(design_of(named)) if named else ""


@lru_cache(maxsize=1)
def source_sha256() -> str:
    """Hex hash of what the times depend on: source and data of twin and operator, and the search of milestones."""
    import slurmtwin_reports

    root = Path(slurmtwin.__file__).parent
    rooms = [root / part for part in PARTS]
    operator = find_spec("slurmtwin_operator")
    rooms += [Path(place) for place in (operator.submodule_search_locations if operator else None) or ()]
    files = [path for room in rooms for path in room.rglob("*") if path.suffix in (".py", ".yaml", ".json")]
    search = Path(slurmtwin_reports.__file__).parent / "faults"
    files += [search / "milestones.py", search / "measurement.py"]
    digest = hashlib.sha256()
    for path in sorted(files):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _keep(path: Path, times: Times) -> None:
    """Write under another name, then rename: a reader never sees half of it."""
    import numpy as np

    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".part")
    with os.fdopen(handle, "wb") as stream:
        np.save(stream, times)
    Path(name).replace(path)


def prune(cache: Path, most: int = MOST_KEPT) -> None:
    """Remove the files that were written longest ago, so that `most` stay."""
    files = sorted([*cache.glob("*.npy"), *cache.glob("*.npz")], key=lambda path: (path.stat().st_mtime_ns, path.name))
    for path in files[: max(0, len(files) - most)]:
        path.unlink(missing_ok=True)
