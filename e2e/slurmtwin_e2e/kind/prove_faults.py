"""Inject every kind of fault once on a running cluster and print its proof.

Usage: `python -m slurmtwin_e2e.kind.prove_faults CLUSTER`. Between two faults all workers must be idle again.
Exit 0 when every kind was proven and cleared.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.kind import deploy
from slurmtwin_e2e.kind.api import Api
from slurmtwin_e2e.kind.attach import attach
from slurmtwin_e2e.kind.deploy import Deployed
from slurmtwin_e2e.kind.faults.base import Reach, reach, until
from slurmtwin_e2e.kind.faults.schedule import BY_KIND, FaultRunner

NAMESPACE: Final = "prove-faults"
JOB_SECONDS: Final = 600
FORGETS_WORKERS: Final = ("volume.lost",)
"""Dynamic nodes are gone with slurmctld's state until their slurmds start anew (docs/surprises.md)."""

FAULTS: Final[tuple[dict[str, Any], ...]] = (
    {"kind": "process.signal", "target": "slurmctld"},
    {"kind": "process.signal", "target": "slurmd:w-0"},
    {"kind": "process.signal", "target": "slurmrestd"},
    {"kind": "process.signal", "target": "kubelet@worker2"},
    {"kind": "process.signal", "target": "containerd@worker2"},
    {"kind": "process.freeze", "target": "slurmd:w-1", "lasts": "3s"},
    {"kind": "process.freeze", "target": "slurmctld", "lasts": "3s"},
    {"kind": "slurmrestd.tarpit", "lasts": "4s"},
    {"kind": "memory.hog", "target": "job:1"},
    {"kind": "memory.fill", "target": "job:2"},
    {"kind": "memory.group_kill", "target": "slurmd:w-2", "lasts": "1s"},
    {"kind": "pod.delete", "target": "slurmd:w-3"},
    {"kind": "pod.delete", "target": "slurmd:w-3", "grace": "0s"},
    {"kind": "network.cut", "target": "slurmd:w-0,slurmd:w-1", "other": "slurmctld", "lasts": "5s"},
    {"kind": "network.cut", "target": "slurmd:w-2", "lasts": "5s"},
    {"kind": "dns.outage", "lasts": "5s"},
    {"kind": "watch.stale", "target": "kube-system/coredns", "lasts": "5s"},
    {"kind": "image.pull_fails", "target": "slurmd", "lasts": "40s"},
    {"kind": "disk.fill", "target": "slurmd:w-1", "size": "64Mi", "lasts": "1s"},
    {"kind": "jwt.rotate", "lasts": "10s"},
    {"kind": "config.change", "lines": ["SchedulerParameters=bf_interval=20"], "lasts": "10s"},
    {"kind": "clock.jump", "target": "slurmd:w-0", "offset": "1h", "lasts": "20s"},
    {"kind": "kube_node.cordon", "target": "worker3", "lasts": "1s"},
    {"kind": "kube_node.taint", "target": "worker3", "taint": "slurmtwin.org/test=1:NoSchedule", "lasts": "1s"},
    {"kind": "kube_node.drain", "target": "worker3", "lasts": "3s"},
    {"kind": "kube_node.pause", "target": "worker2", "lasts": "5s"},
    {"kind": "api_server.slow", "offset": "2s", "lasts": "8s"},
    {"kind": "api_server.stop", "lasts": "5s"},
    {"kind": "kube_node.delete", "target": "worker3", "lasts": "5s"},
    {"kind": "kube_node.stop", "target": "worker3", "lasts": "20s"},
    {"kind": "kube_node.restart", "target": "worker2"},
    {"kind": "volume.lost", "target": "slurmctld"},
)


def scenario_of(faults: Sequence[dict[str, Any]]) -> Scenario:
    """Slurm for the proofs: four workers with a memory limit and a memory-backed volume."""
    return Scenario.model_validate(
        {
            "schema": "slurmtwin/scenario/1", "name": NAMESPACE,
            "slurm": {
                "conf": {"SlurmdTimeout": 60, "ReturnToService": 2, "AuthInfo": "cred_expire=15"},
                "nodes": [{"NodeName": "w-[0-3]", "CPUs": 1, "RealMemory": 200}],
            },
            "pods": {"memory": "256Mi", "scratch": "1Gi", "toleration": "20s", "grace": "5s"},
            "faults": [{"at": "0s", **fault} for fault in faults],
        }
    )  # fmt: skip


