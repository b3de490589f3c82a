"""How long behind its jobs' requeue a silent node is called DOWN: `python -m slurmtwin_e2e.kind.silent_node`.

Both come of one look at nodes (ping_nodes.c): jobs of each node that is found silent are requeued there, and behind all
nodes the log names those that are DOWN. slurmctld and slurmd of the pods' image run without a cluster, jobs' ends being
logged as in a cluster's pods; a job begins, slurmd's container is frozen, and slurmctld's log says both.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.scenario import load_scenario
from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind.daemon_log import LOOK_S, wait_until_said_s
from slurmtwin_e2e.kind.log_normal import log_normal
from slurmtwin_e2e.kind.supervised_restart import daemons

SCENARIO: Final = Path("scenarios/faults/s2-slurmd-hang.yaml")
RUNS, REQUEUED, DOWN = "sched: Allocate JobId", "due to failure of node", "not responding, setting DOWN"
IDLE_NODES: Final = ("sinfo", "--noheader", "--states", "idle", "--format", "%D")
JOB: Final = ("sbatch", "--requeue", "--wrap", "sleep 600")
WAITS_S: Final = 120.0


def measure(version: str) -> float:
    """Seconds from the requeue to DOWN. Raises EnvironmentMissingError without Docker or the image, or where one of
    them does not come."""
    scenario = load_scenario(SCENARIO).of_version(version)
    with daemons(scenario, version, supervised="", job_log=True) as names:
        ctld = names["slurmctld"]
        _wait_until_idle(ctld)
        docker("exec", ctld, *JOB)
        wait_until_said_s(ctld, RUNS, WAITS_S)
        docker("pause", names["slurmd"])
        try:
            down_s, requeued_s = (wait_until_said_s(ctld, words, WAITS_S) for words in (DOWN, REQUEUED))
            return down_s - requeued_s
        finally:
            docker("unpause", names["slurmd"], check=False)


def _wait_until_idle(ctld: str) -> None:
    until_s = time.monotonic() + WAITS_S
    while "1" not in docker("exec", ctld, *IDLE_NODES, check=False).stdout:
        if time.monotonic() > until_s:
            raise EnvironmentMissingError(f"{ctld}: no node is idle after {WAITS_S:.0f} s")
        time.sleep(LOOK_S)


def summary(found: Sequence[float]) -> dict[str, Any]:
    """The median and the sigma of the logarithm (worlds/pod_durations.py); a log's stamp is cut to whole ms."""
    each_ms = [span * 1000 for span in found]
    median, sigma = log_normal(each_ms, least_ms=0.5)
    return {"nodes": len(found), "behind_ms": median, "sigma": sigma, "each_ms": [round(ms) for ms in each_ms]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="26.05", help="of Slurm; its image of pods is there")
    parser.add_argument("--nodes", type=int, default=12)
    parser.add_argument("--at-once", type=int, default=4, help="so many beside each other")
    options = parser.parse_args(arguments)
    with ThreadPoolExecutor(options.at_once) as pool:
        found = list(pool.map(lambda _: measure(options.version), range(options.nodes)))
    sys.stdout.write(json.dumps({"version": options.version} | summary(found)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
