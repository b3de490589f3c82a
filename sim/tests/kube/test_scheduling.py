"""kube-scheduler: where pods may go, where they go, and when those that have no place are tried again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.api_server.objects import (
    Container,
    Meta,
    Node,
    NodeSpec,
    NodeTerm,
    Pod,
    PodAntiAffinity,
    PodSpec,
    Spread,
    Taint,
    Toleration,
)
from slurmtwin.models.controllers.defaults import defaults_of
from slurmtwin.models.kube_scheduler.scheduler import nodes_to_find

Make = Callable[..., Any]


def submit(c: Any, name: str, labels: dict[str, str] | None = None, **spec: Any) -> None:
    c.server.create(Pod(meta=Meta(name=name, namespace="ns", labels=labels or {}), spec=PodSpec(**spec)))


def place(c: Any, name: str) -> str:
    return str(c.pods()[name].spec.node_name)


def big(milli_cpu: int) -> tuple[Container, ...]:
    return (Container(name="c", milli_cpu=milli_cpu),)


@pytest.mark.parametrize(("nodes", "enough"), [(99, 99), (100, 100), (500, 230), (1000, 420), (5000, 500)])
def test_how_many_nodes_are_looked_at(nodes: int, enough: int) -> None:
    """kubernetes.md 5.6."""
    assert nodes_to_find(nodes) == enough


def test_pods_spread_over_the_emptiest_nodes(cluster: Make) -> None:
    """LeastAllocated: three pods of 1 CPU on three nodes."""
    c = cluster(3)
    for i in range(3):
        submit(c, f"p{i}", containers=big(1000))
    c.run(5)
    assert len({place(c, f"p{i}") for i in range(3)}) == 3


@pytest.mark.parametrize("known", [False, True], ids=["the rule comes later", "the rule was known before"])
def test_a_rule_reads_labels_that_changed_while_nobody_named_them(cluster: Make, known: bool) -> None:
    """The scheduler does not hear of a bound pod's labels, but of those that a rule names it knows what they are."""
    c = cluster(2)
    rule = PodAntiAffinity(labels={"busy": "true"})
    submit(c, "here", containers=big(100))
    if known:
        c.at(1, lambda: submit(c, "early", anti_affinity=(rule,), containers=big(100)))
        c.at(3, lambda: c.kubelets[place(c, "early")].end("ns/early", "Succeeded"))
    busy = {"busy": "true"}
    c.at(5, lambda: c.server.patch(Pod, "ns/here", lambda p: replace(p, meta=replace(p.meta, labels=busy))))
    c.at(6, lambda: submit(c, "full", node_selector={"kubernetes.io/hostname": other(c)}, containers=big(3500)))
    c.at(8, lambda: submit(c, "guard", anti_affinity=(rule,), containers=big(100)))
    c.run(12)
    assert place(c, "guard") == other(c)


def other(c: Any) -> str:
    return "n0" if place(c, "here") == "n1" else "n1"


def test_a_pod_that_fits_nowhere_waits_for_room(cluster: Make) -> None:
    """4 CPUs each: the second pod comes when the first is gone."""
    c = cluster(1)
    submit(c, "a", containers=big(4000))
    c.at(2, lambda: submit(c, "b", containers=big(4000)))
    c.at(20, lambda: c.server.delete(Pod, "ns/a"))
    c.run(19)
    assert place(c, "b") == ""
    assert c.pods()["b"].status.conditions["PodScheduled"].status == "False"
    c.run(25)
    assert place(c, "b") == "n0"


def test_higher_priority_goes_first(cluster: Make) -> None:
    """Both wait for the same room."""
    c = cluster(1)
    submit(c, "a", containers=big(4000))
    c.run(2)
    for name, priority in (("low", 1), ("high", 2)):
        submit(c, name, containers=big(4000), priority=priority)
    c.at(20, lambda: c.server.delete(Pod, "ns/a"))
    c.run(40)
    assert (place(c, "low"), place(c, "high")) == ("", "n0")


