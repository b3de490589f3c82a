"""How often a new pod's volumes wait for a refused list: `python -m slurmtwin_e2e.kind.refused_lists --cluster NAME`.

A kubelet lists a ConfigMap or Secret when the first pod of its machine names it (watch_based_manager.go), as soon as it
hears of that pod. The API server's node authorizer lets it do so once it has heard of the pod's binding itself
(plugin/pkg/auth/authorizer/node); a list that comes before that is refused, and the reflector tries again 0.8 to 1.6 s
later. A StatefulSet's pod is deleted again and again, alone on its machine or beside another with the same volumes; the
kubelet's log tells each refused list, and each mount that waited too long (1 s). No Slurm and no fault run is in it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from slurmtwin.contract.errors import EnvironmentMissingError
from slurmtwin_e2e.images import Say
from slurmtwin_e2e.kind.api import Api, ApiError
from slurmtwin_e2e.kind.attach import attach
from slurmtwin_e2e.kind.cluster import Cluster
from slurmtwin_e2e.kind.deploy import remove
from slurmtwin_e2e.kind.node_shell import NodeShell
from slurmtwin_e2e.kind_world import say

NAMESPACE: Final = "st-refused-lists"
IMAGE: Final = "slurmtwin/pod:26.05"
IDLE: Final = "trap 'exit 0' TERM; sleep infinity & wait"
READY_S: Final = 120.0
PAUSE_S: Final = 0.73
"""Between a pod that is ready and its deletion."""
LATE_S: Final = 4.0
"""A refused list belongs to the last pod that was bound so long before it."""
SEEN_S: Final = 0.1
"""A binding is seen at most so long behind it: its refused list must not lie before it."""
TOO_LATE: Final = "cache: timed out waiting for the condition"
_REFUSED: Final = re.compile(r'^(\d+\.\d+) .*is forbidden.*reflector="object-\\?"(.*?)\\?"/\\?"(.*?)\\?""')


@dataclass(frozen=True, slots=True)
class Pod:
    """One new pod: unix seconds of its binding, and what went wrong behind it."""

    bound_s: float
    refused: tuple[str, ...]
    """Objects whose first list was refused."""
    failed_mounts: int


def refused_lists(log: str, namespace: str) -> Iterator[tuple[float, str]]:
    """Unix seconds and object of each refused list in a kubelet's log (journalctl -o short-unix)."""
    for line in log.splitlines():
        found = _REFUSED.search(line)
        if found is not None and found[2] == namespace:
            yield float(found[1]), found[3]


def told(bound_s: Sequence[float], lists: Sequence[tuple[float, str]], mounts_s: Sequence[float]) -> list[Pod]:
    """Each pod with what is told of it: bound_s in order, mounts_s the failed mounts."""
    out = []
    for number, at_s in enumerate(bound_s):
        end_s = min([at_s + LATE_S, *bound_s[number + 1 : number + 2]])
        names = tuple(name for told_s, name in lists if at_s <= told_s < end_s)
        out.append(Pod(at_s, names, sum(at_s <= told_s < end_s for told_s in mounts_s)))
    return out


def summary(pods: Sequence[Pod]) -> dict[str, Any]:
    """How many pods had a list refused, and how many of these a mount that failed."""
    refused = [pod for pod in pods if pod.refused]
    return {
        "pods": len(pods), "refused": len(refused), "failed_mounts": sum(pod.failed_mounts > 0 for pod in pods),
        "each_refused": [list(pod.refused) for pod in refused],
    }  # fmt: skip


