"""A control plane with hand-made kubelets: pods run a second after they are bound, and end half a second after TERM."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.engine.random_streams import RandomStreams
from slurmtwin.models.api_server.objects import (
    Condition,
    Deployment,
    Meta,
    Node,
    NodeStatus,
    Pod,
    PodSpec,
    PodTemplate,
    StatefulSet,
    Toleration,
)
from slurmtwin.models.api_server.server import ApiServer
from slurmtwin.models.controllers.assemble import ControlPlane, control_plane
from slurmtwin.models.controllers.defaults import ControlPlaneDefaults

sys.path.insert(0, str(Path(__file__).parent))  # tests may import the support module that lies beside them
START_NS = SECOND
END_NS = SECOND // 2


class HandKubelet:
    """One node: runs what is bound to it, hears nothing while silent."""

    def __init__(self, server: ApiServer, name: str) -> None:
        self.server, self.name = server, name
        self.silent = False
        ready = {"Ready": Condition("True", server.env.now_ns)}
        status = NodeStatus(conditions=ready, milli_cpu=4000, memory=8 << 30)
        server.create(Node(meta=Meta(name=name, labels={"kubernetes.io/hostname": name}), status=status))
        self.watch = server.watch(Pod, self, node=name)

    def happened(self, verb: str, item: Pod) -> None:  # type: ignore[override]
        env = self.server.env
        if verb == "DELETED":
            return
        if item.meta.deleting:
            env.call_in(END_NS, self._gone, item)
        elif verb == "ADDED":
            env.call_in(START_NS, self._run, item)

    def broken(self) -> None:
        raise AssertionError

    def _run(self, pod: Pod) -> None:
        found = self.server.find(Pod, pod.meta.key)
        if found is None or found.meta.uid != pod.meta.uid or self.silent or found.meta.deleting:
            return
        ready = {**found.status.conditions, "Ready": Condition("True", self.server.env.now_ns)}
        status = replace(found.status, phase="Running", conditions=ready)
        self.server.patch(Pod, pod.meta.key, lambda p: replace(p, status=status))

    def _gone(self, pod: Pod) -> None:
        found = self.server.find(Pod, pod.meta.key)
        if found is not None and found.meta.uid == pod.meta.uid and not self.silent:
            self.server.delete(Pod, pod.meta.key, grace_ns=0)

    def fall_silent(self, last_ns: int | None = None) -> None:
        """The machine is frozen now; its last renewal was at last_ns (now)."""
        self.silent = True
        self.watch.hold()
        self.server.heartbeats.cease(self.name, self.server.env.now_ns if last_ns is None else last_ns)

    def come_back(self) -> None:
        """It renews its lease and says that it is ready, then works off what it missed."""
        self.silent = False
        self.server.heartbeats.resume(self.name)
        ready = Condition("True", self.server.env.now_ns)
        self.server.patch(
            Node, self.name,
            lambda n: replace(n, status=replace(n.status, conditions={**n.status.conditions, "Ready": ready})),
        )  # fmt: skip
        self.watch.release()

    def end(self, pod_key: str, phase: str) -> None:
        """A pod's containers are over for good."""
        self.server.patch(Pod, pod_key, lambda p: replace(p, status=replace(p.status, phase=phase, conditions={})))


class Cluster:
    """The control plane, its hand-made kubelets, and a log of changes."""

    def __init__(self, nodes: int, defaults: ControlPlaneDefaults | None = None) -> None:
        self.env = Environment()
        self.server = ApiServer(self.env, lambda: 10 * MS)
        self.plane: ControlPlane = control_plane(
            self.env, self.server, defaults or ControlPlaneDefaults(), RandomStreams(1), latency=lambda: 4 * MS,
            claim_ns=lambda: 2 * SECOND,
        )  # fmt: skip
        self.log: list[tuple[float, str, str]] = []
        self.server.on_write.append(self._log)
        self.kubelets = {f"n{i}": HandKubelet(self.server, f"n{i}") for i in range(nodes)}
        self.plane.start()

    def _log(self, verb: str, old: object, new: object) -> None:
        if isinstance(new, Pod):
            now = round(self.env.now_ns / SECOND, 3)
            if verb != "MODIFIED":
                self.log.append((now, verb, new.meta.name))
            elif isinstance(old, Pod) and new.meta.deleting and not old.meta.deleting:
                self.log.append((now, "DELETING", new.meta.name))

    def run(self, until_s: float) -> None:
        """On to a time in seconds."""
        self.env.stop_reason = ""
        self.env.call_at(round(until_s * SECOND), lambda _: self.env.stop("there"))
        self.env.run_within(RunBudget())

    def at(self, seconds: float, action: Callable[[], object]) -> None:
        """Do something then."""
        self.env.call_at(round(seconds * SECOND), lambda _: action())

    def pods(self) -> dict[str, Pod]:
        """All pods by name."""
        return {p.meta.name: p for p in self.server.list_of(Pod)}

    def stateful(self, replicas: int, tolerated_s: int | None = None, **more: object) -> StatefulSet:
        """A StatefulSet s of pods s-0, s-1 ..."""
        pods = template() if tolerated_s is None else template(tolerations=tolerating(tolerated_s))
        meta = Meta(name="s", namespace="ns")
        return self.server.create(StatefulSet(meta=meta, replicas=replicas, template=pods, **more))  # type: ignore[arg-type]

    def deployment(self, replicas: int, **more: object) -> Deployment:
        """A Deployment d."""
        return self.server.create(
            Deployment(meta=Meta(name="d", namespace="ns"), replicas=replicas, template=template(), **more)  # type: ignore[arg-type]
        )


def template(**spec: object) -> PodTemplate:
    """A pod template labelled app=x."""
    return PodTemplate(labels={"app": "x"}, spec=PodSpec(**spec))  # type: ignore[arg-type]


def tolerating(seconds: int) -> tuple[Toleration, ...]:
    """Both taints of a lost node, for so long."""
    names = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    return tuple(Toleration(key=name, effect="NoExecute", for_ns=seconds * SECOND) for name in names)


@pytest.fixture
def cluster() -> Callable[..., Cluster]:
    """cluster(nodes, defaults)."""
    return Cluster
