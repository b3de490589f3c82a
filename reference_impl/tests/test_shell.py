"""Node sets and clusters through the shell, against an API server and a slurmrestd in memory, over real HTTP."""

from __future__ import annotations

import json

from slurmtwin_operator.shell.cache import Key
from slurmtwin_operator.shell.objects import FINALIZER
from slurmtwin_operator.shell.testing import CLUSTER, NODE_SET, Bench, node_set, play, settled


def test_a_node_set_becomes_pods_and_its_status_tells_of_them() -> None:
    """Two replicas: finalizer, two pods, a budget, and a status that kubectl shows."""
    b = play(settled)
    assert b.names("pods") == ["w-0", "w-1"]
    assert b.names("poddisruptionbudgets") == ["w-busy"]
    found = b.get(NODE_SET)
    assert found["metadata"]["finalizers"] == [FINALIZER]
    assert (found["status"]["replicas"], found["status"]["available"]) == (2, 2)
    assert {c["type"]: c["status"] for c in found["status"]["conditions"]}["Available"] == "True"


def test_a_cluster_becomes_its_control_plane_and_keys_are_made_once() -> None:
    """Configuration, controller, REST server; the Secret that exists keeps its bytes."""

    async def story(b: Bench) -> None:
        before = json.dumps(b.kube.objects["ns", "secrets", "c-keys"]["data"])
        await b.step(CLUSTER)
        assert json.dumps(b.kube.objects["ns", "secrets", "c-keys"]["data"]) == before
        del b.kube.objects["ns", "secrets", "c-keys"]
        await b.step(CLUSTER, 5)
        assert set(b.kube.objects["ns", "secrets", "c-keys"]["data"]) == {"jwt_hs256.key", "slurm.key"}

    b = play(story)
    assert b.names("statefulsets") == ["c-ctld"]
    assert b.names("deployments") == ["c-rest"]
    assert "Applied" in b.events()


def test_nothing_is_written_once_all_is_settled() -> None:
    """Eventually stable: a pass over a settled node set only reads."""

    async def story(b: Bench) -> None:
        await settled(b)
        await b.step(seconds=5)
        before = len(b.kube.calls)
        await b.step(seconds=30)
        new = [call for call in b.kube.calls[before:] if "leases" not in call[1]]
        assert {method for method, _ in new} == {"GET"}

    play(story)


def test_scale_in_drains_waits_for_the_job_and_then_deletes() -> None:
    """A busy victim keeps its pod until Slurm says that it is drained and idle."""

    async def story(b: Bench) -> None:
        await settled(b)
        b.slurm.nodes["w-1"]["state"] = ["MIXED", "DYNAMIC_NORM"]
        b.slurm.nodes["w-0"]["state"] = ["MIXED", "DYNAMIC_NORM"]
        b.get(NODE_SET)["spec"]["replicas"] = 1
        b.get(NODE_SET)["metadata"]["generation"] += 1
        for _ in range(3):
            await b.step(seconds=5)
        assert b.names("pods") == ["w-0", "w-1"]
        assert "DRAIN" in b.slurm.nodes["w-1"]["state"]
        b.slurm.nodes["w-1"]["state"] = ["IDLE", "DRAIN", "DYNAMIC_NORM"]
        await b.step(seconds=5)
        assert b.names("pods") == ["w-0"]

    b = play(story)
    assert "WaitsForJobs" in b.events()


def test_a_deleted_node_set_goes_when_its_pods_and_records_are_gone() -> None:
    """The finalizer holds the object until then."""

    async def story(b: Bench) -> None:
        await settled(b)
        b.get(NODE_SET)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        for _ in range(3):
            await b.step(seconds=5)
        assert b.names("pods") == []
        assert b.names("nodesets") == ["w"]
        for record in b.slurm.nodes.values():
            record["state"].append("NOT_RESPONDING")
        for _ in range(3):
            await b.step(seconds=5)
        assert b.names("nodesets") == []
        assert b.slurm.nodes == {}

    play(story)


def test_a_cluster_is_kept_while_it_has_node_sets() -> None:
    """Their jobs need a controller to end."""

    async def story(b: Bench) -> None:
        await settled(b)
        await b.step(CLUSTER)
        b.get(CLUSTER)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        await b.step(CLUSTER, 5)
        assert b.names("clusters") == ["c"]
        del b.kube.objects["ns", "nodesets", "w"]
        await b.step(CLUSTER, 5)
        assert b.names("clusters") == []

    play(story)


