"""Is a used cluster as it was when it was new? Its state is written down once, restored, and compared.

What is compared: every API object by kind and name, each node's labels, taints and readiness, and inside each node
what a fault may have changed: packet rules, queues, stopped processes, files, units, pod directories, given CPU sets.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from typing import Any, Final

from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind.cluster import Cluster, is_ready

State = dict[str, list[str]]
CLEAN_LIMIT_S: Final = 90.0
SKIPPED_TYPES: Final = ("events", "componentstatuses", "endpointslices.discovery.k8s.io")
"""Rows that come and go by themselves."""
REMOVABLE_FIRST: Final = ("Namespace", "CustomResourceDefinition", "PersistentVolume")

INSIDE: Final = r"""
iptables -S INPUT; iptables -S OUTPUT; iptables -S FORWARD
iptables -t nat -S OUTPUT | grep -v -e KUBE- -e 127.0.0.11 -e :53
tc qdisc show dev eth0 | cut -d' ' -f2,5-
ls /var/lib/kubelet/pods | sed 's/^/pod /'
jq -r '.entries // {} | keys[] | "cpus of \(.)"' /var/lib/kubelet/cpu_manager_state 2>/dev/null
ls -A /var/local-path-provisioner 2>/dev/null | sed 's/^/volume /'
ls -A / /var /root /opt | sed 's/^/file /'
md5sum /etc/kubernetes/manifests/* /var/lib/kubelet/config.yaml /etc/resolv.conf /etc/hosts 2>/dev/null
ps -eo stat=,comm= | grep '^[Tt]' | sed 's/^/stopped /'
systemctl list-units --failed --plain --no-legend | cut -d' ' -f1 | sed 's/^/failed /'
systemctl is-active containerd kubelet | sed 's/^/unit /'
"""


def _objects(cluster: Cluster) -> list[str]:
    listed = cluster.kubectl("api-resources", "--verbs=list,delete", "-o", "name").split()
    types = ",".join(name for name in listed if name not in SKIPPED_TYPES)
    columns = "custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name"
    rows = cluster.kubectl("get", types, "-A", "--no-headers", "-o", columns, "--ignore-not-found")
    return sorted({"/".join(row.split()) for row in rows.splitlines() if row.strip()})


def _node_rows(cluster: Cluster) -> Iterable[str]:
    for node in cluster.items("nodes"):
        name = node["metadata"]["name"]
        node_spec: dict[str, Any] = node["spec"]
        yield f"{name} ready={is_ready(node)} unschedulable={node_spec.get('unschedulable', False)}"
        for key, value in sorted(node["metadata"].get("labels", {}).items()):
            yield f"{name} label {key}={value}"
        for taint in node_spec.get("taints", []):
            yield f"{name} taint {taint['key']}={taint.get('value', '')}:{taint['effect']}"


def _inside(node: str) -> list[str]:
    state = docker("inspect", "-f", "{{.State.Status}}", node, check=False).stdout.strip()
    if state != "running":
        return [f"container {state or 'missing'}"]
    done = subprocess.run(["docker", "exec", "-i", node, "sh"], input=INSIDE, capture_output=True, text=True)
    return sorted(line.strip() for line in done.stdout.splitlines() if line.strip())


def state_of(cluster: Cluster) -> State:
    """The cluster's state as lists of plain rows, one list per subject."""
    out: State = {"objects": _objects(cluster), "nodes": sorted(_node_rows(cluster))}
    for node in cluster.nodes:
        out[node] = _inside(node)
    out["shared"] = sorted(path.name for path in cluster.shared.iterdir())
    out["waiting"] = cluster.not_running()
    return out


def differences(before: State, now: State) -> list[str]:
    """What was added (+) and what is missing (-), subject by subject."""
    out = []
    for subject in sorted({*before, *now}):
        old, new = set(before.get(subject, [])), set(now.get(subject, []))
        out += [f"{subject}: +{row}" for row in sorted(new - old)]
        out += [f"{subject}: -{row}" for row in sorted(old - new)]
    return out


def _delete_extra(cluster: Cluster, extra: Iterable[str]) -> None:
    """Delete objects that were not there: those that hold others first."""

    def rank(row: str) -> int:
        kind = row.split("/", 1)[0]
        return REMOVABLE_FIRST.index(kind) if kind in REMOVABLE_FIRST else len(REMOVABLE_FIRST)

    for row in sorted(extra, key=lambda row: (rank(row), row)):
        kind, namespace, name = row.split("/", 2)
        where = [] if namespace == "<none>" else ["-n", namespace]
        cluster.kubectl("delete", kind, name, *where, "--wait=false", "--ignore-not-found", check=False)


def restore(cluster: Cluster, before: State) -> list[str]:
    """Bring the cluster back to its first state; returns what still differs after CLEAN_LIMIT_S, [] when clean."""
    if any(row.startswith("container ") for node in cluster.nodes for row in _inside(node)):
        return ["a node does not run"]
    for node in cluster.nodes:
        cluster.kubectl("uncordon", node, check=False)
    limit = time.monotonic() + CLEAN_LIMIT_S
    while True:
        extra = set(_objects(cluster)) - set(before["objects"])
        _delete_extra(cluster, extra)
        _empty_shared(cluster)
        left = differences(before, state_of(cluster))
        if not left or time.monotonic() > limit:
            return left
        time.sleep(1.0)


def _empty_shared(cluster: Cluster) -> None:
    inside = cluster.shared_inside
    docker("exec", cluster.control_plane, "find", inside, "-mindepth", "1", "-delete", check=False)
