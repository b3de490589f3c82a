"""Many machines whose pods come bound, one pod per job: `python sim/tests/bench/pod_cluster.py [PODS] [NODES]`.

As slurm-bridge leaves them to Kubernetes: a pod is created with its node, its container runs 20 s, and it is deleted
when it has succeeded. API server, watches, kubelets and container runtimes are the twin's own, rows of the collector
included, Event objects not; Slurm's own part (bench of jobs) and the operator's are not in it. Prints per second of CPU
time the states that pods pass (created and bound, running, ended, deleted) and the facts that are told of them.
"""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from slurmtwin.contract.clock import MS, SECOND
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
from slurmtwin.models.kubelet.program import Service

STATES = 4
"""Of a pod's life: created (and bound), running, ended, deleted."""
FACTS = 8
"""Of the same: created, scheduled, container started, ready, container ended, unready, ended, deleted."""
EVERY_NS = 5 * MS
GC_THRESHOLDS = (100_000, 50, 50)
"""Above those of worlds/twin.py: here the collector of garbage is no part of what is measured."""


@dataclass(frozen=True, slots=True)
class PodRun:
    """What a run came to: CPU seconds, changes that the server stored, events of the engine, rows and their hash."""

    pods: int
    nodes: int
    cpu_s: float
    writes: int
    engine_events: int
    rows: int
    event_hash: str
    left: int
    states: int = STATES

    @property
    def facts_per_s(self) -> float:
        """Facts told of pods per second of CPU time."""
        return FACTS * self.pods / self.cpu_s

    @property
    def states_per_s(self) -> float:
        """Pod states reached per second of CPU time."""
        return self.states * self.pods / self.cpu_s


def run_pods(
    pods: int, nodes: int = 1000, every_ns: int = EVERY_NS, told: Callable[[int, EventSink], object] | None = None
) -> PodRun:
    """One pod each 5 ms, in turn over the nodes, until all are gone; `told` hears the number of each beforehand."""
    env = Environment()
    server = ApiServer(env, lambda: 10 * MS)
    sink = EventSink("pods", "twin")
    Collector(env, server, sink, lambda: 15 * MS)
    machines(env, server, nodes)
    client = Client(server, env, lambda: 5 * MS)

    def written(verb: str, _old: object, new: object) -> None:
        if verb == "MODIFIED" and type(new) is Pod and new.finished and not new.meta.deleting:
            client.delete(Pod, new.meta.key)

    server.on_write.append(written)
    containers = (Container(name="c", milli_cpu=1000, memory=1 << 30),)

    def create(number: int) -> None:
        if told is not None:
            told(number, sink)
        spec = PodSpec(node_name=f"n{number % nodes}", containers=containers, restart_policy="Never")
        client.create(Pod(meta=Meta(name=f"p{number}", namespace="d"), spec=spec))
        if number + 1 < pods:
            env.call_in(every_ns, create, number + 1)

    env.call_at(10 * SECOND, create, 0)
    cpu_s, event_hash = timed(env, sink)
    left = len(server.list_of(Pod))
    return PodRun(pods, nodes, cpu_s, server.writes, env.event_count, sink.count, event_hash, left)


def timed(env: Environment, sink: EventSink) -> tuple[float, str]:
    """(CPU seconds, event hash) of the run to its end, with the collector of garbage rarely at work (GC_THRESHOLDS)."""
    thresholds = gc.get_threshold()
    gc.set_threshold(*GC_THRESHOLDS)
    gc.freeze()
    began = time.process_time()
    env.run_within(RunBudget())
    event_hash = sink.event_hash
    cpu_s = time.process_time() - began
    gc.unfreeze()
    gc.set_threshold(*thresholds)
    return cpu_s, event_hash


def machines(env: Environment, server: ApiServer, nodes: int, run_ns: int = 20 * SECOND) -> None:
    """Nodes n0, n1 ... whose containers run so long."""
    random = Random(1)
    capacity = NodeCapacity(milli_cpu=64_000, memory=256 << 30, pods=1000)
    settings = KubeletSettings(
        defaults=kubelet_defaults("1.34"), capacity=capacity, latency=lambda: 10 * MS, record_events=False
    )

    def draw(low_ns: int, high_ns: int) -> int:
        return low_ns + int(random.random() * (high_ns - low_ns))

    for place in range(nodes):
        runtime = ContainerRuntime(
            env, f"n{place}", lambda _pod, _container: Service(run_ns=run_ns), StartCosts(),
            partial("{1}.{0}".format, place),
        )  # fmt: skip
        status = NodeStatus(milli_cpu=capacity.milli_cpu, memory=capacity.memory)
        Machine(env, server, runtime, Node(meta=Meta(name=f"n{place}"), status=status), settings, draw).start_kubelet()


def sizes(*usual: int) -> list[int]:
    """The numbers of the command line, and the usual ones for those that are not given."""
    given = [int(word) for word in sys.argv[1:]]
    return given + list(usual[len(given) :])


def main(pods: int, nodes: int) -> int:
    """The best of three."""
    runs = [run_pods(pods, nodes) for _ in range(3)]
    best = min(runs, key=lambda run: run.cpu_s)
    print(  # noqa: T201
        f"{pods} pods on {nodes} nodes: {best.cpu_s:.2f} s of CPU, {1e6 * best.cpu_s / pods:.0f} us a pod, "
        f"{best.states_per_s:,.0f} states/s ({', '.join(f'{run.states_per_s:,.0f}' for run in runs)}), "
        f"{best.facts_per_s:,.0f} facts/s, {best.writes / best.cpu_s:,.0f} stored changes/s, "
        f"{best.rows} rows, {best.engine_events} events, {best.event_hash}"
    )
    return best.left


if __name__ == "__main__":
    sys.exit(main(*sizes(20_000, 1000)))
