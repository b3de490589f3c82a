"""Recorded passes, (observed, memory, now) -> plan, fed to today's core: equal plans, or the first difference.

A recording is a file `plans.jsonl` (or `.jsonl.gz`): one header line, then one JSON object per pass. The carrier on a
cluster writes it beside the run's events; nothing secret is in an observation.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import IO, Any, Final

from slurmtwin.contract.errors import InputError, Where
from slurmtwin_operator.codec import kind_of, read_memory, read_observed, read_plan, to_json
from slurmtwin_operator.core import plan as own_plan
from slurmtwin_operator.core.actions import Memory, Plan
from slurmtwin_operator.core.observed import Observed

PLANS_SCHEMA: Final = "slurmtwin/plans/1"
Core = Callable[[Any, Memory, int], Plan]


@dataclass(frozen=True, slots=True)
class Pass:
    """One recorded pass and its place."""

    where: Where
    observed: Observed
    memory: Memory
    now_ns: int
    plan: Plan


@dataclass(frozen=True, slots=True)
class Difference:
    """Where today's plan is another one."""

    where: Where
    place: str
    """Path inside the plan, such as actions[2].node."""
    recorded: str
    now: str

    def __str__(self) -> str:
        return f"{self.where}: {self.place}: recorded {self.recorded}, now {self.now}"


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a replay found."""

    passes: int
    difference: Difference | None


class Recorder:
    """Writes passes to a stream, the header first."""

    def __init__(self, stream: IO[str]) -> None:
        self._stream = stream
        self._write({"schema": PLANS_SCHEMA})

    def _write(self, document: Any) -> None:
        self._stream.write(json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n")

    def write(self, observed: Observed, memory: Memory, now_ns: int, plan: Plan) -> None:
        """Append one pass."""
        self._write({
            "kind": kind_of(observed), "observed": to_json(observed), "memory": to_json(memory), "now_ns": now_ns,
            "plan": to_json(plan),
        })  # fmt: skip


def read_passes(path: Path) -> Iterator[Pass]:
    """The passes of a recording. Raises InputError with file:line."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as stream:
            yield from _passes(stream, str(path))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"cannot read: {error}", Where(str(path))) from error


def _passes(stream: Iterable[str], name: str) -> Iterator[Pass]:
    for number, line in enumerate(stream, 1):
        where = Where(name, number)
        try:
            document = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"not JSON: {error}", where) from error
        if not isinstance(document, dict):
            raise InputError("not an object", where)
        if number == 1:
            if document.get("schema") != PLANS_SCHEMA:
                raise InputError(f"schema {document.get('schema')!r} is not {PLANS_SCHEMA}", where)
            continue
        try:
            yield Pass(
                where, read_observed(str(document.get("kind")), document.get("observed")),
                read_memory(document.get("memory")), int(document["now_ns"]), read_plan(document.get("plan")),
            )  # fmt: skip
        except InputError as error:
            raise error.at(where) from error
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"no time of the pass: {error}", where) from error


def replay(path: Path, core: Core = own_plan) -> Replayed:
    """Feed a recording to a core, up to the first difference. Raises InputError for a broken file."""
    passes = 0
    for recorded in read_passes(path):
        passes += 1
        today = core(recorded.observed, recorded.memory, recorded.now_ns)
        if today != recorded.plan:
            place, before, after = _first(to_json(recorded.plan), to_json(today), "")
            return Replayed(passes, Difference(recorded.where, place.lstrip("."), before, after))
    return Replayed(passes, None)


def _first(before: Any, after: Any, place: str) -> tuple[str, str, str]:
    """The first place in which two JSON documents differ."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            if before.get(key) != after.get(key):
                return _first(before.get(key), after.get(key), f"{place}.{key}")
    if isinstance(before, list) and isinstance(after, list):
        for index, (one, other) in enumerate(zip_longest(before, after)):
            if one != other:
                return _first(one, other, f"{place}[{index}]")
    return place, _short(before), _short(after)


def _short(value: Any) -> str:
    text = "nothing" if value is None else json.dumps(value, sort_keys=True)
    return text if len(text) <= 200 else f"{text[:197]}..."


def recordings(paths: Iterable[Path]) -> list[Path]:
    """The recordings named, or found below the folders named, sorted."""
    found: list[Path] = []
    for path in paths:
        found += sorted([*path.rglob("plans.jsonl"), *path.rglob("plans.jsonl.gz")]) if path.is_dir() else [path]
    return found


def check_plans(paths: Iterable[Path], command: str = "") -> list[tuple[Path, Replayed]]:
    """Replay recordings with the own core, or with one that runs as a child process (a command line)."""
    files = recordings(paths)
    if not command:
        return [(path, replay(path)) for path in files]
    from slurmtwin_operator.child import ChildCore

    with ChildCore(command) as core:
        return [(path, replay(path, core)) for path in files]
