"""Options of every command that reads a trace: `replay` and `plan`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import click

F = TypeVar("F", bound=Callable[..., object])

_OPTIONS = (
    click.option("--format", "form", type=click.Choice(["swf", "sacct", "events", "jobs"]), help="Default: detected."),
    click.option("--swf-memory",
                 type=click.Choice(["auto", "kib-per-processor", "bytes-per-node", "bytes-per-job", "ignore"]),
                 default="auto", show_default=True, help="Unit of SWF field 10."),
    click.option("--lenient", is_flag=True, help="Count and list broken rows instead of stopping at the first."),
    click.option("--waive", multiple=True, metavar="OPTION",
                 help="Accept an option of slurm.conf that is not modelled."),
)  # fmt: skip


def trace_options(command: F) -> F:
    """--format, --swf-memory, --lenient, --waive, listed in this order: how a trace and its slurm.conf are read."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command
