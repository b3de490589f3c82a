"""How long behind its jobs' requeue a silent node is called DOWN: `python -m slurmtwin_e2e.kind.silent_node`.

Both come of one look at nodes (ping_nodes.c): jobs of each node that is found silent are requeued there, and behind all
nodes the log names those that are DOWN. slurmctld and slurmd of the pods' image run without a cluster, jobs' ends being
logged as in a cluster's pods; a job begins, slurmd's container is frozen, and slurmctld's log says both.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.scenario import load_scenario
from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind.standby_rounds import LOOK_S, said_s
from slurmtwin_e2e.kind.supervised_restart import daemons

SCENARIO: Final = Path("scenarios/faults/s2-slurmd-hang.yaml")
LOG: Final = "/var/log/slurm/slurmctld.log"
RUNS, REQUEUED, DOWN = "sched: Allocate JobId", "due to failure of node", "not responding, setting DOWN"
JOB: Final = ("sbatch", "--requeue", "--wrap", "sleep 600")
WAITS_S: Final = 120.0


def measure(version: str) -> float:
    """Seconds from the requeue to DOWN. Raises EnvironmentMissingError without Docker or the image, or where one of
    them does not come."""
    scenario = load_scenario(SCENARIO).of_version(version)
    with daemons(scenario, version, supervised="", job_log=True) as names:
        ctld = names["slurmctld"]
        _until(ctld, ("sinfo", "--noheader", "--states", "idle", "--format", "%D"), "1")
        docker("exec", ctld, *JOB)
        _told(ctld, RUNS)
        docker("pause", names["slurmd"])
        try:
            down_s = _told(ctld, DOWN)
            return down_s - _told(ctld, REQUEUED)
        finally:
            docker("unpause", names["slurmd"], check=False)


def _until(container: str, command: Sequence[str], wanted: str) -> None:
    until_s = time.monotonic() + WAITS_S
    while wanted not in docker("exec", container, *command, check=False).stdout:
        if time.monotonic() > until_s:
            raise EnvironmentMissingError(f"{container}: {' '.join(command)} does not say {wanted!r}")
        time.sleep(LOOK_S)


def _told(container: str, words: str) -> float:
    _until(container, ("cat", LOG), words)
    found = said_s(docker("exec", container, "cat", LOG).stdout, words)
    assert found is not None
    return found


def summary(found: Sequence[float]) -> dict[str, Any]:
    """The median and the sigma of the logarithm (worlds/pod_durations.py); a log's stamp is cut to whole ms."""
    each_ms = [span * 1000 for span in found]
    logs = [math.log(max(ms, 0.5)) for ms in each_ms]
    return {
        "nodes": len(found),
        "behind_ms": round(statistics.median(each_ms), 1) if each_ms else None,
        "sigma": round(statistics.stdev(logs), 3) if len(logs) > 1 else None,
        "each_ms": [round(ms) for ms in each_ms],
    }


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
