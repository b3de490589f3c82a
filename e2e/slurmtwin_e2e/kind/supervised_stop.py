"""How long after SIGTERM a container under supervisord ends: `python -m slurmtwin_e2e.kind.supervised_stop [--down]`.

supervisord waits for its programs in poll(), which Python takes up again after a signal (PEP 475), so it hears SIGTERM
in its next round, up to 1 s later. A container of the pods' image gets SIGTERM again and again, at any phase, without a
cluster; with --down its program has ended before, with code 0, as slurmctld does after a takeover.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from statistics import median
from typing import Any, Final

from slurmtwin.contract.scenario import load_scenario
from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind.supervised_restart import ROUND_S, SCENARIO, SERVED, SERVES, daemons, stamp_s

ENDS_S: Final = 0.04
"""What supervisord itself takes to end."""
STOP: Final = r"""
if [ "$2" = 1 ]; then
  sleep 1
  pid=$(pidof "$1" | tr ' ' '\n' | sort -n | head -n 1); kill -TERM "$pid"
  while kill -0 "$pid" 2> /dev/null; do sleep 0.02; done
fi
sleep "3.$((100 + RANDOM % 900))"
echo "$EPOCHREALTIME"; kill -TERM 1
"""
"""usage: ROLE DOWN; says when SIGTERM was sent, in unix seconds. slurmctld is the oldest so named: slurmscriptd
bears the name as well. One that serves since less than a second may die of SIGTERM, and is started again."""


def measure(version: str, role: str, down: bool, count: int) -> list[float]:
    """Seconds from each SIGTERM until the container's end. Raises EnvironmentMissingError without Docker or the
    image."""
    found = []
    with daemons(load_scenario(SCENARIO).of_version(version), version, role) as names:
        name = names[role]
        for _ in range(count):
            docker("exec", name, "bash", "-c", SERVED, "served", role, SERVES[role], limit_s=60)
            sent_s = float(docker("exec", name, "bash", "-c", STOP, "stop", role, str(int(down)), check=False).stdout)
            docker("wait", name, limit_s=60)
            found.append(stamp_s(name, "FinishedAt") - sent_s)
            docker("start", name)
            docker("exec", name, "rm", "--force", f"/var/log/slurm/{role}.log")
            time.sleep(1)
    return found


def summary(found: Sequence[float]) -> dict[str, Any]:
    """How many stops, how many of them took a round more than that in which SIGTERM is heard, the median, and each."""
    each = sorted(round(span, 3) for span in found)
    return {
        "stops": len(each),
        "two_rounds": sum(span >= ROUND_S + ENDS_S for span in each),
        "median_s": round(median(each), 3) if each else None,
        "each_s": each,
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="26.05", help="of Slurm; its image of pods is there")
    parser.add_argument("--role", choices=sorted(SERVES), default="slurmctld")
    parser.add_argument("--down", action="store_true", help="its program has ended before")
    parser.add_argument("--stops", type=int, default=20)
    options = parser.parse_args(arguments)
    found = summary(measure(options.version, options.role, options.down, options.stops))
    given = {"version": options.version, "role": options.role, "down": options.down}
    sys.stdout.write(json.dumps(given | found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
