"""What each action does to the servers, and what stops it: uids, counts, guards, marks of others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from slurmtwin_operator.core import actions as a
from slurmtwin_operator.shell.cache import Key
from slurmtwin_operator.shell.kube_api import KubeError
from slurmtwin_operator.shell.objects import FINALIZER
from slurmtwin_operator.shell.perform import DONE, SKIPPED, Performer
from slurmtwin_operator.shell.slurm_rest import SlurmError
from slurmtwin_operator.shell.testing import CLUSTER, NODE_SET, Bench, bench, node_set

LABELS = {"slurmtwin.dev/nodeset": "w", "slurmtwin.dev/cluster": "c"}


def play(story: Callable[[Bench, Performer], Awaitable[None]]) -> Bench:
    """A pod w-0, a NodeSet with a finalizer of somebody else, a node with a taint of somebody else."""

    async def run() -> Bench:
        async with bench() as b:
            item = b.kube.put("nodesets", node_set(1))
            item["metadata"]["finalizers"] = ["others.example/keep"]
            b.kube.put("pods", {"metadata": {"name": "w-0", "uid": "pod-1", "labels": dict(LABELS)}, "spec": {}})
            node = b.kube.objects["", "nodes", "k1"]
            node["spec"]["taints"] = [{"key": "others", "effect": "NoSchedule"}]
            b.slurm.add_node("w-0")
            b.sync()
            view = await b.operator.reconciler._observer.look(NODE_SET, item)
            await story(b, Performer(b.operator.api, NODE_SET, item["metadata"]["uid"], view.rest))
            return b

    return asyncio.run(run())


def pod_manifest(name: str) -> str:
    """A slurmd pod."""
    return json.dumps({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": LABELS}, "spec": {}})


def test_a_pod_of_that_name_with_another_uid_is_left_alone() -> None:
    """The delete was decided for its predecessor."""

    async def story(b: Bench, performer: Performer) -> None:
        assert await performer.perform(a.DeleteObject("Pod", "w-0", "another")) == SKIPPED
        assert b.names("pods") == ["w-0"]
        assert await performer.perform(a.DeleteObject("Pod", "w-0", "pod-1")) == DONE
        assert await performer.perform(a.DeleteObject("Pod", "w-0", "pod-1")) == SKIPPED

    assert play(story).names("pods") == []


def test_a_delete_that_the_server_refuses_for_another_reason_is_an_error() -> None:
    """403 is no `gone`."""

    async def story(b: Bench, performer: Performer) -> None:
        b.kube.refuse["DELETE", "pods"] = [403]
        with pytest.raises(KubeError):
            await performer.perform(a.DeleteObject("Pod", "w-0", "pod-1"))

    play(story)


def test_no_pod_is_made_beyond_the_number_that_the_api_server_counts() -> None:
    """The cache may miss a pod: the count is taken where pods are made."""

    async def story(b: Bench, performer: Performer) -> None:
        one = a.CreatePod("w-1", "1", "r", "", pod_manifest("w-1"), at_most=1)
        assert await performer.perform(one) == SKIPPED
        again = a.CreatePod("w-0", "0", "r", "", pod_manifest("w-0"))
        assert await performer.perform(again) == SKIPPED
        two = a.CreatePod("w-1", "1", "r", "", pod_manifest("w-1"), at_most=2)
        assert await performer.perform(two) == DONE

    assert play(story).names("pods") == ["w-0", "w-1"]


def test_finalizers_and_taints_of_others_stay() -> None:
    """Ours come and go beside them."""

    async def story(b: Bench, performer: Performer) -> None:
        assert await performer.perform(a.SetFinalizer(True)) == DONE
        assert await performer.perform(a.SetFinalizer(True)) == SKIPPED
        assert b.get(NODE_SET)["metadata"]["finalizers"] == ["others.example/keep", FINALIZER]
        await performer.perform(a.SetFinalizer(False))
        assert b.get(NODE_SET)["metadata"]["finalizers"] == ["others.example/keep"]
        await performer.perform(a.LockNode("k1", "pending"))
        taints = b.kube.objects["", "nodes", "k1"]["spec"]["taints"]
        assert [(t["key"], t.get("value")) for t in taints] == [("others", None), ("slurmtwin.dev/lock", "pending")]
        await performer.perform(a.LockNode("k1", ""))
        assert [t["key"] for t in b.kube.objects["", "nodes", "k1"]["spec"]["taints"]] == ["others"]

    play(story)


def test_a_cordon_is_marked_as_ours_and_taken_back_with_its_mark() -> None:
    """Only marked cordons are mirrored ones."""

    async def story(b: Bench, performer: Performer) -> None:
        await performer.perform(a.CordonNode("k1", True))
        node = b.kube.objects["", "nodes", "k1"]
        assert node["spec"]["unschedulable"] is True
        assert "slurmtwin.dev/drained-in-slurm" in node["metadata"]["annotations"]
        await performer.perform(a.CordonNode("k1", False))
        node = b.kube.objects["", "nodes", "k1"]
        assert "unschedulable" not in node["spec"]
        assert node["metadata"]["annotations"] == {}

    play(story)


def test_a_machine_that_was_replaced_meanwhile_is_not_deleted() -> None:
    """The instance behind the name is another one."""

    async def story(b: Bench, performer: Performer) -> None:
        assert await performer.perform(a.DeleteNode("k1", "machine-0")) == SKIPPED
        assert await performer.perform(a.DeleteNode("k1", "machine-1")) == DONE
        with pytest.raises(KubeError, match="not found"):
            await performer.perform(a.DeleteNode("k1", "machine-1"))

    play(story)


def test_pods_are_labelled_and_bound_by_uid() -> None:
    """A label for another pod of that name is a conflict."""

    async def story(b: Bench, performer: Performer) -> None:
        with pytest.raises(KubeError):
            await performer.perform(a.LabelPod("w-0", "another", "k", "v"))
        await performer.perform(a.LabelPod("w-0", "pod-1", "k", "v"))
        assert b.kube.objects["ns", "pods", "w-0"]["metadata"]["labels"]["k"] == "v"
        await performer.perform(a.LabelPod("w-0", "pod-1", "k", None))
        assert "k" not in b.kube.objects["ns", "pods", "w-0"]["metadata"]["labels"]
        await performer.perform(a.BindPod("w-0", "pod-1", "k1"))
        assert b.kube.objects["ns", "pods", "w-0"]["spec"]["nodeName"] == "k1"

    play(story)


def test_a_record_whose_pod_is_there_is_not_pruned() -> None:
    """The API server is asked, not the cache; a changed reason stops it too."""

    async def story(b: Bench, performer: Performer) -> None:
        guard = a.Guard("w-0", reason="", no_pod=True)
        assert await performer.perform(a.DeleteSlurmNode("w-0", guard)) == SKIPPED
        del b.kube.objects["ns", "pods", "w-0"]
        other = a.Guard("w-0", reason="maintenance", no_pod=True)
        assert await performer.perform(a.DeleteSlurmNode("w-0", other)) == SKIPPED
        assert await performer.perform(a.DeleteSlurmNode("w-0", guard)) == DONE

    assert play(story).slurm.nodes == {}


CALLS: tuple[tuple[a.Action, str, str], ...] = (
    (a.ResumeNode("w-0", undrain=True), "POST", "node/w-0"),
    (a.CommentNode("w-0", "k1"), "POST", "node/w-0"),
    (a.Reconfigure("h"), "GET", "reconfigure"),
    (a.Reserve("r", True, ("w-0",), 1000, 600), "POST", "reservation"),
    (a.Reserve("r", False), "DELETE", "reservation/r"),
    (a.SubmitJob("j", 1, 1, "w", 600, True, True), "POST", "job/submit"),
    (a.CancelJob(7), "DELETE", "job/7"),
)


@pytest.mark.parametrize(("action", "method", "path"), CALLS, ids=lambda value: getattr(value, "do", None))
def test_slurm_is_told_by_these_calls(action: a.Action, method: str, path: str) -> None:
    """Method and path of the REST API of 26.05 (tried on the real one)."""

    async def story(b: Bench, performer: Performer) -> None:
        assert await performer.perform(action) == DONE
        assert b.slurm.calls[-1][:2] == (method, path)

    play(story)


def test_without_a_rest_api_nothing_is_told_and_no_guard_holds() -> None:
    """Fails closed."""

    async def story(b: Bench, _: Performer) -> None:
        alone = Performer(b.operator.api, NODE_SET, "u", None)
        guarded = a.DeleteObject("Pod", "w-0", "pod-1", a.Guard("w-0", idle=True))
        for action in (a.DrainNode("w-0", "r"), guarded):
            with pytest.raises(SlurmError):
                await alone.perform(action)
        assert b.names("pods") == ["w-0"]

    play(story)


def test_an_object_that_we_apply_carries_its_owner_and_its_hash() -> None:
    """A claim has no owner: it outlives its Cluster."""

    async def story(b: Bench, _: Performer) -> None:
        performer = Performer(b.operator.api, CLUSTER, "cluster-uid", None)
        for kind in ("ConfigMap", "PersistentVolumeClaim"):
            body: dict[str, Any] = {"kind": kind, "metadata": {"name": "x"}}
            await performer.perform(a.Apply(kind, "x", json.dumps(body), "h1"))  # type: ignore[arg-type]
        owned = b.kube.objects["ns", "configmaps", "x"]["metadata"]
        assert owned["annotations"] == {"slurmtwin.dev/hash": "h1"}
        assert [owner["uid"] for owner in owned["ownerReferences"]] == ["cluster-uid"]
        assert "ownerReferences" not in b.kube.objects["ns", "persistentvolumeclaims", "x"]["metadata"]

    play(story)


GROUP = Key("PodGroup", "ns", "g")
JOB = {"job_id": 7, "name": "slurmtwin-ns-g-1", "job_state": ["RUNNING"], "nodes": "w-0"}


@pytest.mark.parametrize(
    ("guard", "job", "holds"),
    [
        (a.Guard(job=JOB["name"]), None, True),
        (a.Guard(job=JOB["name"]), JOB, False),
        (a.Guard(job=JOB["name"]), JOB | {"job_state": ["COMPLETED"]}, True),
        (a.Guard(job=JOB["name"]), JOB | {"name": "another"}, True),
        (a.Guard("w-0", job=JOB["name"], held=True), JOB, True),
        (a.Guard("w-0", job=JOB["name"], held=True), JOB | {"job_state": ["PENDING"], "nodes": ""}, False),
        (a.Guard("w-1", job=JOB["name"], held=True), JOB, False),
        (a.Guard("w-0", job=JOB["name"], held=False), JOB, False),
        (a.Guard("w-1", job=JOB["name"], held=False), JOB, True),
    ],
)
def test_slurm_is_asked_again_about_a_placeholder_job(guard: a.Guard, job: Any, holds: bool) -> None:
    """Submit only beside no job of that name, bind only inside it, evict only outside it."""

    async def story(b: Bench, performer: Performer) -> None:
        b.slurm.jobs = [job] if job else []
        assert await performer.perform(a.CancelJob(7, guard)) == (DONE if holds else SKIPPED)
        b.slurm.mode = "error"
        with pytest.raises(SlurmError):
            await performer.perform(a.CancelJob(7, guard))

    play(story)


@pytest.mark.parametrize(("phase", "outcome"), [("Running", SKIPPED), ("Succeeded", DONE)])
def test_a_group_is_closed_only_when_the_api_server_has_no_live_pod_of_it(phase: str, outcome: str) -> None:
    """The cache may lack one."""

    async def story(b: Bench, _: Performer) -> None:
        view = await b.operator.reconciler._observer.look(NODE_SET, b.get(NODE_SET))
        labels = {"slurmtwin.dev/podgroup": "g"}
        b.kube.put("pods", {"metadata": {"name": "p", "labels": labels}, "spec": {}, "status": {"phase": phase}})
        performer = Performer(b.operator.api, GROUP, "u", view.rest)
        assert await performer.perform(a.CancelJob(7, a.Guard(childless=True))) == outcome

    play(story)


def test_a_cluster_goes_only_when_the_api_server_has_no_node_set_of_it() -> None:
    """Their jobs need a controller."""

    async def story(b: Bench, _: Performer) -> None:
        item = b.get(CLUSTER)
        item["metadata"]["finalizers"] = [FINALIZER]
        performer = Performer(b.operator.api, CLUSTER, item["metadata"]["uid"], None)
        last = a.SetFinalizer(False, a.Guard(childless=True))
        assert await performer.perform(last) == SKIPPED
        b.get(NODE_SET)["spec"]["cluster"] = "another"
        assert await performer.perform(last) == DONE

    play(story)
