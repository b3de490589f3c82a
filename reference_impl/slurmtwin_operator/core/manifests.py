"""Kubernetes objects as canonical JSON: worker pods and what stands beside them. Same input, same bytes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from slurmtwin_operator.core.actions import Action, Apply, DeleteObject, Reason, Why
from slurmtwin_operator.core.observed import TERMINATING, Applied, NodeSetObserved, ObjectKind, Policy
from slurmtwin_operator.core.spec import DNS_LABEL, NodeSetSpec, Toleration

GROUP: Final = "slurmtwin.dev"
APP: Final = "app.kubernetes.io/name"
"""Label of pods: the daemon that runs in them."""
CTLD_PORT, SLURMD_PORT, REST_PORT, DBD_PORT = 6817, 6818, 6820, 6819
API_VERSIONS: Final = {
    "StatefulSet": "apps/v1", "Deployment": "apps/v1", "PodDisruptionBudget": "policy/v1", "Job": "batch/v1",
}  # fmt: skip


_NAME: Final = re.compile(DNS_LABEL)


def canonical(document: Any) -> str:
    """JSON with sorted keys and no blanks: the form that is hashed and sent."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"))


def short_hash(text: str) -> str:
    """Ten hex digits of SHA-256."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def apply(kind: ObjectKind, name: str, namespace: str, labels: dict[str, str], body: dict[str, Any]) -> Apply:
    """An object that we own, ready to be applied."""
    meta = {"name": name, "namespace": namespace, "labels": labels}
    document = {"apiVersion": API_VERSIONS.get(kind, "v1"), "kind": kind, "metadata": meta, **body}
    text = canonical(document)
    return Apply(kind, name, text, short_hash(text))


def delete(kind: ObjectKind, name: str) -> DeleteObject:
    """An object that shall not exist."""
    return DeleteObject(kind, name)


def sync_objects(
    actions: list[Action], reasons: list[Reason], wanted: Iterable[Apply | DeleteObject], applied: tuple[Applied, ...]
) -> None:
    """Apply what is missing or differs, delete what shall not be there."""
    found = {(a.kind, a.name): a.hash for a in applied}
    for item in wanted:
        have = found.get((item.kind, item.name))
        if isinstance(item, DeleteObject):
            if have is not None:
                actions.append(item)
        elif have != item.hash:
            actions.append(item)
            reasons.append(Reason(Why.APPLIED, f"{item.kind}/{item.name}"))


def refused(name: str, image: str, privileged: bool, policy: Policy) -> str:
    """Why this name cannot be one of hosts, or the administrator's policy forbids the rest; empty: all is well."""
    if not _NAME.fullmatch(name):
        return f"name {name[:60]!r} is not a DNS label with room for an ordinal"
    if privileged and not policy.privileged:
        return "privileged pods are not allowed"
    if policy.image_prefixes and not image.startswith(policy.image_prefixes):
        return f"image {image} is not allowed"
    return ""


def refusal(o: NodeSetObserved) -> str:
    """Why this NodeSet is refused; empty: it is not."""
    return refused(o.me.name, o.spec.image, o.spec.privileged, o.policy)


def labels_of(node_set: str, cluster: str) -> dict[str, str]:
    """The labels of everything that belongs to a node set."""
    return {f"{GROUP}/nodeset": node_set, f"{GROUP}/cluster": cluster, "app.kubernetes.io/managed-by": "slurmtwin"}


@lru_cache(maxsize=512)
def _objects(name: str, namespace: str, cluster: str, pdb: str) -> tuple[Apply | DeleteObject, ...]:
    labels = labels_of(name, cluster)
    selector = {f"{GROUP}/nodeset": name}
    service = apply("Service", f"{name}-nodes", namespace, labels, {"spec": {
        "clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector,
        "ports": [{"name": "slurmd", "port": SLURMD_PORT}],
    }})  # fmt: skip
    if pdb == "none":
        return service, delete("PodDisruptionBudget", f"{name}-busy")
    budget = apply("PodDisruptionBudget", f"{name}-busy", namespace, labels, {"spec": {
        "maxUnavailable": 0, "selector": {"matchLabels": {**selector, f"{GROUP}/protect": "true"}},
    }})  # fmt: skip
    return service, budget


def node_set_objects(o: NodeSetObserved) -> tuple[Apply | DeleteObject, ...]:
    """The service that gives workers their names, and the budget that protects busy ones from eviction."""
    return _objects(o.me.name, o.me.namespace, o.spec.cluster, o.switches.pdb)


