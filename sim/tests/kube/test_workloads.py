"""StatefulSet, ReplicaSet, Deployment, Job, owners: what they make and delete, in which order, and when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.models.api_server.errors import InvalidError
from slurmtwin.models.api_server.objects import (
    Condition,
    Deployment,
    Job,
    Meta,
    Pod,
    PodSpec,
    PodStatus,
    PodTemplate,
    ReplicaSet,
    StatefulSet,
)
from slurmtwin.models.controllers.deployment import bounds, sizes
from slurmtwin.models.controllers.replica_set import victims

Make = Callable[..., Any]
BAD = PodTemplate(labels={"app": "x"}, spec=PodSpec(node_selector={"no": "such-node"}))
NEWER = PodTemplate(labels={"app": "x", "v": "2"}, spec=PodSpec())


def verbs(c: Any, after_s: float = 0) -> list[tuple[str, str]]:
    return [(verb, name) for t, verb, name in c.log if t >= after_s]


@pytest.mark.parametrize(
    "made",
    [
        ReplicaSet(meta=Meta(name="r", namespace="ns"), replicas=4, template=PodTemplate()),
        Job(meta=Meta(name="j", namespace="ns"), completions=4, parallelism=4, template=PodTemplate()),
    ],
    ids=["ReplicaSet", "Job"],
)
def test_pods_whose_creation_was_refused_are_asked_for_again(cluster: Make, made: ReplicaSet | Job) -> None:
    """Neither the one that failed nor those that were then not sent are waited for (CreationObserved())."""
    c, left = cluster(1), [True, True, False, True]

    def admit(pod: Pod) -> Pod:
        if left and left.pop():
            raise InvalidError("no")
        return pod

    c.server.admissions.append((Pod, admit))
    c.server.create(made)
    c.run(30)
    assert len(c.pods()) == 4
    assert not left


class TestStatefulSets:
    def test_ordered_pods_come_one_after_the_other_is_ready(self, cluster: Make) -> None:
        """s-1 is made when s-0 is Ready, a second after it was bound."""
        c = cluster(2)
        c.stateful(3)
        c.run(20)
        times = [t for t, verb, _ in c.log if verb == "ADDED"]
        assert [name for _, name in verbs(c)] == ["s-0", "s-1", "s-2"]
        assert all(later - earlier >= 1 for earlier, later in pairwise(times))

    def test_parallel_pods_come_together(self, cluster: Make) -> None:
        """In batches of 1, 2, 4: within a second."""
        c = cluster(2)
        c.stateful(6, parallel=True)
        c.run(20)
        times = [t for t, verb, _ in c.log if verb == "ADDED"]
        assert len(times) == 6
        assert max(times) - min(times) < 0.2

    def test_scale_in_takes_the_highest_first_and_waits_for_each(self, cluster: Make) -> None:
        """From 3 to 1: s-2 is gone before s-1 is deleted."""
        c = cluster(2)
        c.stateful(3)
        c.at(20, lambda: c.server.patch(StatefulSet, "ns/s", lambda s: replace(s, replicas=1)))
        c.run(40)
        assert verbs(c, 20) == [("DELETING", "s-2"), ("DELETED", "s-2"), ("DELETING", "s-1"), ("DELETED", "s-1")]

    def test_a_rolling_update_goes_from_the_highest_and_waits_until_it_is_ready(self, cluster: Make) -> None:
        """One pod at a time."""
        c = cluster(2)
        c.stateful(2)
        c.at(20, lambda: c.server.patch(StatefulSet, "ns/s", lambda s: replace(s, template=NEWER)))
        c.run(60)
        assert verbs(c, 20) == [
            ("DELETING", "s-1"), ("DELETED", "s-1"), ("ADDED", "s-1"),
            ("DELETING", "s-0"), ("DELETED", "s-0"), ("ADDED", "s-0"),
        ]  # fmt: skip

    def test_a_broken_update_stops_at_the_first_pod(self, cluster: Make) -> None:
        """The one that never gets ready holds up the rest (kubernetes.md 6.18)."""
        c = cluster(2)
        c.stateful(3)
        c.at(20, lambda: c.server.patch(StatefulSet, "ns/s", lambda s: replace(s, template=BAD)))
        c.run(600)
        assert verbs(c, 20) == [("DELETING", "s-2"), ("DELETED", "s-2"), ("ADDED", "s-2")]

    def test_on_delete_leaves_pods_alone(self, cluster: Make) -> None:
        """A new template shows only in pods that somebody deletes."""
        c = cluster(2)
        c.stateful(2, on_delete=True)
        c.at(20, lambda: c.server.patch(StatefulSet, "ns/s", lambda s: replace(s, template=NEWER)))
        c.run(60)
        assert verbs(c, 20) == []

    def test_a_failed_pod_is_replaced_under_its_name(self, cluster: Make) -> None:
        """kubernetes.md 6.17."""
        c = cluster(2)
        c.stateful(1)
        c.at(20, lambda: c.kubelets["n0"].end("ns/s-0", "Failed"))
        c.run(60)
        assert [verb for verb, _ in verbs(c, 20)] == ["DELETED", "ADDED"]

    def test_a_claim_binds_where_the_first_pod_goes_and_holds_it_there(self, cluster: Make) -> None:
        """A local volume: the pod comes back to the same node, after the provisioner's two seconds the first time."""
        from slurmtwin.models.api_server.objects import ClaimTemplate

        c = cluster(3)
        c.stateful(1, claims=(ClaimTemplate(name="state"),))
        c.run(20)
        first = c.pods()["s-0"]
        assert first.status.conditions["PodScheduled"].since_ns >= 2 * SECOND
        for _ in range(3):
            c.server.delete(Pod, "ns/s-0", grace_ns=0)
            c.run(c.env.now_ns / SECOND + 20)
            assert c.pods()["s-0"].spec.node_name == first.spec.node_name

    def test_min_ready_holds_up_the_next_pod(self, cluster: Make) -> None:
        """Ready for 10 s before s-1 is made."""
        c = cluster(2)
        c.stateful(2, min_ready_ns=10 * SECOND)
        c.run(60)
        ready = c.pods()["s-0"].status.conditions["Ready"].since_ns / SECOND
        [made] = [t for t, verb, name in c.log if (verb, name) == ("ADDED", "s-1")]
        assert 10 <= made - ready < 10.5


