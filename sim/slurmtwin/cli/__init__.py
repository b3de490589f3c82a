"""The command line (DESIGN 8): data on stdout, talk on stderr, exit codes of contract.errors.ExitCode."""

from slurmtwin.cli.main import main

__all__ = ["main"]
