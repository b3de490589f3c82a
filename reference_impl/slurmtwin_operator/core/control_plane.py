"""The objects of Slurm's control plane: slurmctld in its three forms, slurmrestd, slurmdbd, their services."""

from __future__ import annotations

from typing import Any, Final

from slurmtwin_operator.core.actions import Apply, DeleteObject
from slurmtwin_operator.core.manifests import (
    APP,
    CTLD_PORT,
    DBD_PORT,
    GROUP,
    JWT_KEY,
    LOG_DIR,
    LOG_MOUNT,
    POD_NAME,
    REST_PORT,
    SECRETS_MOUNT,
    apply,
    delete,
    log_volume,
    probe,
    shared_key,
    shared_key_volume,
)  # fmt: skip
from slurmtwin_operator.core.observed import ClusterObserved

DAEMONS: Final = {"ctld": "slurmctld", "rest": "slurmrestd", "dbd": "slurmdbd"}
STATE_DIR: Final = "/var/spool/slurmctld"
CGROUP_CONF: Final = "CgroupPlugin=disabled\n"
"""Unprivileged worker pods manage no cgroups; Kubernetes limits the pod."""
CAPABILITIES: Final = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID")
"""What the entry point needs to hand files to the user slurm before the daemon drops to it."""
WRITABLE: Final = {
    "run": "/run", "tmp": "/tmp",  # noqa: S108  the pod's own
    "etc": "/etc/slurm", "log": LOG_DIR, "spool": "/var/spool/slurmd",
}  # fmt: skip
"""Empty directories over the read-only root."""
REST_PLUGINS: Final = {"22.05": "openapi/v0.0.38", "24.11": "openapi/slurmctld", "26.05": "slurmctld"}
"""slurmrestd's -s by release."""


def objects(o: ClusterObserved, conf: str, conf_hash: str) -> tuple[Apply | DeleteObject, ...]:
    """All objects in the order to be applied: settings, accounting, controller, REST API."""
    namespace, name = o.me.namespace, o.me.name
    labels = _labels(name)
    files = {"slurm.conf": conf, "cgroup.conf": CGROUP_CONF}
    out: list[Apply | DeleteObject] = [apply("ConfigMap", f"{name}-conf", namespace, labels, {"data": files})]
    out += _accounting(o)
    out += _controller(o, conf_hash)
    out += _rest(o)
    return tuple(out)


def _labels(cluster: str) -> dict[str, str]:
    return {f"{GROUP}/cluster": cluster, "app.kubernetes.io/managed-by": "slurmtwin"}


def _service(o: ClusterObserved, part: str, port: int, extra: dict[str, str], **more: Any) -> Apply:
    name = f"{o.me.name}-{part}"
    labels = {**_labels(o.me.name), f"{GROUP}/part": part}
    selector = {f"{GROUP}/cluster": o.me.name, f"{GROUP}/part": part.removesuffix("-pods"), **extra}
    return apply("Service", name, o.me.namespace, labels, {"spec": {
        "selector": selector, "ports": [{"name": part[:15], "port": port}], **more,
    }})  # fmt: skip


