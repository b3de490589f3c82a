"""The timing card: what each design does at each event, as expected, as the twin finds it, as a cluster has shown it.

`scenarios/card/cells.yaml` says what stands in each cell, `scenarios/card/times.json` keeps the twin's spans
(slurmtwin.campaign.timing_card makes them). Recorded spans are read off the recordings here. All times in ns.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, model_validator

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.events import Kind
from slurmtwin.contract.fields import DurationNs, Strict
from slurmtwin.contract.phases import Milestone, Phase
from slurmtwin.contract.yaml_file import load_yaml, validated
from slurmtwin_reports.faults.milestones import marks_of
from slurmtwin_reports.history import Row
from slurmtwin_reports.phases import Span, read_rows, span

CELLS: Final = Path("scenarios/card/cells.yaml")
TIMES: Final = Path("scenarios/card/times.json")
PAGE: Final = Path("docs/timing-card.md")
CARD_SCHEMA: Final = "slurmtwin/timing-card/1"
TIMES_SCHEMA: Final = "slurmtwin/timing-card-times/1"
UNIT: Final = SECOND
"""The card counts in seconds: a recorded span that lies no further from the twin's is equal."""
SHARP: Final = "yes, sharp"
"""Confirmed, and a twin whose spans were half or twice as long would not be."""
Spans = list[int | None]
"""A span of each replication; None: its end did not come."""


class Column(Strict):
    """A design of the card; `design` is the file whose timers its cells take."""

    key: str
    title: str
    design: str
    grade: Literal["", "A", "B", "C"] = Field("", description="where it is not the design file's")


class EventLine(Strict):
    """One event, and where its span begins and ends unless a cell says otherwise."""

    key: str
    title: str
    measured: str
    faults: list[dict[str, Any]]
    spread: DurationNs = Field(0, description="the replications' first fault is spread evenly over so long")
    start: Milestone = Milestone(kind=Kind.FAULT_INJECTED)
    end: Milestone


class Recorded(Strict):
    """Recordings that show the cell's mechanism, and what was different in them."""

    scenario: str
    but: str = ""
    start: Milestone | None = None
    end: Milestone | None = None


class Cell(Strict):
    """What one design does at one event: bounds of what is expected, how the twin is asked; or why it is not."""

    event: str
    column: str
    expected: str
    low: DurationNs | None = None
    high: DurationNs | None = None
    absent: bool = Field(False, description="expected not to happen")
    reason: str = Field("", description="why the twin cannot produce it")
    note: str = ""
    pods: dict[str, Any] | None = Field(default_factory=dict, description="the scenario's section; null: no pods")
    conf: dict[str, Any] = Field(default_factory=dict)
    faults: list[dict[str, Any]] | None = None
    spread: DurationNs | None = None
    start: Milestone | None = None
    end: Milestone | None = None
    until: DurationNs = Field(0, description="end of the run, instead of the base's")
    recorded: Recorded | None = None

    @property
    def key(self) -> str:
        """EVENT/COLUMN."""
        return f"{self.event}/{self.column}"


class Card(Strict):
    """The whole file."""

    schema_: Literal["slurmtwin/timing-card/1"] = Field(alias="schema")
    replications: int = Field(ge=2)
    columns: list[Column]
    base: dict[str, Any]
    events: list[EventLine]
    cells: list[Cell]

    @model_validator(mode="after")
    def _whole(self) -> Card:
        wanted = [f"{event.key}/{column.key}" for event in self.events for column in self.columns]
        found = [cell.key for cell in self.cells]
        odd = sorted(set(wanted) ^ set(found)) or [key for key in found if found.count(key) > 1]
        if odd:
            raise ValueError(f"cell {odd[0]} is missing, there twice, or of no event and design")
        return self

    def event(self, key: str) -> EventLine:
        """The event of a cell."""
        return next(event for event in self.events if event.key == key)

    def column(self, key: str) -> Column:
        """The design of a cell."""
        return next(column for column in self.columns if column.key == key)

    def phase(self, cell: Cell, recorded: bool = False) -> Phase:
        """The cell's span, in the twin or in its recordings."""
        event, other = self.event(cell.event), cell.recorded if recorded else None
        return Phase(
            name=cell.event, low="0s", rests_on="", source="",
            start=(other and other.start) or cell.start or event.start,
            end=(other and other.end) or cell.end or event.end,
        )  # fmt: skip


def load_card(path: Path = CELLS) -> Card:
    """The card's cells. Raises InputError with file:line for the first thing that is wrong."""
    return validated(Card, load_yaml(path), path)


