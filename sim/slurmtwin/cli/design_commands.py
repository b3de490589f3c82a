"""`designs`: the named ways to run Slurm with Kubernetes, each with how far its model was checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from slurmtwin.cli.output import command, emit_json, emit_rows, say
from slurmtwin.contract.errors import ExitCode, InputError, Where
from slurmtwin.contract.yaml_file import load_yaml, plain

SCHEMA: Final = "slurmtwin/design/1"
GRADES: Final = {"A": "run against the real operator", "B": "mechanisms recorded on a cluster", "C": "read only"}


def load_designs(folder: Path) -> dict[str, dict[str, Any]]:
    """The designs of a folder by name, `default` first. Raises InputError for a file that is none."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("*.yaml")):
        document = plain(load_yaml(path))
        if not isinstance(document, dict) or document.get("schema") != SCHEMA or "name" not in document:
            raise InputError(f"not a {SCHEMA} document", Where(str(path), 1))
        found[str(document["name"])] = document
    if not found:
        raise InputError(f"no designs below {folder}")
    return dict(sorted(found.items(), key=lambda item: (item[0] != "default", item[0])))


@click.command()
@click.argument("name", required=False)
@click.option("--folder", default="scenarios/designs", show_default=True, help="Where the designs' files lie.")
@click.option("--card", default="scenarios/card", show_default=True, help="Where the timing card lies.")
@click.option("--recordings", default="scenarios/recordings", show_default=True, help="What it is held against.")
@click.option("--renew", is_flag=True, help="Run the twin for every cell of the timing card, and write its page anew.")
@click.option("--page", default="docs/timing-card.md", show_default=True, help="The page that --renew writes.")
@click.option("--workers", type=click.IntRange(0), default=0, help="Processes for --renew; 0: one per processor.")
@command("designs")
def designs(
    name: str | None, folder: str, card: str, recordings: str, renew: bool, page: str, workers: int, as_json: bool
) -> ExitCode:
    """List the designs with their grades and the timing card, or show one by NAME: switches, settings, its times."""
    known = load_designs(Path(folder))
    if name is not None and name not in known:
        raise InputError(f"no design {name!r}", hint=f"there are {', '.join(known)}")
    shown = known if name is None else {name: known[name]}
    grades = grades_in_words(known)
    told = _told(Path(folder), Path(card), Path(recordings), grades, renew, page, workers)
    told = [line for line in told if line["design"] in shown]
    if as_json:
        emit_json("designs", {"designs": shown, "timing_card": told})
        return ExitCode.FINE
    if name is None:
        emit_rows(("design", "grade", "what it is"), [(n, grades[n], d.get("title", "")) for n, d in known.items()])
    else:
        emit_rows(("", ""), _card(known[name]))
    if told:
        say("times in seconds: median and the interval of 90 % of the twin's replications")
        emit_rows(_COLUMNS, [tuple(line[column] for column in _COLUMNS) for line in told])
    return ExitCode.FINE


_COLUMNS: Final = ("event", "column", "expected", "twin", "as expected", "recorded", "confirmed", "remark")


def _told(
    folder: Path, place: Path, recordings: Path, grades: dict[str, str], renew: bool, page: str, workers: int
) -> list[dict[str, str]]:
    """The timing card's lines in words; [] where there is none."""
    from slurmtwin_reports import timing_card as reports

    if not (place / reports.CELLS.name).exists():
        return []
    card = reports.load_card(place / reports.CELLS.name)
    kept = place / reports.TIMES.name
    if renew:
        from slurmtwin.campaign.timing_card import card_times
        from slurmtwin.contract.manifest import write_atomic

        write_atomic(kept, reports.times_text(card_times(card, folder, recordings, workers)))
    lines = reports.lines(card, reports.load_times(kept), recordings)
    if renew:
        write_atomic(Path(page), reports.page(card, lines, grades))
        say(f"page: {page}")
    return [
        {"event": line.cell.event, "column": line.cell.column, "design": card.column(line.cell.column).design,
         "expected": line.cell.expected, "twin": line.twin or "-", "as expected": line.as_expected or "-",
         "recorded": line.recorded or "-", "confirmed": line.confirmed or "-", "remark": line.remark}
        for line in lines
    ]  # fmt: skip


def grades_in_words(known: dict[str, dict[str, Any]]) -> dict[str, str]:
    """How far each design's model was checked; each letter alone, too."""
    return {name: _grade(str(design.get("grade", ""))) for name, design in known.items()} | {
        g: _grade(g) for g in GRADES
    }


def _grade(letter: str) -> str:
    return f"{letter[:1]}, {GRADES[letter[:1]]}" if letter[:1] in GRADES else "-"


def _card(design: dict[str, Any]) -> list[tuple[str, str]]:
    """Title, grade, source, then every switch and setting on a line of its own."""
    rows = [
        ("title", str(design.get("title", ""))),
        ("grade", _grade(str(design.get("grade", "")))),
        ("source", str(design.get("source", ""))),
    ]
    for section, content in design.items():
        if isinstance(content, dict):
            rows += [(f"{section}.{key}", str(value)) for key, value in content.items()]
    return rows