class TestReplicaSets:
    def test_it_makes_and_deletes_until_the_number_fits(self, cluster: Make) -> None:
        """3, then 1."""
        c = cluster(2)
        c.server.create(ReplicaSet(meta=Meta(name="r", namespace="ns"), replicas=3, template=PodTemplate()))
        c.run(10)
        assert len(c.pods()) == 3
        c.server.patch(ReplicaSet, "ns/r", lambda r: replace(r, replicas=1))
        c.run(20)
        assert len(c.pods()) == 1

    def test_a_slow_cache_makes_no_pod_twice(self, cluster: Make) -> None:
        """Expectations: nothing is asked for again before what was asked for is seen."""
        c = cluster(2)
        c.plane.manager.pods.informer.hold()
        c.server.create(ReplicaSet(meta=Meta(name="r", namespace="ns"), replicas=2, template=PodTemplate()))
        for second in range(1, 8):
            c.at(
                second,
                lambda: c.server.patch(ReplicaSet, "ns/r", lambda r: replace(r, min_ready_ns=r.min_ready_ns + 1)),
            )
        c.at(9, c.plane.manager.pods.informer.release)
        c.run(20)
        assert len([1 for verb, _ in verbs(c) if verb == "ADDED"]) == 2

    def test_who_goes_first(self) -> None:
        """Unassigned, pending, not ready, low deletion cost, crowded node, recently ready, restarts, young."""

        def pod(name: str, node: str = "n", phase: str = "Running", ready_s: int | None = 5, cost: str = "0") -> Pod:
            conditions = {} if ready_s is None else {"Ready": Condition("True", ready_s * SECOND)}
            notes = {"controller.kubernetes.io/pod-deletion-cost": cost}
            return Pod(
                meta=Meta(name=name, uid=name, annotations=notes), spec=PodSpec(node_name=node),
                status=PodStatus(phase=phase, conditions=conditions),
            )  # fmt: skip

        pods = [
            pod("old"), pod("young", ready_s=900), pod("cheap", cost="-1"), pod("unready", ready_s=None),
            pod("pending", phase="Pending", ready_s=None), pod("unassigned", node="", phase="Pending", ready_s=None),
        ]  # fmt: skip
        order = [p.meta.name for p in victims(pods, 6, 1000 * SECOND)]
        assert order == ["unassigned", "pending", "unready", "cheap", "young", "old"]