def _pod(o: ClusterObserved, part: str, container: dict[str, Any], volumes: list[dict[str, Any]]) -> dict[str, Any]:
    """A pod template of the control plane: read-only root, few capabilities, no way to more."""
    kept = log_volume(o.spec.log_claim)
    empty = {name: path for name, path in WRITABLE.items() if name != "log" or not kept}
    written = [{"name": name, "mountPath": path} for name, path in empty.items()] + ([LOG_MOUNT] if kept else [])
    container = {
        "name": part, "image": o.spec.image, "imagePullPolicy": "IfNotPresent", "env": [POD_NAME],
        "securityContext": {
            "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"], "add": list(CAPABILITIES)},
        },
        **container,
    }  # fmt: skip
    container["volumeMounts"] = [*container.get("volumeMounts", []), *written, SECRETS_MOUNT]
    labels = {**_labels(o.me.name), f"{GROUP}/part": part, APP: DAEMONS[part]}
    where = {"nodeSelector": dict(o.spec.node_selector)} if o.spec.node_selector else {}
    return {
        "metadata": {"labels": labels, "annotations": {}},
        "spec": {
            "containers": [container], "automountServiceAccountToken": False, "enableServiceLinks": False, **where,
            "securityContext": {"seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [*volumes, *kept, *({"name": name, "emptyDir": {}} for name in empty)],
        },
    }  # fmt: skip


def _all_keys(o: ClusterObserved) -> dict[str, Any]:
    """Both keys, for the daemon that checks tokens; what else a Secret of the user's holds stays out."""
    items = [{"key": key, "path": key} for key in (JWT_KEY, shared_key(o.spec.version))]
    return {"name": "secrets", "secret": {"secretName": f"{o.me.name}-keys", "items": items}}


def _config(cluster: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """(volume, mount) of slurm.conf."""
    volume = {"name": "config", "configMap": {"name": f"{cluster}-conf"}}
    return volume, {"name": "config", "mountPath": "/config", "readOnly": True}


def _controller(o: ClusterObserved, conf_hash: str) -> list[Apply | DeleteObject]:
    """slurmctld: StatefulSet with its own volume, Deployment or two replicas on a shared one."""
    name, namespace, sw = o.me.name, o.me.namespace, o.spec.switches
    pair, version = sw.controller == "primary-backup", o.spec.version
    conf, mount = _config(name)
    ready = "/livez" if pair else "/readyz"  # a standby is alive but not ready; it must not hold up the set
    container = {
        "args": ["slurmctld"], "ports": [{"name": "slurmctld", "containerPort": CTLD_PORT}],
        "readinessProbe": probe(version, ready, CTLD_PORT, 3), "livenessProbe": probe(version, "/livez", CTLD_PORT, 6),
        "startupProbe": probe(version, "/livez", CTLD_PORT, 6),
        "volumeMounts": [mount, {"name": "state", "mountPath": STATE_DIR}],
    }  # fmt: skip
    template = _pod(o, "ctld", container, [conf, _all_keys(o)])
    if sw.config_change == "restart":
        template["metadata"]["annotations"][f"{GROUP}/config"] = conf_hash
    labels = {**_labels(name), f"{GROUP}/part": "ctld"}
    selector = {"matchLabels": {f"{GROUP}/cluster": name, f"{GROUP}/part": "ctld"}}
    active = {f"{GROUP}/active": "true"} if pair else {}
    out: list[Apply | DeleteObject] = [_service(o, "ctld", CTLD_PORT, active)]
    claim_spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce" if sw.controller == "statefulset-rwo" else "ReadWriteMany"],
        "resources": {"requests": {"storage": o.spec.state_size}},
    }
    if o.spec.state_class:
        claim_spec["storageClassName"] = o.spec.state_class
    body: dict[str, Any] = {"selector": selector, "template": template}
    if sw.controller == "statefulset-rwo":
        body |= {"replicas": 1, "serviceName": f"{name}-ctld",
                 "volumeClaimTemplates": [{"metadata": {"name": "state"}, "spec": claim_spec}]}  # fmt: skip
        return [*out, apply("StatefulSet", f"{name}-ctld", namespace, labels, {"spec": body})]
    out.append(apply("PersistentVolumeClaim", f"{name}-state", namespace, labels, {"spec": claim_spec}))
    template["spec"]["volumes"].append({"name": "state", "persistentVolumeClaim": {"claimName": f"{name}-state"}})
    if not pair:
        template["spec"]["hostname"] = f"{name}-ctld"  # slurmctld runs only where SlurmctldHost names its host
        body |= {"replicas": 1, "strategy": {"type": "Recreate"}}
        return [*out, apply("Deployment", f"{name}-ctld", namespace, labels, {"spec": body})]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    template["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    body |= {"replicas": 2, "serviceName": f"{name}-ctld-pods", "podManagementPolicy": "Parallel"}
    out.append(_service(o, "ctld-pods", CTLD_PORT, {}, clusterIP="None", publishNotReadyAddresses=True))
    return [*out, apply("StatefulSet", f"{name}-ctld", namespace, labels, {"spec": body})]


def _rest(o: ClusterObserved) -> list[Apply | DeleteObject]:
    """slurmrestd: without state; tokens are checked by slurmctld, whose key it never sees."""
    name, version = o.me.name, o.spec.version
    conf, mount = _config(name)
    plugin = REST_PLUGINS.get(version, "slurmctld")
    by_port = {"tcpSocket": {"port": REST_PORT}, "periodSeconds": 10}
    container = {
        "args": ["slurmrestd", "-a", "rest_auth/jwt", "-s", plugin, f"0.0.0.0:{REST_PORT}"],
        "ports": [{"name": "rest", "containerPort": REST_PORT}], "volumeMounts": [mount],
        "readinessProbe": {**by_port, "failureThreshold": 3}, "livenessProbe": {**by_port, "failureThreshold": 6},
    }  # fmt: skip
    labels = {**_labels(name), f"{GROUP}/part": "rest"}
    template = _pod(o, "rest", container, [conf, shared_key_volume(name, version)])
    selector = {"matchLabels": {f"{GROUP}/cluster": name, f"{GROUP}/part": "rest"}}
    body = {"replicas": o.spec.rest_replicas, "selector": selector, "template": template}
    return [_service(o, "rest", REST_PORT, {}),
            apply("Deployment", f"{name}-rest", o.me.namespace, labels, {"spec": body})]  # fmt: skip


def _accounting(o: ClusterObserved) -> list[Apply | DeleteObject]:
    """slurmdbd, where asked for: one pod; slurmctld queues for it while it is away."""
    name, asked = o.me.name, o.spec.accounting
    if asked is None:
        return [delete("StatefulSet", f"{name}-dbd"), delete("Service", f"{name}-dbd")]
    container = {
        "image": asked.image, "args": ["slurmdbd"], "ports": [{"name": "slurmdbd", "containerPort": DBD_PORT}],
        "volumeMounts": [{"name": "config", "mountPath": "/config", "readOnly": True}],
        "readinessProbe": {"tcpSocket": {"port": DBD_PORT}, "periodSeconds": 10, "failureThreshold": 3},
    }  # fmt: skip
    labels = {**_labels(name), f"{GROUP}/part": "dbd"}
    settings = {"name": "config", "secret": {"secretName": asked.config_secret}}
    template = _pod(o, "dbd", container, [settings, _all_keys(o)])
    selector = {"matchLabels": {f"{GROUP}/cluster": name, f"{GROUP}/part": "dbd"}}
    body = {"replicas": 1, "serviceName": f"{name}-dbd", "selector": selector, "template": template}
    return [_service(o, "dbd", DBD_PORT, {}),
            apply("StatefulSet", f"{name}-dbd", o.me.namespace, labels, {"spec": body})]  # fmt: skip
