"""How long after a SIGKILL a container is called ended: `python -m slurmtwin_e2e.kind.exit_delay --cluster NAME`.

Idle containers are killed one after the other, at any phase of the kubelet's looks (generic.go, one a second); its
log tells which look missed each end and which saw it, so the delay lies between the two. No Slurm and no fault run is
in it: the model's range (worlds/kubelet_phases.py EXIT_NS) is held against these figures.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slurmtwin.contract.clock import MS
from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin.contract.events import Kind
from slurmtwin_e2e.images import Say
from slurmtwin_e2e.kind.api import Api
from slurmtwin_e2e.kind.attach import attach
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.collect import kubelet_log
from slurmtwin_e2e.kind.node_shell import NodeShell
from slurmtwin_e2e.kind_world import say

NAMESPACE: Final = "st-exit-delay"
IMAGE: Final = "slurmtwin/pod:26.05"
PAUSE_S: Final = 1.37
"""Between two kills on a node: no multiple of the kubelet's second, so all phases come."""
READY_S: Final = 120.0
_FINISHED: Final = re.compile(r'"Generic \(PLEG\): container finished" podID="(.*?)"')


@dataclass(frozen=True, slots=True)
class Delay:
    """One container: looks after its SIGKILL, as ns since it; the kill's own time is known to half_ns."""

    missed_ns: int
    """The last look that still took it for running; 0: there was none."""
    saw_ns: int
    half_ns: int


def delays(log: str, node: str, kills: Mapping[str, tuple[int, int]]) -> Iterator[Delay]:
    """From a kubelet's log (journalctl -o short-unix) and kills: pod UID -> unix ns before and after the call."""
    look_ns = 0
    looks: list[int] = []
    for line in log.splitlines():
        for row in kubelet_log.parse(line, node):
            if row.kind == Kind.KUBELET_RELISTED:
                look_ns = row.t_ns
                looks.append(look_ns)
        found = _FINISHED.search(line)
        if found is None or found[1] not in kills:
            continue
        before_ns, after_ns = kills[found[1]]
        middle_ns = (before_ns + after_ns) // 2
        missed = [at - middle_ns for at in looks if middle_ns < at < look_ns]
        yield Delay(max(missed, default=0), look_ns - middle_ns, (after_ns - before_ns) // 2)


def summary(found: Sequence[Delay]) -> dict[str, Any]:
    """Counts, the latest look that missed an end, the earliest that saw one, both by 50 ms, and each container."""
    edges = [edge * MS for edge in range(0, 500, 50)]
    return {
        "containers": len(found),
        "latest_missed_ms": max((d.missed_ns for d in found), default=0) / MS,
        "earliest_saw_ms": min((d.saw_ns for d in found), default=0) / MS,
        "looks": [
            {"above_ms": edge // MS, "missed": sum(edge < d.missed_ns <= edge + 50 * MS for d in found),
             "saw": sum(edge < d.saw_ns <= edge + 50 * MS for d in found)}
            for edge in edges
        ],
        "each_missed_saw_ms": [[round(d.missed_ns / MS), round(d.saw_ns / MS)] for d in found],
        "kill_known_to_ms": max((d.half_ns for d in found), default=0) / MS,
    }  # fmt: skip


def measure(cluster: Cluster, count: int, tell: Say) -> list[Delay]:
    """Kill `count` containers on each worker. Raises EnvironmentMissingError when their pods do not start."""
    api = Api(cluster.kubeconfig)
    base = f"/api/v1/namespaces/{NAMESPACE}/pods"
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    try:
        for place, node in enumerate(cluster.workers):
            for number in range(count):
                api.request("POST", base, _pod(node, place * count + number))
        pods = _running(api, base, count * len(cluster.workers))
        tell(f"{len(pods)} pods run")
        out: list[Delay] = []
        for place, node in enumerate(cluster.workers):
            out += _of_node(node, {number: pods[_name(number)] for number in range(place * count, (place + 1) * count)})
            tell(f"{node}: done")
        return out
    finally:
        api.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}")


def _name(number: int) -> str:
    return f"idle-{number}"


def _pod(node: str, number: int) -> dict[str, Any]:
    container = {"name": "idle", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", str(86_400 + number)]}
    spec = {"nodeName": node, "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"name": _name(number)}, "spec": spec}


def _running(api: Api, path: str, count: int) -> dict[str, str]:
    """Pod -> UID, when all run."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        items = api.request("GET", path)["items"]
        up = {
            item["metadata"]["name"]: item["metadata"]["uid"] for item in items if item["status"]["phase"] == "Running"
        }
        if len(up) == count:
            return up
        time.sleep(0.5)
    raise EnvironmentMissingError(f"{len(up)} of {count} pods run after {READY_S:.0f} s: is {IMAGE} loaded?")


def _of_node(node: str, pods: Mapping[int, str]) -> list[Delay]:
    shell = NodeShell(node)
    began_s = int(time.time())
    kills: dict[str, tuple[int, int]] = {}
    try:
        for number, uid in pods.items():
            process = shell.run(f"pgrep -fx 'sleep {86_400 + number}'").text
            said = shell.run(f"kill -KILL {process}")
            kills[uid] = (said.before_ns, said.after_ns)
            time.sleep(PAUSE_S)
        time.sleep(PAUSE_S)
        log = shell.run(f"journalctl -u kubelet --since @{began_s} -o short-unix --no-pager").text
    finally:
        shell.close()
    return list(delays(log, node, kills))


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="a running cluster of ours, with the image of Slurm's pods")
    parser.add_argument("--pods", type=int, default=20, help="for each worker")
    options = parser.parse_args(arguments)
    found = measure(attach(options.cluster), options.pods, say)
    sys.stdout.write(json.dumps(summary(found), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
