"""`python -m slurmtwin_operator.shell`: the operator, as a pod (deploy/)."""

from __future__ import annotations

import asyncio
import os
import sys

from slurmtwin.contract.errors import SlurmtwinError
from slurmtwin_operator.shell.settings import read_settings


def main() -> int:
    """Run until SIGTERM; 0 after a graceful stop, 1 when the Lease was lost, else the error's exit code."""
    from slurmtwin_operator.shell.process import run  # kopf takes a second to import

    try:
        return asyncio.run(run(read_settings(os.environ)))
    except SlurmtwinError as error:
        sys.stderr.write(f"error: {error}\n")
        return int(error.exit_code)


if __name__ == "__main__":
    sys.exit(main())