@dataclass(frozen=True, slots=True)
class CellTimes:
    """What the twin found for a cell: at its own settings, and from the start of each recording of it."""

    made_for: str
    own: Spans
    recorded: dict[str, Spans]


def load_times(path: Path = TIMES) -> dict[str, CellTimes]:
    """The kept spans by cell. Raises InputError when the file is broken."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != TIMES_SCHEMA:
            raise ValueError(document["schema"])
        return {key: CellTimes(**entry) for key, entry in document["cells"].items()}
    except FileNotFoundError:
        return {}
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"not a {TIMES_SCHEMA} document: {error}", Where(str(path))) from error


def times_text(times: Mapping[str, CellTimes]) -> str:
    """The text of the kept file: equal spans, equal bytes."""
    cells = {
        key: {"made_for": one.made_for, "own": one.own, "recorded": one.recorded} for key, one in sorted(times.items())
    }
    lines = [f'"{key}":{json.dumps(cell, sort_keys=True, separators=(",", ":"))}' for key, cell in cells.items()]
    return f'{{"schema":"{TIMES_SCHEMA}","cells":{{\n' + ",\n".join(lines) + "\n}}\n"


def length_of(rows: Sequence[Row], phase: Phase) -> int | None:
    """A replication's span. Raises InputError when it did not even begin: a card tells no such cell."""
    marks = marks_of(rows, phase)
    if marks.start is None:
        raise InputError(f"{phase.start.kind.value} did not come, so {phase.name} did not begin")
    return marks.length_ns


# verdicts


@dataclass(frozen=True, slots=True)
class Line:
    """One cell, told."""

    cell: Cell
    twin: str
    """Median and the interval that holds 90 % of the replications."""
    as_expected: str
    """yes, no, or empty where nothing is expected or the twin was not asked."""
    recorded: str
    confirmed: str
    """yes, SHARP, no, or empty without a recording."""
    remark: str

    @property
    def is_confirmed(self) -> bool:
        """Recordings show what the twin makes."""
        return self.confirmed in ("yes", SHARP)


def recordings_of(scenario: str, root: Path) -> list[Path]:
    """Run folders of a scenario, of all versions and repetitions."""
    return sorted(path.parent for path in (root / scenario).glob("*/*/*/manifest.json"))


def lines(card: Card, times: Mapping[str, CellTimes], recordings: Path) -> list[Line]:
    """Every cell in the file's order of events and designs. Raises InputError where one has no spans."""
    return [_line(card, cell, times.get(cell.key), recordings) for cell in card.cells]


def _line(card: Card, cell: Cell, times: CellTimes | None, root: Path) -> Line:
    if cell.reason:
        return Line(cell, "", "", "", "", cell.reason)
    if times is None:
        raise InputError(f"cell {cell.key} has no spans", hint="slurmtwin designs --renew")
    told, confirmed = "", ""
    remarks = [cell.note] if cell.note else []
    if cell.recorded is not None:
        told, confirmed, far = _against(card, cell, cell.recorded, times, root)
        remarks += [cell.recorded.but] if cell.recorded.but else []
        remarks += [f"recorded up to {far / SECOND:.1f} s beside the twin"] if confirmed == "no" and far else []
    return Line(cell, interval(times.own), _as_expected(cell, times.own), told, confirmed, "; ".join(remarks))


def _as_expected(cell: Cell, spans: Spans) -> str:
    found = sorted(one for one in spans if one is not None)
    if cell.absent:
        return "no" if found else "yes"
    if cell.low is None:
        return ""
    if len(found) < len(spans):
        return "no"
    middle = _quantile(found, 0.5)
    return "yes" if cell.low <= middle and (cell.high is None or middle <= cell.high) else "no"


def _against(card: Card, cell: Cell, recorded: Recorded, times: CellTimes, root: Path) -> tuple[str, str, int]:
    """Recorded spans in words; all of them inside the twin's from the same start, within UNIT; the worst distance."""
    phase = card.phase(cell, recorded=True)
    folders = {folder.relative_to(root).as_posix(): folder for folder in recordings_of(recorded.scenario, root)}
    if new := sorted(folders.keys() - times.recorded.keys()):
        raise InputError(f"{cell.key}: no twin was run from the start of {new[0]}", hint="slurmtwin designs --renew")
    pairs = [(span(read_rows(folder), phase), times.recorded[name]) for name, folder in folders.items()]
    if not pairs:
        raise InputError(f"{cell.key}: {recorded.scenario} has no recordings")
    shown = ["never" if one.length_ns is None else f"{one.length_ns / SECOND:.1f}" for one, _ in pairs]
    told = f"{_span_text(shown)} ({len(pairs)})"
    if not _all_near(pairs, 1.0):
        return told, "no", max(_distance(one, ours) or 0 for one, ours in pairs)
    return told, "yes" if _all_near(pairs, 0.5) or _all_near(pairs, 2.0) else SHARP, 0


