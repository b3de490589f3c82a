"""Observations, memories and plans as JSON, both ways, strictly checked. Nothing secret is in them by construction.

`python -m slurmtwin_operator.codec [--check]` writes their JSON Schema, for cores in other languages.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
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


SCHEMA_FILE: Final = Path(__file__).parent.parent / "schema" / "core-1.json"


def schema_text() -> str:
    """JSON Schema (2020-12) of a request to a core and of its answer."""
    shared: dict[str, Any] = {}
    parts: dict[str, Any] = {}
    kinds: dict[str, type[Any]] = {**KINDS, "Memory": Memory, "Plan": Plan}
    for name, kind in kinds.items():
        schema = _ADAPTERS[kind].json_schema(by_alias=False)
        shared |= schema.pop("$defs", {})
        parts[name] = schema
    request = [
        {"type": "object", "required": ["kind", "observed", "memory", "now_ns"], "properties": {
            "kind": {"const": name}, "observed": {"$ref": f"#/$defs/{name}Observed"},
            "memory": {"$ref": "#/$defs/Memory"}, "now_ns": {"type": "integer"}}}
        for name in KINDS
    ]  # fmt: skip
    answer = [
        {"type": "object", "required": ["plan"], "properties": {"plan": {"$ref": "#/$defs/Plan"}}},
        {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
    ]
    named = {f"{name}Observed" if name in KINDS else name: part for name, part in parts.items()}
    document = {
        "$schema": "https://json-schema.org/draft/2020-12/schema", "title": "slurmtwin/core/1",
        "description": "One line to a core (request), one line back (answer).",
        "$defs": {**shared, **named, "request": {"oneOf": request}, "answer": {"oneOf": answer}},
        "oneOf": [{"$ref": "#/$defs/request"}, {"$ref": "#/$defs/answer"}],
    }  # fmt: skip
    return json.dumps(document, indent=1, sort_keys=True) + "\n"


def main(arguments: list[str]) -> int:
    """Write the schema, or with --check say whether it is stale (exit code 1)."""
    wanted = schema_text()
    if "--check" not in arguments:
        SCHEMA_FILE.parent.mkdir(exist_ok=True)
        SCHEMA_FILE.write_text(wanted, encoding="utf-8")
    elif not SCHEMA_FILE.exists() or SCHEMA_FILE.read_text(encoding="utf-8") != wanted:
        sys.stderr.write(f"stale: {SCHEMA_FILE.name}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
