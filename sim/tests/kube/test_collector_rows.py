"""The rows of pods, containers and nodes that the twin writes: those of the collector on a real cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.collector import Collector, container_started
from slurmtwin.models.api_server.objects import Condition, ContainerStatus, Meta, Node, NodeSpec, Pod, PodSpec, Taint
from slurmtwin.models.api_server.server import ApiServer


def started(pod: Pod, at_ns: int) -> Pod:
    status = ContainerStatus(name="slurmd", container_id="c1", running_ns=at_ns)
    return replace(pod, status=replace(pod.status, phase="Running", containers=(status,)))


def play(sink: EventSink) -> None:
    """A pod is made at 0, its container starts at 1 s, the server learns of it at 1.3 s; a node is tainted at 2 s."""
    env = Environment()
    server = ApiServer(env)
    Collector(env, server, sink, lambda: 200 * MS)
    pod = server.create(
        Pod(meta=Meta(name="w-0", namespace="ns", labels={"app": "slurmd"}), spec=PodSpec(node_name="k"))
    )
    server.create(Node(meta=Meta(name="k")))
    env.call_at(SECOND, lambda _: server.stamp(container_started(pod, "slurmd", 0)))
    env.call_at(1300 * MS, lambda _: server.patch(Pod, "ns/w-0", lambda p: started(p, SECOND)))
    spec = NodeSpec(taints=(Taint(key="t", effect="NoExecute"),))
    env.call_at(2 * SECOND, lambda _: server.patch(Node, "k", lambda n: replace(n, spec=spec)))
    unknown = {"Ready": Condition("Unknown", 2 * SECOND)}
    env.call_at(
        2 * SECOND,
        lambda _: server.patch(Node, "k", lambda n: replace(n, status=replace(n.status, conditions=unknown))),
    )
    env.call_at(3 * SECOND, lambda _: server.delete(Pod, "ns/w-0", grace_ns=0))
    env.run_within(RunBudget())
    sink.close()


def test_a_fact_has_the_objects_own_row_and_a_receipt_that_names_it() -> None:
    """Times, actors, causes and details by hand; a taint and a deletion have the receipt alone."""
    sink = EventSink("r", "twin", keep=True)
    play(sink)
    assert sink.kept is not None
    rows = [(e.t_ns // MS, e.kind, e.actor, e.cause_seq, e.node) for e in sink.kept]
    assert rows == [
        (0, Kind.POD_CREATED, "apiserver", None, "k"),
        (0, Kind.POD_SCHEDULED, "apiserver", None, "k"),
        (0, Kind.KUBE_NODE_CREATED, "apiserver", None, "k"),
        (200, Kind.POD_CREATED, "collector", 0, "k"),
        (200, Kind.POD_SCHEDULED, "collector", 1, "k"),
        (200, Kind.KUBE_NODE_CREATED, "collector", 2, "k"),
        (1000, Kind.CONTAINER_STARTED, "apiserver", None, "k"),
        (1500, Kind.CONTAINER_STARTED, "collector", 6, "k"),
        (2000, Kind.KUBE_NODE_UNREADY, "apiserver", None, "k"),
        (2200, Kind.KUBE_NODE_TAINTED, "collector", None, "k"),
        (2200, Kind.KUBE_NODE_UNREADY, "collector", 8, "k"),
        (3000, Kind.POD_DELETING, "apiserver", None, "k"),
        (3200, Kind.POD_DELETING, "collector", 11, "k"),
        (3200, Kind.POD_DELETED, "collector", None, "k"),
    ]
    said = json.loads(sink.kept[7].detail or "")
    assert said == {"app": "slurmd", "container": "slurmd", "pod": "ns/w-0"}
    assert (sink.kept[7].pod_uid, sink.kept[7].value, sink.kept[7].unit) == ("w-0.1", 0, "restart")


@pytest.mark.parametrize("narrow", [0, 1])
def test_rows_of_pods_hash_alike_in_memory_and_in_a_file(tmp_path: Path, narrow: int) -> None:
    """Also where rows of Slurm, which have no pod, stand among them."""
    import pyarrow.parquet as pq

    in_memory, in_file = EventSink("r", "twin", keep=True), EventSink("r", "twin", tmp_path / "events.parquet")
    for sink in (in_memory, in_file):
        for _ in range(narrow):
            sink.emit(-1, Kind.JOB_SUBMITTED, "slurmctld", 1)
        play(sink)
    assert in_memory.event_hash == in_file.event_hash
    assert pq.read_table(tmp_path / "events.parquet").column("pod_uid").to_pylist()[-1] == "w-0.1"


def test_equal_events_are_counted_up() -> None:
    """client.event() twice: one row with count 1, one with count 2, each with its receipt."""
    env = Environment()
    server, sink = ApiServer(env), EventSink("r", "twin", keep=True)
    Collector(env, server, sink)
    client = Client(server, env)
    for _ in range(2):
        client.event("Pod/w-0", "Killing", "Stopping container slurmd")
    env.run_within(RunBudget())
    sink.close()
    rows = [(e.actor, json.loads(e.detail or "")["count"]) for e in sink.kept or ()]
    assert sorted(rows) == [("apiserver", 1), ("apiserver", 2), ("collector", 1), ("collector", 2)]
