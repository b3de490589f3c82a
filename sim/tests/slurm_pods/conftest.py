"""A Slurm cluster whose daemons run in containers of machines with kubelets; pods are bound by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.contract.scenario import Scenario
from slurmtwin.engine.environment import RunBudget
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
from slurmtwin.models.slurm_pods.programs import SlurmPrograms
from slurmtwin.models.slurm_pods.settings import DaemonPods
from slurmtwin.workload.resolve import resolve_jobs
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds.twin import TwinOptions, TwinWorld

MIB = 1 << 20
CONF = {"SlurmdTimeout": 30, "SlurmctldTimeout": 30, "ReturnToService": 2, "AuthInfo": "cred_expire=10"}


class PodsRig:
    """slurmctld on machine m0; workers w-0 and w-1 on m1 and m2. The daemons run from about -18 s on."""

    def __init__(
        self, jobs: list[dict[str, Any]], memory_mib: int = 0, guaranteed: bool = True, process: str = "main",
        cgroups: int = 1, controller: dict[str, Any] | None = None, grace_s: int = 30, seed: int = 1,
        **settings: Any,
    ) -> None:  # fmt: skip
        scenario = Scenario.model_validate({
            "schema": "slurmtwin/scenario/1", "name": "pods",
            "slurm": {
                "version": "26.05", "conf": {"SlurmctldHost": "slurmctld-0", **CONF},
                "nodes": [{"NodeName": "w-[0-1]", "CPUs": 1, "RealMemory": 200}],
                "partitions": [{"PartitionName": "batch", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE"}],
            },
            "workload": {"jobs": jobs},
        })  # fmt: skip
        conf, _ = cluster_conf(scenario)
        self.sink = EventSink("rig", "twin", keep=True)
        self.world = TwinWorld(scenario, conf, resolve_jobs(scenario), TwinOptions(seed=seed), self.sink)
        self.env = self.world.env
        self.env.now_ns = self.env._now = -20 * SECOND  # type: ignore[assignment]
        self.cluster = self.world.cluster
        self.random = Random(seed)
        self.server = ApiServer(self.env, lambda: 5 * MS)
        Collector(self.env, self.server, self.sink, lambda: 5 * MS)
        self.client = Client(self.server, self.env)
        look = settings.pop("supervisor_look", lambda: self.random.randrange(SECOND))
        self.settings = DaemonPods(supervisor_look=look, **settings)
        self.programs = SlurmPrograms(self.cluster, self.settings)
        self.machines = [self._machine(f"m{n}", cgroups) for n in range(3)]
        self._container(controller or {}, memory_mib, guaranteed, process, grace_s)
        self.env.call_at(0, self.world._open)

    def _machine(self, name: str, cgroups: int) -> Machine:
        addresses = iter(range(1, 250))
        runtime = ContainerRuntime(
            self.env, name, self.programs, StartCosts(), lambda key: f"10.{name}.{next(addresses)}", cgroups  # type: ignore[arg-type]
        )  # fmt: skip
        node = Node(meta=Meta(name=name), status=NodeStatus(milli_cpu=4000, memory=8 << 30))
        settings = KubeletSettings(
            defaults=kubelet_defaults("1.34"), latency=lambda: 4 * MS,
            capacity=NodeCapacity(milli_cpu=4000, memory=8 << 30),
        )  # fmt: skip
        machine = Machine(
            self.env, self.server, runtime, node, settings,
            lambda low, high: self.random.randrange(low, high) if high > low else low,
        )  # fmt: skip
        machine.start_kubelet()
        return machine

    def _container(
        self, controller: dict[str, Any], memory_mib: int, guaranteed: bool, process: str, grace_s: int
    ) -> None:
        self.create("slurmctld-0", "m0", Container(name="slurmctld", **controller), grace_s)
        cpu = 100 if memory_mib and guaranteed else 0
        limits = {
            "memory": memory_mib * MIB,
            "memory_limit": memory_mib * MIB,
            "milli_cpu": cpu,
            "milli_cpu_limit": cpu,
        }
        for number in range(2):
            slurmd = Container(name="slurmd", env={"process": process}, **limits)  # type: ignore[arg-type]
            self.create(f"w-{number}", f"m{number + 1}", slurmd, grace_s)

    def create(self, name: str, node: str, container: Container, grace_s: int = 30) -> None:
        """A pod, bound to a machine."""
        spec = PodSpec(node_name=node, containers=(container,), grace_ns=grace_s * SECOND)
        meta = Meta(name=name, namespace="s", labels={"app": container.name})
        self.client.create(Pod(meta=meta, spec=spec))

    def at(self, at_s: float, action: Callable[[], Any]) -> None:
        """Do that then."""
        self.env.call_at(round(at_s * SECOND), lambda _: action())

    def run(self, until_s: float) -> PodsRig:
        """Go on until then."""
        self.env.stop_reason = ""
        self.env.run_within(RunBudget(max_time_ns=round(until_s * SECOND)))
        return self

    def slurmd(self, number: int = 0) -> Any:
        """The program of a worker's container."""
        return self.programs.slurmds[number]

    def slurmctld(self) -> Any:
        """The program of the controller's container."""
        return self.programs.slurmctlds[0]

    def slurm_id(self, job: int = 1) -> int:
        """Slurm's number of a job that runs."""
        assert self.cluster.ctld is not None
        return next(j.slurm_id for j in self.cluster.ctld.jobs.values() if j.request.job_id == job)

    def times(self, kind: Kind, actor: str = "", job: int | None = None, **detail: Any) -> list[float]:
        """When rows of that kind were dated, in seconds."""
        self.sink.event_hash  # noqa: B018  flushes
        return [
            e.t_ns / SECOND
            for e in self.sink.kept or ()
            if e.kind is kind and (not actor or e.actor == actor) and (job is None or e.job_id == job)
            and detail.items() <= json.loads(e.detail or "{}").items()
        ]  # fmt: skip


@pytest.fixture
def pods_rig() -> type[PodsRig]:
    """The class: each test makes its own."""
    return PodsRig
