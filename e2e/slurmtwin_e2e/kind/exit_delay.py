"""How long after a SIGKILL a container is called ended: `python -m slurmtwin_e2e.kind.exit_delay --cluster NAME`.

Idle containers are killed one after the other, at any phase of the kubelet's looks (generic.go, one a second); its
log tells which look missed each end and which saw it, so the delay lies between the two. No Slurm and no fault run is
in it: the model's range (worlds/kubelet_phases.py EXIT_NS) is held against these figures.

With --restarts the containers come back, as a daemon's does, and each writes when its process began: that gives what a
restart takes behind the kubelet's sync (`container-start-alone` is from first starts alone).
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
from slurmtwin_e2e.kind.deploy import remove
from slurmtwin_e2e.kind.log_normal import log_normal
from slurmtwin_e2e.kind.node_shell import NodeShell
from slurmtwin_e2e.kind_world import say

NAMESPACE: Final = "st-exit-delay"
IMAGE: Final = "slurmtwin/pod:26.05"
PAUSE_S: Final = 1.37
"""Between two kills on a node: no multiple of the kubelet's second, so all phases come."""
RESTART_S: Final = 3.37
"""The same where containers come back: each of them does so alone."""
READY_S: Final = 120.0
_FINISHED: Final = re.compile(r'"Generic \(PLEG\): container finished" podID="(.*?)"')


@dataclass(frozen=True, slots=True)
class Delay:
    """One container: looks after its SIGKILL, as ns since it; the kill's own time is known to half_ns."""

    missed_ns: int
    """The last look that still took it for running; 0: there was none."""
    saw_ns: int
    half_ns: int


@dataclass(frozen=True, slots=True)
class Restart:
    """One container that came back: the steps after the look that saw its end, in ns."""

    sync_ns: int
    """From that look until the pod's sync."""
    begin_ns: int
    """From that sync until its process wrote its first line."""


def restarts(log: str, node: str, pods: Mapping[str, tuple[str, int]]) -> Iterator[Restart]:
    """From a kubelet's log and pods: UID -> namespace/name, and the unix ns that its new process wrote."""
    look_ns = 0
    looks: dict[str, tuple[int, int]] = {}
    """Pod that is to be synced -> the look that saw its end, and its new process's begin."""
    for line in log.splitlines():
        for row in kubelet_log.parse(line, node):
            if row.kind == Kind.KUBELET_RELISTED:
                look_ns = row.t_ns
            elif kubelet_log.SYNC in line:
                saw_ns, new_ns = looks.pop(json.loads(row.detail or "{}")["pod"], (0, 0))
                if saw_ns and row.t_ns < new_ns:  # else another sync than the one that made the process
                    yield Restart(row.t_ns - saw_ns, new_ns - row.t_ns)
        found = _FINISHED.search(line)
        if found is not None and found[1] in pods:
            name, new_ns = pods[found[1]]
            looks[name] = look_ns, new_ns


def restart_summary(found: Sequence[Restart]) -> dict[str, Any]:
    """Median and sigma of the logarithm, as worlds/pod_durations.py UNSEEN_MS has them, and each container."""
    begins = [max(one.begin_ns, 1) / MS for one in found]
    median, sigma = log_normal(begins, least_ms=1 / MS)
    return {
        "restarts": len(found),
        "median_ms": median,
        "sigma": sigma,
        "each_sync_begin_ms": [[round(one.sync_ns / MS, 1), round(one.begin_ns / MS, 1)] for one in found],
    }


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


def measure(cluster: Cluster, count: int, tell: Say, come_back: bool = False) -> tuple[list[Delay], list[Restart]]:
    """Kill `count` containers on each worker. Raises EnvironmentMissingError when their pods do not start."""
    api = Api(cluster.kubeconfig)
    base = f"/api/v1/namespaces/{NAMESPACE}/pods"
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    try:
        for place, node in enumerate(cluster.workers):
            for number in range(count):
                api.request("POST", base, _pod(node, place * count + number, come_back))
        pods = _running(api, base, count * len(cluster.workers))
        tell(f"{len(pods)} pods run")
        ended: list[Delay] = []
        back: list[Restart] = []
        for place, node in enumerate(cluster.workers):
            numbers = range(place * count, (place + 1) * count)
            ends, begins = _of_node(node, {number: pods[_name(number)] for number in numbers}, come_back)
            ended += ends
            back += begins
            tell(f"{node}: done")
        return ended, back
    finally:
        remove(cluster, NAMESPACE)


def _name(number: int) -> str:
    return f"idle-{number}"


def _pod(node: str, number: int, comes_back: bool) -> dict[str, Any]:
    command = ["bash", "-c", f"echo $EPOCHREALTIME; exec sleep {86_400 + number}"]
    container = {"name": "idle", "image": IMAGE, "imagePullPolicy": "Never", "command": command}
    policy = "Always" if comes_back else "Never"
    spec = {"nodeName": node, "restartPolicy": policy, "containers": [container]}
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


def _of_node(node: str, pods: Mapping[int, str], come_back: bool) -> tuple[list[Delay], list[Restart]]:
    shell = NodeShell(node)
    pause_s = RESTART_S if come_back else PAUSE_S
    began_s = int(time.time())
    kills: dict[str, tuple[int, int]] = {}
    try:
        for number, uid in pods.items():
            process = shell.run(f"pgrep -fx 'sleep {86_400 + number}'").text
            said = shell.run(f"kill -KILL {process}")
            kills[uid] = (said.before_ns, said.after_ns)
            time.sleep(pause_s)
        time.sleep(pause_s)
        log = shell.run(f"journalctl -u kubelet --since @{began_s} -o short-unix --no-pager").text
        begun = {
            uid: (f"{NAMESPACE}/{_name(number)}", began_ns(shell.run(_second_log(number, uid)).text))
            for number, uid in pods.items()
            if come_back
        }
    finally:
        shell.close()
    return list(delays(log, node, kills)), list(restarts(log, node, begun))


def _second_log(number: int, uid: str) -> str:
    """What the container's second run wrote, as the runtime keeps it."""
    return f"cat /var/log/pods/{NAMESPACE}_{_name(number)}_{uid}/idle/1.log"


def began_ns(text: str) -> int:
    """Unix ns from a line of the runtime: its stamp, the stream, a tag, and $EPOCHREALTIME."""
    return int(text.split()[3].replace(".", "")) * 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="a running cluster of ours, with the image of Slurm's pods")
    parser.add_argument("--pods", type=int, default=20, help="for each worker")
    parser.add_argument("--restarts", action="store_true", help="containers come back: measure that, too")
    options = parser.parse_args(arguments)
    ended, back = measure(attach(options.cluster), options.pods, say, options.restarts)
    told = summary(ended) | (restart_summary(back) if options.restarts else {})
    sys.stdout.write(json.dumps(told, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
