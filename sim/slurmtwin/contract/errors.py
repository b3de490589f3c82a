"""The error tree. Each message says what is wrong, where, and what to try.

SlurmtwinError                exit code
|-- InputError                2   a scenario, trace or configuration file is wrong
|   `-- UnsupportedError      2   understood, but not modelled, and it would change results
|-- EnvironmentMissingError   4   docker, an image or a program is not there
`-- ModelError                70  our own mistake: an invariant broke
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class ExitCode(IntEnum):
    """Process exit codes of every command (DESIGN 8)."""

    FINE = 0
    FINDING = 1
    USAGE = 2
    UNKNOWN = 3
    ENVIRONMENT = 4
    INTERNAL = 70
    INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Where:
    """A place in a file: path and 1-based line (0 = the file as a whole)."""

    path: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.path}:{self.line}" if self.line else self.path


class SlurmtwinError(Exception):
    """Root of all errors that a user may meet."""

    exit_code = ExitCode.INTERNAL


class InputError(SlurmtwinError):
    """A file or value from the user is wrong. `hint` says what would be right."""

    exit_code = ExitCode.USAGE

    def __init__(self, message: str, where: Where | None = None, hint: str = "") -> None:
        self.message = message
        self.where = where
        self.hint = hint
        place = f"{where}: " if where else ""
        super().__init__(f"{place}{message}{f' ({hint})' if hint else ''}")

    def at(self, where: Where) -> InputError:
        """The same error with its place filled in, for callers that know it."""
        return type(self)(self.message, where, self.hint)


class UnsupportedError(InputError):
    """A setting we understand but do not model and that would change results; it can be waived."""


class EnvironmentMissingError(SlurmtwinError):
    """A program, daemon or image that this command needs is missing."""

    exit_code = ExitCode.ENVIRONMENT


class ModelError(SlurmtwinError):
    """An invariant of ours does not hold: a bug, with the simulated time where it showed."""
