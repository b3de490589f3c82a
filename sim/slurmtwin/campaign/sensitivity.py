"""The runs behind a sensitivity analysis: a study of the study, whose points are samples of its uncertain parameters.

An uncertain parameter multiplies places of the base scenario by a factor between its low and high, drawn evenly in the
logarithm; a place may take a power of it (`workload.generate.gap: -1`: more load, shorter gaps).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmtwin.campaign.campaign import Campaign, Progress, Split, run_campaign
from slurmtwin.campaign.parameters import change
from slurmtwin.campaign.study_file import Changes, Factor, LoadedStudy, Seeds
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.scenario import Scenario
from slurmtwin_reports.sensitivity import Sensitivity, chance_share, morris_samples, sensitivity, spread_samples
from slurmtwin_reports.study_statistics import Point, StudyTable

if TYPE_CHECKING:
    from slurmtwin_reports.sensitivity import Array

SAMPLE = "sample"
"""The factor whose levels are the samples: m... of Morris' walks, s... spread for the surrogate."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """How many runs: (parameters + 1) * trajectories + spread samples, each with `seeds` seeds of every design."""

    trajectories: int = 6
    spread: int = 80
    seeds: int = 3
    design: str = ""
    """The one that is held against the reference; empty: each."""


def sampled_study(loaded: LoadedStudy, sampling: Sampling) -> tuple[LoadedStudy, Array, Array]:
    """The study of samples, and the samples themselves. Raises InputError when the study names nothing uncertain."""
    uncertain = loaded.study.uncertain
    if not uncertain:
        raise InputError("the study has no `uncertain` parameters", hint="see docs/how-to/own-study.md")
    designs = loaded.study.designs
    if sampling.design:
        if sampling.design not in designs or sampling.design == loaded.study.reference:
            raise InputError(f"no design {sampling.design!r} to hold against {loaded.study.reference}")
        designs = {name: designs[name] for name in designs if name in (loaded.study.reference, sampling.design)}
    names = list(uncertain)
    walks, spread = morris_samples(names, sampling.trajectories), spread_samples(names, sampling.spread)
    base = _with_first_levels(loaded)
    levels = {f"m{i:04}": _changes(loaded, base, row) for i, row in enumerate(walks.tolist())}
    levels |= {f"s{i:04}": _changes(loaded, base, row) for i, row in enumerate(spread.tolist())}
    study = loaded.study.model_copy(
        update={
            "name": f"{loaded.study.name[:50]}-sensitivity", "factors": [Factor(name=SAMPLE, levels=levels)],
            "crossing": "all", "designs": designs, "seeds": Seeds(first=loaded.study.seeds.first, count=sampling.seeds),
        }
    )  # fmt: skip
    return LoadedStudy(study=study, base=base, folder=loaded.folder, path=loaded.path), walks, spread


def _with_first_levels(loaded: LoadedStudy) -> Scenario:
    """The base scenario at the first level of every factor, where the study's own comparisons stand."""
    from slurmtwin.campaign.study_file import changed

    changes: Changes = {}
    for factor in loaded.study.factors:
        changes.update(factor.choices()[0][1])
    changes.update(loaded.study.sampled)
    return Scenario.model_validate(changed(loaded.document, changes))


def _changes(loaded: LoadedStudy, base: Scenario, row: list[float]) -> Changes:
    """What one sample puts into the scenario: each place once, with everything that multiplies it."""
    scenario, touched = base, []
    for share, parameter in zip(row, loaded.study.uncertain.values(), strict=True):
        factor = math.exp(math.log(parameter.low) + share * math.log(parameter.high / parameter.low))
        for place, power in parameter.places.items():
            scenario = change(scenario, place, factor**power).scenario
            touched.append(place.partition(":")[0])
    document = scenario.model_dump(mode="json", by_alias=True)
    return {place: _at(document, place) for place in dict.fromkeys(touched)}


def _at(document: Any, place: str) -> Any:
    for part in place.split("."):
        document = document[int(part)] if isinstance(document, list) else document[part]
    return document


def run_sensitivity(
    loaded: LoadedStudy, out: Path, sampling: Sampling, split: Split | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[Campaign, list[Sensitivity]]:  # fmt: skip
    """Run what is missing of the samples and analyse each other design against the reference in each metric.

    Nothing is analysed while runs are missing, or where a metric is missing in a run.
    """
    sampled, walks, spread = sampled_study(loaded, sampling)
    campaign = run_campaign(sampled, out, split, progress=progress)
    if campaign.results is None or campaign.failed:
        return campaign, []
    table, study = StudyTable(campaign.results), sampled.study
    found = []
    for design in (d for d in study.designs if d != study.reference):
        for metric in study.metrics:
            values = [_difference(table, level, study.reference, design, metric) for level in study.factors[0].levels]
            whole = [value for value in values if value is not None]
            if len(whole) == len(values):
                chance = chance_share(_by_seed(table, study.factors[0].levels, study.reference, design, metric))
                found.append(_analysed(loaded, walks, spread, whole, design, metric, sampling.seeds, chance))
    return campaign, found


def _analysed(
    loaded: LoadedStudy, walks: Array, spread: Array, values: list[float], design: str, metric: str, seeds: int,
    chance: float | None,
) -> Sensitivity:  # fmt: skip
    import numpy as np

    return sensitivity(
        list(loaded.study.uncertain), walks, spread, np.array(values[: len(walks)]), np.array(values[len(walks) :]),
        design=design, reference=loaded.study.reference, metric=metric, seeds=seeds, chance=chance,
    )  # fmt: skip


def _by_seed(table: StudyTable, levels: Iterable[str], reference: str, design: str, metric: str) -> Array:
    """The difference of each sample (row) at each seed alone (column)."""
    import numpy as np

    rows = []
    for level in levels:
        point = ((SAMPLE, level),)
        seeds = table.seeds(point, [reference, design])
        rows.append([_share(*_sums(table, point, reference, design, metric, [seed])) for seed in seeds])
    return np.array(rows, dtype=np.float64)


def _difference(table: StudyTable, level: str, reference: str, design: str, metric: str) -> float | None:
    """Difference of the means over seeds at one sample, as a share of the mean of both: -2 to 2.

    A share, because waits of an overloaded sample would drown all others.
    """
    point = ((SAMPLE, level),)
    seeds = table.seeds(point, [reference, design])
    if not seeds or any(table.value(point, d, seed, metric) is None for d in (reference, design) for seed in seeds):
        return None
    return _share(*_sums(table, point, reference, design, metric, seeds))


def _sums(
    table: StudyTable, point: Point, reference: str, design: str, metric: str, seeds: Sequence[int]
) -> tuple[float, float]:
    one, other = (math.fsum(table.values(point, d, metric, seeds)) for d in (reference, design))
    return one, other


def _share(one: float, other: float) -> float:
    return 2 * (other - one) / (abs(one) + abs(other)) if one or other else 0.0
