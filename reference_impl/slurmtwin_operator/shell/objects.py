"""Kubernetes objects (plain JSON) as the core's observations: one function per type, nothing remembered."""

from __future__ import annotations

import calendar
import time
from collections.abc import Iterable
from typing import Any, Final, Literal

from slurmtwin_operator.core.cluster import ACTIVE_LABEL
from slurmtwin_operator.core.manifests import GROUP
from slurmtwin_operator.core.nodeset.drains import PROTECT_LABEL
from slurmtwin_operator.core.observed import MIRRORED, Applied, Condition, Controller, Identity, KubeNode, Pod
from slurmtwin_operator.core.spec import NodeSetSpec

Object = dict[str, Any]
SECOND: Final = 1_000_000_000
FINALIZER: Final = f"{GROUP}/operator"
HASH: Final = f"{GROUP}/hash"
CORDON: Final = f"{GROUP}/cordon"
SLOT: Final = f"{GROUP}/slot"
LOCK: Final = f"{GROUP}/lock"
COST: Final = "controller.kubernetes.io/pod-deletion-cost"
KEEPS_OUT: Final = ("NoSchedule", "NoExecute")


def stamp_ns(text: str | None) -> int:
    """Unix ns of a metav1.Time (whole seconds); 0 for none."""
    return calendar.timegm(time.strptime(text[:19], "%Y-%m-%dT%H:%M:%S")) * SECOND if text else 0


def stamp(ns: int) -> str:
    """A metav1.Time: cut to whole seconds, as the API server does."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ns // SECOND))


def labels(item: Object) -> dict[str, str]:
    """Labels, {} for none."""
    return item["metadata"].get("labels") or {}


def notes(item: Object) -> dict[str, str]:
    """Annotations, {} for none."""
    return item["metadata"].get("annotations") or {}


def identity(item: Object) -> Identity:
    """Which object this is."""
    meta = item["metadata"]
    return Identity(
        meta.get("namespace", ""), meta["name"], meta["uid"], int(meta.get("generation", 1)),
        "deletionTimestamp" in meta, FINALIZER in (meta.get("finalizers") or ()),
    )  # fmt: skip


def conditions(item: Object) -> tuple[Condition, ...]:
    """The conditions of its status."""
    return tuple(
        Condition(c["type"], c["status"], c["reason"], c.get("message", ""), stamp_ns(c["lastTransitionTime"]))
        for c in (item.get("status") or {}).get("conditions") or ()
    )


def as_conditions(wanted: Iterable[Condition]) -> list[Object]:
    """Conditions as an object's status carries them."""
    return [
        {"type": c.type, "status": c.status, "reason": c.reason, "message": c.message,
         "lastTransitionTime": stamp(c.since_ns)}
        for c in wanted
    ]  # fmt: skip


def _condition(item: Object, kind: str) -> Object:
    found = (item.get("status") or {}).get("conditions") or ()
    return next((c for c in found if c["type"] == kind), {})


def is_ready(item: Object) -> bool:
    """Does a pod or node carry Ready=True?"""
    return _condition(item, "Ready").get("status") == "True"


def pod(item: Object, node_set: str) -> Pod:
    """A slurmd pod. Where it has no slot annotation (StatefulSets), its ordinal is the slot."""
    meta, ready = item["metadata"], is_ready(item)
    cost = notes(item).get(COST, "0")
    return Pod(
        name=meta["name"], uid=meta["uid"],
        slot=notes(item).get(SLOT) or meta["name"].removeprefix(f"{node_set}-"),
        revision=labels(item).get(f"{GROUP}/revision", ""), phase=(item.get("status") or {}).get("phase", "Pending"),
        ready=ready, ready_since_ns=stamp_ns(_condition(item, "Ready").get("lastTransitionTime")) if ready else 0,
        created_ns=stamp_ns(meta.get("creationTimestamp")), deleting="deletionTimestamp" in meta,
        kube_node=item["spec"].get("nodeName", ""), protected=labels(item).get(PROTECT_LABEL) == "true",
        cordoned=notes(item).get(CORDON) == "true",
        deletion_cost=int(cost) if cost.lstrip("-").isdecimal() else 0,
    )  # fmt: skip


def kube_node(item: Object, spec: NodeSetSpec, foreign_pods: int) -> KubeNode:
    """A Kubernetes node as a node set sees it."""
    ready = is_ready(item)
    since = 0 if ready else stamp_ns(_condition(item, "Ready").get("lastTransitionTime"))
    found = (item.get("status") or {}).get("conditions") or ()
    value = next((t.get("value") for t in taints(item) if t["key"] == LOCK), "")
    lock: Literal["", "pending", "locked"] = "pending" if value == "pending" else "locked" if value == "locked" else ""
    return KubeNode(
        name=item["metadata"]["name"], instance=item["spec"].get("providerID", ""),
        unschedulable=bool(item["spec"].get("unschedulable")), mirrored=MIRRORED in notes(item), ready=ready,
        not_ready_since_ns=since, selected=is_selected(item, spec),
        conditions=tuple(sorted(c["type"] for c in found if c["status"] == "True" and c["type"] != "Ready")),
        locked=lock, foreign_pods=foreign_pods,
    )  # fmt: skip


def taints(item: Object) -> list[Object]:
    """Taints of a node."""
    return list(item["spec"].get("taints") or ())


def is_selected(item: Object, spec: NodeSetSpec) -> bool:
    """May the set's pods run on this node? A cordon and our own lock do not count."""
    have = labels(item)
    if any(have.get(key) != value for key, value in spec.node_selector.items()):
        return False
    own = ("node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", LOCK)
    wanted = [t.model_dump(by_alias=True) for t in spec.tolerations]
    return all(
        t["key"] in own or t.get("effect") not in KEEPS_OUT or any(tolerates(w, t) for w in wanted)
        for t in taints(item)
    )


def tolerates(toleration: Object, taint: Object) -> bool:
    """Rules of core/v1 Toleration: empty key with Exists is all, an empty effect is every effect."""
    effect = toleration.get("effect") or ""
    if effect and effect != taint.get("effect"):
        return False
    if toleration.get("key") and toleration["key"] != taint["key"]:
        return False
    if (toleration.get("operator") or "Equal") == "Exists":
        return True
    return bool(toleration.get("key")) and (toleration.get("value") or "") == (taint.get("value") or "")


def is_foreign(item: Object) -> bool:
    """Would the lock evict this pod? Daemons of the system and static pods are left out."""
    owners = {owner["kind"] for owner in item["metadata"].get("ownerReferences") or ()}
    if owners & {"DaemonSet", "Node"} or (item.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return False
    lock = {"key": LOCK, "effect": "NoExecute"}
    return not any(tolerates(t, lock) for t in item["spec"].get("tolerations") or ())


def applied(item: Object) -> Applied:
    """An object of ours with the hash that was last applied."""
    kind, spec, status = item["kind"], item.get("spec") or {}, item.get("status") or {}
    ready = True
    if kind in ("StatefulSet", "Deployment"):
        seen = status.get("observedGeneration", 0) >= item["metadata"].get("generation", 0)
        ready = seen and status.get("readyReplicas", 0) >= spec.get("replicas", 1)
    return Applied(kind, item["metadata"]["name"], notes(item).get(HASH, ""), ready)


def controller(item: Object) -> Controller:
    """A slurmctld pod."""
    meta = item["metadata"]
    return Controller(meta["name"], meta["uid"], is_ready(item), labels(item).get(ACTIVE_LABEL) == "true")
