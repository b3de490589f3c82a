"""Phases of recorded runs beside their predictions: `python -m slurmtwin_reports.phases` writes docs/kind-phases.md.

A phase and its prediction stand in the scenario (contract/phases.py), committed before the recording. Here each
repetition's span is read off the event table alone; a time is known to the sum of both milestones' errors.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.manifest import read_manifest
from slurmtwin.contract.phases import Phase
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.contract.yaml_file import load_yaml, plain
from slurmtwin_reports.faults.milestones import marks_of
from slurmtwin_reports.history import Row
from slurmtwin_reports.load import json_blocks

TABLE: Final = Path("docs/kind-phases.md")
SCENARIOS: Final = (Path("scenarios/faults"), Path("scenarios/operator"), Path("scenarios/clusters"))
REASONS: Final = Path("scenarios/phase-reasons.yaml")
AGREE: Final = "agree"
DIFFER: Final = "differ"
UNKNOWN: Final = "unknown"
CALL_MS: Final = 100
"""A fault's call should begin this soon after its planned time."""
CROWDED_LOAD: Final = 20


@dataclass(frozen=True, slots=True)
class Span:
    """One repetition of a phase: its length and error in ns; None when the end (or start) did not come."""

    length_ns: int | None
    error_ns: int = 0
    started: bool = True


def read_rows(folder: Path) -> list[Row]:
    """The rows of a run folder's events.jsonl.gz. Raises InputError when there is none, or one is broken."""
    blocks = json_blocks(folder / "events.jsonl.gz")
    return [Row._make(map(row.get, Row._fields)) for _, documents in blocks for row in documents]


def span(rows: Sequence[Row], phase: Phase) -> Span:
    """One repetition of a phase."""
    marks = marks_of(rows, phase)
    if marks.start is None:
        return Span(None, started=False)
    return Span(marks.length_ns, marks.error_ns if marks.end is not None else 0)


def verdict(phase: Phase, spans: Sequence[Span]) -> str:
    """agree: every repetition may lie within the prediction; differ: one cannot; unknown: nothing to judge."""
    if not spans or any(not one.started for one in spans):
        return UNKNOWN
    return AGREE if all(phase.allows(one.length_ns, one.error_ns) for one in spans) else DIFFER


def _text(one: Span) -> str:
    if not one.started:
        return "no start"
    if one.length_ns is None:
        return "none"
    return f"{one.length_ns / SECOND:.1f} ± {max(one.error_ns / SECOND, 0.05):.1f}"


def _predicted(phase: Phase) -> str:
    if phase.absent:
        return "none"
    high = f"{phase.high / SECOND:g}" if phase.high is not None else "…"
    return f"{phase.low / SECOND:g}..{high}"


def by_version(scenario: Scenario, recordings: Path) -> list[tuple[str, list[Path]]]:
    """(name, run folders) of the scenario's own version, and of each other as `NAME (VERSION)`."""
    found: dict[str, list[Path]] = {scenario.slurm.version: []}
    for path in sorted((recordings / scenario.name).glob("*/pods/*/manifest.json")):
        found.setdefault(path.parts[-4], []).append(path.parent)
    own = scenario.slurm.version
    return [(scenario.name if version == own else f"{scenario.name} ({version})", found[version]) for version in found]