def _all_near(pairs: Sequence[tuple[Span, Spans]], factor: float) -> bool:
    """Would a twin with spans times `factor` be confirmed?"""
    near = (_distance(one, [s if s is None else round(s * factor) for s in ours]) for one, ours in pairs)
    return all(distance is not None and distance <= UNIT for distance in near)


def _span_text(shown: Sequence[str]) -> str:
    numbers = sorted({float(one) for one in shown if one != "never"})
    said = f"{numbers[0]:g}" if len(numbers) == 1 else f"{numbers[0]:g}..{numbers[-1]:g}" if numbers else ""
    never = shown.count("never")
    return said if not never else "never" if not said else f"{said}, never in {never}"


def _distance(one: Span, ours: Spans) -> int | None:
    """ns from a recorded span (its error counted) to the twin's; None: one came and the other did not."""
    found = [length for length in ours if length is not None]
    if one.length_ns is None:
        return 0 if len(found) < len(ours) else None
    if not found:
        return None
    return max(0, min(found) - one.length_ns - one.error_ns, one.length_ns - one.error_ns - max(found))


def _quantile(ordered: Sequence[int], share: float) -> int:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def interval(spans: Spans) -> str:
    """Median [5 % .. 95 %] in seconds; `never`, or in how many it did not come."""
    found = sorted(one for one in spans if one is not None)
    if not found:
        return "never"
    low, middle, high = (_quantile(found, share) / SECOND for share in (0.05, 0.5, 0.95))
    missing = len(spans) - len(found)
    return f"{middle:.1f} [{low:.1f}..{high:.1f}]" + (f", never in {missing} of {len(spans)}" if missing else "")


def summary(told: Sequence[Line]) -> dict[str, int]:
    """How many cells there are, how many the twin makes, and how they fared."""
    real = [line for line in told if line.cell.expected != "n/a"]
    return {
        "cells": len(real),
        "made by the twin": sum(not line.cell.reason for line in real),
        "as expected": sum(line.as_expected == "yes" for line in real),
        "not as expected": sum(line.as_expected == "no" for line in real),
        "confirmed by recordings": sum(line.is_confirmed for line in real),
        "of these under the cell's own settings": sum(
            line.is_confirmed and not (line.cell.recorded and line.cell.recorded.but) for line in real
        ),
        "of these sharply": sum(line.confirmed == SHARP for line in real),
        "recorded otherwise": sum(line.confirmed == "no" for line in real),
    }  # fmt: skip


HEAD: Final = """# Timing card

Generated by `slurmtwin designs --renew`; do not edit. What a design does at an event, in seconds: as the design notes
expect it, as the twin finds it at the design's own timers (median and the interval of 90 % of {replications}
replications, the fault spread over the timers), and as it was recorded on real daemons or a real cluster (lowest and
highest of so many repetitions). *As expected*: the twin's median lies within what the notes say. *Confirmed*: from the
start of every recording the twin makes the same span, to one second and the recording's own error; *sharp*: half or
twice the twin's span would not be confirmed, which a span of a second or of a wide timer cannot be. What was different
in the recordings, mostly shortened timers, is named. A cell without numbers says why.
"""


def page(card: Card, told: Sequence[Line], grades: Mapping[str, str]) -> str:
    """The generated documentation page. grades: by design, and by letter, each in words."""
    out = [HEAD.format(replications=card.replications), "| cells | |", "|---|---|"]
    out += [f"| {name} | {count} |" for name, count in summary(told).items()]
    out += ["", "| design | grade |", "|---|---|"]
    out += [f"| {column.title} | {grades[column.grade or column.design]} |" for column in card.columns]
    for event in card.events:
        out += ["", f"## {event.title}", "", f"Measured: {event.measured}.", ""]
        out += ["| design | expected | twin | as expected | recorded | confirmed | remark |", "|---" * 7 + "|"]
        for line in told:
            if line.cell.event == event.key:
                out.append("| " + " | ".join((card.column(line.cell.column).title, *_cells(line))) + " |")
    return "\n".join(out) + "\n"


def _cells(line: Line) -> tuple[str, ...]:
    said = (line.cell.expected, line.twin, line.as_expected, line.recorded, line.confirmed, line.remark)
    return tuple(text.replace("|", "\\|") or "-" for text in said)