def worker_pod(o: NodeSetObserved, slot: str) -> str:
    """The manifest of one worker pod."""
    node = slot if o.spec.scaling == "per-node" else ""
    spec = pod_spec(o)
    name = f"{o.me.name}-{slot}"
    if node:
        spec["affinity"] = _pinned(node)
    labels = {**labels_of(o.me.name, o.spec.cluster), APP: "slurmd", f"{GROUP}/revision": o.spec.revision}
    if o.switches.pdb == "until-drained":
        labels[f"{GROUP}/protect"] = "true"
    owner = {
        "apiVersion": f"{GROUP}/v1", "kind": "NodeSet", "name": o.me.name, "uid": o.me.uid, "controller": True,
        "blockOwnerDeletion": True,
    }  # fmt: skip
    meta = {
        "name": name, "namespace": o.me.namespace, "labels": labels, "ownerReferences": [owner],
        "annotations": {f"{GROUP}/slot": slot},
    }  # fmt: skip
    body = {"hostname": name, "subdomain": f"{o.me.name}-nodes", **spec}
    return canonical({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": body})


def worker_set(o: NodeSetObserved, replicas: int) -> Apply:
    """The StatefulSet of a design whose workers belong to one."""
    labels = labels_of(o.me.name, o.spec.cluster)
    template = {
        "metadata": {"labels": {**labels, APP: "slurmd", f"{GROUP}/revision": o.spec.revision}},
        "spec": pod_spec(o),
    }
    strategy: dict[str, Any] = {"type": "OnDelete" if o.spec.update.type == "on-delete" else "RollingUpdate"}
    return apply("StatefulSet", o.me.name, o.me.namespace, labels, {"spec": {
        "replicas": replicas, "serviceName": f"{o.me.name}-nodes", "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": {f"{GROUP}/nodeset": o.me.name}}, "template": template,
        "updateStrategy": strategy,
    }})  # fmt: skip


def _pinned(node: str) -> dict[str, Any]:
    """Affinity to one machine by name, as the DaemonSet controller writes it."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def pod_spec(o: NodeSetObserved) -> dict[str, Any]:
    """The spec of a worker pod: slurmd as a dynamic node that fetches its configuration from the controller."""
    name, spec, switches, version = o.me.name, o.spec, o.switches, o.version
    resources = {"cpu": spec.cpu, "memory": spec.memory, **spec.resources}
    features = ",".join((name, *spec.features))
    how, brought = ["-Z"], ["--conf", f"Feature={features}"]
    if switches.scale_source == "power":  # slurm.conf knows the node, and each start is a boot (core/power.py)
        how, brought = ["-b"], []
    context: dict[str, Any] = {"privileged": True} if spec.privileged else {"allowPrivilegeEscalation": False}
    slurmd: dict[str, Any] = {
        "name": "slurmd", "image": spec.image, "imagePullPolicy": "IfNotPresent",
        "args": ["slurmd", *how, "-N", "$(POD_NAME)", "--conf-server", f"{spec.cluster}-ctld:{CTLD_PORT}", *brought],
        "env": [POD_NAME], "ports": [{"name": "slurmd", "containerPort": SLURMD_PORT}],
        "resources": {"requests": resources, "limits": resources},
        "readinessProbe": probe(version, "/readyz", SLURMD_PORT, 3),
        "livenessProbe": probe(version, "/livez", SLURMD_PORT, 6),
        "startupProbe": probe(version, "/livez", SLURMD_PORT, START_FAILURES), "securityContext": context,
        "volumeMounts": [*_mounts(spec), SECRETS_MOUNT, *([LOG_MOUNT] if o.log_claim else [])],
    }  # fmt: skip
    if switches.prestop != "none" and switches.scale_source != "power":  # a node set DOWN is never powered up
        slurmd["lifecycle"] = {"preStop": {"exec": {"command": ["sh", "-c", _prestop(switches.prestop)]}}}
    return {
        "containers": [slurmd],
        "volumes": [*_volumes(spec), shared_key_volume(spec.cluster, version), *log_volume(o.log_claim)],
        "nodeSelector": dict(spec.node_selector), "tolerations": _tolerations(spec, o.unreachable_s),
        "terminationGracePeriodSeconds": spec.grace_s, "automountServiceAccountToken": False,
        "enableServiceLinks": False,
    }  # fmt: skip


def probe(version: str, path: str, port: int, failures: int) -> dict[str, Any]:
    """A probe every 10 s, as Slinky's: by HTTP where the daemons serve it (since 25.11), else by connecting."""
    how: dict[str, Any] = {"httpGet": {"path": path, "port": port}}
    if version < SERVES_PROBES:
        how = {"tcpSocket": {"port": port}}
    return {**how, "periodSeconds": 10, "failureThreshold": failures, "timeoutSeconds": 5}


START_FAILURES: Final = 30
"""slurmd serves no probe before it has fetched its configuration: five minutes, so that waiting for slurmctld is no
failure (with Slinky's one minute a waiting slurmd was killed and started again; seen on a cluster)."""
SERVES_PROBES: Final = "25.11"
POD_NAME: Final = {"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
SECRETS_MOUNT: Final = {"name": "secrets", "mountPath": "/secrets", "readOnly": True}
"""Where the image's entry point finds keys; /config is where it finds slurm.conf (e2e/slurm_images/files/pod)."""
LOG_DIR: Final = "/var/log/slurm"
LOG_MOUNT: Final = {"name": "logs", "mountPath": LOG_DIR, "subPathExpr": "$(POD_NAME)"}
"""A folder of its own for each pod name: logs outlive pods."""
JWT_KEY: Final = "jwt_hs256.key"


def log_volume(claim: str | None) -> list[dict[str, Any]]:
    """The claim that logs are kept on, where there is one."""
    return [{"name": "logs", "persistentVolumeClaim": {"claimName": claim}}] if claim else []


def shared_key(version: str) -> str:
    """The file of the key that all daemons share: auth/slurm since 23.11, munge before."""
    return "slurm.key" if version >= "23.11" else "munge.key"


def shared_key_volume(cluster: str, version: str) -> dict[str, Any]:
    """The shared key alone: workers and slurmrestd never see the key that signs tokens."""
    key = shared_key(version)
    return {"name": "secrets", "secret": {"secretName": f"{cluster}-keys", "items": [{"key": key, "path": key}]}}


PRESTOP: Final = """\
line=$(timeout 5 scontrol show node -o "$POD_NAME") || exit 0
reason="{reason}"
case $line in *" State="*DRAIN*" Reason="*) reason=${{line##* Reason=}}; reason=${{reason%% \\[*}} ;; esac
timeout 5 scontrol update nodename="$POD_NAME" state=down reason="$reason"
"""
"""A drained node keeps its reason, or a foreign drain would look like ours. Nothing here may hold up the pod's end."""


def _prestop(policy: str) -> str:
    """What slurmd's preStop hook tells slurmctld."""
    also = 'timeout 5 scontrol delete nodename="$POD_NAME"\n' if policy == "down-delete" else ""
    return PRESTOP.format(reason=TERMINATING) + also + "exit 0\n"


def _tolerations(spec: NodeSetSpec, unreachable_s: int) -> list[dict[str, Any]]:
    """The user's, the lock's, and for pinned pods that of a cordon (a pod must come back on a cordoned machine)."""
    out: list[dict[str, Any]] = [_toleration(t) for t in spec.tolerations]
    out.append({"key": f"{GROUP}/lock", "operator": "Exists", "effect": "NoExecute"})
    for key in ("not-ready", "unreachable"):
        out.append({"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute",
                    "tolerationSeconds": unreachable_s})  # fmt: skip
    if spec.scaling == "per-node":
        out.append({"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"})
    return out


def _toleration(toleration: Toleration) -> dict[str, Any]:
    """As core/v1 writes it: what is empty is left out, the operator never is."""
    plain = toleration.model_dump(by_alias=True, exclude_none=True)
    return {key: value for key, value in plain.items() if value != ""}


def _volumes(spec: NodeSetSpec) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for volume in spec.volumes:
        source: dict[str, Any] = {"emptyDir": {}}
        if volume.claim:
            source = {"persistentVolumeClaim": {"claimName": volume.claim}}
        elif volume.config_map:
            source = {"configMap": {"name": volume.config_map}}
        out.append({"name": f"user-{volume.name}", **source})
    return out


def _mounts(spec: NodeSetSpec) -> list[dict[str, Any]]:
    return [{"name": f"user-{v.name}", "mountPath": v.mount_path, "readOnly": v.read_only} for v in spec.volumes]
