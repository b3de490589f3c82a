"""What kopf's watches brought: the newest version of every object that matters, and who has to look when one changes.

Pods of others are kept as little as counting them on a node takes. Nothing here talks to a server.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from slurmtwin_operator.core.manifests import GROUP
from slurmtwin_operator.shell.objects import Object, labels, notes, taints

CUSTOM: Final = ("Cluster", "NodeSet", "PodGroup")
OWNED: Final = (
    "Pod", "ConfigMap", "Service", "StatefulSet", "Deployment", "PersistentVolumeClaim", "PodDisruptionBudget",
)  # fmt: skip
CLUSTER, NODE_SET, POD_GROUP = f"{GROUP}/cluster", f"{GROUP}/nodeset", f"{GROUP}/podgroup"


class Key(NamedTuple):
    """One custom resource."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def key_of(item: Object, kind: str = "") -> Key:
    """The place of any object."""
    return Key(kind or item["kind"], item["metadata"].get("namespace", ""), item["metadata"]["name"])


class Cache:
    """Objects by kind, namespace and name."""

    def __init__(self) -> None:
        self._items: dict[str, dict[str, dict[str, Object]]] = {}

    def get(self, kind: str, namespace: str, name: str) -> Object | None:
        """The object, None where no watch has shown one."""
        return self._items.get(kind, {}).get(namespace, {}).get(name)

    def items(self, kind: str, namespace: str = "") -> Iterator[Object]:
        """All of a kind in a namespace (nodes: the empty one), by name."""
        found = self._items.get(kind, {}).get(namespace, {})
        return (found[name] for name in sorted(found))

    def everywhere(self, kind: str) -> Iterator[Object]:
        """All of a kind, by namespace and name."""
        for namespace in sorted(self._items.get(kind, {})):
            yield from self.items(kind, namespace)

    def resources(self) -> list[Key]:
        """Every custom resource."""
        return [key_of(item, kind) for kind in CUSTOM for item in self.everywhere(kind)]

    def put(self, kind: str, item: Object) -> set[Key]:
        """A new version came; returns who has to look."""
        item = _slim(kind, {**item, "kind": kind})
        key = key_of(item)
        space = self._items.setdefault(kind, {}).setdefault(key.namespace, {})
        old = space.get(key.name)
        space[key.name] = item
        if old is not None and _told(kind, old) == _told(kind, item):
            return set()
        return self._concerned(kind, item)

    def drop(self, kind: str, item: Object) -> set[Key]:
        """The object is gone; returns who has to look."""
        key = key_of(item, kind)
        self._items.get(kind, {}).get(key.namespace, {}).pop(key.name, None)
        return self._concerned(kind, {**item, "kind": kind}) - {key}

    def node_sets(self, namespace: str, cluster: str) -> list[Object]:
        """The NodeSets of a Cluster."""
        return [s for s in self.items("NodeSet", namespace) if s["spec"].get("cluster") == cluster]

    def _concerned(self, kind: str, item: Object) -> set[Key]:
        key, have = key_of(item), labels(item)
        if kind == "Node":
            return {key_of(s) for s in self.everywhere("NodeSet")}
        if kind == "Cluster":
            return {key} | {key_of(s) for s in self.node_sets(key.namespace, key.name)}
        if kind == "NodeSet":
            return {key, Key("Cluster", key.namespace, item["spec"].get("cluster", ""))}
        if kind in CUSTOM:
            return {key}
        if POD_GROUP in have:
            return {Key("PodGroup", key.namespace, have[POD_GROUP])}
        if NODE_SET in have:
            return {Key("NodeSet", key.namespace, have[NODE_SET])}
        return {Key("Cluster", key.namespace, have[CLUSTER])} if CLUSTER in have else set()


def _slim(kind: str, item: Object) -> Object:
    """Pods that are not ours: where they run and what they tolerate."""
    have = labels(item)
    if kind != "Pod" or CLUSTER in have or POD_GROUP in have:
        return item
    meta = {key: item["metadata"].get(key) for key in ("namespace", "name", "uid", "ownerReferences")}
    spec = {key: item["spec"].get(key) for key in ("nodeName", "tolerations")}
    return {"kind": kind, "metadata": meta, "spec": spec, "status": {"phase": item.get("status", {}).get("phase")}}


def _told(kind: str, item: Object) -> Any:
    """What of an object a decision may rest on: our own writes of status wake nobody."""
    meta = item["metadata"]
    if kind in CUSTOM:
        return meta.get("generation"), "deletionTimestamp" in meta, meta.get("finalizers"), notes(item)
    if kind == "Node":
        states = [(c["type"], c["status"]) for c in item.get("status", {}).get("conditions") or ()]
        return item["spec"].get("unschedulable"), taints(item), labels(item), notes(item), states
    return meta.get("resourceVersion")
