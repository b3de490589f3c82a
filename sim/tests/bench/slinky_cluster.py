"""First jobs of w20000 under the design slinky, with faults: `python sim/tests/bench/slinky_cluster.py [JOBS] [NODES]`.

As many slurmd pods as nodes, one to a machine, made by the reference operator with Slinky's switches; slurmctld in its
StatefulSet. Each simulated hour something fails in turn: slurmctld is killed, a slurmd is killed, a machine stands
still for a minute. Prints jobs per second of CPU time, with and without the time that the cluster takes to come up.
"""

from __future__ import annotations

import sys
import time
from itertools import islice
from typing import Any

from slurmtwin.contract.clock import HOUR
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.workload.synthetic import synthetic
from slurmtwin.worlds.run import Run
from slurmtwin.worlds.twin import TwinOptions, run_scenario

GROUP = 64
"""Machines of a group of workers, at most."""


def scenario(nodes: int, hours: int) -> Scenario:
    """The cluster, and a fault in each hour."""
    turns: list[dict[str, Any]] = [
        {"kind": "process.signal", "target": "slurmctld", "signal": "KILL"},
        {"kind": "process.signal", "target": f"slurmd:w-{nodes // 2}", "signal": "KILL"},
        {"kind": "kube_node.pause", "target": f"worker{nodes // 3 + 2}", "lasts": "60s"},
    ]
    faults = [{"at": f"{hour * 3600 + 1800}s", **turns[hour % len(turns)]} for hour in range(hours)]
    machines = [{"count": min(GROUP, nodes + 1 - first)} for first in range(0, nodes + 1, GROUP)]
    return Scenario.model_validate({
        "schema": "slurmtwin/scenario/1", "name": "slinky-cluster",
        "slurm": {
            "version": "26.05", "conf": {"SlurmdTimeout": 300, "AuthInfo": "cred_expire=10", "MaxJobCount": 100_000},
            "nodes": [{"NodeName": f"w-[0-{nodes - 1}]", "CPUs": 1, "RealMemory": 200}],
            "partitions": [{"PartitionName": "batch", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE"}],
        },
        "cluster": {"workers": machines},
        "pods": {"operator": "slinky", "slurmctld_process": "supervised", "slurmd_process": "supervised"},
        "faults": faults,
    })  # fmt: skip


def first_jobs(jobs: int, nodes: int) -> list[JobRequest]:
    """So many of w20000's, for a cluster of so many nodes."""
    return list(islice(synthetic("w20000", nodes=nodes).requests(), jobs))


def play(requests: list[JobRequest], nodes: int) -> tuple[Run, float]:
    """The run and its CPU seconds."""
    hours = max(1, requests[-1].submit_ns // HOUR)
    began = time.process_time()
    run = run_scenario(scenario(nodes, hours), ".", TwinOptions(seed=1), requests)
    return run, time.process_time() - began


def main(jobs: int, nodes: int) -> int:
    """Print the figures."""
    requests = first_jobs(jobs, nodes)
    _, boot_s = play(requests[:1], nodes)
    run, cpu_s = play(requests, nodes)
    results = run.manifest.results
    count, hours = len(requests), results["simulated_ns"] / HOUR
    print(  # noqa: T201
        f"{count} jobs on {nodes} nodes, {hours:.1f} h: {cpu_s:.1f} s of CPU, {count / cpu_s:.1f} jobs/s; "
        f"{count / (cpu_s - boot_s):.1f} jobs/s without {boot_s:.1f} s of the start; {run.event_count} rows, "
        f"{results['engine_events']} events, {results['event_hash']}"
    )
    return 0


if __name__ == "__main__":
    given = [int(word) for word in sys.argv[1:]]
    sys.exit(main(*(given + [20_000, 1000][len(given) :])))