def scenario_lines(
    scenario: Scenario, folders: Sequence[Path], reasons: Mapping[str, str], name: str = ""
) -> tuple[list[str], list[str]]:
    """The table of one scenario, and the phases that differ, as NAME/PHASE; name: default the scenario's."""
    name = name or scenario.name
    version = name.partition(" (")[2].rstrip(")") or scenario.slurm.version
    loads = [str(read_manifest(folder).resources.get("host_load", "?")) for folder in folders]
    tables = [read_rows(folder) for folder in folders]
    loaded = f" at host load {', '.join(loads)}" if loads else ""
    lines = [
        f"## {name}", "", f"{scenario.title}. {scenario.source}. {len(folders)} repetitions{loaded}.", "",
        "| phase | predicted, s | recorded, s | verdict | rests on | reason |", "|---|---|---|---|---|---|",
    ]  # fmt: skip
    differing: list[str] = []
    for phase in scenario.expect.of_version(version).phases:
        spans = [span(rows, phase) for rows in tables]
        said = verdict(phase, spans)
        if said == DIFFER:
            differing.append(f"{name}/{phase.name}")
        shown = "; ".join(map(_text, spans)) or "-"
        reason = reasons.get(f"{name}/{phase.name}", "") if said == DIFFER else ""
        lines.append(f"| {phase.name} | {_predicted(phase)} | {shown} | {said} | {phase.rests_on} | {reason} |")
    return [*lines, ""], differing


def calls_line(recordings: Path) -> str:
    """How many calls of faults, over all recorded runs, began within CALL_MS of their planned time."""
    calm: list[bool] = []
    crowded: list[bool] = []
    for path in recordings.glob("*/*/pods/*/manifest.json"):
        manifest = read_manifest(path.parent)
        calls = calm if float(manifest.resources.get("host_load", 0)) < CROWDED_LOAD else crowded
        calls += [ms <= CALL_MS for ms in manifest.results.get("fault_late_ms") or []]
    every = calm + crowded
    if not every:
        return ""
    return (
        f"Calls of faults within {CALL_MS} ms of their planned time: {sum(every)} of {len(every)} "
        f"({100 * sum(every) / len(every):.1f} %); {sum(calm)} of {len(calm)} at a host load under {CROWDED_LOAD}, "
        f"{sum(crowded)} of {len(crowded)} above. A run with a call more than 1 s late is not recorded.\n"
    )


def load_reasons(path: Path) -> dict[str, str]:
    """SCENARIO/PHASE -> why it differs, one line each. Raises InputError for another form."""
    if not path.exists():
        return {}
    document = plain(load_yaml(path))
    if not isinstance(document, dict) or not all(isinstance(v, str) for v in document.values()):
        raise InputError(f"{path}: a mapping of SCENARIO/PHASE to a reason is needed")
    return {str(key): str(value) for key, value in document.items()}


HEAD: Final = """# Phases on Kubernetes beside their predictions

Generated by `python -m slurmtwin_reports.phases`; do not edit. A prediction, and the parameter it rests on, stood in
the scenario before its recording. agree: every repetition may lie within it, given its measurement error; differ: one
cannot. A phase whose prediction is `none` must not end within the run.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table. Exit 1 when a phase differs without a reason, or has a reason and does not differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scenarios", type=Path, nargs="+", default=list(SCENARIOS))
    parser.add_argument("--recordings", type=Path, default=Path("scenarios/recordings"))
    parser.add_argument("--out", type=Path, default=TABLE)
    parser.add_argument("--reasons", type=Path, default=REASONS)
    options = parser.parse_args(arguments)
    reasons = load_reasons(options.reasons)
    lines = [HEAD, calls_line(options.recordings)]
    differing: set[str] = set()
    for path in (path for folder in options.scenarios for path in sorted(folder.glob("*.yaml"))):
        scenario = load_scenario(path)
        if not scenario.expect.phases:
            continue
        for name, folders in by_version(scenario, options.recordings):
            made, found = scenario_lines(scenario, folders, reasons, name)
            lines += made
            differing |= set(found)
    options.out.write_text("\n".join(lines))
    unexplained, stale = sorted(differing - reasons.keys()), sorted(reasons.keys() - differing)
    for name in unexplained:
        sys.stderr.write(f"{name} differs without a reason\n")
    for name in stale:
        sys.stderr.write(f"{name} has a reason and does not differ\n")
    return 1 if unexplained or stale else 0


if __name__ == "__main__":
    sys.exit(main())
