"""What a round of a standby slurmctld takes beyond its second: `python -m slurmtwin_e2e.kind.standby_rounds [--hangs]`.

run_backup() (backup.c) sleeps a second in each round, pings the primary each SlurmctldTimeout / 3, and after
`scontrol takeover` takes over in the first round that finds no primary. Two slurmctld of the pods' image run without a
cluster; the log of the second says when it stands by, when it takes over and when it serves: so many rounds, what they
took more, and what the takeover takes. With --hangs the primary is frozen instead, and the backup waits for its pings.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin_e2e.docker import LABEL, docker, remove
from slurmtwin_e2e.kind.daemon_log import wait_until_said_s
from slurmtwin_e2e.kind.log_normal import log_normal
from slurmtwin_e2e.kind.supervised_restart import write_mounts

SCENARIO: Final = Path("scenarios/faults/x9-takeover.yaml")
HOSTS: Final = ("slurmctld-0", "slurmctld-1")
STANDS_BY, TAKES_OVER, SERVES = "running in background mode", "taking over", "Running as primary controller"
PING_S: Final = 11
"""A ping of a controller that hangs, MessageTimeout 10 long, and the round behind it."""
AT_ONCE: Final = "/opt/slurmtwin/pod slurmctld; sleep 600"
"""Its host stays when it has ended, as a pod under supervisord does: a name that is gone takes lookups of 20 ms."""
BEHIND_A_HEARTBEAT: Final = """
until [ -s /var/spool/slurmctld/heartbeat ]; do sleep 0.1; done
exec /opt/slurmtwin/pod slurmctld
"""
"""A primary that starts asks its backup for control, and waits for one that waits for a heartbeat itself."""
STARTS_S: Final = 10.0
WAITS_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class Takeover:
    """One takeover by the backup's log, in seconds."""

    span_s: float
    """From standing by."""
    load_s: float
    """From there to serving."""
    pings: int = 0
    """Pings of a frozen primary that were waited for."""

    @property
    def beyond_ms(self) -> float:
        """What its rounds and pings took beyond whole seconds."""
        return (self.span_s - int(self.span_s)) * 1000


def measure(version: str, stands_s: float, hangs: bool = False) -> Takeover:
    """A takeover, asked for so long behind standing by, or brought on by a frozen primary. Raises
    EnvironmentMissingError without Docker or the image, or where a controller does not come up."""
    with controllers(load_scenario(SCENARIO).of_version(version), version) as (primary, backup):
        time.sleep(STARTS_S + stands_s)
        acted_s = time.time()
        if hangs:
            docker("pause", primary)
        else:
            docker("exec", backup, "scontrol", "takeover", check=False, limit_s=60)
        stood_by_s, took_over_s, serves_s = (
            wait_until_said_s(backup, words, WAITS_S) for words in (STANDS_BY, TAKES_OVER, SERVES)
        )
        pings = int((took_over_s - acted_s + 1) // PING_S) if hangs else 0  # behind the last ping is no round
        return Takeover(took_over_s - stood_by_s, serves_s - took_over_s, pings)


def summary(found: Sequence[Takeover], round_ms: float = 0.0) -> dict[str, Any]:
    """Medians, and the sigma of the logarithm (worlds/pod_durations.py): what a round takes beyond its second, or a
    ping beyond MessageTimeout where a round takes this; and the takeover itself."""
    hung = [one for one in found if one.pings]
    of_pings = [(one.beyond_ms - round_ms * int(one.span_s - 10 * one.pings)) / one.pings for one in hung]
    of_rounds = [one.beyond_ms / int(one.span_s) for one in found if not one.pings]
    return {
        "takeovers": len(found),
        "round_ms": _law(of_rounds), "ping_ms": _law(of_pings), "load_ms": _law([one.load_s * 1000 for one in found]),
        "each": [[round(one.span_s, 3), one.pings, round(one.load_s, 3)] for one in found],
    }  # fmt: skip


def _law(each_ms: Sequence[float]) -> list[float] | None:
    median, sigma = log_normal(each_ms, digits=3)
    return None if median is None or sigma is None else [median, sigma]


@contextmanager
def controllers(scenario: Scenario, version: str) -> Iterator[tuple[str, str]]:
    """Containers of two slurmctld, primary and backup, on a network and a state directory of their own; all goes."""
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
            yield names[0], names[1]
        finally:
            docker("unpause", names[0], check=False)
            remove(names)
            docker("network", "rm", own, check=False)
            docker("volume", "rm", own, check=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="26.05", help="of Slurm; its image of pods is there")
    parser.add_argument("--takeovers", type=int, default=20)
    parser.add_argument("--hangs", action="store_true", help="freeze the primary instead of asking for a takeover")
    parser.add_argument("--round-ms", type=float, default=0.0, help="with --hangs: what a round takes, measured before")
    parser.add_argument("--at-once", type=int, default=4, help="pairs of controllers beside each other")
    options = parser.parse_args(arguments)
    stands_s = [10 + 30 * (place + 0.5) / options.takeovers for place in range(options.takeovers)]
    with ThreadPoolExecutor(options.at_once) as pool:
        found = list(pool.map(lambda s: measure(options.version, s, options.hangs), stands_s))
    sys.stdout.write(json.dumps({"version": options.version} | summary(found, options.round_ms)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