def measure(cluster: Cluster, count: int, beside: bool, away_s: float, tell: Say) -> list[Pod]:
    """Delete a pod `count` times, each time for away_s. Raises EnvironmentMissingError when it does not come back."""
    api, node = Api(cluster.kubeconfig), cluster.workers[0]
    api.request("POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    base, sets = f"/api/v1/namespaces/{NAMESPACE}", f"/apis/apps/v1/namespaces/{NAMESPACE}/statefulsets"
    shell = NodeShell(node)
    try:
        api.request("POST", f"{base}/configmaps", {"metadata": {"name": "settings"}, "data": {"a": "1"}})
        api.request("POST", f"{base}/secrets", {"metadata": {"name": "keys"}, "stringData": {"a": "1"}})
        if beside:
            api.request("POST", f"{base}/pods", {"metadata": {"name": "other"}, "spec": _pod(node)})
        api.request("POST", sets, _set(node))
        began_s, uid = int(time.time()), _ready(api, base, "")
        bound_s: list[float] = []
        for number in range(count):
            time.sleep(PAUSE_S)
            if away_s:
                api.patch(f"{sets}/one", {"spec": {"replicas": 0}})
                time.sleep(away_s)
                api.patch(f"{sets}/one", {"spec": {"replicas": 1}})
            else:
                api.request("DELETE", f"{base}/pods/one-0")
            uid = _ready(api, base, uid, bound_s)
            if (number + 1) % 10 == 0:
                tell(f"{number + 1} of {count} pods")
        log = shell.run(f"journalctl -u kubelet --since @{began_s} -o short-unix --no-pager").text
        return told(bound_s, list(refused_lists(log, NAMESPACE)), failed_mounts(log, NAMESPACE))
    finally:
        shell.close()
        remove(cluster, NAMESPACE)


def failed_mounts(log: str, namespace: str) -> list[float]:
    """Unix seconds of mounts that failed for want of an object."""
    return [float(line.split()[0]) for line in log.splitlines() if f" {namespace}/" in line and TOO_LATE in line]


def _ready(api: Api, base: str, before: str, bound_s: list[float] | None = None) -> str:
    """The UID of the pod that is ready and is not `before`; when it was seen bound is added."""
    end_s = time.monotonic() + READY_S
    bound = ""
    while time.monotonic() < end_s:
        try:
            pod = api.request("GET", f"{base}/pods/one-0")
        except ApiError as error:
            if error.status != 404:
                raise
            continue
        uid = pod["metadata"]["uid"]
        if uid == before:
            time.sleep(0.01)
            continue
        if pod["spec"].get("nodeName") and uid != bound:
            bound = uid
            if bound_s is not None:
                bound_s.append(time.time() - SEEN_S)
        if any(one["type"] == "Ready" and one["status"] == "True" for one in pod["status"].get("conditions", ())):
            return str(uid)
        time.sleep(0.01)
    raise EnvironmentMissingError(f"no new pod is ready after {READY_S:.0f} s: is {IMAGE} loaded?")


def _pod(node: str) -> dict[str, Any]:
    volumes = [
        {"name": "settings", "configMap": {"name": "settings"}},
        {"name": "keys", "secret": {"secretName": "keys"}},
    ]
    container = {
        "name": "idle", "image": IMAGE, "imagePullPolicy": "Never", "command": ["bash", "-c", IDLE],
        "volumeMounts": [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes],
    }  # fmt: skip
    return {"nodeSelector": {"kubernetes.io/hostname": node}, "containers": [container], "volumes": volumes}


def _set(node: str) -> dict[str, Any]:
    labels = {"app": "one"}
    return {
        "metadata": {"name": "one"},
        "spec": {
            "serviceName": "one", "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": _pod(node)},
        },
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print JSON. Exit 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cluster", required=True, help="a running cluster of ours, with the image of Slurm's pods")
    parser.add_argument("--pods", type=int, default=60)
    parser.add_argument("--beside", action="store_true", help="another pod of the machine has the same volumes")
    parser.add_argument("--away-s", type=float, default=0.0, help="the StatefulSet has no pod for so long, each time")
    options = parser.parse_args(arguments)
    found = measure(attach(options.cluster), options.pods, options.beside, options.away_s, say)
    sys.stdout.write(json.dumps(summary(found), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
