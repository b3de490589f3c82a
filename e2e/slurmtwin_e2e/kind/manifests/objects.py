"""The objects of one Slurm cluster in one namespace: controller, workers, REST server, observer, database.

Names within the namespace: slurmctld-0 (and -1) for the controllers, the scenario's own for the workers. Evidence
(logs, job completions, the observer's notes) lies in the cluster's shared directory, so that it outlives every pod.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster_faults import ClusterFault
from slurmtwin.contract.pods import PodsSection, Probe
from slurmtwin.contract.scenario import Scenario
from slurmtwin_e2e.kind.manifests.slurm_files import (
    CTLD_PORT,
    DBD_PORT,
    EVIDENCE,
    LOG_DIR,
    REST_PLUGIN,
    REST_PORT,
    SERVES_PROBES,
    SLURMD_PORT,
    STATE_DIR,
    config_files,
    controllers_of,
    slurmd_options,
    slurmdbd_conf,
    workers_of,
)

Object = dict[str, Any]
ROLE_LABEL: Final = "slurmtwin.org/role"
"""On Kubernetes nodes: controller or compute."""
OWNED: Final = {"app.kubernetes.io/managed-by": "slurmtwin"}
STATE_SIZE: Final = "64Mi"
"""Of a state directory in memory: small, so that a full one costs the host nothing."""
LOST_NODE_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a Slurm cluster is put: namespace, images, the shared directory inside the nodes."""

    namespace: str
    image: str
    database_image: str
    shared: str


def _meta(place: Place, name: str, app: str) -> Object:
    return {"name": name, "namespace": place.namespace, "labels": OWNED | {"app": app}}


def _env(**more: str) -> list[Object]:
    field = [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]
    return field + [{"name": name, "value": value} for name, value in more.items()]


def _volumes(place: Place) -> list[Object]:
    folder = f"{place.shared}/{place.namespace}/evidence"
    return [
        {"name": "evidence", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}},
        {"name": "config", "configMap": {"name": "slurm-config"}},
        {"name": "secrets", "secret": {"secretName": "slurm-keys"}},
    ]


def _mounts(*, config: bool) -> list[Object]:
    mounts: list[Object] = [
        {"name": "evidence", "mountPath": EVIDENCE},
        {"name": "evidence", "mountPath": LOG_DIR, "subPathExpr": "logs/$(POD_NAME)"},
        {"name": "secrets", "mountPath": "/secrets", "readOnly": True},
    ]
    return [*mounts, {"name": "config", "mountPath": "/config", "readOnly": True}] if config else mounts


def _container(place: Place, role: str, options: list[str], port: int | None = None, **more: Any) -> Object:
    out: Object = {
        "name": role, "image": place.image, "imagePullPolicy": "Never", "args": [role, *options], "env": _env(),
        "volumeMounts": _mounts(config=role != "slurmd"),
    }  # fmt: skip
    if port is not None:
        out["ports"] = [{"containerPort": port, "name": role}]
    return out | more


def _probe(probe: Probe, version: str, port: int) -> Object:
    how: Object = {"tcpSocket": {"port": port}}
    if version in SERVES_PROBES:
        how = {"httpGet": {"path": "/livez", "port": port}}
    return how | {
        "periodSeconds": probe.period // SECOND, "timeoutSeconds": max(1, probe.timeout // SECOND),
        "failureThreshold": probe.failures,
    }  # fmt: skip


def _tolerations(pods: PodsSection) -> list[Object]:
    if pods.toleration is None:
        return []
    seconds = pods.toleration // SECOND
    return [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}
        for key in LOST_NODE_TAINTS
    ]


def _affinity(role: str, *, required: bool, spread: str = "") -> Object:
    match = [{"key": ROLE_LABEL, "operator": "In", "values": [role]}]
    node: Object
    if required:
        node = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": match}]}}
    else:
        anywhere = [{"key": ROLE_LABEL, "operator": "Exists"}]
        node = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": anywhere}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": {"matchExpressions": match}}
            ],
        }
    out: Object = {"nodeAffinity": node}
    if spread:
        out["podAntiAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {"matchLabels": {"app": spread}}, "topologyKey": "kubernetes.io/hostname"}
            ]
        }
    return out


