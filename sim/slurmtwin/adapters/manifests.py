"""Pods that the core writes as Kubernetes JSON, as the twin's objects (operator core/manifests.py worker_pod())."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.adapters.views import NODE_SET
from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.quantity import milli_cpu, quantity_bytes
from slurmtwin.models.api_server.objects import (
    Container,
    DisruptionBudget,
    Meta,
    Owner,
    Pod,
    PodSpec,
    Probe,
    Service,
    Toleration,
    Volume,
)
from slurmtwin_operator.core.manifests import GROUP

if TYPE_CHECKING:
    from slurmtwin_operator.core import actions as a

HASH: Final = f"{GROUP}/hash"
Document = Mapping[str, Any]


def applied_of(action: a.Apply, namespace: str, node_set: str) -> DisruptionBudget | Service:
    """The budget or the Service of a node set."""
    labels = {NODE_SET: node_set}
    meta = Meta(name=action.name, namespace=namespace, labels=labels, annotations={HASH: action.hash})
    if action.kind == "PodDisruptionBudget":
        return DisruptionBudget(meta=meta, selector={**labels, f"{GROUP}/protect": "true"}, max_unavailable=0)
    return Service(meta=meta, selector=labels, publish_not_ready=True, headless=True)


def pod_of(
    manifest: str, env: Mapping[str, str], readiness: float = 1.0, pre_stop_ns: int = 0, sidecars: Sequence[str] = ()
) -> Pod:  # fmt: skip
    """The pod of a manifest. env: what its container shall have beside (process: main or supervised).

    readiness: of the period of startup and readiness probes; pre_stop_ns: how long a preStop hook runs; sidecars: names
    of restartable init containers, whose image is there.
    """
    document = json.loads(manifest)
    meta, spec = document["metadata"], document["spec"]
    owners = meta.get("ownerReferences", [])
    owner = Owner(owners[0]["kind"], owners[0]["name"], owners[0]["uid"]) if owners else None
    return Pod(
        meta=Meta(
            name=meta["name"], namespace=meta.get("namespace", ""), owner=owner,
            labels={**meta.get("labels", {}), "app": "slurmd"}, annotations=meta.get("annotations", {}),
        ),
        spec=PodSpec(
            containers=tuple(_container(c, env, readiness, pre_stop_ns) for c in spec["containers"]),
            init_containers=tuple(_sidecar(name, spec["containers"][0]) for name in sidecars),
            volumes=tuple(_volume(v) for v in spec.get("volumes", ())),
            node_selector=spec.get("nodeSelector", {}), tolerations=_tolerations(spec.get("tolerations", ())),
            grace_ns=int(spec.get("terminationGracePeriodSeconds", 30)) * SECOND, hostname=spec.get("hostname", ""),
            affinity=(),
        ),
    )  # fmt: skip


def _container(item: Document, env: Mapping[str, str], readiness: float, pre_stop_ns: int) -> Container:
    asked = item.get("resources", {})
    requests, limits = asked.get("requests", {}), asked.get("limits", {})
    hook = item.get("lifecycle", {}).get("preStop")
    more = {**env, "prestop": "down"} if hook else dict(env)
    return Container(
        name=item["name"], image=_image(item), pull_policy="IfNotPresent", env=more,
        milli_cpu=milli_cpu(requests.get("cpu", "0")), memory=quantity_bytes(requests.get("memory", "0")),
        milli_cpu_limit=milli_cpu(limits.get("cpu", "0")), memory_limit=quantity_bytes(limits.get("memory", "0")),
        startup=_probe(item.get("startupProbe"), readiness), liveness=_probe(item.get("livenessProbe")),
        readiness=_probe(item.get("readinessProbe"), readiness), pre_stop_ns=pre_stop_ns if hook else 0,
    )  # fmt: skip


def _sidecar(name: str, beside: Document) -> Container:
    """It asks for nothing and has no probe; its image is its own, so that another one of slurmd's is not."""
    return Container(name=name, image=str(beside["name"]), restartable=True)


def _image(item: Document) -> str:
    """The runtime has images by the container's name; one of a registry that is not there stays what it is."""
    image = str(item.get("image", ""))
    return image if image.partition("/")[0].endswith(".invalid") else str(item["name"])


def _probe(item: Document | None, by: float = 1.0) -> Probe | None:
    if item is None:
        return None
    return Probe(
        period_ns=round(int(item.get("periodSeconds", 10)) * by * SECOND),
        timeout_ns=int(item.get("timeoutSeconds", 1)) * SECOND,
        failures=int(item.get("failureThreshold", 3)),
        initial_delay_ns=int(item.get("initialDelaySeconds", 0)) * SECOND,
    )  # fmt: skip


def _volume(item: Document) -> Volume:
    claim = item.get("persistentVolumeClaim", {}).get("claimName", "")
    return Volume(name=item["name"], claim=claim, memory=item.get("emptyDir", {}).get("medium") == "Memory")


def _tolerations(items: Sequence[Document]) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(
            key=t.get("key", ""), value=t.get("value", ""), exists=t.get("operator", "Equal") == "Exists",
            effect=t.get("effect", ""),
            for_ns=t["tolerationSeconds"] * SECOND if "tolerationSeconds" in t else None,
        )
        for t in items
    )  # fmt: skip
