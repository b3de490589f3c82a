"""A scenario with one of its parameters halved or doubled (contract/phases.py, `parameter`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from math import ceil
from typing import Any, Final

from slurmtwin.contract.clock import format_duration, parse_duration
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.pod_durations import DURATIONS, RULES
from slurmtwin.contract.scenario import Scenario

_NUMBER: Final = re.compile(r"([0-9]+)(\.[0-9]+)?([A-Za-z]*)\Z")


@dataclass(frozen=True, slots=True)
class Changed:
    """What a replication runs with: the scenario, and factors of calibrated durations and of the twin's own rules."""

    scenario: Scenario
    durations: dict[str, float] = field(default_factory=dict)
    rules: dict[str, float] = field(default_factory=dict)


def change(scenario: Scenario, parameter: str, factor: float) -> Changed:
    """The scenario with `parameter` times `factor`; whole numbers are rounded up.

    Raises InputError when there is no such parameter, neither the scenario nor its format sets it, or it is no number.
    """
    head, _, name = parameter.partition(":")
    if head in ("duration", "rule"):
        known = DURATIONS if head == "duration" else RULES
        if name not in known:
            raise InputError(f"no {head} is called {name!r}", hint=f"one of {', '.join(known)}")
        factors = {name: factor}
        return Changed(scenario, durations=factors) if head == "duration" else Changed(scenario, rules=factors)
    document = scenario.model_dump(mode="json", by_alias=True)
    place: Any = document
    *path, last = head.split(".")
    for key in path:
        if isinstance(place, list) and key.isdigit() and int(key) < len(place):
            place = place[int(key)]
        else:
            place = place.get(key) if isinstance(place, dict) else None
    if not isinstance(place, dict) or last not in place:
        raise InputError(f"{scenario.name} does not set {parameter}")
    place[last] = _option(place[last], name, factor, parameter) if name else _times(place[last], factor, parameter)
    return Changed(Scenario.model_validate(document))


def _option(value: Any, name: str, factor: float, parameter: str) -> str:
    """One option of a text such as `cred_expire=10,x=2`."""
    parts = str(value).split(",")
    places = [i for i, part in enumerate(parts) if part.partition("=")[0].strip() == name]
    if not places:
        raise InputError(f"{parameter}: {value!r} has no {name}")
    word = parts[places[0]].partition("=")[2]
    parts[places[0]] = f"{name}={_times(word, factor, parameter)}"
    return ",".join(parts)


def _times(value: Any, factor: float, parameter: str) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return ceil(value * factor)
    text = str(value)
    found = _NUMBER.match(text)
    if found and (not found[3] or found[3] not in ("s", "m", "h", "d", "ms", "us", "ns")):
        number = float(found[1] + (found[2] or "")) * factor
        return f"{ceil(number) if number >= 1 or not found[3] else number:g}{found[3]}"
    try:
        return format_duration(round(parse_duration(text) * factor))
    except InputError as error:
        raise InputError(f"{parameter}: {value!r} is no number, duration or quantity") from error