def _state_volume(place: Place, pods: PodsSection) -> list[Object]:
    if pods.state == "shared":
        path = f"{place.shared}/{place.namespace}/state"
        return [{"name": "state", "hostPath": {"path": path, "type": "DirectoryOrCreate"}}]
    if pods.state == "memory":
        return [{"name": "state", "emptyDir": {"medium": "Memory", "sizeLimit": STATE_SIZE}}]
    return []


def controller(place: Place, scenario: Scenario) -> list[Object]:
    """The slurmctld pods and one Service with a fixed address for each."""
    pods = scenario.pods or PodsSection()
    names = controllers_of(scenario)
    container = _container(place, "slurmctld", [], CTLD_PORT)
    container["volumeMounts"] = [*container["volumeMounts"], {"name": "state", "mountPath": STATE_DIR}]
    settings = _process_settings(scenario, "slurmctld", pods.slurmctld_process)
    if pods.config_poll:
        settings["CONFIG_POLL"] = f"{pods.config_poll / SECOND:g}"
    container["env"] = _env(**settings)
    if pods.liveness is not None:
        container["livenessProbe"] = _probe(pods.liveness, scenario.slurm.version, CTLD_PORT)
    spec: Object = {
        "containers": [container], "volumes": _volumes(place) + _state_volume(place, pods),
        "terminationGracePeriodSeconds": pods.grace // SECOND, "tolerations": _tolerations(pods),
        "affinity": _affinity("controller", required=False, spread="slurmctld" if len(names) > 1 else ""),
        "enableServiceLinks": False,
    }  # fmt: skip
    labels = OWNED | {"app": "slurmctld"}
    body: Object = {
        "replicas": len(names), "selector": {"matchLabels": {"app": "slurmctld"}},
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }  # fmt: skip
    kind = "Deployment" if pods.controller == "deployment" else "StatefulSet"
    if kind == "Deployment":
        spec["hostname"] = names[0]
        body["strategy"] = {"type": "Recreate"}
    else:
        body |= {"serviceName": "slurmctld"}
        if pods.state == "claim":
            body["volumeClaimTemplates"] = [_claim()]
    app: Object = {"apiVersion": "apps/v1", "kind": kind, "metadata": _meta(place, "slurmctld", "slurmctld")}
    services = [
        _service(
            place, name, CTLD_PORT,
            {"app": "slurmctld"} if kind == "Deployment" else {"statefulset.kubernetes.io/pod-name": name},
        )
        for name in names
    ]  # fmt: skip
    return [*services, app | {"spec": body}]


def _process_settings(scenario: Scenario, daemon: str, process: str) -> dict[str, str]:
    """Environment of slurm_images/files/pod: supervised or not; libfaketime where a clock is to jump."""
    env = {"SUPERVISED": "1"} if process == "supervised" else {}
    jumps = [f.target for f in scenario.faults if isinstance(f, ClusterFault) and f.kind == "clock.jump"]
    if any(target.partition(":")[0] == daemon for target in jumps):
        env["CLOCK_FILE"] = f"{LOG_DIR}/clock"
    return env


def _claim() -> Object:
    return {
        "metadata": {"name": "state"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }


def _service(place: Place, name: str, port: int, selector: dict[str, str], *, headless: bool = False) -> Object:
    spec: Object = {"selector": selector, "ports": [{"port": port}], "publishNotReadyAddresses": True}
    if headless:
        spec["clusterIP"] = "None"
    return {"apiVersion": "v1", "kind": "Service", "metadata": _meta(place, name, name), "spec": spec}


def worker_set(place: Place, scenario: Scenario) -> list[Object]:
    """The StatefulSet of slurmd pods, spread over the compute nodes, and its headless Service."""
    pods = scenario.pods or PodsSection()
    workers = workers_of(scenario)
    container = _container(place, "slurmd", slurmd_options(scenario), SLURMD_PORT)
    container["env"] = _env(**_process_settings(scenario, "slurmd", pods.slurmd_process))
    volumes = _volumes(place)
    if pods.scratch:
        volumes.append({"name": "scratch", "emptyDir": {"medium": "Memory", "sizeLimit": pods.scratch}})
        container["volumeMounts"] = [*container["volumeMounts"], {"name": "scratch", "mountPath": "/scratch"}]
    limits = {name: value for name, value in (("memory", pods.memory), ("cpu", pods.cpu)) if value}
    if limits:
        container["resources"] = {"limits": limits, "requests": limits}
    if pods.slurmd_liveness is not None:
        container["livenessProbe"] = _probe(pods.slurmd_liveness, scenario.slurm.version, SLURMD_PORT)
    selector = {"app": "slurmd"}
    spec: Object = {
        "containers": [container], "volumes": volumes, "terminationGracePeriodSeconds": pods.grace // SECOND,
        "tolerations": _tolerations(pods), "affinity": _affinity("compute", required=True),
        "enableServiceLinks": False,
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "ScheduleAnyway",
             "labelSelector": {"matchLabels": selector}}
        ],
    }  # fmt: skip
    body: Object = {
        "replicas": workers.count, "serviceName": "slurmd", "podManagementPolicy": "Parallel",
        "selector": {"matchLabels": selector},
        "template": {"metadata": {"labels": OWNED | selector}, "spec": spec},
    }  # fmt: skip
    app: Object = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": _meta(place, workers.name, "slurmd")}
    return [_service(place, "slurmd", SLURMD_PORT, selector, headless=True), app | {"spec": body}]


