"""The entry point: one group, its commands imported only when called (heavy libraries stay out)."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import click

from slurmtwin import __version__

COMMANDS: Final = {
    "run": "run_commands:run",
    "replay": "run_commands:replay",
    "why": "run_commands:why",
    "check": "judge_commands:check",
    "compare": "judge_commands:compare",
    "report": "judge_commands:report",
    "validate": "file_commands:validate",
    "schema": "file_commands:schema",
    "plan": "plan_commands:plan",
    "study": "study_commands:study",
    "sensitivity": "sensitivity_commands:sensitivity",
    "designs": "design_commands:designs",
    "record": "real_commands:record",
    "calibrate": "real_commands:calibrate",
    "doctor": "real_commands:doctor",
}


class LazyGroup(click.Group):
    """Imports a command's module at its first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  click's signature
        """All commands, in the order of the table above."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """The command, or None when there is none of that name."""
        place = COMMANDS.get(cmd_name)
        if place is None:
            return None
        module, name = place.split(":")
        found: Any = getattr(import_module(f"slurmtwin.cli.{module}"), name)
        assert isinstance(found, click.Command)
        return found


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="slurmtwin")
def main() -> None:
    """A digital twin of Slurm on Kubernetes, checked against the real thing."""
