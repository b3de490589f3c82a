"""Faults of pods and Kubernetes nodes: deleted, paused, stopped, restarted, cordoned, drained, tainted."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError
from slurmtwin_e2e.docker import docker
from slurmtwin_e2e.kind.api import ApiError
from slurmtwin_e2e.kind.faults.base import Fault, until

DRAIN_LIMIT_S: Final = 150.0
"""Until a drain is given up: jobs may have to end first."""
ALL_NODES: Final = "all"
"""As the target of a pause: every node of the cluster, in one call."""
AGAIN_S: Final = 5.0
"""kubectl drain asks again so long after a refused eviction."""


class PodDelete(Fault):
    """A pod is deleted: with its own grace, or forced (grace 0: the object goes at once)."""

    kinds = ("pod.delete",)

    def prepare(self) -> None:
        """Find the pod."""
        self.pod = self.tools.pod(self.fault.target)
        self.path = f"/api/v1/namespaces/{self.pod.namespace}/pods/{self.pod.name}"

    def inject(self) -> None:
        """Delete it."""
        grace = self.fault.grace
        body: dict[str, Any] = {"preconditions": {"uid": self.pod.uid}}
        if grace is not None:
            body["gracePeriodSeconds"] = grace // SECOND
        self.tools.api.request("DELETE", self.path, body)

    def prove(self) -> str:
        """The object is going, gone, or another pod has its name."""

        def seen() -> str:
            try:
                meta = self.tools.api.request("GET", self.path)["metadata"]
            except ApiError as error:
                return f"{self.pod.name} is gone" if error.status == 404 else ""
            if meta["uid"] != self.pod.uid:
                return f"{self.pod.name} is another pod now"
            return f"{self.pod.name} has a deletion time" if "deletionTimestamp" in meta else ""

        return until(seen, f"{self.pod.name} is still there")


class _NodeFault(Fault):
    """A fault of one Kubernetes node."""

    def prepare(self) -> None:
        """Find the node."""
        self.node = self.tools.node(self.fault.target)
        self.path = f"/api/v1/nodes/{self.node}"

    def nodes(self) -> str | None:
        """The Kubernetes node."""
        return self.node

    def _inspect(self, form: str) -> str:
        return docker("inspect", "-f", form, self.node).stdout.strip()


class NodePause(_NodeFault):
    """docker pause: every process of the node freezes, its address stays, packets to it get no answer. `all`: of every
    node of the cluster, its control plane as well.
    """

    kinds = ("kube_node.pause",)

    def prepare(self) -> None:
        """Find the nodes."""
        if self.fault.target == ALL_NODES:
            self.paused: tuple[str, ...] = self.tools.cluster.nodes
        else:
            super().prepare()
            self.paused = (self.node,)

    def nodes(self) -> str | None:
        """The Kubernetes node; none for a whole cluster."""
        return None if self.fault.target == ALL_NODES else self.node

    def inject(self) -> None:
        """Pause."""
        docker("pause", *self.paused)

    def prove(self) -> str:
        """Docker says so."""
        said = f"{', '.join(self.paused)} paused"
        return until(lambda: said if set(self._states()) == {"true"} else "", "not paused", 5)

    def _states(self) -> list[str]:
        return docker("inspect", "-f", "{{.State.Paused}}", *self.paused).stdout.split()

    def clear(self) -> None:
        """Unpause."""
        docker("unpause", *self.paused)


class NodeStop(_NodeFault):
    """docker stop (systemd shuts down), and docker start to clear; kube_node.restart is both at once."""

    kinds = ("kube_node.stop", "kube_node.restart")

    def prepare(self) -> None:
        """Find the node and when it booted."""
        super().prepare()
        self.booted = self._inspect("{{.State.StartedAt}}")

    def inject(self) -> None:
        """Stop or restart."""
        docker("restart" if self.fault.kind == "kube_node.restart" else "stop", "-t", "15", self.node)
        self.tools.shell(self.node).close()

    def prove(self) -> str:
        """Docker says so."""
        if self.fault.kind == "kube_node.restart":
            said = f"{self.node} runs since {self._inspect('{{.State.StartedAt}}')}, before: {self.booted}"
            return until(lambda: said if self._inspect("{{.State.StartedAt}}") != self.booted else "", "not restarted")
        said = f"{self.node} does not run"
        return until(lambda: said if self._inspect("{{.State.Running}}") == "false" else "", "still runs")

    def clear(self) -> None:
        """Start it again."""
        if self.fault.kind == "kube_node.stop":
            docker("start", self.node)


class NodeDelete(_NodeFault):
    """The Node object is deleted; a restarted kubelet registers it again (with its labels)."""

    kinds = ("kube_node.delete",)

    def prepare(self) -> None:
        """Keep its labels."""
        super().prepare()
        self.object = self.tools.api.request("GET", self.path)

    def inject(self) -> None:
        """Delete the object."""
        self.tools.api.request("DELETE", self.path)

    def prove(self) -> str:
        """It is gone, or it is another object."""

        def seen() -> str:
            try:
                uid = self.tools.api.request("GET", self.path)["metadata"]["uid"]
            except ApiError as error:
                return f"node {self.node} is gone" if error.status == 404 else ""
            return f"node {self.node} is another object now" if uid != self.object["metadata"]["uid"] else ""

        return until(seen, f"node {self.node} is still there")

    def clear(self) -> None:
        """Restart the kubelet, and give the new object the old labels."""
        self.tools.shell(self.node).run("systemctl restart kubelet")

        def back() -> str:
            try:
                self.tools.api.patch(self.path, {"metadata": {"labels": self.object["metadata"]["labels"]}})
            except ApiError:
                return ""
            return "back"

        until(back, f"node {self.node} does not come back", 60, 0.5)


class NodeMark(_NodeFault):
    """Cordon, taint, or drain (cordon, then evict the run's pods on it)."""

    kinds = ("kube_node.cordon", "kube_node.taint", "kube_node.drain")

    def prepare(self) -> None:
        """Find the node, its taints, and the pods that a drain evicts."""
        super().prepare()
        self.taints = self.tools.api.request("GET", self.path)["spec"].get("taints", [])
        space = self.tools.deployed.namespace
        pods = self.tools.api.request("GET", f"/api/v1/namespaces/{space}/pods")["items"]
        self.pods = [p["metadata"] for p in pods if p["spec"].get("nodeName") == self.node]
        if self.fault.kind == "kube_node.taint":
            pair, _, effect = self.fault.taint.rpartition(":")
            key, _, value = pair.partition("=")
            if not key or effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute"):
                raise InputError(f"taint {self.fault.taint!r}", hint="KEY=VALUE:NoSchedule")
            self.taint = {"key": key, "value": value, "effect": effect}

    def inject(self) -> None:
        """Change the node; a drain only begins: what its requests take is part of what follows."""
        if self.fault.kind == "kube_node.taint":
            self.tools.api.patch(self.path, {"spec": {"taints": [*self.taints, self.taint]}})
        elif self.fault.kind == "kube_node.cordon":
            self._cordon()
        else:
            self.since = self.asked = time.monotonic()
            self.requests = ThreadPoolExecutor(1 + len(self.pods))
            self.begun = self.requests.submit(self._drain)

    def _cordon(self) -> None:
        self.tools.api.patch(self.path, {"spec": {"unschedulable": True}})

    def _drain(self) -> None:
        """As kubectl does it: cordon, then one eviction of each pod, all at once (drain.go evictPods())."""
        self._cordon()
        self.kept = self._evict(self.pods)

    def _evict(self, pods: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Ask for one eviction each, all at once. Returns those that a disruption budget keeps."""
        return [meta for meta, gone in zip(pods, self.requests.map(self._evicted, pods), strict=True) if not gone]

    def _evicted(self, meta: dict[str, Any]) -> bool:
        """Whether the pod is going or gone, or another one has its name; 429: a disruption budget forbids it now."""
        where = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        eviction = {
            "apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
            "deleteOptions": {"preconditions": {"uid": meta["uid"]}},
        }  # fmt: skip
        try:
            self.tools.api.request("POST", f"{where}/eviction", eviction)
        except ApiError as error:
            if error.status not in (404, 409, 429):
                raise
            return error.status != 429
        return True

    def prove(self) -> str:
        """The node's own object says so; after a drain every pod is going or gone."""
        if self.fault.kind == "kube_node.drain":
            with self.requests:
                self.begun.result()
                self._shown()
                return until(self._all_evicted, "pods are still there", DRAIN_LIMIT_S)
        return self._shown()

    def _shown(self) -> str:
        spec = self.tools.api.request("GET", self.path)["spec"]
        if self.fault.kind == "kube_node.taint":
            shown = json.dumps(spec.get("taints", []), sort_keys=True)
            return until(lambda: f"taints: {shown}" if self.taint["key"] in shown else "", f"taints are {shown}", 0)
        until(lambda: "yes" if spec.get("unschedulable") else "", f"{self.node} is schedulable", 0)
        return f"{self.node} is unschedulable"

    def _all_evicted(self) -> str:
        """Between two evictions of a pod nothing is asked, as by kubectl: requests cost what is measured its CPU.
        A drain that lasts is given up, whatever a budget keeps."""
        if self.kept and self.fault.lasts and time.monotonic() - self.since >= self.fault.lasts / SECOND:
            gone = len(self.pods) - len(self.kept)
            return f"{self.node} is unschedulable, {gone} pods evicted, {len(self.kept)} kept by a budget until the end"
        if self.kept and time.monotonic() - self.asked >= AGAIN_S:
            self.asked = time.monotonic()
            self.kept = self._evict(self.kept)
        return "" if self.kept else f"{self.node} is unschedulable, {len(self.pods)} pods evicted"

    def clear(self) -> None:
        """Put the node's old marks back."""
        self.tools.api.patch(self.path, {"spec": {"taints": self.taints or None, "unschedulable": None}})
