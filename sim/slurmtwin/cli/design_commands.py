"""`designs`: the named ways to run Slurm with Kubernetes, each with how far its model was checked."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import click

from slurmtwin.cli.output import command, emit_json, emit_rows
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
@command("designs")
def designs(name: str | None, folder: str, as_json: bool) -> ExitCode:
    """List the designs with their grades, or show one by NAME: its switches, settings and source."""
    known = load_designs(Path(folder))
    if name is not None and name not in known:
        raise InputError(f"no design {name!r}", hint=f"there are {', '.join(known)}")
    if as_json:
        emit_json("designs", {"designs": known if name is None else {name: known[name]}})
    elif name is None:
        rows = [(n, _grade(d), d.get("title", "")) for n, d in known.items()]
        emit_rows(("design", "grade", "what it is"), rows)
    else:
        emit_rows(("", ""), _card(known[name]))
    return ExitCode.FINE


def _grade(design: dict[str, Any]) -> str:
    letter = str(design.get("grade", ""))[:1]
    return f"{letter}, {GRADES[letter]}" if letter in GRADES else "-"


def _card(design: dict[str, Any]) -> list[tuple[str, str]]:
    """Title, grade, source, then every switch and setting on a line of its own."""
    rows = [
        ("title", str(design.get("title", ""))),
        ("grade", _grade(design)),
        ("source", str(design.get("source", ""))),
    ]
    for section, content in design.items():
        if isinstance(content, dict):
            rows += [(f"{section}.{key}", str(value)) for key, value in content.items()]
    return rows
