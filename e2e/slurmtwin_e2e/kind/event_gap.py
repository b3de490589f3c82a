"""How far apart a kubelet writes two events of one moment: `python -m slurmtwin_e2e.kind.event_gap --cluster NAME`.

client-go writes a process's events one by one (tools/record/event.go, recordToSink()). A container that fails its
liveness probe for the third time is killed at once: the kubelet's events Unhealthy and Killing are of one moment, and
Killing is heard of when Unhealthy is written. Pods that fail from their start on come one after the other, so none is
in back-off; a watch tells when each event was there. No Slurm and no fault run is in it.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

from slurmtwin_e2e.images import Say
from slurmtwin_e2e.kind.api import Api, ApiError
from slurmtwin_e2e.kind.attach import attach
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.deploy import remove
from slurmtwin_e2e.kind.log_normal import log_normal
from slurmtwin_e2e.kind_world import say

NAMESPACE: Final = "st-event-gap"
IMAGE: Final = "slurmtwin/pod:26.05"
LIVES_S: Final = 7.37
"""From a pod's creation until it is taken away: three probes, 1 s apart, behind a start of 1 to 2 s."""
Heard = tuple[float, str, str]
"""Unix seconds at which a watch told of an event, its pod, its reason."""


def gaps_ms(heard: Iterable[Heard]) -> list[float]:
    """Of each pod: from the Unhealthy before its first Killing until that."""
    last: dict[str, float] = {}
    out, killed = [], set()
    for at_s, pod, reason in heard:
        if reason == "Unhealthy":
            last[pod] = at_s
        elif reason == "Killing" and pod in last and pod not in killed:
            killed.add(pod)
            out.append((at_s - last[pod]) * 1000)
    return out


def measure(cluster: Cluster, count: int, tell: Say) -> list[Heard]:
    """What is heard of `count` pods on one node, one after the other."""
    api, node = Api(cluster.kubeconfig), cluster.workers[0]
    base = f"/api/v1/namespaces/{NAMESPACE}"
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    heard: list[Heard] = []
    watch = threading.Thread(target=_listen, args=(Api(cluster.kubeconfig), f"{base}/events?watch=1", heard))
    watch.start()
    try:
        time.sleep(3.0)  # the namespace's service account is made
        for number in range(count):
            api.request("POST", f"{base}/pods", _pod(node, number))
            time.sleep(LIVES_S)
            api.request("DELETE", f"{base}/pods/{_name(number)}", {"gracePeriodSeconds": 0})
            if (number + 1) % 10 == 0:
                tell(f"{number + 1} of {count} pods")
    finally:
        remove(cluster, NAMESPACE)
        watch.join()
    return heard


def _listen(api: Api, path: str, heard: list[Heard]) -> None:
    try:
        for line in api.watch(path, 2 * LIVES_S):
            event = line["object"]
            if "involvedObject" in event:
                heard.append((time.time(), event["involvedObject"].get("name", ""), event.get("reason", "")))
    except ApiError:  # the last pod is gone: nothing more is heard
        return


def _name(number: int) -> str:
    return f"fails-{number}"


def _pod(node: str, number: int) -> dict[str, Any]:
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 3}
    container = {
        "name": "idle", "image": IMAGE, "imagePullPolicy": "Never", "command": ["sleep", "infinity"],
        "livenessProbe": probe,
    }  # fmt: skip
    spec = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 2}
    return {"metadata": {"name": _name(number)}, "spec": spec}


def summary(each_ms: Sequence[float]) -> dict[str, Any]:
    """Median in ms, sigma of the logarithm, and each pod."""
    median, sigma = log_normal(each_ms)
    return {"pods": len(each_ms), "median_ms": median, "sigma": sigma, "each_ms": [round(ms, 1) for ms in each_ms]}


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="a running cluster of ours, with the image of Slurm's pods")
    parser.add_argument("--pods", type=int, default=30)
    options = parser.parse_args(arguments)
    sys.stdout.write(json.dumps(summary(gaps_ms(measure(attach(options.cluster), options.pods, say))), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
