"""A lost node: when it is noticed, when its pods go, and what each owner does then (kubernetes.md 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slurmtwin.contract.clock import MINUTE, SECOND
from slurmtwin.models.api_server.objects import Meta, Node, NodeSpec, Pod, Taint
from slurmtwin.models.controllers.defaults import defaults_of
from slurmtwin.models.controllers.node_lifecycle import OUT_OF_SERVICE, zone_state

Make = Callable[..., Any]


def noticed_s(c: Any, node: str = "n0") -> float:
    """When its Ready condition became Unknown."""
    condition = c.server.get(Node, node).status.conditions["Ready"]
    assert condition.status == "Unknown"
    return condition.since_ns / SECOND


@pytest.mark.parametrize(("version", "grace"), [("1.31", 40), ("1.34", 50)])
@pytest.mark.parametrize("silent_at", [100.0, 103.3])
def test_a_silent_node_is_unknown_at_the_first_look_after_the_grace(
    cluster: Make, version: str, grace: int, silent_at: float
) -> None:
    """The loop looks each 5 s: it sees the last renewal at one look, and gives up at the look a grace after it."""
    c = cluster(3, defaults_of(version))
    c.at(silent_at, c.kubelets["n0"].fall_silent)
    c.run(silent_at + grace + 11)
    first_look = c.plane.lifecycle.tick_after(round(silent_at * SECOND))
    assert noticed_s(c) * SECOND == first_look + grace * SECOND
    assert grace <= noticed_s(c) - silent_at <= grace + 5


def test_its_pods_are_not_ready_at_once_and_tainted_soon_after(cluster: Make) -> None:
    """NoSchedule by the change of the condition, NoExecute within 0.1 s."""
    c = cluster(3)
    c.stateful(1)
    c.run(50)
    name = c.pods()["s-0"].spec.node_name
    c.at(60, c.kubelets[name].fall_silent)
    c.run(130)
    node = c.server.get(Node, name)
    assert {t.effect for t in node.spec.taints} == {"NoSchedule", "NoExecute"}
    assert not c.pods()["s-0"].ready
    added = next(t for t in node.spec.taints if t.effect == "NoExecute").since_ns / SECOND
    assert 0 <= added - noticed_s(c, name) < 0.2


def test_a_taint_of_a_node_that_changed_since_it_was_read_is_written_100_to_200_ms_later(cluster: Make) -> None:
    """The write asks for the version that was read (PatchNodeTaints()): nobody's taint is lost."""

    def tainted_s(disturbed: bool) -> float:
        c = cluster(3)
        name, at_s = "n0", []
        c.at(60, c.kubelets[name].fall_silent)
        read = c.server.get

        def touched(kind: type, key: str) -> Any:
            """Each first look at the node that bears the NoSchedule taint alone is followed by a change of the node."""
            found = read(kind, key)
            if kind is Node and [t.effect for t in found.spec.taints] == ["NoSchedule"] and not at_s and disturbed:
                at_s.append(c.env.now_ns / SECOND)
                label = {"touched": "yes"}
                c.server.patch(Node, name, lambda n: replace(n, meta=replace(n.meta, labels=n.meta.labels | label)))
            return found

        c.server.get = touched
        written: list[float] = []

        def note(verb: str, old: Any, new: Any) -> None:
            del verb, old
            if isinstance(new, Node) and any(t.effect == "NoExecute" for t in new.spec.taints):
                written.append(c.env.now_ns / SECOND)

        c.server.on_write.append(note)
        c.run(130)
        assert {t.effect for t in read(Node, name).spec.taints} == {"NoSchedule", "NoExecute"}
        return written[0]

    assert 0.1 < tainted_s(disturbed=True) - tainted_s(disturbed=False) < 0.22


def test_a_statefulset_waits_for_ever_a_deployment_moves(cluster: Make) -> None:
    """Deletion 300 s after the taint; the ordinal stays taken, the ReplicaSet counts the terminating pod no more."""
    c = cluster(3)
    c.stateful(1)
    c.deployment(1)
    c.run(50)
    for name in {p.spec.node_name for p in c.pods().values()}:
        c.at(60, c.kubelets[name].fall_silent)
    c.run(1000)
    marks = [(t, verb, name[0]) for t, verb, name in c.log if t > 60]
    deleted = [t for t, verb, _ in marks if verb == "DELETING"]
    assert all(350 <= t - 60 <= 366 for t in deleted)
    assert [(verb, who) for _, verb, who in marks if verb == "ADDED"] == [("ADDED", "d")]
    assert c.pods()["s-0"].meta.deleting


def test_a_node_back_in_time_keeps_its_pods(cluster: Make) -> None:
    """Back 200 s after the taint: the deletion is cancelled."""
    c = cluster(3)
    c.stateful(1)
    c.run(50)
    name = c.pods()["s-0"].spec.node_name
    c.at(60, c.kubelets[name].fall_silent)
    c.at(320, c.kubelets[name].come_back)
    c.run(1000)
    assert [verb for t, verb, _ in c.log if t > 60] == []
    assert c.server.get(Node, name).spec.taints == ()


def test_a_node_back_too_late_ends_the_pod_and_the_set_makes_it_anew(cluster: Make) -> None:
    """The kubelet hears of the deletion when it thaws."""
    c = cluster(3)
    c.stateful(1)
    c.run(50)
    name = c.pods()["s-0"].spec.node_name
    c.at(60, c.kubelets[name].fall_silent)
    c.at(700, c.kubelets[name].come_back)
    c.run(1000)
    late = [(verb, t) for t, verb, _ in c.log if t >= 700]
    assert [verb for verb, _ in late] == ["DELETED", "ADDED"]
    assert c.pods()["s-0"].ready


