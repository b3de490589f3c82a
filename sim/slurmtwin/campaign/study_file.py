"""A study file (slurmtwin/study/1): one question, one base scenario, designs and factors that change it, seeds.

A design or a level of a factor is a set of changes to the base scenario, each named by its dotted place in the
file: `slurm.conf.SchedulerType: sched/builtin`, `workload.generate.load: 0.8`, `slurm.nodes.0.CPUs: 8`.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ConfigDict, Field, model_validator

from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.fields import Strict
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.contract.yaml_file import load_yaml, validated
from slurmtwin.worlds.outside import literal_scenario

STUDY_SCHEMA: Final = "slurmtwin/study/1"
Changes = dict[str, Any]
"""Dotted place in the scenario -> the value it gets."""


class Factor(Strict):
    """One thing that is varied: a place with values, or named levels that change several places."""

    name: str = Field(pattern=r"^[a-z][a-z0-9_]{0,40}$")
    path: str = Field("", description="the place that `values` go to")
    values: list[Any] = Field(default_factory=list)
    levels: dict[str, Changes] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_form(self) -> Factor:
        if bool(self.path and self.values) == bool(self.levels):
            raise ValueError("give `path` with `values`, or `levels`")
        return self

    def choices(self) -> list[tuple[str, Changes]]:
        """(level name, changes) in the file's order."""
        if self.levels:
            return list(self.levels.items())
        return [(str(value), {self.path: value}) for value in self.values]


class Seeds(Strict):
    """Replications: root seeds first, first + 1, ... Every design and level meets the same ones."""

    first: int = Field(1, ge=0)
    count: int = Field(20, ge=1, le=1_000_000)
    most: int = Field(0, ge=0, description="add seeds up to so many until the half-width asked for; 0: never add")
    half_width: float = Field(0.05, gt=0, lt=1, description="wanted half-width, as a share of the metric's mean")


class Uncertain(Strict):
    """A parameter that was guessed: places of the scenario times a factor between low and high (`sensitivity`)."""

    low: float = Field(gt=0)
    high: float = Field(gt=0)
    places: dict[str, float] = Field(min_length=1, description="place -> the power of the factor it is multiplied by")

    @model_validator(mode="after")
    def _ordered(self) -> Uncertain:
        if self.high <= self.low:
            raise ValueError("`high` must lie above `low`")
        return self


class Study(Strict):
    """One study file."""

    schema_: Literal["slurmtwin/study/1"] = Field(alias="schema")
    name: str = Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")
    question: str
    scenario: str = Field(description="the base scenario file, relative to the study file")
    designs: dict[str, Changes] = Field(default={"as-is": {}}, min_length=1)
    baseline: str = Field("", description="the design others are compared with; default: the first")
    grades: dict[str, str] = Field(default_factory=dict, description="how far each design's model was checked")
    factors: list[Factor] = Field(default_factory=list)
    crossing: Literal["all", "one-at-a-time"] = Field(
        "all", description="every combination of levels, or each factor alone with the others at their first level"
    )
    seeds: Seeds = Seeds()
    metrics: list[str] = Field(default=["mean_wait_s", "p95_wait_s", "mean_bounded_slowdown"], min_length=1)
    warm_up: Literal["mser-5", "none"] = "mser-5"
    caveats: list[str] = Field(default_factory=list, description="what of the answer comes from how it is modelled")
    uncertain: dict[str, Uncertain] = Field(default_factory=dict, description="what `slurmtwin sensitivity` varies")
    sampled: Changes = Field(default_factory=dict, description="changes to the base for its samples: fewer jobs, say")

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    @model_validator(mode="after")
    def _whole(self) -> Study:
        if self.baseline and self.baseline not in self.designs:
            raise ValueError(f"baseline {self.baseline!r} is no design")
        names = [factor.name for factor in self.factors]
        if len(set(names)) < len(names):
            raise ValueError("two factors have one name")
        return self

    @property
    def reference(self) -> str:
        """The design others are compared with."""
        return self.baseline or next(iter(self.designs))


class LoadedStudy(Strict):
    """A study with its base scenario written out: everything a worker needs beside the trace file itself."""

    study: Study
    base: Scenario
    folder: str
    """Where file names of the base scenario are relative to, absolute."""
    path: str = ""

    @cached_property
    def document(self) -> dict[str, Any]:
        """The base scenario as a plain document that changes are made to."""
        document = json.loads(self.base.model_dump_json(by_alias=True, exclude_defaults=True))
        assert isinstance(document, dict)
        return {"schema": self.base.schema_, **document}

    @cached_property
    def sha256(self) -> str:
        """Hash of what decides the results: study and scenario, not where they lie."""
        text = json.dumps([self.study.model_dump(mode="json", by_alias=True), self.document], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


def load_study(path: Path | str) -> LoadedStudy:
    """The study in a YAML file, and its scenario. Raises InputError with file:line for the first thing wrong."""
    path = Path(path)
    document = load_yaml(path)
    if not isinstance(document, dict) or document.get("schema") != STUDY_SCHEMA:
        raise InputError("not a study file", Where(str(path), 1), f"first line: schema: {STUDY_SCHEMA}")
    study = validated(Study, document, path)
    target = path.parent / study.scenario
    base = literal_scenario(load_scenario(target), target.parent)
    return LoadedStudy(study=study, base=base, folder=str(target.parent.resolve()), path=str(path))


def changed(document: dict[str, Any], changes: Changes) -> dict[str, Any]:
    """A copy of a document with values put at dotted places. Raises InputError where no such place can be.

    The last part of a place may be new in a mapping; a part of a list is its number.
    """
    out: dict[str, Any] = json.loads(json.dumps(document))
    for place, value in changes.items():
        node: Any = out
        *parents, last = place.split(".")
        for part in parents:
            node = _step(node, part, place)
        if isinstance(node, list):
            number = _number(last, len(node), place)
            node[number] = value
        elif isinstance(node, dict):
            node[last] = value
        else:
            raise InputError(f"{place}: {last} has no place in {node!r}")
    return out


def _step(node: Any, part: str, place: str) -> Any:
    if isinstance(node, list):
        return node[_number(part, len(node), place)]
    if not isinstance(node, dict):
        raise InputError(f"{place}: {part} has no place in {node!r}")
    return node.setdefault(part, {})


def _number(part: str, size: int, place: str) -> int:
    if not part.isdigit() or int(part) >= size:
        raise InputError(f"{place}: {part} is no place in a list of {size}")
    return int(part)