def test_a_spec_that_no_schema_let_through_is_refused_with_a_reason() -> None:
    """Defence in depth: the core's own types, a condition and an event."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1, image="bad image\nevil"))
        await b.step()
        assert b.names("pods") == []
        (condition,) = b.get(NODE_SET)["status"]["conditions"]
        assert (condition["reason"], condition["message"].split(":")[0]) == ("Refused", "image")

    assert "Refused" in play(story).events()


def test_what_cannot_be_carried_is_refused_with_its_reason() -> None:
    """A NodeSet without its Cluster."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1, cluster="nowhere"))
        await b.step()
        assert b.names("pods") == []
        (condition,) = b.get(NODE_SET)["status"]["conditions"]
        assert "there is no Cluster nowhere" in condition["message"]

    play(story)


def test_slurms_power_saving_says_which_pods_there_are() -> None:
    """POWERING_UP makes the pod of that name, POWERING_DOWN takes it without a drain; silence changes nothing."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(3))
        for name, state in (("w-0", "POWERED_DOWN"), ("w-1", "POWERING_UP"), ("w-2", "POWERED_DOWN")):
            b.slurm.add_node(name, "IDLE", state)
        await b.step()
        assert b.names("pods") == ["w-1"]
        b.run_pods()
        b.slurm.nodes["w-2"]["state"] = ["IDLE", "POWERING_UP"]
        await b.step(seconds=5)
        b.run_pods()
        assert b.names("pods") == ["w-1", "w-2"]
        b.slurm.mode = "error"
        b.slurm.nodes["w-1"]["state"] = ["IDLE", "POWERING_DOWN"]
        await b.step(seconds=5)
        assert b.names("pods") == ["w-1", "w-2"]
        b.slurm.mode = "answers"
        await b.step(seconds=5)
        assert b.names("pods") == ["w-2"]
        assert not [path for _, path, body in b.slurm.calls if body and "DRAIN" in body.get("state", ())]

    play(story, switches={"scaleSource": "power"})


def test_a_node_set_that_no_schema_saw_costs_its_cluster_nothing() -> None:
    """The set is refused; of it the Cluster writes its name alone."""

    async def story(b: Bench) -> None:
        bad = node_set(1, cpu="1\nProlog=x", partition={"options": {"MaxTime": "1\nProlog=x", "Prolog": "y"}})
        b.kube.put("nodesets", bad)
        await b.step(CLUSTER)
        text = b.kube.objects["ns", "configmaps", "c-conf"]["data"]["slurm.conf"]
        assert "Prolog" not in text
        assert "PartitionName=w Nodes=w\n" in text

    play(story)


def test_a_node_set_whose_cluster_is_gone_can_be_deleted() -> None:
    """No Slurm is left that could have jobs: nothing waits for it."""

    async def story(b: Bench) -> None:
        await settled(b)
        del b.kube.objects["ns", "clusters", "c"]
        b.get(NODE_SET)["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        for _ in range(3):
            await b.step(seconds=5)
        assert b.names("pods") == []
        assert b.names("nodesets") == []

    play(story)


def test_a_pod_group_becomes_one_job() -> None:
    """With podJobs external one job without steps is submitted for its pods, once."""

    async def story(b: Bench) -> None:
        spec = {"nodes": 1, "partition": "w"}
        b.kube.put("podgroups", {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec})
        b.kube.put("pods", {"metadata": {"name": "p", "labels": {"slurmtwin.dev/podgroup": "g"}}, "spec": {}})
        key = Key("PodGroup", "ns", "g")
        await b.step(key)
        submitted = [body for method, path, body in b.slurm.calls if path == "job/submit"]
        assert [body["job"]["flags"] for body in submitted] == [["EXTERNAL_JOB"]]

    play(story, switches={"podJobs": "external"})


def test_a_changed_configuration_is_looked_after_until_slurmctld_has_read_it() -> None:
    """The controller's pod is marked, 3 s later it is told to read: nothing waits for the poll (32 s, measured)."""

    async def story(b: Bench) -> None:
        await b.step(CLUSTER)
        part = {"slurmtwin.dev/cluster": "c", "slurmtwin.dev/part": "ctld"}
        ready = [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
        meta = {"name": "c-ctld-0", "labels": part}
        b.kube.put("pods", {"metadata": meta, "spec": {}, "status": {"conditions": ready}})
        b.slurm.hash_value = 1
        await b.step(CLUSTER, 5)
        due = b.operator.queue.due_ns(CLUSTER)
        assert due is not None
        assert due - b.now_ns <= 3 * 10**9
        assert ("GET", "reconfigure", None) not in b.slurm.calls
        await b.step(CLUSTER, 3)
        assert ("GET", "reconfigure", None) in b.slurm.calls

    play(story)
