"""What is covered: capabilities F1..F103 and scenarios X1..X90 of the design notes, each with its home or the reason.

`python -m slurmtwin_reports.coverage [--html FILE]`. The data are scenarios/coverage.yaml; what can be seen is not
written there but looked up: a scenario with a file is done when it has three recordings, else partly.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.manifest import write_atomic
from slurmtwin.contract.yaml_file import load_yaml, plain

SCHEMA: Final = "slurmtwin/coverage/1"
FEATURES: Final = tuple(f"F{n}" for n in range(1, 104))
SCENARIOS: Final = tuple(f"X{n}" for n in range(1, 91))
STATUSES: Final = ("done", "partly", "open", "out")
MEANING: Final = {
    "done": "modelled, or in the operator, and tested; a scenario: recorded three times",
    "partly": "some of it: the reason says what is missing",
    "open": "nothing yet",
    "out": "out of reach: the reason says why",
}
ENOUGH: Final = 3
_FILE = re.compile(r"x([0-9]+)-.*\.yaml\Z")


@dataclass(frozen=True, slots=True)
class Covered:
    """One capability or scenario."""

    key: str
    title: str
    status: str
    reason: str = ""
    homes: tuple[str, ...] = ()


ROOMS: Final = ("faults", "clusters")
_PODS: Final = re.compile(r"^pods:", re.MULTILINE)


def load_coverage(root: Path = Path()) -> list[Covered]:
    """All 193 entries in order. Raises InputError for one that is missing, unknown, without reason or without home."""
    path = root / "scenarios" / "coverage.yaml"
    document = plain(load_yaml(path))
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise InputError(f"not a {SCHEMA} document", Where(str(path), 1))
    out = []
    for part, keys in (("features", FEATURES), ("scenarios", SCENARIOS)):
        entries = document.get(part) or {}
        odd = sorted(set(entries) ^ set(keys))
        if odd:
            word = "is unknown" if odd[0] in entries else "is missing"
            raise InputError(f"{part}: {odd[0]} {word}", Where(str(path)))
        files = scenario_files(root) if part == "scenarios" else {}
        out += [_entry(key, entries[key], files.get(key, []), root, path) for key in keys]
    return out


def scenario_files(root: Path = Path()) -> dict[str, list[Path]]:
    """X1 -> the files xN-*.yaml of scenarios/faults and scenarios/clusters, in order."""
    out: dict[str, list[Path]] = {}
    for path in [path for room in ROOMS for path in sorted((root / "scenarios" / room).glob("x*.yaml"))]:
        found = _FILE.match(path.name)
        if found:
            out.setdefault(f"X{found[1]}", []).append(path)
    return out


def recordings_of(path: Path, root: Path = Path()) -> int:
    """Recorded runs of a scenario file in pods, of all versions."""
    return len(list((root / "scenarios" / "recordings" / path.stem).glob("*/pods/*/manifest.json")))


def _entry(key: str, entry: Any, files: Sequence[Path], root: Path, path: Path) -> Covered:
    allowed = {"title", "status", "reason", "homes"}
    if not isinstance(entry, dict) or not entry.get("title") or set(entry) - allowed:
        raise InputError(f"{key}: a mapping with title, status, reason, homes is needed", Where(str(path)))
    if files:
        return _of_files(key, str(entry["title"]), files, root)
    status, reason = str(entry.get("status", "")), str(entry.get("reason") or "")
    homes = tuple(str(home) for home in entry.get("homes") or ())
    if status not in STATUSES or (key.startswith("X") and status == "done"):
        raise InputError(f"{key}: status {status!r} is none for it", Where(str(path)))
    if status != "done" and not reason:
        raise InputError(f"{key}: {status} needs a reason", Where(str(path)))
    if status in ("done", "partly") and not homes:
        raise InputError(f"{key}: {status} needs a home", Where(str(path)))
    gone = [home for home in homes if not (root / home).exists()]
    if gone:
        raise InputError(f"{key}: there is no {gone[0]}", Where(str(path)))
    return Covered(key, str(entry["title"]), status, reason, homes)


def _of_files(key: str, title: str, files: Sequence[Path], root: Path) -> Covered:
    """Done when each file has its recordings, whatever the data say of the time before there was one.

    A file without pods is for the twin alone: it counts where no other one is of pods.
    """
    recordable = [path for path in files if _is_of_pods(path)] or files
    few = [
        f"{path.stem} has {count} recordings" for path in recordable if (count := recordings_of(path, root)) < ENOUGH
    ]
    homes = tuple(path.relative_to(root).as_posix() for path in files)
    return Covered(key, title, "partly" if few else "done", "; ".join(few), homes)


def _is_of_pods(path: Path) -> bool:
    """A scenario that a cluster can run."""
    return path.is_file() and _PODS.search(path.read_text(encoding="utf-8")) is not None


def counts(entries: Sequence[Covered]) -> dict[str, int]:
    """Status -> how many, in the order of STATUSES."""
    return {status: sum(entry.status == status for entry in entries) for status in STATUSES}


def coverage_context(entries: Sequence[Covered]) -> dict[str, Any]:
    """What templates/coverage.html needs."""
    parts = []
    for title, letter in (("Scenarios", "X"), ("Capabilities", "F")):
        rows = [entry for entry in entries if entry.key[0] == letter]
        parts.append({"title": title, "counts": counts(rows), "rows": rows})
    return {"meaning": MEANING, "parts": parts}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the counts and everything that is not done; --html writes a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path())
    parser.add_argument("--html", type=Path)
    options = parser.parse_args(arguments)
    try:
        entries = load_coverage(options.root)
    except InputError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for part, letter in (("scenarios", "X"), ("capabilities", "F")):
        said = ", ".join(f"{n} {status}" for status, n in counts([e for e in entries if e.key[0] == letter]).items())
        sys.stdout.write(f"{part}: {said}\n")
    for entry in entries:
        if entry.status != "done":
            sys.stdout.write(f"{entry.key:5} {entry.status:7} {entry.title}: {entry.reason}\n")
    if options.html:
        from slurmtwin_reports.html import Report, render

        write_atomic(options.html, render(Report("slurmtwin coverage", coverage=entries)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
