"""The objects of Slurm's control plane: slurmctld in its three forms, slurmrestd, slurmdbd, their services."""

from __future__ import annotations

from typing import Any, Final

from slurmtwin_operator.core.actions import Apply, DeleteObject
from slurmtwin_operator.core.manifests import (
    CTLD_PORT,
    DBD_PORT,
    GROUP,
    REST_PORT,
    apply,
    delete,
    key_volumes,
    probe,
)  # fmt: skip
from slurmtwin_operator.core.observed import ClusterObserved

SLURM_UID: Final = 401
"""User and group `slurm` of the images, as in Slinky's (reference: the operator on a real cluster)."""
STATE_DIR: Final = "/var/spool/slurmctld"
CGROUP_CONF: Final = "CgroupPlugin=disabled\n"
"""Unprivileged worker pods manage no cgroups; Kubernetes limits the pod."""
DBD_CONF: Final = (
    "AuthType=auth/slurm\nDbdHost=localhost\nDbdPort={port}\nSlurmUser=slurm\nStorageType=accounting_storage/mysql\n"
    "StorageHost={host}\nStorageUser={user}\nStoragePass=${{STORAGE_PASSWORD}}\n"
)


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
    """A pod template of the control plane: user slurm, no privileges, read-only root."""
    container = {
        "name": part, "image": o.spec.image, "imagePullPolicy": "IfNotPresent",
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
        },
        **container,
    }  # fmt: skip
    container["volumeMounts"] = [*container.get("volumeMounts", []),
                                 {"name": "run", "mountPath": "/run"}, {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108
                                 {"name": "slurm-key", "mountPath": "/etc/slurm-keys", "readOnly": True}]  # fmt: skip
    return {
        "metadata": {"labels": {**_labels(o.me.name), f"{GROUP}/part": part}, "annotations": {}},
        "spec": {
            "containers": [container], "automountServiceAccountToken": False, "enableServiceLinks": False,
            "securityContext": {"runAsUser": SLURM_UID, "runAsGroup": SLURM_UID, "fsGroup": SLURM_UID,
                                "runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}},
            "volumes": [*volumes, {"name": "run", "emptyDir": {"medium": "Memory"}}, {"name": "tmp", "emptyDir": {}}],
        },
    }  # fmt: skip


def _all_keys(cluster: str) -> dict[str, Any]:
    """Both keys, for the daemons that check tokens."""
    return {"name": "slurm-key", "secret": {"secretName": f"{cluster}-keys", "defaultMode": 0o440}}


def _controller(o: ClusterObserved, conf_hash: str) -> list[Apply | DeleteObject]:
    """slurmctld: StatefulSet with its own volume, Deployment or two replicas on a shared one."""
    name, namespace, sw = o.me.name, o.me.namespace, o.spec.switches
    pair = sw.controller == "primary-backup"
    ready = "/livez" if pair else "/readyz"  # a standby is alive but not ready; it must not hold up the set
    container = {
        "args": ["slurmctld", "-D"], "ports": [{"name": "slurmctld", "containerPort": CTLD_PORT}],
        "readinessProbe": probe(ready, CTLD_PORT, 3), "livenessProbe": probe("/livez", CTLD_PORT, 6),
        "startupProbe": probe("/livez", CTLD_PORT, 6),
        "volumeMounts": [{"name": "conf", "mountPath": "/etc/slurm", "readOnly": True},
                         {"name": "state", "mountPath": STATE_DIR}],
    }  # fmt: skip
    conf = {"name": "conf", "configMap": {"name": f"{name}-conf"}}
    template = _pod(o, "ctld", container, [conf, _all_keys(name)])
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
        body |= {"replicas": 1, "strategy": {"type": "Recreate"}}
        return [*out, apply("Deployment", f"{name}-ctld", namespace, labels, {"spec": body})]
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": selector}
    template["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    body |= {"replicas": 2, "serviceName": f"{name}-ctld-pods", "podManagementPolicy": "Parallel"}
    out.append(_service(o, "ctld-pods", CTLD_PORT, {}, clusterIP="None", publishNotReadyAddresses=True))
    return [*out, apply("StatefulSet", f"{name}-ctld", namespace, labels, {"spec": body})]


def _rest(o: ClusterObserved) -> list[Apply | DeleteObject]:
    """slurmrestd: without state; it holds no token key, tokens are checked by slurmctld."""
    name = o.me.name
    container = {
        "args": ["slurmrestd", "-s", "openapi/slurmctld", f"0.0.0.0:{REST_PORT}"],
        "env": [{"name": "SLURM_CONF_SERVER", "value": f"{name}-ctld:{CTLD_PORT}"}],
        "ports": [{"name": "rest", "containerPort": REST_PORT}],
        "readinessProbe": {"tcpSocket": {"port": REST_PORT}, "periodSeconds": 10, "failureThreshold": 3},
        "livenessProbe": {"tcpSocket": {"port": REST_PORT}, "periodSeconds": 10, "failureThreshold": 6},
        "securityContext": {
            "allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True,
            "runAsUser": SLURM_UID + 1, "runAsGroup": SLURM_UID + 1,
        },
    }  # fmt: skip
    labels = {**_labels(name), f"{GROUP}/part": "rest"}
    template = _pod(o, "rest", container, list(key_volumes(name)))
    selector = {"matchLabels": {f"{GROUP}/cluster": name, f"{GROUP}/part": "rest"}}
    body = {"replicas": o.spec.rest_replicas, "selector": selector, "template": template}
    return [_service(o, "rest", REST_PORT, {}),
            apply("Deployment", f"{name}-rest", o.me.namespace, labels, {"spec": body})]  # fmt: skip


def _accounting(o: ClusterObserved) -> list[Apply | DeleteObject]:
    """slurmdbd, where asked for: one pod; slurmctld queues for it while it is away."""
    name, asked = o.me.name, o.spec.accounting
    if asked is None:
        return [delete("StatefulSet", f"{name}-dbd"), delete("Service", f"{name}-dbd")]
    conf = DBD_CONF.format(port=DBD_PORT, host=asked.storage_host, user=asked.storage_user)
    password = {"name": asked.password_secret, "key": "password"}
    container = {
        "args": ["slurmdbd", "-D"], "ports": [{"name": "slurmdbd", "containerPort": DBD_PORT}],
        "env": [{"name": "SLURMDBD_CONF_TEXT", "value": conf},
                {"name": "STORAGE_PASSWORD", "valueFrom": {"secretKeyRef": password}}],
        "readinessProbe": {"tcpSocket": {"port": DBD_PORT}, "periodSeconds": 10, "failureThreshold": 3},
    }  # fmt: skip
    labels = {**_labels(name), f"{GROUP}/part": "dbd"}
    template = _pod(o, "dbd", container, [_all_keys(name)])
    selector = {"matchLabels": {f"{GROUP}/cluster": name, f"{GROUP}/part": "dbd"}}
    body = {"replicas": 1, "serviceName": f"{name}-dbd", "selector": selector, "template": template}
    return [_service(o, "dbd", DBD_PORT, {}),
            apply("StatefulSet", f"{name}-dbd", o.me.namespace, labels, {"spec": body})]  # fmt: skip
