"""What every part of a scenario file is made of: strict frozen models, durations with a unit, literal values."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainSerializer

from slurmtwin.contract.clock import format_duration, parse_duration
from slurmtwin.contract.errors import InputError


def _duration(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("a duration needs a unit, for example 90s, 10m, 1h30m")
    if isinstance(value, int):
        raise ValueError(f"a duration needs a unit: write {value}s or {value}m")
    try:
        return parse_duration(value)
    except InputError as error:
        raise ValueError(str(error)) from error


DurationNs = Annotated[
    int,
    BeforeValidator(_duration, json_schema_input_type=str),
    PlainSerializer(format_duration, return_type=str),
]
"""A duration with unit in the file, integer nanoseconds inside."""

Scalar = str | int | float | bool


class Strict(BaseModel):
    """Base of every part: frozen, and unknown keys refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
