"""Is a used cluster as it was when it was new? Its state is written down once, restored, and compared.

What is compared: every API object by kind and name, each node's labels, taints and readiness, and inside each node
what a fault may have changed: packet rules, queues, stopped processes, files, units, pod directories, given CPU sets.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind.cluster import Cluster, is_ready

State = dict[str, list[str]]
CLEAN_LIMIT_S: Final = 90.0
SKIPPED_TYPES: Final = ("events", "componentstatuses", "endpointslices.discovery.k8s.io")
"""Rows that come and go by themselves."""
VOLUME_PATIENCE_S: Final = 20.0
"""So long a volume whose claim goes may take to be removed by its provisioner, with its data."""
PROVISIONER_PODS: Final = "Pod/local-path-storage/helper-pod-"
"""The pods in which the provisioner makes and removes data: one that is deleted early is tried again 15 s later."""
VOLUMES: Final = "/var/local-path-provisioner"
"""Where a node keeps its volumes' data."""

INSIDE: Final = r"""
iptables -S INPUT; iptables -S OUTPUT; iptables -S FORWARD
iptables -t nat -S OUTPUT | grep -v -e KUBE- -e 127.0.0.11 -e :53
tc qdisc show dev eth0 | cut -d' ' -f2,5-
ls /var/lib/kubelet/pods | sed 's/^/pod /'
jq -r '.entries // {} | keys[] | "cpus of \(.)"' /var/lib/kubelet/cpu_manager_state 2>/dev/null
ls -A VOLUMES 2>/dev/null | sed 's/^/volume /'
ls -A / /var /root /opt | grep -v -x local-path-provisioner | sed 's/^/file /'
md5sum /etc/kubernetes/manifests/* /var/lib/kubelet/config.yaml /etc/resolv.conf /etc/hosts 2>/dev/null
ps -eo stat=,comm= | grep '^[Tt]' | sed 's/^/stopped /'
systemctl list-units --failed --plain --no-legend | cut -d' ' -f1 | sed 's/^/failed /'
systemctl is-active containerd kubelet | sed 's/^/unit /'
""".replace("VOLUMES", VOLUMES)


def _objects(cluster: Cluster) -> dict[str, str]:
    """Every object as kind/namespace/name, with the name of its owner or <none>."""
    listed = cluster.kubectl("api-resources", "--verbs=list,delete", "-o", "name").split()
    types = ",".join(name for name in listed if name not in SKIPPED_TYPES)
    columns = "custom-columns=K:.kind,S:.metadata.namespace,N:.metadata.name,O:.metadata.ownerReferences[0].name"
    rows = cluster.kubectl("get", types, "-A", "--no-headers", "-o", columns, "--ignore-not-found")
    cells = [row.split() for row in rows.splitlines() if row.strip()]
    return {"/".join(row[:3]): row[3] for row in cells}


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
    out: State = {"objects": sorted(_objects(cluster)), "nodes": sorted(_node_rows(cluster))}
    with ThreadPoolExecutor() as pool:
        out |= zip(cluster.nodes, pool.map(_inside, cluster.nodes), strict=True)
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


def _delete_extra(cluster: Cluster, extra: dict[str, str], *, volumes: bool) -> None:
    """Delete objects that were not there: those that own others, then pods, without waiting for either.

    A volume goes with its claim, by its provisioner, which does it in a pod; both are deleted as objects only when they
    stay (`volumes`).
    """
    going = {row.split("/")[2] for row in extra if row.startswith("Namespace/")}
    owning: dict[str, list[str]] = {}
    pods: dict[str, list[str]] = {}
    for row, its_owner in sorted(extra.items()):
        kind, namespace, name = row.split("/", 2)
        if row.startswith(PROVISIONER_PODS) and not volumes:
            continue
        if kind == "Pod":
            pods.setdefault(namespace, []).append(f"pod/{name}")
        elif its_owner == "<none>" and namespace not in going and (volumes or kind != "PersistentVolume"):
            owning.setdefault(namespace, []).append(f"{kind}/{name}")
    for batch, more in ((owning, ()), (pods, ("--grace-period=1",))):
        for namespace, names in batch.items():
            where = () if namespace == "<none>" else ("-n", namespace)
            cluster.kubectl("delete", *names, *where, *more, "--wait=false", "--ignore-not-found", check=False)


def _delete_data(node: str, before: Iterable[str]) -> None:
    """Remove a node's volumes that were not there: nothing else does it once their objects are gone."""
    extra = sorted(set(_inside(node)) - set(before))
    names = [name for kind, _, name in (row.partition(" ") for row in extra) if kind == "volume"]
    if names:
        docker("exec", node, "rm", "-rf", "--", *(f"{VOLUMES}/{name}" for name in names), check=False)


def restore(cluster: Cluster, before: State) -> list[str]:
    """Bring the cluster back to its first state; returns what still differs after CLEAN_LIMIT_S, [] when clean."""
    if any(row.startswith("container ") for node in cluster.nodes for row in _inside(node)):
        return ["a node does not run"]
    for node in cluster.nodes:
        cluster.kubectl("uncordon", node, check=False)
    start = time.monotonic()
    while True:
        extra = {row: held for row, held in _objects(cluster).items() if row not in set(before["objects"])}
        waited = time.monotonic() - start
        late = waited > VOLUME_PATIENCE_S
        _delete_extra(cluster, extra, volumes=late)
        for node in cluster.nodes if late and not any("PersistentVolume" in row for row in extra) else ():
            _delete_data(node, before[node])
        docker("exec", cluster.control_plane, "find", cluster.shared_inside, "-mindepth", "1", "-delete", check=False)
        left = differences(before, state_of(cluster))
        if not left or waited > CLEAN_LIMIT_S:
            return left
        time.sleep(1.0)
