"""Observations, memories and plans as JSON, both ways, strictly checked. Nothing secret is in them by construction."""

from __future__ import annotations

from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from slurmtwin.contract.errors import InputError
from slurmtwin_operator.core.actions import Memory, Plan
from slurmtwin_operator.core.observed import (
    ClusterObserved,
    DispatchObserved,
    NodeSetObserved,
    Observed,
    PodGroupObserved,
)  # fmt: skip

KINDS: Final[dict[str, type[Any]]] = {
    "Cluster": ClusterObserved, "NodeSet": NodeSetObserved, "PodGroup": PodGroupObserved, "Dispatch": DispatchObserved,
}  # fmt: skip
"""Kind of object -> its observation."""


_ADAPTERS: Final = {kind: TypeAdapter[Any](kind) for kind in (*KINDS.values(), Memory, Plan)}


def kind_of(observed: Observed) -> str:
    """The kind of object that an observation is about."""
    return next(name for name, kind in KINDS.items() if isinstance(observed, kind))


def to_json(value: Any) -> Any:
    """A frozen value of the core as plain JSON values."""
    return _ADAPTERS[type(value)].dump_python(value, mode="json")


def _read(kind: type[Any], document: Any) -> Any:
    try:
        return _ADAPTERS[kind].validate_python(document)
    except (ValidationError, RecursionError) as error:
        text = str(error).splitlines()
        raise InputError(f"not a {kind.__name__}: {' '.join(text[1:3]).strip()[:200]}") from error


def read_observed(kind: str, document: Any) -> Observed:
    """An observation of that kind. Raises InputError for anything else."""
    if kind not in KINDS:
        raise InputError(f"no object is of kind {kind!r}", hint=f"one of {', '.join(KINDS)}")
    found: Observed = _read(KINDS[kind], document)
    return found


def read_memory(document: Any) -> Memory:
    """A memory; an empty document is an empty memory. Raises InputError."""
    found: Memory = _read(Memory, document or {})
    return found


def read_plan(document: Any) -> Plan:
    """A plan. Raises InputError."""
    found: Plan = _read(Plan, document)
    return found
