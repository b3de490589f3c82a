"""The runs of a study: every design at every combination of levels with every seed.

Common random numbers: a seed means the same jobs and the same noise to every design, so designs are compared in
pairs. The order of cases is fixed by the file, the seeds come last: more seeds append nothing in between.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from slurmtwin import __version__
from slurmtwin.campaign.study_file import Changes, LoadedStudy, Study, changed
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.scenario import Scenario
from slurmtwin.contract.yaml_file import first_error

OPTIONS = "options."
"""A change that begins so is no part of the scenario: `options.tie_seed` shuffles simultaneous events,
`options.operator.NAME` is a carrier setting of the operator in pods, such as poll_s."""
OPERATOR = "operator."
RESULT_FORMAT = 1
"""Counts up when what a run's result holds, or how it is computed, changes."""


@dataclass(frozen=True, slots=True)
class Case:
    """One run that a study wants."""

    index: int
    key: str
    """Hash of everything that decides its result: equal keys, equal results."""
    design: str
    levels: tuple[tuple[str, str], ...]
    """(factor, level) in the file's order."""
    seed: int
    changes: str
    """JSON of the changes to the base scenario."""

    @property
    def point(self) -> str:
        """The combination of levels in words."""
        return " ".join(f"{name}={level}" for name, level in self.levels)


def cases(loaded: LoadedStudy, seeds: int | None = None) -> Iterator[Case]:
    """The cases with `seeds` replications each (default: the file's count), seed by seed."""
    study = loaded.study
    points = [
        (design, combination, _joined(study.designs[design], combination))
        for combination in combinations(study)
        for design in study.designs
    ]
    documents = [json.dumps(changes, sort_keys=True) for _, _, changes in points]
    texts = [
        json.dumps(changed(loaded.document, changes), sort_keys=True) for _, _, changes in points
    ]  # every seed of a point runs the same scenario
    index = 0
    for replication in range(seeds if seeds is not None else study.seeds.count):
        seed = study.seeds.first + replication
        for (design, combination, _), document, text in zip(points, documents, texts, strict=True):
            yield Case(
                index, _key(text, seed, study.warm_up), design,
                tuple((name, level) for name, level, _ in combination), seed, document,
            )  # fmt: skip
            index += 1


Combination = tuple[tuple[str, str, Changes], ...]


def combinations(study: Study) -> Iterator[Combination]:
    """(factor, level, changes) of each point: all of them, or the first levels and then one factor after the other."""
    choices = [[(factor.name, *choice) for choice in factor.choices()] for factor in study.factors]
    if study.crossing == "all":
        yield from itertools.product(*choices)
        return
    base = [levels[0] for levels in choices]
    yield tuple(base)
    for place, levels in enumerate(choices):
        for level in levels[1:]:
            yield (*base[:place], level, *base[place + 1 :])


def _joined(design: Changes, combination: Combination) -> Changes:
    """The design's changes, then those of the levels. Raises InputError when two set one place."""
    out = dict(design)
    for name, level, changes in combination:
        both = sorted(set(out) & set(changes))
        if both:
            raise InputError(f"{both[0]} is set twice, by factor {name} at {level} and before it")
        out.update(changes)
    return out


def _key(text: str, seed: int, warm_up: str) -> str:
    whole = json.dumps([__version__, RESULT_FORMAT, text, seed, warm_up])
    return hashlib.sha256(whole.encode()).hexdigest()[:20]


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a case asks of its run beside the scenario."""

    tie_seed: int | None = None
    """Shuffles simultaneous events; None: first in, first out."""
    operator: dict[str, Any] = field(default_factory=dict)
    """Carrier settings of the operator in pods over those of its design."""


def run_options(case: Case) -> RunOptions:
    """The `options.` of a case. Raises InputError for one that does not exist."""
    found = {k.removeprefix(OPTIONS): v for k, v in json.loads(case.changes).items() if k.startswith(OPTIONS)}
    seed = found.pop("tie_seed", None)
    operator = {name.removeprefix(OPERATOR): found.pop(name) for name in sorted(found) if name.startswith(OPERATOR)}
    if found or not (seed is None or isinstance(seed, int)):
        raise InputError(
            f"{OPTIONS}{next(iter(found), 'tie_seed')} is no option",
            hint="options.tie_seed: 1, options.operator.poll_s: 10",
        )
    return RunOptions(seed, operator)


def scenario_of(loaded: LoadedStudy, case: Case) -> Scenario:
    """The scenario that a case runs. Raises InputError when a change makes it no scenario."""
    changes = {place: value for place, value in json.loads(case.changes).items() if not place.startswith(OPTIONS)}
    try:
        return Scenario.model_validate(changed(loaded.document, changes))
    except ValidationError as error:
        raise InputError(f"design {case.design} {case.point}: {first_error(error)}") from error
