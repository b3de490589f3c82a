"""One operator process on the servers in memory: its cache is filled from their objects, its clock is a number."""

from __future__ import annotations

import asyncio
import base64
import io
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from slurmtwin_operator.replay import Recorder
from slurmtwin_operator.shell.cache import Key
from slurmtwin_operator.shell.kube_api import KubeApi
from slurmtwin_operator.shell.objects import stamp
from slurmtwin_operator.shell.process import WATCHED, Operator
from slurmtwin_operator.shell.settings import Settings
from slurmtwin_operator.testing.servers import KubeServer, SlurmServer

SECRET: Final = b"planted-secret-of-the-test-planted-secret"
START_NS: Final = 1_800_000_000_000_000_000
CLUSTER, NODE_SET = Key("Cluster", "ns", "c"), Key("NodeSet", "ns", "w")


@dataclass(slots=True)
class Bench:
    """Servers, the operator, and what it recorded."""

    kube: KubeServer
    slurm: SlurmServer
    operator: Operator
    recorded: io.StringIO
    api_base: str = ""
    now_ns: int = START_NS

    def sync(self) -> None:
        """The watches bring everything as it is now."""
        for kind, plural in WATCHED.items():
            found = {p: item for p, item in self.kube.objects.items() if p[1] == plural}
            for item in list(self.operator.cache.everywhere(kind)):
                if (item["metadata"].get("namespace") or "", plural, item["metadata"]["name"]) not in found:
                    self.operator.changed(kind, item, gone=True)
            for item in found.values():
                self.operator.changed(kind, item)
        self.operator.filled = True

    async def step(self, key: Key = NODE_SET, seconds: float = 0) -> None:
        """Time goes on, the watches bring what changed, and one pass runs."""
        self.now_ns += int(seconds * 1e9)
        await self.operator.lease.step()
        self.sync()
        await self.operator.run_pass(key)

    def names(self, plural: str) -> list[str]:
        """Names of the objects of a kind."""
        return sorted(name for _, kind, name in self.kube.objects if kind == plural)

    def get(self, key: Key) -> dict[str, Any]:
        """A custom resource as the API server has it."""
        return self.kube.objects[key.namespace, f"{key.kind.lower()}s", key.name]

    def get_status(self) -> dict[str, Any]:
        """The NodeSet's status."""
        return self.get(NODE_SET).get("status") or {}

    def run_pods(self) -> None:
        """A kubelet: every slurmd pod runs, is ready, and registers with Slurm."""
        for (_, plural, name), pod in list(self.kube.objects.items()):
            if plural == "pods" and "slurmtwin.dev/nodeset" in pod["metadata"].get("labels", {}):
                since = stamp(self.now_ns)
                pod["metadata"]["creationTimestamp"] = stamp(START_NS)
                ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
                pod["status"] = {"phase": "Running", "conditions": [ready]}
                pod["spec"]["nodeName"] = "k1"
                self.kube.put("pods", pod)
                if name not in self.slurm.nodes:
                    self.slurm.add_node(name)

    def events(self) -> list[str]:
        """Reasons of the Events written."""
        return [item["reason"] for (_, plural, _), item in self.kube.objects.items() if plural == "events"]


def cluster(**spec: Any) -> dict[str, Any]:
    """A Cluster object."""
    return {"apiVersion": "slurmtwin.dev/v1", "kind": "Cluster", "metadata": {"name": "c"},
            "spec": {"image": "slurm:26.05", **spec}}  # fmt: skip


def node_set(replicas: int = 2, **spec: Any) -> dict[str, Any]:
    """A NodeSet object."""
    return {"apiVersion": "slurmtwin.dev/v1", "kind": "NodeSet", "metadata": {"name": "w"},
            "spec": {"cluster": "c", "image": "slurm:26.05", "replicas": replicas, **spec}}  # fmt: skip


@asynccontextmanager
async def bench(
    settings: Settings | None = None, *, watched: bool = False, **cluster_spec: Any
) -> AsyncIterator[Bench]:  # fmt: skip
    """A Cluster whose control plane is up, and an operator that holds the Lease.

    watched: the clock is the real one, and the caller lets kopf fill the cache; else sync() does.
    """
    kube, slurm = KubeServer(), SlurmServer()
    kube.put("clusters", cluster(**cluster_spec))
    kube.put("nodes", {"metadata": {"name": "k1"}, "spec": {"providerID": "machine-1"}, "status": {}}, "")
    key = base64.b64encode(SECRET).decode()
    kube.put("secrets", {"metadata": {"name": "c-keys"}, "data": {"jwt_hs256.key": key, "slurm.key": key}})
    labels = {"slurmtwin.dev/cluster": "c", "slurmtwin.dev/part": "rest"}
    kube.put("services", {"metadata": {"name": "c-rest", "labels": labels}, "spec": {}})
    recorded = io.StringIO()
    async with (
        kube.serve() as api_base, slurm.serve() as rest_base, KubeApi(api_base) as api,
    ):  # fmt: skip
        chosen = settings or Settings(namespace="ops", identity="op-1")
        found = Bench(kube, slurm, None, recorded, api_base)  # type: ignore[arg-type]
        found.operator = Operator(
            chosen, api, recorder=Recorder(recorded), endpoint=lambda *_: rest_base,
            clock=time.time_ns if watched else lambda: found.now_ns,
        )  # fmt: skip
        if not watched:
            await found.operator.lease.step()
            found.sync()
        yield found


def play(story: Callable[[Bench], Awaitable[None]], settings: Settings | None = None, **cluster_spec: Any) -> Bench:
    """Run a story on a bench of its own; returns the bench as it was left."""

    async def run() -> Bench:
        async with bench(settings, **cluster_spec) as found:
            await story(found)
            return found

    return asyncio.run(run())


async def settled(b: Bench, replicas: int = 2, **spec: Any) -> None:
    """A node set of so many registered pods."""
    b.kube.put("nodesets", node_set(replicas, **spec))
    await b.step()
    b.run_pods()
    await b.step(seconds=5)
