"""Budgets and evictions; endpoints; network volumes on one node at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slurmtwin.contract.clock import MINUTE, SECOND
from slurmtwin.models.api_server.errors import TooManyRequestsError
from slurmtwin.models.api_server.objects import (
    ClaimTemplate,
    DisruptionBudget,
    Endpoints,
    Meta,
    Node,
    Pod,
    Service,
    StatefulSet,
    VolumeAttachment,
)
from slurmtwin.models.controllers.attach_detach import AttachDetach
from slurmtwin.models.controllers.claims import Provisioner
from slurmtwin.models.controllers.disruption import evict

Make = Callable[..., Any]


def budget(c: Any, **more: Any) -> DisruptionBudget:
    c.server.create(DisruptionBudget(meta=Meta(name="b", namespace="ns"), selector={"app": "x"}, **more))
    c.run(c.env.now_ns / SECOND + 2)
    return c.server.get(DisruptionBudget, "ns/b")


class TestBudgets:
    @pytest.mark.parametrize(
        ("rule", "allowed"),
        [
            ({"min_available": 3}, 1),
            ({"max_unavailable": 2}, 2),
            ({"min_available": "51%"}, 1),
            ({"max_unavailable": 0}, 0),
        ],
    )
    def test_how_many_may_go(self, cluster: Make, rule: dict[str, Any], allowed: int) -> None:
        """Of four healthy pods; percentages of the controller's scale, rounded up (kubernetes.md 6.21)."""
        c = cluster(2)
        c.stateful(4, parallel=True)
        c.run(10)
        assert budget(c, **rule).allowed == allowed

    def test_the_second_eviction_waits_until_the_first_pod_is_back(self, cluster: Make) -> None:
        """429, then granted."""
        c = cluster(2)
        c.stateful(2, parallel=True)
        c.run(10)
        budget(c, max_unavailable=1)
        evict(c.server, "ns/s-0")
        with pytest.raises(TooManyRequestsError):
            evict(c.server, "ns/s-1")
        c.run(30)
        evict(c.server, "ns/s-1")
        assert c.pods()["s-1"].meta.deleting

    def test_pending_pods_ignore_it(self, cluster: Make) -> None:
        """They disturb nobody."""
        c = cluster(2)
        c.stateful(1)
        c.run(10)
        budget(c, max_unavailable=0)
        pod = c.pods()["s-0"]
        c.server.create(
            replace(pod, meta=Meta(name="p", namespace="ns", labels={"app": "x"}), status=type(pod.status)())
        )
        evict(c.server, "ns/p")
        with pytest.raises(TooManyRequestsError):
            evict(c.server, "ns/s-0")

    def test_the_loss_of_a_node_asks_no_budget(self, cluster: Make) -> None:
        """Taint eviction deletes all the same."""
        c = cluster(3)
        c.stateful(1, tolerated_s=10)
        c.run(10)
        budget(c, max_unavailable=0)
        c.at(20, c.kubelets[c.pods()["s-0"].spec.node_name].fall_silent)
        c.run(120)
        assert c.pods()["s-0"].meta.deleting


def test_a_terminating_pod_leaves_its_service_at_once(cluster: Make) -> None:
    """Unless the Service publishes what is not ready (kubernetes.md 3.11)."""
    c = cluster(1)
    for name, publish in (("strict", False), ("loose", True)):
        service = Service(meta=Meta(name=name, namespace="ns"), selector={"app": "x"}, publish_not_ready=publish)
        c.server.create(service)
    c.stateful(1)
    c.server.patch(StatefulSet, "ns/s", lambda s: s)
    c.run(5)
    c.server.patch(Pod, "ns/s-0", lambda p: replace(p, status=replace(p.status, ip="10.0.0.1")))
    c.run(8)
    c.kubelets["n0"].fall_silent()
    c.server.delete(Pod, "ns/s-0")
    c.run(12)
    seen = {e.meta.name: dict(e.addresses) for e in c.server.list_of(Endpoints)}
    assert seen == {"strict": {}, "loose": {"s-0": "10.0.0.1"}}


class TestNetworkVolumes:
    def made(self, cluster: Make) -> Any:
        """A StatefulSet of one pod with a network volume, on a node that fell silent at 60 s with the volume in use."""
        c = cluster(3)
        controllers = c.plane.controllers
        next(x for x in controllers if isinstance(x, Provisioner))._attachable = frozenset({""})
        c.stateful(1, tolerated_s=10, claims=(ClaimTemplate(name="state"),))
        c.run(20)
        name = c.pods()["s-0"].spec.node_name
        volume = c.server.list_of(VolumeAttachment)[0].volume
        c.server.patch(Node, name, lambda n: replace(n, status=replace(n.status, volumes_in_use=(volume,))))
        c.at(60, c.kubelets[name].fall_silent)
        assert any(isinstance(x, AttachDetach) for x in controllers)
        return c

    def test_a_volume_is_attached_where_its_pod_goes(self, cluster: Make) -> None:
        """One attachment, on that node."""
        c = self.made(cluster)
        [attachment] = c.server.list_of(VolumeAttachment)
        assert attachment.node == c.pods()["s-0"].spec.node_name

    def test_it_is_torn_off_six_minutes_after_the_pod_is_gone(self, cluster: Make) -> None:
        """Forced deletion at 200 s: the new pod's volume follows at 200 + 360 s (kubernetes.md 4.21)."""
        c = self.made(cluster)
        old = c.pods()["s-0"].spec.node_name
        c.at(200, lambda: c.server.delete(Pod, "ns/s-0", grace_ns=0))
        c.run(500)
        assert c.pods()["s-0"].spec.node_name != old
        assert [a.node for a in c.server.list_of(VolumeAttachment)] == [old]
        moved: list[float] = []
        c.server.on_write.append(
            lambda verb, _, new: (
                moved.append(c.env.now_ns / SECOND) if isinstance(new, VolumeAttachment) and verb == "ADDED" else None
            )
        )
        c.run(700)
        assert len(moved) == 1
        assert 200 + 6 * MINUTE // SECOND <= moved[0] <= 200 + 6 * MINUTE // SECOND + 1
