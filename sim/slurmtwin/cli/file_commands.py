"""Commands about files alone: validate, schema."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from slurmtwin.cli.output import command, emit_json, emit_rows, say, say_warnings
from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import ExitCode, InputError
from slurmtwin.contract.events import json_schema
from slurmtwin.contract.manifest import write_atomic
from slurmtwin.contract.scenario import load_scenario, scenario_json_schema

SCHEMA_FOLDER = Path("scenarios/schema")


def scenario_files(paths: tuple[str, ...], default: str) -> list[Path]:
    """The scenario files named, or found below the folders named, sorted; `default` when none is named."""
    found: list[Path] = []
    for text in paths or (default,):
        path = Path(text)
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*.yaml") if _is_scenario(p))
            if not inside:
                raise InputError(f"no scenario below {path}", hint="scenario files end in .yaml and begin with schema:")
            found.extend(inside)
        else:
            found.append(path)
    return found


def since_ns(since: datetime | None) -> int:
    """The unix ns of --recorded-since or --recorded-before, which is UTC; 0 without it."""
    return 0 if since is None else int(since.replace(tzinfo=UTC).timestamp()) * SECOND


def _is_scenario(path: Path) -> bool:
    """Recordings and data files lie beside scenarios; a scenario names its schema in the first lines."""
    with path.open(encoding="utf-8", errors="replace") as stream:
        head = stream.read(2000)
    return any(line.startswith("schema: slurmtwin/scenario/") for line in head.splitlines())


@click.command()
@click.argument("paths", nargs=-1)
@command("validate")
def validate(paths: tuple[str, ...], as_json: bool) -> ExitCode:
    """Read scenario files and their Slurm settings and workloads; say what is wrong, with file:line."""
    from slurmtwin.workload.resolve import resolve_jobs
    from slurmtwin.workload.slurm_conf import cluster_conf

    rows: list[dict[str, Any]] = []
    for path in scenario_files(paths, "scenarios"):
        try:
            scenario = load_scenario(path)
            _, warnings = cluster_conf(scenario, path.parent)
            jobs = sum(1 for _ in resolve_jobs(scenario, path.parent))
            rows.append({"path": str(path), "ok": True, "jobs": jobs, "warnings": [str(w) for w in warnings]})
        except InputError as error:
            rows.append({"path": str(path), "ok": False, "error": str(error)})
    bad = [r for r in rows if not r["ok"]]
    if as_json:
        emit_json("validate", {"files": rows})
    else:
        emit_rows(("file", "", "says"), [(r["path"], "ok" if r["ok"] else "BAD", r.get("error", "")) for r in rows])
        for row in rows:
            say_warnings(row.get("warnings", ()), str(row["path"]))
    return ExitCode.USAGE if bad else ExitCode.FINE


def _generated(folder: Path) -> dict[Path, str]:
    """Every generated data file and its text; all but the option table lie in `folder`."""
    from slurmtwin.workload.options import GENERATED, generated_text

    documents = {"scenario-1.json": scenario_json_schema(), "events-1.json": json_schema()}
    texts = {folder / name: json.dumps(doc, indent=1, sort_keys=True) + "\n" for name, doc in documents.items()}
    return {**texts, GENERATED: generated_text()}


@click.command()
@click.option("--check", is_flag=True, help="Only compare with the committed files; exit 1 when stale.")
@click.option("--out", default=str(SCHEMA_FOLDER), show_default=True, help="Folder to write to.")
@command("schema")
def schema(check: bool, out: str, as_json: bool) -> ExitCode:
    """Write the JSON Schemas of scenario files and event rows, and the option table in its quick form."""
    stale: list[str] = []
    for path, text in _generated(Path(out)).items():
        current = path.read_text(encoding="utf-8") if path.exists() else ""
        if current == text:
            continue
        stale.append(str(path))
        if not check:
            write_atomic(path, text)
    if as_json:
        emit_json("schema", {"changed": stale})
    for name in stale:
        say(f"{'stale' if check else 'wrote'} {name}")
    return ExitCode.FINDING if check and stale else ExitCode.FINE
