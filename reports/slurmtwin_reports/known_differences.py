"""scenarios/known-differences.yaml: differences we know, with cause and size.

    schema: slurmtwin/known-differences/1
    differences:
      - scenario: mixed
        version: "22.05"            # optional: every version
        phase: start error, p95     # the verdict's phase or property
        world: slurm                # optional, for properties
        size: 45s                   # accepted up to here: a duration, `7 %`, or a count
        cause: why it differs, and what would end it

A listed difference is accepted as long as it is no larger; an unlisted one is a finding; so is an entry that
no verdict needs any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import parse_duration
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.yaml_file import line_of, load_yaml, plain
from slurmtwin_reports.verdict import FINDINGS, Outcome, Verdict

SCHEMA: Final = "slurmtwin/known-differences/1"
_NEEDED: Final = ("scenario", "phase", "size", "cause")
_ALLOWED: Final = (*_NEEDED, "version", "world")


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownDifference:
    """One entry; `size` in the verdict's unit (s, ratio, count)."""

    scenario: str
    phase: str
    size: float
    cause: str
    version: str = ""
    world: str = ""
    where: Where | None = None

    def fits(self, verdict: Verdict) -> bool:
        """The entry is about this verdict, whatever its size."""
        return (
            self.scenario == verdict.scenario
            and self.phase == verdict.subject
            and self.version in ("", verdict.version)
            and self.world in ("", verdict.world)
        )


def load_known_differences(path: Path | str) -> list[KnownDifference]:
    """Read the file; no file means no known differences. Raises InputError with file:line."""
    path = Path(path)
    if not path.exists():
        return []
    document = load_yaml(path)
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError("not a file of known differences", Where(str(path), 1), f"first line: schema: {SCHEMA}")
    for key in document:
        if key not in ("schema", "differences"):
            raise InputError(f"unknown key {key}", Where(str(path), line_of(document, (key,))))
    entries = document.get("differences")
    if not isinstance(entries, list):
        raise InputError("differences: is a list", Where(str(path), line_of(document, ("differences",)) or 1))
    return [_entry(plain(e), Where(str(path), line_of(document, ("differences", i)))) for i, e in enumerate(entries)]


def _entry(entry: Any, where: Where) -> KnownDifference:
    if not isinstance(entry, dict):
        raise InputError("an entry is a mapping", where, f"keys: {', '.join(_ALLOWED)}")
    for key in entry:
        if key not in _ALLOWED:
            raise InputError(f"unknown key {key}", where, f"keys: {', '.join(_ALLOWED)}")
    for key in _NEEDED:
        if entry.get(key) in (None, ""):
            raise InputError(f"{key} is missing", where)
    values = {key: str(entry.get(key, "")) for key in ("scenario", "phase", "cause", "version", "world")}
    return KnownDifference(**values, size=parse_size(str(entry["size"]), where), where=where)


def parse_size(text: str, where: Where | None = None) -> float:
    """`45s` -> 45.0 (seconds), `7 %` -> 0.07 (ratio), `3` -> 3.0 (count). Raises InputError otherwise."""
    word = text.strip()
    try:
        if word.endswith("%"):
            return float(word[:-1]) / 100
        if word.replace(".", "", 1).isdigit():
            return float(word)
        return parse_duration(word) / 1e9
    except (ValueError, InputError) as error:
        hint = "a duration such as 45s, a share such as 7 %, or a count"
        raise InputError(f"not a size: {text!r}", where, hint) from error


def apply_known(
    verdicts: Iterable[Verdict], known: Sequence[KnownDifference], complete: bool = True, ages: bool = True
) -> tuple[list[Verdict], list[Verdict]]:
    """(verdicts with accepted ones marked, findings about the file itself).

    An entry is stale when its verdict was judged and needs no acceptance, or, with `complete` (all scenarios
    were checked), when no verdict is about it at all. An unknown verdict neither uses nor ages its entry,
    except that an entry may accept it. Without `ages` (a part of the recordings was judged) none is stale: the others
    may still show it.
    """
    used = [False] * len(known)
    seen = [False] * len(known)
    out: list[Verdict] = []
    for verdict in verdicts:
        for place, entry in enumerate(known):
            if not entry.fits(verdict):
                continue
            seen[place] = True
            if verdict.outcome in FINDINGS or verdict.outcome is Outcome.UNKNOWN:
                used[place] = True
                verdict = _accept(verdict, entry)
        out.append(verdict)
    stale = [
        _stale(entry, judged)
        for entry, was_used, judged in zip(known, used, seen, strict=True)
        if ages and not was_used and (judged or complete)
    ]
    return out, stale


def _accept(verdict: Verdict, entry: KnownDifference) -> Verdict:
    if verdict.outcome in FINDINGS and verdict.size is not None and verdict.size > entry.size:
        note = f"{verdict.reason}; larger than the known difference of {entry.size:g} {verdict.unit}"
        return replace(verdict, reason=note)
    return replace(verdict, known=entry.cause)


def _stale(entry: KnownDifference, judged: bool) -> Verdict:
    why = "the difference is gone" if judged else "no verdict is about it"
    return Verdict(
        scenario=entry.scenario, version=entry.version, world=entry.world, subject="known-differences",
        outcome=Outcome.DIFFER, reason=f"stale entry for {entry.phase!r} at {entry.where}: {why}",
        size=1.0, unit="count", bar=0.0,
    )  # fmt: skip