class TestDeployments:
    @pytest.mark.parametrize(("replicas", "surge", "unavailable"), [(4, 1, 1), (3, 1, 0), (10, 3, 2), (1, 1, 0)])
    def test_a_quarter_more_rounded_up_a_quarter_less_rounded_down(
        self, replicas: int, surge: int, unavailable: int
    ) -> None:
        """25 % and 25 % (kubernetes.md 6.15)."""
        assert bounds(Deployment(meta=Meta(name="d"), replicas=replicas)) == (surge, unavailable)

    def test_both_zero_means_one_may_be_unavailable(self) -> None:
        """ResolveFenceposts()."""
        assert bounds(Deployment(meta=Meta(name="d"), replicas=4, max_surge=0, max_unavailable=0)) == (0, 1)

    def test_first_step_of_an_update_of_four(self) -> None:
        """New set 0 of 4, old 4: surge 1 lets one be made."""
        spec = Deployment(meta=Meta(name="d"), replicas=4)
        new, old = (ReplicaSet(meta=Meta(name=n), replicas=r) for n, r in (("new", 0), ("old", 4)))
        old = replace(old, status=replace(old.status, available=4))
        assert sizes(spec, new, [old], 4) == {"new": 1}

    def test_a_rolling_update_never_goes_below_three_of_four(self, cluster: Make) -> None:
        """And ends with four of the new kind."""
        c = cluster(3)
        c.deployment(4)
        c.run(20)
        least = [4]
        c.server.on_write.append(
            lambda *_: least.append(sum(p.ready and not p.meta.deleting for p in c.server.list_of(Pod)))
        )
        c.at(20, lambda: c.server.patch(Deployment, "ns/d", lambda d: replace(d, template=NEWER)))
        c.run(120)
        assert min(least) >= 3
        assert [p.meta.labels.get("v") for p in c.pods().values()] == ["2"] * 4

    def test_a_bad_update_keeps_three_of_four_and_misses_its_deadline(self, cluster: Make) -> None:
        """maxUnavailable 1 (kubernetes.md 6.15): progressDeadlineSeconds 600."""
        c = cluster(3)
        c.deployment(4)
        c.at(20, lambda: c.server.patch(Deployment, "ns/d", lambda d: replace(d, template=BAD)))
        c.run(610)
        assert c.server.get(Deployment, "ns/d").status.progressing == "ReplicaSetUpdated"
        c.run(640)
        assert c.server.get(Deployment, "ns/d").status.progressing == "ProgressDeadlineExceeded"
        assert sum(p.ready for p in c.pods().values()) == 3

    def test_recreate_waits_for_the_last_old_pod(self, cluster: Make) -> None:
        """Never two versions at once."""
        c = cluster(3)
        c.deployment(2, recreate=True)
        c.at(20, lambda: c.server.patch(Deployment, "ns/d", lambda d: replace(d, template=NEWER)))
        c.run(60)
        late = verbs(c, 20)
        assert [verb for verb, _ in late] == ["DELETING"] * 2 + ["DELETED"] * 2 + ["ADDED"] * 2


class TestJobs:
    def job(self, c: Any, **more: Any) -> None:
        c.server.create(Job(meta=Meta(name="j", namespace="ns"), template=PodTemplate(), **more))

    def end_all(self, c: Any, phase: str) -> None:
        for pod in list(c.server.list_of(Pod)):
            if not pod.finished:
                c.kubelets["n0"].end(pod.meta.key, phase)

    def test_failures_are_retried_after_10_20_40_seconds(self, cluster: Make) -> None:
        """Counted from the failure (kubernetes.md 6.20)."""
        c = cluster(1)
        self.job(c)
        made: list[float] = []
        for second in range(3, 120):
            c.at(second, lambda: self.end_all(c, "Failed"))
        c.run(100)
        made = [t for t, verb, _ in c.log if verb == "ADDED"]
        gaps = [b - a for a, b in pairwise(made)]
        assert [10 <= gaps[0] <= 14.5, 20 <= gaps[1] <= 24.5, 40 <= gaps[2] <= 44.5] == [True] * 3

    def test_after_seven_failures_it_gives_up(self, cluster: Make) -> None:
        """backoffLimit 6."""
        c = cluster(1)
        self.job(c)
        for second in range(3, 2000, 2):
            c.at(second, lambda: self.end_all(c, "Failed"))
        c.run(2000)
        assert c.server.get(Job, "ns/j").status.condition == "Failed"
        assert c.server.get(Job, "ns/j").status.failed == 7

    def test_completions_are_counted(self, cluster: Make) -> None:
        """Three, two beside each other."""
        c = cluster(1)
        self.job(c, completions=3, parallelism=2)
        for second in (5, 10, 15):
            c.at(second, lambda: self.end_all(c, "Succeeded"))
        c.run(30)
        status = c.server.get(Job, "ns/j").status
        assert (status.condition, status.succeeded) == ("Complete", 3)


def test_what_belonged_to_a_deleted_owner_goes(cluster: Make) -> None:
    """Deployment, its ReplicaSet, its pods with their grace."""
    c = cluster(2)
    c.deployment(2)
    c.at(20, lambda: c.server.delete(Deployment, "ns/d"))
    c.run(40)
    assert c.server.list_of(ReplicaSet) == []
    assert c.pods() == {}