def test_a_pod_leaves_when_its_own_toleration_ends(cluster: Make) -> None:
    """tolerationSeconds 10."""
    c = cluster(3)
    c.stateful(1, tolerated_s=10)
    c.run(50)
    name = c.pods()["s-0"].spec.node_name
    c.at(60, c.kubelets[name].fall_silent)
    c.run(200)
    [deleted] = [t for t, verb, _ in c.log if verb == "DELETING" and t > 60]
    assert 10 <= deleted - noticed_s(c, name) <= 10.3


def test_all_workers_lost_of_a_small_cluster_nobody_is_evicted(cluster: Make) -> None:
    """3 of 4 nodes are partial disruption, and the rate of a small zone is then 0 (kubernetes.md 4.7)."""
    c = cluster(4)
    c.deployment(3)
    c.run(50)
    for name in ("n0", "n1", "n2"):
        c.at(60, c.kubelets[name].fall_silent)
    c.run(1500)
    tainted = [n for n in c.server.list_of(Node) if any(t.effect == "NoExecute" for t in n.spec.taints)]
    assert [verb for t, verb, _ in c.log if t > 60] == []
    assert len(tainted) <= 1  # the first may get its taint before the zone's state is known


def test_nodes_of_a_zone_are_tainted_ten_seconds_apart(cluster: Make) -> None:
    """0.1 nodes a second, burst 1."""
    c = cluster(8)
    for name in ("n0", "n1"):
        c.at(60, c.kubelets[name].fall_silent)
    c.run(200)
    times = sorted(
        next(t.since_ns for t in c.server.get(Node, name).spec.taints if t.effect == "NoExecute")
        for name in ("n0", "n1")
    )
    assert 10 * SECOND <= times[1] - times[0] <= 10 * SECOND + SECOND // 5


def test_when_every_node_is_lost_taints_are_taken_off(cluster: Make) -> None:
    """Full disruption of all zones: the controller rather blames itself (handleDisruption())."""
    c = cluster(2)
    c.deployment(2)
    c.run(50)
    for kubelet in c.kubelets.values():
        c.at(60, kubelet.fall_silent)
    c.run(1000)
    assert not any(t.effect == "NoExecute" for n in c.server.list_of(Node) for t in n.spec.taints)
    assert [verb for t, verb, _ in c.log if t > 60] == []


@pytest.mark.parametrize(
    ("down", "of", "state"), [(0, 4, "normal"), (2, 4, "normal"), (3, 4, "partial"), (3, 6, "normal"), (4, 4, "full")]
)
def test_state_of_a_zone(down: int, of: int, state: str) -> None:
    """More than two and at least 55 %."""
    assert zone_state(["Unknown"] * down + ["True"] * (of - down), (55, 100)) == state


def test_a_deleted_node_object_frees_its_pods_after_the_quarantine(cluster: Make) -> None:
    """40 s quarantine on a 20 s loop: the StatefulSet's pod comes back elsewhere (kubernetes.md 4.24)."""
    c = cluster(3)
    c.stateful(1)
    c.run(50)
    name = c.pods()["s-0"].spec.node_name
    c.at(60, c.kubelets[name].fall_silent)
    c.at(100, lambda: c.server.delete(Node, name))
    c.run(300)
    gone = next(t for t, verb, _ in c.log if verb == "DELETED")
    assert 140 <= gone <= 180.1
    assert c.pods()["s-0"].spec.node_name != name
    assert c.pods()["s-0"].ready


def test_the_out_of_service_taint_frees_terminating_pods_at_the_next_round(cluster: Make) -> None:
    """kubernetes.md 4.20: within 20 s."""
    c = cluster(3)
    c.stateful(1)
    c.run(50)
    name = c.pods()["s-0"].spec.node_name
    c.at(60, c.kubelets[name].fall_silent)
    mark = Taint(key=OUT_OF_SERVICE, effect="NoExecute")
    c.at(
        500,
        lambda: c.server.patch(Node, name, lambda n: replace(n, spec=replace(n.spec, taints=(*n.spec.taints, mark)))),
    )
    c.run(600)
    gone = next(t for t, verb, _ in c.log if verb == "DELETED")
    assert 500 <= gone <= 520.1


def test_a_pod_without_toleration_of_a_taint_is_deleted_at_once(cluster: Make) -> None:
    """And one that tolerates it for ever stays."""
    from slurmtwin.models.api_server.objects import PodSpec, Toleration

    c = cluster(1)
    for name, own in (("a", ()), ("b", (Toleration(key="maintenance"),))):
        c.server.create(Pod(meta=Meta(name=name, namespace="ns"), spec=PodSpec(node_name="n0", tolerations=own)))
    spec = NodeSpec(taints=(Taint(key="maintenance", effect="NoExecute"),))
    c.at(10, lambda: c.server.patch(Node, "n0", lambda n: replace(n, spec=spec)))
    c.run(20)
    assert list(c.pods()) == ["b"]


def test_default_tolerations_are_added_where_a_pod_says_nothing(cluster: Make) -> None:
    """300 s for both taints (kubernetes.md 4.5)."""
    c = cluster(1)
    pod = c.server.create(Pod(meta=Meta(name="a", namespace="ns")))
    assert [(t.key.rpartition("/")[2], t.for_ns) for t in pod.spec.tolerations] == [
        ("not-ready", 5 * MINUTE), ("unreachable", 5 * MINUTE),
    ]  # fmt: skip
