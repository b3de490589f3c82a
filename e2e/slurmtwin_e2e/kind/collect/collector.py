"""All informers of one run, started before Slurm is, stopped when it is over."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

from slurmtwin_e2e.kind.api import Api, ApiError
from slurmtwin_e2e.kind.collect.informer import Change, Informer
from slurmtwin_e2e.kind.collect.telling_thread import TellingThread

OWN_GROUP: Final = "slurmtwin.org"
"""API group of our custom resources."""


def paths(namespace: str, custom: Sequence[str] = ()) -> list[str]:
    """What is watched: the run's own objects, and the nodes with their leases and events."""
    core = f"/api/v1/namespaces/{namespace}"
    return [
        f"{core}/pods", f"{core}/events", f"{core}/persistentvolumeclaims", "/api/v1/nodes",
        "/api/v1/namespaces/default/events", "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases",
        *custom,
    ]  # fmt: skip


def custom_paths(api: Api, namespace: str, more: Sequence[str] = ()) -> list[str]:
    """The list paths of every namespaced custom resource of ours, or of the groups `more`, that the cluster serves."""
    out = []
    try:
        groups = api.request("GET", "/apis")["groups"]
    except ApiError:
        return []
    for group in groups:
        if group["name"] in (OWN_GROUP, *more) or group["name"].endswith(f".{OWN_GROUP}"):
            version = group["preferredVersion"]["groupVersion"]
            for resource in api.request("GET", f"/apis/{version}")["resources"]:
                if resource["namespaced"] and "/" not in resource["name"]:
                    out.append(f"/apis/{version}/namespaces/{namespace}/{resource['name']}")
    return out


class Collector:
    """Watches a namespace and the nodes, from start() to stop(); `changes` is in order of receipt."""

    def __init__(self, api: Api, namespace: str, groups: Sequence[str] = ()) -> None:
        self.changes: list[Change] = []
        self._lock = threading.Lock()
        self._stopped = False
        watched = paths(namespace, custom_paths(api, namespace, groups))
        self._informers = [Informer(api, path, self._take) for path in watched]
        self._threads = [
            TellingThread(one.run, f"watch of {path}") for one, path in zip(self._informers, watched, strict=True)
        ]
        self.lost: list[str] = []
        """Errors that ended a watch before stop()."""

    def _take(self, change: Change) -> None:
        with self._lock:
            self.changes.append(change)

    def start(self) -> None:
        """Begin to watch."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> list[Change]:
        """End; what was collected. Threads end by themselves at their next line. Again: the same."""
        if not self._stopped:
            self.lost = [thread.lost for thread in self._threads if thread.lost]
            self._stopped = True
        for informer in self._informers:
            informer.stop()
        with self._lock:
            return list(self.changes)
