"""One node with a kubelet on an API server, and what was seen of its pods."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.collector import Collector
from slurmtwin.models.api_server.objects import Container, Meta, Node, NodeStatus, Pod, PodSpec
from slurmtwin.models.api_server.server import ApiServer
from slurmtwin.models.kubelet.admission import NodeCapacity
from slurmtwin.models.kubelet.container_runtime import ContainerRuntime, StartCosts
from slurmtwin.models.kubelet.defaults import kubelet_defaults
from slurmtwin.models.kubelet.kubelet import KubeletSettings
from slurmtwin.models.kubelet.machine import Machine
from slurmtwin.models.kubelet.program import Program, Service

GIB = 1 << 30


@dataclass
class OneNode:
    """A node n1, its world, and what to ask of it. Times in seconds."""

    programs: Callable[[Pod, Container], Program] = lambda pod, container: Service()
    version: str = "1.34"
    seed: int = 1
    costs: StartCosts = field(default_factory=StartCosts)
    cgroups: int = 2
    eviction: Any = None
    use: Any = None
    on_cpus: Any = None
    resources: Any = None
    volumes_ready: Callable[[Pod], bool] = lambda pod: True
    milli_cpu: int = 4000
    has_run: bool = False
    """Its kubelet, for long before time 0."""

    def __post_init__(self) -> None:
        self.env = Environment()
        self.server = ApiServer(self.env, lambda: 5 * MS)
        self.sink = EventSink("run", "twin", keep=True)
        Collector(self.env, self.server, self.sink, lambda: 5 * MS)
        self.client = Client(self.server, self.env)
        random = Random(self.seed)
        addresses = iter(range(1, 250))
        self.runtime = ContainerRuntime(
            self.env, "n1", self.programs, self.costs, lambda key: f"10.0.0.{next(addresses)}", self.cgroups  # type: ignore[arg-type]
        )  # fmt: skip
        node = Node(meta=Meta(name="n1"), status=NodeStatus(milli_cpu=self.milli_cpu, memory=8 * GIB))
        settings = KubeletSettings(
            defaults=kubelet_defaults(self.version), eviction=self.eviction, use=self.use, on_cpus=self.on_cpus,
            latency=lambda: 4 * MS,
            capacity=NodeCapacity(milli_cpu=self.milli_cpu, memory=8 * GIB),
        )  # fmt: skip
        self.machine = Machine(
            self.env, self.server, self.runtime, node, settings,
            lambda low, high: random.randrange(low, high) if high > low else low, self.resources, self.volumes_ready,
        )  # fmt: skip
        self.machine.start_kubelet(self.has_run)

    def create(self, *containers: Container, at_s: float = 1, name: str = "a", **spec: Any) -> None:
        """A pod bound to the node."""
        body = PodSpec(node_name="n1", containers=containers or (Container(name="c"),), **spec)
        pod = Pod(meta=Meta(name=name, namespace="d"), spec=body)
        self.at(at_s, lambda: self.client.create(pod))

    def delete(self, at_s: float, grace_s: float | None = None, name: str = "a") -> None:
        """Delete it."""
        grace_ns = None if grace_s is None else round(grace_s * SECOND)
        self.at(at_s, lambda: self.client.delete(Pod, f"d/{name}", grace_ns))

    def at(self, at_s: float, action: Callable[[], Any]) -> None:
        """Do that then."""
        self.env.call_at(round(at_s * SECOND), lambda _: action())

    def run(self, until_s: float) -> None:
        """Go on until then."""
        self.env.stop_reason = ""
        self.env.run_within(RunBudget(max_time_ns=round(until_s * SECOND)))

    def pod(self, name: str = "a") -> Pod | None:
        """The object as the server has it."""
        return self.server.find(Pod, f"d/{name}")

    def times(self, kind: Kind, actor: str = "apiserver", **detail: Any) -> list[float]:
        """When rows of that kind (with those details) were dated, in seconds."""
        return [e.t_ns / SECOND for e, said in self.rows(kind, actor) if detail.items() <= said.items()]

    def rows(self, kind: Kind, actor: str = "apiserver") -> list[tuple[Any, dict[str, Any]]]:
        """Rows of that kind with their details."""
        self.sink.event_hash  # noqa: B018  flushes
        found = [e for e in self.sink.kept or () if e.kind is kind and e.actor == actor]
        return [(e, json.loads(e.detail or "{}")) for e in found]

    def program(self, name: str = "a", container: str = "c") -> Any:
        """What runs in a container."""
        pod = self.pod(name)
        assert pod is not None
        instance = self.runtime.pods[pod.meta.uid].newest(container)
        assert instance is not None
        return instance.program


@pytest.fixture
def one_node() -> type[OneNode]:
    """The class: each test makes its own."""
    return OneNode