def observer(place: Place, version: str, server_name: str = "slurmrestd") -> list[Object]:
    """slurmrestd and the observer, on the control plane: no fault of a worker reaches them.

    server_name: another one where an operator has a slurmrestd of its own, which is not the observer's.
    """
    options = ["-a", "rest_auth/jwt", "-s", REST_PLUGIN[version], f"0.0.0.0:{REST_PORT}"]
    server = _container(place, "slurmrestd", options, REST_PORT)
    spec: Object = {
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""}, "enableServiceLinks": False,
        "tolerations": [{"operator": "Exists"}], "volumes": _volumes(place), "terminationGracePeriodSeconds": 1,
    }  # fmt: skip
    rest = {"app": server_name}
    look = {"app": "observer"}
    return [
        _service(place, server_name, REST_PORT, rest),
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta(place, server_name, server_name),
            "spec": {"selector": {"matchLabels": rest}, "template": {
                "metadata": {"labels": OWNED | rest}, "spec": spec | {"containers": [server]}}},
        },
        {
            "apiVersion": "v1", "kind": "Pod", "metadata": _meta(place, "observer", "observer") | {
                "labels": OWNED | look},
            "spec": spec | {"containers": [_container(place, "observer", [EVIDENCE])]},
        },
    ]  # fmt: skip


def database(place: Place, scenario: Scenario) -> list[Object]:
    """slurmdbd with MariaDB in one pod, on the control plane; its ConfigMap."""
    select = {"app": "slurmdbd"}
    container = _container(place, "slurmdbd", [], DBD_PORT) | {"image": place.database_image}
    spec: Object = {
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""}, "tolerations": [{"operator": "Exists"}],
        "volumes": [{**v, "configMap": {"name": "slurmdbd-config"}} if v["name"] == "config" else v
                    for v in _volumes(place)],
        "containers": [container], "enableServiceLinks": False,
        "hostname": "slurmdbd",  # slurmdbd ends at once where its host is not called as DbdHost
    }  # fmt: skip
    return [
        _config_map(place, "slurmdbd-config", {"slurmdbd.conf": slurmdbd_conf(scenario.slurm.version)}),
        _service(place, "slurmdbd", DBD_PORT, select),
        {
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": _meta(place, "slurmdbd", "slurmdbd"),
            "spec": {"selector": {"matchLabels": select}, "strategy": {"type": "Recreate"},
                     "template": {"metadata": {"labels": OWNED | select}, "spec": spec}},
        },
    ]  # fmt: skip


def _config_map(place: Place, name: str, files: dict[str, str]) -> Object:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": _meta(place, name, name), "data": files}


def base(place: Place, scenario: Scenario, hosts: Sequence[str] = ()) -> list[Object]:
    """Namespace and configuration, before any pod."""
    namespace = {
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": place.namespace, "labels": OWNED},
    }  # fmt: skip
    return [namespace, _config_map(place, "slurm-config", config_files(scenario, hosts))]


def as_list(objects: list[Object]) -> Object:
    """One document for `kubectl apply -f -`."""
    return {"apiVersion": "v1", "kind": "List", "items": objects}
