"""How every command speaks: one JSON document or plain rows on stdout, talk and errors on stderr."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import click

from slurmtwin.contract.errors import ExitCode, InputError, SlurmtwinError

JSON_SCHEMA_PREFIX: Final = "slurmtwin/"


def say(text: str) -> None:
    """A line for the human, on stderr."""
    click.echo(text, err=True)


def say_warnings(warnings: Iterable[object], of: str = "") -> None:
    """What is accepted but not modelled, or taken otherwise than it stands there: one line each, on stderr."""
    for warning in warnings:
        say(f"warning: {of}: {warning}" if of else f"warning: {warning}")


def json_text(command: str, document: Mapping[str, Any]) -> str:
    """A command's document: sorted keys, its schema named."""
    return json.dumps({"schema": f"{JSON_SCHEMA_PREFIX}{command}/1", **document}, sort_keys=True, indent=1) + "\n"


def emit_json(command: str, document: Mapping[str, Any]) -> None:
    """One document on stdout."""
    click.echo(json_text(command, document), nl=False)


def emit_rows(header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Aligned columns on stdout; the last column is as wide as it likes."""
    texts = [[str(h) for h in header], *([str(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in texts) for i in range(len(header))]
    for row in texts:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _fail(command: str, as_json: bool, error: SlurmtwinError) -> None:
    if as_json:
        where = str(error.where) if isinstance(error, InputError) and error.where else None
        document = {"error": str(error), "where": where, "code": int(error.exit_code)}
        emit_json(command, document)
    say(f"slurmtwin {command}: {error}")


def command(name: str) -> Callable[[Callable[..., ExitCode]], Callable[..., None]]:
    """Give a command `--json` and turn its errors into exit codes.

    The wrapped function gets `as_json` and returns an ExitCode. An unexpected exception is our own mistake:
    exit 70, with the command line that shows it again.
    """

    def wrap(function: Callable[..., ExitCode]) -> Callable[..., None]:
        @click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
        @functools.wraps(function)
        def run(as_json: bool, **options: Any) -> None:
            try:
                code = function(as_json=as_json, **options)
            except SlurmtwinError as error:
                _fail(name, as_json, error)
                code = error.exit_code
            except KeyboardInterrupt:
                say(f"slurmtwin {name}: interrupted; what was finished is kept")
                code = ExitCode.INTERRUPTED
            except (BrokenPipeError, click.ClickException, click.exceptions.Exit):
                raise
            except Exception as error:
                import shlex
                import traceback

                traceback.print_exc()
                again = " ".join(shlex.quote(a) for a in ["slurmtwin", *sys.argv[1:]])
                say(f"slurmtwin {name}: internal error: {error}; to see it again: {again}")
                code = ExitCode.INTERNAL
            sys.exit(int(code))

        return run

    return wrap
