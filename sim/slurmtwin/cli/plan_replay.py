"""`check --plans`: recorded passes of an operator fed to today's core. The core is another package, found by name."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Final

import click

from slurmtwin.cli.output import emit_json, say
from slurmtwin.contract.errors import EnvironmentMissingError, ExitCode

ENTRY_POINT_GROUP: Final = "slurmtwin.plans"
SHIPPED: Final = "slurmtwin_operator.replay:check_plans"
"""module:function of our own operator. Another distribution may put its own in its place by the entry point group."""


def find_replay() -> Any:
    """The function that replays recordings. Raises EnvironmentMissingError when the operator is not installed."""
    places = [point.value for point in entry_points(group=ENTRY_POINT_GROUP)]
    module, _, function = (places[0] if places else SHIPPED).partition(":")
    try:
        return getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise EnvironmentMissingError(f"no operator core is installed: {error}") from error


def replay_plans(paths: Sequence[str], core: str, as_json: bool) -> ExitCode:
    """Replay and print one line per recording; a difference is a finding, no recording at all is unknown."""
    found = find_replay()([Path(path) for path in paths], core)
    rows = [
        {"path": str(path), "passes": result.passes, "difference": str(result.difference or "")}
        for path, result in found
    ]
    if not rows:
        code = ExitCode.UNKNOWN
        say(f"no plans.jsonl below {', '.join(paths)}")
    else:
        code = ExitCode.FINDING if any(row["difference"] for row in rows) else ExitCode.FINE
    if as_json:
        emit_json("check", {"plans": rows, "code": int(code)})
    else:
        for row in rows:
            click.echo(f"{row['difference'] or 'equal'}: {row['path']} ({row['passes']} passes)")
    return code
