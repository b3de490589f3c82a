"""The reference pages of the docs, generated from the code: commands, keys of scenarios and studies, events, models."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import click

from slurmtwin.cli.main import COMMANDS, main
from slurmtwin.contract import events
from slurmtwin.contract.scenario import scenario_json_schema


def pages() -> dict[str, str]:
    """File name -> Markdown."""
    from slurmtwin.campaign.study_file import Study

    return {
        "commands.md": _commands(),
        "scenario.md": _schema("Scenario files", scenario_json_schema()),
        "study.md": _schema("Study files", Study.model_json_schema(by_alias=True)),
        "events.md": _events(),
        "settings.md": _settings(),
        "mechanisms.md": _mechanisms(),
    }


MECHANISMS = {
    "slurmctld": "Slurm's controller", "slurmd": "Slurm's node daemon", "slurmdbd": "Slurm's accounting daemon",
    "slurm_pods": "Slurm's daemons in containers", "kubelet": "A machine: kubelet and container runtime",
    "kube_scheduler": "Kubernetes' scheduler", "controllers": "Kubernetes' controllers",
    "api_server": "API server, watches and caches", "autoscaler": "Autoscalers",
    "slurm_bridge": "slurm-bridge",
}  # fmt: skip
"""Room of slurmtwin.models -> what it is."""


def _mechanisms() -> str:
    """What each model does and where its rules were read: the text that its own file begins with."""
    import ast

    from slurmtwin import models

    intro = (
        "Each model in its own words, with the source of its rules. How far each was compared with the real thing is "
        "told in {doc}`../fidelity` and, for Slurm rule by rule, in {doc}`../rules`."
    )
    out = ["# Mechanisms", "", intro, ""]
    for room, title in MECHANISMS.items():
        out += [f"## {title}", ""]
        for path in sorted((Path(next(iter(models.__path__))) / room).rglob("*.py")):
            said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
            if said and path.name != "__init__.py":
                out += [f"### {path.stem.replace('_', ' ')}", "", "```text", said, "```", ""]
    return "\n".join(out)


def _settings() -> str:
    """Every option of Slurm's files that the twin knows, with its defaults (workload/slurm_defaults.yaml)."""
    from slurmtwin.contract.yaml_file import load_yaml, plain
    from slurmtwin.workload import slurm_conf

    document = plain(load_yaml(Path(slurm_conf.__file__).with_name("slurm_defaults.yaml")))
    intro = (
        "Options of slurm.conf and of its NodeName and PartitionName lines in Slurm 22.05, 24.11 and 26.05. What would "
        "change results and is not modelled stops a run, unless it is waived (`--waive OPTION`, `slurm.waive`)."
    )
    out = ["# Settings of Slurm", "", intro, ""]
    for section, groups in document.items():
        if not isinstance(groups, dict):
            continue
        out += [f"## {section}", "", "| option | default | source |", "|---|---|---|"]
        out += [
            f"| `{name}` | {_cell(_by_version(entry.get('default', '')))} | {_cell(entry.get('source', ''))} |"
            for name, entry in groups.get("modelled", {}).items()
        ]
        for group, says in _OTHER_GROUPS.items():
            entries = groups.get(group, [])
            if entries:
                out += ["", f"{says}:", ""]
                out += [f"- {', '.join(f'`{name}`' for name in e['names'])}: {_cell(e['why'])}" for e in entries]
        out.append("")
    return "\n".join(out)


_OTHER_GROUPS = {
    "harmless": "Cannot change what is scheduled, when or where",
    "not_modelled": "Not modelled, a warning names it",
    "changes": "Would change results and is not modelled, an error unless waived",
}


def _by_version(default: Any) -> str:
    if isinstance(default, dict):
        return ", ".join(f"{version}: {_by_version(value)}" for version, value in default.items())
    return "" if default == "" else f"`{default}`"


def _commands() -> str:
    intro = (
        "Every command has `--json` and `--help`. Exit codes: 0 fine, 1 finding, 2 usage or bad input, 3 unknown, "
        "4 environment missing, 70 internal error, 130 interrupted."
    )
    out = ["# Commands", "", intro, ""]
    context = click.Context(main, info_name="slurmtwin")
    for name in COMMANDS:
        command = main.get_command(context, name)
        assert command is not None
        inner = click.Context(command, info_name=name, parent=context)
        out += [
            f"## {name}",
            "",
            inspect.cleandoc(command.help or ""),
            "",
            "```text",
            command.get_usage(inner),
            "```",
            "",
        ]
        rows = [record for p in command.get_params(inner) if (record := p.get_help_record(inner)) is not None]
        if rows:
            out += ["| option | means |", "|---|---|"]
            out += [*(f"| `{_cell(a)}` | {_cell(b)} |" for a, b in rows), ""]
    return "\n".join(out)


def _schema(title: str, schema: dict[str, Any]) -> str:
    """A table for the document and one for each part of it."""
    out = [f"# {title}", ""]
    parts = [(title, schema), *sorted(schema.get("$defs", {}).items())]
    for name, part in parts:
        if name != title:
            out += [f"## {name}", ""]
        if part.get("description"):
            out += [" ".join(part["description"].split()), ""]
        rows = [
            f"| `{key}` | {_type(value)} | {_cell(_default(value))} | {_cell(value.get('description', ''))} |"
            for key, value in part.get("properties", {}).items()
        ]
        if rows:
            out += ["| key | type | default | means |", "|---|---|---|---|", *rows, ""]
    return "\n".join(out)


def _type(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    for key in ("anyOf", "oneOf"):
        if key in value:
            return " or ".join(dict.fromkeys(_type(v) for v in value[key]))
    if "enum" in value or "const" in value:
        return " or ".join(f"`{_cell(str(v))}`" for v in value.get("enum", [value.get("const")]))
    if value.get("type") == "array":
        return f"list of {_type(value.get('items', {}))}"
    return str(value.get("type", "any"))


def _default(value: dict[str, Any]) -> str:
    found = value.get("default")
    return "" if found in (None, "", [], {}) else f"`{found}`"


def _events() -> str:
    """Columns and kinds; what a kind means is the comment behind it in the source."""
    out = ["# Events", "", inspect.cleandoc(events.__doc__ or ""), "", "## Columns", "", "| column | type | means |",
           "|---|---|---|"]  # fmt: skip
    out += [
        f"| `{c.name}` | {c.arrow}{', may be empty' if c.nullable else ''} | {_cell(c.meaning)} |"
        for c in events.COLUMNS
    ]
    out += ["", "## Kinds", "", "| kind | means |", "|---|---|"]
    for line in inspect.getsource(events.Kind).splitlines():
        name, equals, rest = line.strip().partition(" = ")
        if equals and name.isupper() and rest.startswith('"'):
            kind, _, meaning = rest.partition("  # ")
            out.append(f"| `{kind.strip().strip(chr(34))}` | {_cell(meaning)} |")
    return "\n".join(out) + "\n"


def _cell(text: str) -> str:
    """Text for a table: one line, bars escaped, nothing that Markdown would take for a tag."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
