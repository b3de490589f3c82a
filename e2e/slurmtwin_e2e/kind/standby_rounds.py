"""What a round of a standby slurmctld takes beyond its second: `python -m slurmtwin_e2e.kind.standby_rounds`.

run_backup() (backup.c) sleeps a second in each round, pings the primary each SlurmctldTimeout / 3, and after
`scontrol takeover` takes over in the first round that finds no primary. Two slurmctld of the pods' image run without a
cluster; the log of the second says when it stands by and when it takes over: so many rounds, and what they took more.
"""

from __future__ import annotations

import argparse
import json
import math
import secrets
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin_e2e.docker import LABEL, docker
from slurmtwin_e2e.kind.supervised_restart import write_mounts

SCENARIO: Final = Path("scenarios/faults/x9-takeover.yaml")
HOSTS: Final = ("slurmctld-0", "slurmctld-1")
LOG: Final = "/var/log/slurm/slurmctld.log"
STANDS_BY, TAKES_OVER = "running in background mode", "taking over"
AT_ONCE: Final = "/opt/slurmtwin/pod slurmctld; sleep 600"
"""Its host stays when it has ended, as a pod under supervisord does: a name that is gone takes lookups of 20 ms."""
BEHIND_A_HEARTBEAT: Final = """
until [ -s /var/spool/slurmctld/heartbeat ]; do sleep 0.1; done
exec /opt/slurmtwin/pod slurmctld
"""
"""A primary that starts asks its backup for control, and waits for one that waits for a heartbeat itself."""
WAITS_S: Final = 90.0


def measure(version: str, stands_s: float) -> float:
    """Seconds from standing by to the takeover, which is asked for so long behind. Raises EnvironmentMissingError
    without Docker or the image, or where a controller does not come up."""
    with controllers(load_scenario(SCENARIO).of_version(version), version) as backup:
        stood_by_s = _told(backup, STANDS_BY)
        time.sleep(stands_s)
        docker("exec", backup, "scontrol", "takeover", check=False, limit_s=60)
        return _told(backup, TAKES_OVER) - stood_by_s


def _told(container: str, words: str) -> float:
    """Unix seconds of the first line of its log that says so."""
    until_s = time.monotonic() + WAITS_S
    while time.monotonic() < until_s:
        found = said_s(docker("exec", container, "cat", LOG, check=False).stdout, words)
        if found is not None:
            return found
        time.sleep(0.5)
    raise EnvironmentMissingError(f"{container}: {words!r} is not in its log after {WAITS_S:.0f} s")


def said_s(log: str, words: str) -> float | None:
    """Unix seconds of the first line with these words, None without one."""
    for line in log.splitlines():
        if words in line and line.startswith("["):
            return datetime.fromisoformat(line[1:].partition("]")[0]).replace(tzinfo=UTC).timestamp()
    return None


def summary(found: Sequence[float]) -> dict[str, Any]:
    """What a round takes beyond its second, as the median and the sigma of the logarithm (worlds/pod_durations.py)."""
    beyond = [(span - int(span)) / int(span) * 1000 for span in found]
    logs = [math.log(max(ms, 0.001)) for ms in beyond]
    return {
        "takeovers": len(found),
        "round_ms": round(statistics.median(beyond), 3) if beyond else None,
        "sigma": round(statistics.stdev(logs), 3) if len(logs) > 1 else None,
        "each_s": [round(span, 3) for span in found],
    }


@contextmanager
def controllers(scenario: Scenario, version: str) -> Iterator[str]:
    """Two slurmctld on a network and a state directory of their own: the second's container; all is removed."""
    own = f"slurmtwin-standby-{secrets.token_hex(4)}"
    names = [f"{own}-{host}" for host in HOSTS]
    with tempfile.TemporaryDirectory() as folder:
        write_mounts(scenario, Path(folder))
        docker("network", "create", own)
        docker("volume", "create", own)
        try:
            for name, host, start in reversed(list(zip(names, HOSTS, (AT_ONCE, BEHIND_A_HEARTBEAT), strict=True))):
                docker(
                    "run", "--detach", "--name", name, "--label", f"{LABEL}={own}", "--network", own,
                    "--hostname", host, "--network-alias", host, "--env", "SUPERVISED=0",
                    "--volume", f"{own}:/var/spool/slurmctld",
                    "--volume", f"{folder}/config:/config:ro", "--volume", f"{folder}/secrets:/secrets:ro",
                    "--entrypoint", "bash", f"slurmtwin/pod:{version}", "-c", start,
                )  # fmt: skip
            yield names[1]
        finally:
            docker("rm", "--force", *names, check=False)
            docker("network", "rm", own, check=False)
            docker("volume", "rm", own, check=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="26.05", help="of Slurm; its image of pods is there")
    parser.add_argument("--takeovers", type=int, default=20)
    parser.add_argument("--at-once", type=int, default=4, help="pairs of controllers beside each other")
    options = parser.parse_args(arguments)
    stands_s = [10 + 30 * (place + 0.5) / options.takeovers for place in range(options.takeovers)]
    with ThreadPoolExecutor(options.at_once) as pool:
        found = list(pool.map(lambda s: measure(options.version, s), stands_s))
    sys.stdout.write(json.dumps({"version": options.version} | summary(found), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
