"""What a standby's poll of its primary takes in a pod: `python -m slurmtwin_e2e.kind.standby_pings --cluster NAME`.

x9-takeover runs without its fault, and strace follows the standby's first thread, which sleeps a second in each round
and polls in each tenth (backup.c run_backup()). A round that polls takes longer: that is the ping, with a lookup at the
cluster's name server and a connection by a Service's address in it. What strace itself takes is in every round. Needs
root and strace on the host of the cluster; other runs may go beside it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.listed_jobs import listed_jobs
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin_e2e.images import RELEASES
from slurmtwin_e2e.kind.attach import attach
from slurmtwin_e2e.kind.log_normal import log_normal
from slurmtwin_e2e.kind.runner import run_once
from slurmtwin_e2e.kind.standby_rounds import HOSTS, SCENARIO
from slurmtwin_e2e.kind_world import say

POLLS_EACH: Final = 10
"""SlurmctldTimeout / 3 of that scenario, in rounds."""
COMES_UP_S: Final = 90.0
SETTLES_S: Final = 3.0


def without_fault(lasts_s: int) -> Scenario:
    """x9-takeover with a job that runs as long, and nothing that fails or is predicted."""
    document = load_scenario(SCENARIO).model_dump(mode="json", by_alias=True, exclude_unset=True)
    job = {"id": 1, "submit": "1s", "run": f"{lasts_s - 5}s", "time": "60", "nodelist": "w-0"}
    changes = {"name": "standby-pings", "faults": [], "expect": {}, "workload": {"jobs": [job]}}
    return Scenario.model_validate(document | changes | {"budget": {"max_time": f"{lasts_s}s"}})


def standby_pid() -> int:
    """The standby's slurmctld, as the host numbers it. Raises EnvironmentMissingError where none comes up."""
    until_s = time.monotonic() + COMES_UP_S
    while time.monotonic() < until_s:
        found = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/comm") if _is_standby(path)]
        if found:
            return min(found)
        time.sleep(0.3)
    raise EnvironmentMissingError(f"no slurmctld on {HOSTS[1]} within {COMES_UP_S:.0f} s: is the cluster on this host?")


def _is_standby(comm: Path) -> bool:
    try:
        if comm.read_text().strip() != "slurmctld":
            return False
        return (comm.parent / "root/etc/hostname").read_text().strip() == HOSTS[1]
    except OSError:
        return False  # it has ended meanwhile


def follow(pid: int) -> str:
    """strace of its first thread until it ends."""
    command = ["strace", "-ttt", "-e", "trace=clock_nanosleep", "-p", str(pid)]
    return subprocess.run(command, capture_output=True, text=True, check=False).stderr


def rounds_ms(text: str) -> list[float]:
    """Of strace's lines: what each round took beyond its second."""
    sleeps = (line for line in text.splitlines() if "clock_nanosleep(" in line and "tv_sec=1," in line)
    return [(behind - before - 1) * 1000 for before, behind in pairwise(float(line.split()[0]) for line in sleeps)]


def summary(found: Sequence[float]) -> dict[str, Any]:
    """The median round, and the law of what polls take more (median and sigma of the logarithm), in ms; the polls are
    those POLLS_EACH rounds apart whose median is most."""
    turns = [list(range(first, len(found), POLLS_EACH)) for first in range(min(POLLS_EACH, len(found)))]
    polls = max(turns, key=lambda turn: median(found[place] for place in turn), default=[])
    others = [took for place, took in enumerate(found) if place not in polls]
    round_ms = median(others) if others else 0.0
    more = [found[place] - round_ms for place in polls]
    middle, sigma = log_normal(more, digits=2)
    return {
        "rounds": len(others), "traced_round_ms": round(round_ms, 3), "polls": len(more), "ping_ms": middle,
        "sigma": sigma, "each_ms": [round(ms, 2) for ms in more],
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="a running cluster of ours on this host")
    parser.add_argument("--version", choices=sorted(RELEASES), default="26.05", help="of Slurm")
    parser.add_argument("--seconds", type=int, default=190, help="how long it stands by")
    options = parser.parse_args(arguments)
    if os.geteuid() != 0 or shutil.which("strace") is None:
        raise EnvironmentMissingError("strace, and root, are needed: apt-get install strace")
    scenario = without_fault(options.seconds).of_version(options.version)
    with ThreadPoolExecutor(1) as pool:
        cluster, jobs = attach(options.cluster), list(listed_jobs(scenario))
        running = pool.submit(run_once, cluster, scenario, jobs, say, repetition=1)
        pid = standby_pid()
        time.sleep(SETTLES_S)
        text = follow(pid)
        running.result()
    sys.stdout.write(json.dumps(summary(rounds_ms(text))) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
