"""When a Slurm daemon of a container said something, by its log (LogTimeFormat=iso8601_ms)."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.docker import docker

CTLD_LOG: Final = "/var/log/slurm/slurmctld.log"
LOOK_S: Final = 5.0
"""A look at the log is a process in the container: a standby's round took 0.42 to 0.57 ms beyond its second with two of
them a second, and 0.32 without."""


def said_s(log: str, words: str) -> float | None:
    """Unix seconds of the first line with these words, None without one."""
    for line in log.splitlines():
        if words in line and line.startswith("["):
            return datetime.fromisoformat(line[1:].partition("]")[0]).replace(tzinfo=UTC).timestamp()
    return None


def wait_until_said_s(container: str, words: str, limit_s: float, path: str = CTLD_LOG) -> float:
    """said_s() of a container's log, once it is there. Raises EnvironmentMissingError where it is not in time."""
    until_s = time.monotonic() + limit_s
    while time.monotonic() < until_s:
        found = said_s(docker("exec", container, "cat", path, check=False).stdout, words)
        if found is not None:
            return found
        time.sleep(LOOK_S)
    raise EnvironmentMissingError(f"{container}: {words!r} is not in its log after {limit_s:.0f} s")
