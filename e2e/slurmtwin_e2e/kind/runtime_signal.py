"""How long a signal takes by way of the runtime: `python -m slurmtwin_e2e.kind.runtime_signal --cluster NAME`.

containerd runs runc for each signal (internal/cri/server/container_stop.go; runc's shim), so a container that outlives
its grace ends one such run behind it. A process in a container writes when it hears SIGUSR1, which the runtime's own
client asks for again and again; in turns with it that client asks for the runtime's version, which takes what such a
client takes itself. No Slurm and no fault run is in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Sequence
from typing import Any, Final

from slurmtwin.contract.clock import MS
from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.kind.api import Api
from slurmtwin_e2e.kind.attach import attach
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.deploy import remove
from slurmtwin_e2e.kind.exit_delay import began_ns
from slurmtwin_e2e.kind.log_normal import log_normal
from slurmtwin_e2e.kind.node_shell import NodeShell

NAMESPACE: Final = "st-runtime-signal"
IMAGE: Final = "slurmtwin/pod:26.05"
PAUSE_S: Final = 0.87
"""Between two calls."""
READY_S: Final = 60.0
HEARS: Final = "trap 'echo $EPOCHREALTIME' USR1; sleep 86400 & while :; do wait $!; done"
Spans = tuple[list[float], list[float]]
"""In ms: from a call to the signal, and what a client takes that only asks."""


def measure(cluster: Cluster, count: int) -> Spans:
    """`count` signals to one container. Raises EnvironmentMissingError when its pod does not start."""
    api, node = Api(cluster.kubeconfig), cluster.workers[0]
    path = f"/api/v1/namespaces/{NAMESPACE}/pods"
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    shell = NodeShell(node)
    try:
        time.sleep(3.0)  # the namespace's service account is made
        container = {"name": "hears", "image": IMAGE, "imagePullPolicy": "Never", "command": ["bash", "-c", HEARS]}
        api.request(
            "POST", path, {"metadata": {"name": "hears"}, "spec": {"nodeName": node, "containers": [container]}}
        )
        uid, found = _running(api, f"{path}/hears")
        asked_ns: list[int] = []
        own: list[float] = []
        for _ in range(count):
            time.sleep(PAUSE_S)
            asked_ns.append(shell.run(f"ctr -n k8s.io task kill -s SIGUSR1 {found}").before_ns)
            time.sleep(PAUSE_S)
            said = shell.run("ctr version")
            own.append((said.after_ns - said.before_ns) / MS)
        log = shell.run(f"cat /var/log/pods/{NAMESPACE}_hears_{uid}/hears/0.log").text
        return [(heard - asked) / MS for asked, heard in zip(asked_ns, heard_ns(log), strict=True)], own
    finally:
        shell.close()
        remove(cluster, NAMESPACE)


def _running(api: Api, path: str) -> tuple[str, str]:
    """The pod's UID and its container's id, when that runs."""
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        pod = api.request("GET", path)
        for status in pod["status"].get("containerStatuses", ()):
            if "running" in status["state"]:
                time.sleep(PAUSE_S)  # bash has set its trap
                return pod["metadata"]["uid"], status["containerID"].rpartition("/")[2]
        time.sleep(0.2)
    raise EnvironmentMissingError(f"{path} does not run after {READY_S:.0f} s: is {IMAGE} loaded?")


def heard_ns(log: str) -> list[int]:
    """Unix ns that each line of a container tells."""
    return [began_ns(line) for line in log.splitlines() if line.strip()]


def summary(spans: Spans) -> dict[str, Any]:
    """What each signal takes beyond the client's own median: median in ms, sigma of the logarithm, and all of them."""
    heard, own = spans
    client = statistics.median(own)
    each = [round(ms - client, 1) for ms in heard]
    median, sigma = log_normal(each)
    return {"signals": len(each), "median_ms": median, "sigma": sigma, "each_ms": each, "client_ms": round(client, 1)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="a running cluster of ours, with the image of Slurm's pods")
    parser.add_argument("--signals", type=int, default=24)
    options = parser.parse_args(arguments)
    sys.stdout.write(json.dumps(summary(measure(attach(options.cluster), options.signals)), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