def test_a_taint_keeps_out_who_does_not_tolerate_it(cluster: Make) -> None:
    """NoSchedule."""
    c = cluster(2)
    spec = NodeSpec(taints=(Taint(key="gpu", effect="NoSchedule"),))
    c.server.patch(Node, "n0", lambda n: replace(n, spec=spec))
    c.run(1)
    for i in range(3):
        submit(c, f"p{i}")
    submit(c, "q", tolerations=(Toleration(key="gpu"),), node_selector={"kubernetes.io/hostname": "n0"})
    c.run(5)
    assert {place(c, f"p{i}") for i in range(3)} == {"n1"}
    assert place(c, "q") == "n0"


def test_required_affinity_binds_and_preferred_affinity_attracts(cluster: Make) -> None:
    """A preferred term outweighs emptiness."""
    c = cluster(3)
    term = NodeTerm(expressions=(("kubernetes.io/hostname", "In", ("n1",)),), weight=100)
    submit(c, "full", containers=big(3000), node_selector={"kubernetes.io/hostname": "n1"})
    c.run(2)
    submit(c, "must", affinity=(NodeTerm(expressions=(("kubernetes.io/hostname", "In", ("n2",)),)),))
    submit(c, "likes", preferred=(term,))
    c.run(5)
    assert (place(c, "must"), place(c, "likes")) == ("n2", "n1")


def test_anti_affinity_keeps_equal_pods_apart(cluster: Make) -> None:
    """The third of two nodes waits."""
    c = cluster(2)
    labels = {"app": "ctld"}
    for i in range(3):
        submit(c, f"p{i}", labels, anti_affinity=(PodAntiAffinity(labels=labels),))
    c.run(5)
    assert sorted(place(c, f"p{i}") for i in range(3)) == ["", "n0", "n1"]


def test_a_spread_constraint_evens_out(cluster: Make) -> None:
    """maxSkew 1 with DoNotSchedule: 2 and 2."""
    c = cluster(2)
    labels = {"app": "w"}
    for i in range(4):
        submit(c, f"p{i}", labels, spread=(Spread(labels=labels, required=True),))
    c.run(5)
    assert sorted(place(c, f"p{i}") for i in range(4)) == ["n0", "n0", "n1", "n1"]


def test_a_gate_keeps_a_pod_out_of_the_queue(cluster: Make) -> None:
    """schedulingGates (kubernetes.md 5.10)."""
    c = cluster(1)
    submit(c, "p", gates=("slurm",))
    c.at(10, lambda: c.server.patch(Pod, "ns/p", lambda p: replace(p, spec=replace(p.spec, gates=()))))
    c.run(9)
    assert place(c, "p") == ""
    c.run(12)
    assert place(c, "p") == "n0"


def test_back_off_doubles_from_one_to_ten_seconds(cluster: Make) -> None:
    """kubernetes.md 5.2."""
    queue = cluster(1).plane.scheduler.queue
    assert [queue.back_off_ns(k) // SECOND for k in range(1, 7)] == [1, 2, 4, 8, 10, 10]


def test_without_any_event_a_pod_is_tried_again_after_five_minutes(cluster: Make) -> None:
    """The sweep runs each 30 s: 5:00 to 5:30 (kubernetes.md 5.3)."""
    c = cluster(1, defaults_of("1.30"))
    c.run(1)
    submit(c, "p", node_selector={"no": "node"})
    attempts: list[float] = []
    choose = c.plane.scheduler._choose
    c.plane.scheduler._choose = lambda pod: attempts.append(c.env.now_ns / SECOND) or choose(pod)
    c.run(700)
    assert len(attempts) == 3
    assert 300 <= attempts[1] - attempts[0] <= 330


def test_a_pod_that_is_deleted_while_it_waits_is_forgotten(cluster: Make) -> None:
    """Nothing is left in the queue."""
    c = cluster(1)
    submit(c, "p", node_selector={"no": "node"})
    c.at(5, lambda: c.server.delete(Pod, "ns/p"))
    c.run(10)
    assert len(c.plane.scheduler.queue) == 0