def submit(deployed: Deployed, jobs: Sequence[int]) -> None:
    """Have the observer submit one long job for each number."""
    actions = []
    for n in jobs:
        argv = ["sbatch", "--parsable", "-o", "/dev/null", "/opt/slurmtwin/job", str(n), str(JOB_SECONDS), "0"]
        actions.append({"at_ns": 0, "do": "submit", "jobs": [n], "argv": argv})
    deploy.write_plan(deployed.evidence, time.time_ns(), actions)
    path = deployed.evidence / "scripts.jsonl"
    until(lambda: "yes" if path.exists() and len(path.read_text().splitlines()) >= len(jobs) else "", "jobs start", 60)


def settled(deployed: Deployed, limit_s: float) -> str:
    """Wait until every worker is up again; the states that are not."""
    limit = time.monotonic() + limit_s
    while time.monotonic() < limit:
        states = deploy.node_states(deployed.evidence)
        bad = {n: s for n, s in states.items() if "DOWN" in s or "NOT_RESP" in s or "UNKNOWN" in s or s == "GONE"}
        try:
            pods = deployed.cluster.not_running()
        except EnvironmentMissingError as error:  # the API server is not back yet
            pods = [str(error)[:80]]
        if not bad and len(states) >= 4 and not pods:
            return ""
        time.sleep(1)
    return f"{bad} {pods}"


def prove(tools: Reach, fault: ClusterFault) -> tuple[bool, float, str]:
    """(proven, lateness of the call in ms, proof or error) of one fault, undone afterwards."""
    runner = FaultRunner(tools, [(0, fault, 0)], time.time_ns() + 15_500_000_000, lambda _: None)
    runner.start()
    runner.join(240)
    runner.undo()
    by = {step.what: step for step in runner.steps}
    late = (by["injected"].before_ns - by["injected"].planned_ns) / 1e6 if "injected" in by else -1.0
    text = by["failed"].text if "failed" in by else by["proven"].text if "proven" in by else "no end"
    return "proven" in by and "failed" not in by, late, text


def main(arguments: Sequence[str] | None = None) -> int:
    """Prove all kinds, or those named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cluster", help="name of a running cluster of ours")
    parser.add_argument("--kind", action="append", help="only these kinds")
    options = parser.parse_args(arguments)
    chosen = [f for f in FAULTS if not options.kind or f["kind"] in options.kind]
    scenario = scenario_of(chosen)
    cluster = attach(options.cluster)
    say = lambda text: print(text, file=sys.stderr, flush=True)  # noqa: E731
    deploy.remove(cluster, NAMESPACE)
    deployed = deploy.deploy(cluster, scenario, NAMESPACE, deploy.prepare_images(cluster, scenario, say), say)
    tools = reach(cluster, deployed, Api(cluster.kubeconfig))
    lateness, failed = [], []
    try:
        if any(f["kind"].startswith("memory.") for f in chosen):
            submit(deployed, (1, 2))
        for fault in scenario.faults:
            assert isinstance(fault, ClusterFault)
            good, late, text = prove(tools, fault)
            if fault.kind in FORGETS_WORKERS:
                cluster.kubectl("-n", NAMESPACE, "delete", "pods", "-l", "app=slurmd", "--grace-period=0", "--force")
            left = settled(deployed, 180)
            lateness.append(late)
            if not good or left:
                failed.append(fault.kind)
            print(f"{'ok  ' if good else 'FAIL'} {late:6.1f} ms  {fault.kind:18} {fault.target:24} {text[:160]}"
                  f"{'  NOT SETTLED: ' + left if left else ''}", flush=True)  # fmt: skip
    finally:
        tools.close()
        deploy.remove(cluster, NAMESPACE)
        deploy.unlabel_nodes(cluster)
    kinds = {f["kind"] for f in chosen}
    spread = f"median {statistics.median(lateness):.1f} ms, largest {max(lateness):.1f} ms"
    print(f"{len(kinds - set(failed))} of {len(kinds)} kinds proven, known: {len(BY_KIND)}; calls late: {spread}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
