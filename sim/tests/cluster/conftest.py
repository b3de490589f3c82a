"""A cluster whose daemons are real and whose scheduling is a recorder: node rules by themselves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.scenario import Scenario
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.slurm_cluster import SlurmCluster
from slurmtwin.models.slurmctld.allocation import Allocation
from slurmtwin.models.slurmctld.background import BackgroundLoop
from slurmtwin.models.slurmctld.host_costs import HostCosts
from slurmtwin.models.slurmctld.node_lifecycle import NodeLifecycle
from slurmtwin.models.slurmctld.slurmctld import Slurmctld
from slurmtwin.models.slurmctld.state_store import StateStore
from slurmtwin.models.slurmctld.states import JobState
from slurmtwin.models.slurmctld.tables import Job, Node
from slurmtwin.workload.slurm_conf import cluster_conf

EPOCH_S = 1_700_000_000


class Recorder:
    """Stands for every part that node rules talk to; keeps what it was told, answers nothing."""

    def __init__(self, ctld: Slurmctld) -> None:
        self.ctld = ctld
        self.told: list[tuple[Any, ...]] = []
        self.passes = 0

    def __getattr__(self, name: str) -> Callable[..., None]:
        def take(*args: Any, **_options: Any) -> None:
            self.told.append((name, *args))

        return take

    def queue_pass(self) -> None:
        self.passes += 1

    def node_failed(self, node: Node, reason: str) -> None:
        """Every job of the node ends, as the real part would have it."""
        self.told.append(("node_failed", node.name, reason))
        for job in list(self.ctld.running.values()):
            if job.alloc is not None and job.alloc.nodes & node.bit:
                finish(self.ctld, job)

    def missing_on_node(self, job: Job, node: Node) -> None:
        self.told.append(("missing_on_node", job.id, node.name))
        finish(self.ctld, job)


def finish(ctld: Slurmctld, job: Job) -> None:
    """The job goes back to PENDING, COMPLETING on the nodes that answer."""
    assert job.alloc is not None
    del ctld.running[job.slurm_id]
    job.state, job.completing = JobState.PENDING, True
    job.completing_nodes = ctld.nodes_lifecycle.job_completing(job.alloc.nodes)


class RecorderAssembly:
    """slurm_cluster.Assembly around recorders."""

    def build(self, cluster: SlurmCluster, clock: Any, index: int) -> Slurmctld:
        conf = replace(cluster.conf, nodes=tuple(cluster.node_confs))
        ctld = Slurmctld(clock, conf, cluster.sink, cluster.costs, RandomStreams(1), cluster.epoch_ns)
        ctld.cluster, ctld.slurmds = cluster, cluster.slurmds
        ctld.store = StateStore(ctld, cluster.volume, index)
        ctld.background = BackgroundLoop(ctld)
        recorder: Any = Recorder(ctld)
        ctld.lifecycle = ctld.schedulers = ctld.selection = ctld.limits = ctld.priority = recorder
        ctld.reservations = ctld.licenses = recorder
        ctld.nodes_lifecycle = NodeLifecycle(ctld)
        return ctld

    def serve(self, ctld: Slurmctld) -> None:
        ctld.background.start()  # type: ignore[attr-defined]
        ctld.store.serve()
        ctld.nodes_lifecycle.start()

    def stop(self, ctld: Slurmctld) -> None:
        ctld.background.stop()  # type: ignore[attr-defined]


@dataclass(slots=True, eq=False)
class Steps:
    """Processes of one job on its batch host (slurmd/parts.py Work)."""

    slurm_id: int
    start_s: int
    nodes: int
    aborted: list[int] = field(default_factory=list)

    def lost(self, nodes: int) -> None:
        self.nodes &= ~nodes

    def abort(self, nodes: int) -> None:
        self.aborted.append(nodes)
        self.nodes &= ~nodes


class Rig:
    """One cluster, its events, and a way to let time pass."""

    def __init__(
        self, version: str, nodes: int, start_s: float, costs: HostCosts, slurmds: int | None, conf: dict[str, Any]
    ) -> None:
        scenario = Scenario.model_validate({
            "schema": "slurmtwin/scenario/1", "name": "rig",
            "slurm": {
                "version": version, "conf": {"SlurmctldHost": "a", **conf},
                "nodes": [{"NodeName": f"n[1-{nodes}]", "CPUs": 4, "RealMemory": 1000}],
                "partitions": [{"PartitionName": "p", "Nodes": "ALL", "Default": "YES"}],
            },
        })  # fmt: skip
        self.conf, _ = cluster_conf(scenario)
        self.env = Environment()
        self.sink = EventSink("rig", "twin", keep=True)
        self.cluster = SlurmCluster(
            self.env, self.conf, self.sink, costs, round((EPOCH_S - start_s) * SECOND), RecorderAssembly()
        )
        self.cluster.boot(slurmds)
        self.until(0)

    def until(self, seconds: float) -> None:
        """Let time pass until so many seconds after the boot."""
        self.env.stop_reason = ""
        self.env.call_at(round(seconds * SECOND), lambda _: None)
        self.env.run_within(RunBudget(max_time_ns=round(seconds * SECOND)))

    @property
    def ctld(self) -> Slurmctld:
        assert self.cluster.ctld is not None
        return self.cluster.ctld

    @property
    def told(self) -> list[tuple[Any, ...]]:
        return self.ctld.lifecycle.told  # type: ignore[attr-defined]

    def node(self, name: str = "n1") -> Node:
        return self.ctld.nodes.by_name[name]

    def state(self, name: str = "n1") -> str:
        return self.ctld.nodes_lifecycle.state_text(self.node(name))  # type: ignore[attr-defined]

    def events(self, *kinds: Kind) -> list[Event]:
        self.sink._flush()
        return [e for e in self.sink.kept or [] if not kinds or e.kind in kinds]

    def times(self, *kinds: Kind) -> list[float]:
        """When those happened, in seconds after the boot."""
        return [e.t_ns / SECOND for e in self.events(*kinds)]

    def run_job(self, number: int, nodes: int, with_steps: bool = True, requeue: bool = True) -> Job:
        """A job that holds these nodes from now on."""
        ctld = self.ctld
        now_s = ctld.now_s()
        job = Job(JobRequest(job_id=number, submit_ns=0), number, now_s)
        job.state, job.start_s, job.last_active_s, job.requeue = JobState.RUNNING, now_s, now_s, requeue
        job.alloc = Allocation(nodes, None, 4 * nodes.bit_count(), whole_nodes=True)
        job.part = ctld.partitions["p"]
        job.parts = [job.part]
        ctld.jobs[number] = ctld.running[number] = job
        ctld.nodes_lifecycle.job_allocated(nodes)
        ctld.store.next_job_id = number + 1
        ctld.store.changed()
        if with_steps:
            self.steps(number, nodes & -nodes)
        return job

    def steps(self, number: int, nodes: int) -> Steps:
        """Processes of that job on these nodes."""
        steps = Steps(number, self.ctld.now_s(), nodes)
        self.cluster.slurmds.works[number] = steps
        return steps


@pytest.fixture
def rig() -> Callable[..., Rig]:
    """Makes a booted cluster: version, node count, fraction of the second it boots at, slurmds, slurm.conf options."""

    def make(
        version: str = "26.05", nodes: int = 4, start_s: float = 0.25, costs: HostCosts | None = None,
        slurmds: int | None = None, **conf: Any,
    ) -> Rig:  # fmt: skip
        return Rig(version, nodes, -start_s, costs or HostCosts(), slurmds, conf)

    return make
