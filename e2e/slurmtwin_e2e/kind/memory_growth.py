"""How long a job takes to outgrow its container: `python -m slurmtwin_e2e.kind.memory_growth`.

The batch script of every job (slurm_images/files/job) runs in containers of the pods' image with a memory limit,
without a cluster and without Slurm. `hog` asks it to grow, and the time is from the signal until the kernel's kill has
ended the script; `fill` writes a volume in memory full, beside a process that is larger than all others, and the time
is from the begin of the writing until that one is killed (worlds/pod_durations.py: growth-*, volume-fill).

`--cold` drops the host's page cache before each container, so that the pages of its programs are counted against its
own limit and the kernel takes them back before it kills. It needs root and slows all else on the host.

`--cluster` runs them as pods, one after the other, on each worker of a running cluster in turn: a pod's container finds
the pages of its programs as whoever came before on that node has left them.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.docker import LABEL, docker
from slurmtwin_e2e.kind.api import Api
from slurmtwin_e2e.kind.attach import attach
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.deploy import remove
from slurmtwin_e2e.kind.node_shell import NodeShell

HOG: Final = r"""
SLURM_JOB_ID=1 SLURMD_NODENAME=w-0 /opt/slurmtwin/job 1 1000 0 & script=$!
sleep 1
echo "$EPOCHREALTIME"; kill -USR1 "$script"; wait "$script"; echo "$EPOCHREALTIME"
"""
FILL: Final = r"""
python3 -c 'import time; kept = bytearray(b"x" * (32 << 20)); time.sleep(600)' & victim=$!
sleep 1
echo "$EPOCHREALTIME"; head -c 1G /dev/zero > /scratch/fill & wait "$victim"; echo "$EPOCHREALTIME"
"""
PROGRAMS: Final = {"hog": HOG, "fill": FILL}
DROP_CACHES: Final = Path("/proc/sys/vm/drop_caches")
NAMESPACE: Final = "st-memory-growth"
ENDS_S: Final = 180.0


def drop_caches(control: Path = DROP_CACHES) -> None:
    """Forget every clean page of the host. Raises EnvironmentMissingError where that is not allowed."""
    os.sync()
    try:
        control.write_text("3\n", "ascii")
    except OSError as error:
        raise EnvironmentMissingError(
            f"{control}: {error.strerror} (run as root of the Docker host, or leave out --cold)"
        ) from None


def measure(version: str, what: str, count: int, memory: str, cpus: str, cold: bool = False) -> list[float]:
    """Seconds of `count` containers, one after the other. Raises EnvironmentMissingError without Docker or the image,
    or where the kernel killed the container before it told its times.
    """
    own = f"slurmtwin-growth-{secrets.token_hex(4)}"
    limits = ("--memory", memory, "--memory-swap", memory, *(("--cpus", cpus) if cpus else ()))
    found = []
    for _ in range(count):
        if cold:
            drop_caches()
        done = docker(
            "run", "--rm", "--label", f"{LABEL}={own}", "--network", "none", *limits, "--tmpfs", "/scratch:size=1g",
            "--tmpfs", "/evidence", "--entrypoint", "bash", f"slurmtwin/pod:{version}", "-c", PROGRAMS[what],
            check=False, limit_s=120,
        )  # fmt: skip
        found.append(span(done.stdout, done.stderr))
    return found


def measure_pods(cluster: Cluster, version: str, what: str, count: int, memory: str, cpus: str) -> list[float]:
    """The same of `count` pods. Raises EnvironmentMissingError where one does not end, or was killed whole."""
    api, path = Api(cluster.kubeconfig), f"/api/v1/namespaces/{NAMESPACE}/pods"
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    try:
        time.sleep(3.0)  # the namespace's service account is made
        found = []
        for number in range(count):
            node, name = cluster.workers[number % len(cluster.workers)], f"grows-{number}"
            api.request("POST", path, pod(name, node, version, what, memory, cpus))
            uid = _ended(api, f"{path}/{name}")
            with closing(NodeShell(node)) as shell:  # bash says there, too, that a child was killed, not on stdout
                log = f"/var/log/pods/{NAMESPACE}_{name}_{uid}/grows/0.log"
                found.append(span(shell.run(f"grep ' stdout ' {log} | cut -d' ' -f4").text))
        return found
    finally:
        remove(cluster, NAMESPACE)


def pod(name: str, node: str, version: str, what: str, memory: str, cpus: str) -> dict[str, Any]:
    """One that grows there: Guaranteed with a CPU limit, so the kernel takes what grew (x63-oom-process)."""
    limits = {"memory": memory.upper() + "i"} | ({"cpu": cpus} if cpus else {})  # 256m is 256Mi there
    volumes = {"scratch": "/scratch", "evidence": "/evidence"}
    container = {
        "name": "grows", "image": f"slurmtwin/pod:{version}", "imagePullPolicy": "Never",
        "command": ["bash", "-c", PROGRAMS[what]], "resources": {"limits": limits},
        "volumeMounts": [{"name": volume, "mountPath": place} for volume, place in volumes.items()],
    }  # fmt: skip
    spec = {
        "nodeName": node, "restartPolicy": "Never", "containers": [container], "terminationGracePeriodSeconds": 0,
        "volumes": [{"name": volume, "emptyDir": {"medium": "Memory"}} for volume in volumes],
    }  # fmt: skip
    return {"metadata": {"name": name}, "spec": spec}


def _ended(api: Api, path: str) -> str:
    """The pod's UID, when its container has ended."""
    end = time.monotonic() + ENDS_S
    while time.monotonic() < end:
        seen = api.request("GET", path)
        if seen["status"].get("phase") in ("Succeeded", "Failed"):
            return str(seen["metadata"]["uid"])
        time.sleep(0.5)
    raise EnvironmentMissingError(f"{path} has not ended after {ENDS_S:.0f} s: is its image loaded?")


def span(text: str, errors: str = "") -> float:
    """Between the two times that a program told, in seconds. Raises EnvironmentMissingError where one is missing."""
    times = text.split()
    if len(times) != 2:
        raise EnvironmentMissingError(f"the container told {len(times)} of 2 times: {errors.strip()[-400:]}")
    return float(times[1]) - float(times[0])


def summary(found: Sequence[float]) -> dict[str, Any]:
    """Median, least and most, and each, in ms."""
    each = [round(1000 * one, 1) for one in found]
    ends = {"median_ms": statistics.median(each), "least_ms": min(each), "most_ms": max(each)} if each else {}
    return {"count": len(each), **ends, "each_ms": each}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=sorted(PROGRAMS))
    parser.add_argument("--version", default="26.05", help="of Slurm; its image of pods is there")
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--memory", default="256m", help="limit of a container in Docker's words, without swap")
    parser.add_argument("--cpus", default="", help="its CPU limit, 0.1 as in x63-oom-process; none unless told")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--cold", action="store_true", help="drop the host's page cache before each container (root)")
    where.add_argument("--cluster", default="", help="pods of this running cluster of ours, which has the image")
    options = parser.parse_args(arguments)
    asked_of = (options.version, options.what, options.count, options.memory, options.cpus)
    spans = measure_pods(attach(options.cluster), *asked_of) if options.cluster else measure(*asked_of, options.cold)
    found = summary(spans)
    asked = {
        "what": options.what, "version": options.version, "memory": options.memory, "cpus": options.cpus or None,
        "cold": options.cold, "cluster": options.cluster or None,
    }  # fmt: skip
    sys.stdout.write(json.dumps(asked | found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
