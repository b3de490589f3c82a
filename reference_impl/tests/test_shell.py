"""The shell against an API server and a slurmrestd in memory, over real HTTP."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from slurmtwin_operator.core.observed import ClusterObserved
from slurmtwin_operator.designs import CarrierSettings
from slurmtwin_operator.replay import replay
from slurmtwin_operator.shell import logs
from slurmtwin_operator.shell.cache import Key
from slurmtwin_operator.shell.kube_api import KubeApi
from slurmtwin_operator.shell.lease import Lease
from slurmtwin_operator.shell.objects import FINALIZER
from slurmtwin_operator.shell.settings import Settings
from slurmtwin_operator.shell.slurm_rest import SlurmError, sign
from slurmtwin_operator.shell.telemetry import application
from slurmtwin_operator.shell.testing import CLUSTER, NODE_SET, SECRET, Bench, bench, node_set
from slurmtwin_operator.testing.servers import KubeServer

Story = Callable[[Bench], Awaitable[None]]


def play(story: Story, settings: Settings | None = None, **cluster_spec: Any) -> Bench:
    """Run a story on a bench of its own; returns the bench as it was left."""

    async def run() -> Bench:
        async with bench(settings, **cluster_spec) as found:
            await story(found)
            return found

    return asyncio.run(run())


async def settled(b: Bench, replicas: int = 2, **spec: Any) -> None:
    """A node set of so many registered pods."""
    b.kube.put("nodesets", node_set(replicas, **spec))
    await b.step()
    b.run_pods()
    await b.step(seconds=5)


# life of a node set and of a cluster
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


# slurmrestd
@pytest.mark.parametrize("mode", ["tarpit", "error"])
def test_while_slurm_does_not_answer_no_pod_is_deleted(mode: str) -> None:
    """Fails closed: a scale-in waits until slurmrestd answers again."""

    async def story(b: Bench) -> None:
        await settled(b)
        b.slurm.mode = mode
        b.get(NODE_SET)["spec"]["replicas"] = 0
        b.get(NODE_SET)["metadata"]["generation"] += 1
        await b.step(seconds=5)
        await b.step(seconds=5)
        assert b.names("pods") == ["w-0", "w-1"]
        status = {c["type"]: c["reason"] for c in b.get(NODE_SET)["status"]["conditions"]}
        assert status["SlurmReachable"] == "NoAnswer"
        b.slurm.mode = "answers"
        await b.step(seconds=5)
        await b.step(seconds=5)
        assert b.names("pods") == []

    play(story, switches={"restTimeoutS": 1})


def test_a_tarpit_is_given_up_after_rest_timeout() -> None:
    """The client gives up by itself, the error says that nothing was answered."""

    async def story(b: Bench) -> None:
        b.slurm.mode = "tarpit"
        rest = (await b.operator.reconciler._observer.look(CLUSTER, b.get(CLUSTER))).rest
        assert rest is not None
        with pytest.raises(SlurmError) as caught:
            await rest.call("GET", "nodes/")
        assert caught.value.answered is False

    play(story, switches={"restTimeoutS": 1})


def test_a_node_that_became_busy_is_not_deleted() -> None:
    """The guard is read again just before: the pass decided on an idle node, the action finds a busy one."""

    async def story(b: Bench) -> None:
        await settled(b)
        b.slurm.nodes["w-1"]["state"] = ["IDLE", "DRAIN", "DYNAMIC_NORM"]
        b.slurm.nodes["w-1"]["reason"] = "slurmtwin: scale-in"
        b.get(NODE_SET)["spec"]["replicas"] = 1
        b.get(NODE_SET)["metadata"]["generation"] += 1
        core = b.operator.reconciler._core

        def late(*arguments: Any) -> Any:
            plan = core(*arguments)
            b.slurm.nodes["w-1"]["state"] = ["MIXED", "DRAIN", "DYNAMIC_NORM"]
            return plan

        b.operator.reconciler._core = late
        await b.step(seconds=5)
        assert b.names("pods") == ["w-0", "w-1"]

    play(story)


def test_an_error_that_is_answered_twice_is_read_once() -> None:
    """Its text is slurmrestd's own, and it counts as an answer."""

    async def story(b: Bench) -> None:
        b.slurm.mode = "error"
        rest = (await b.operator.reconciler._observer.look(CLUSTER, b.get(CLUSTER))).rest
        assert rest is not None
        with pytest.raises(SlurmError, match="Unable to contact slurm controller") as caught:
            await rest.call("GET", "nodes/")
        assert caught.value.answered is True

    play(story)


def test_tokens_are_signed_for_slurm_and_renewed() -> None:
    """HS256 over head and claims; the same key and second make the same token."""
    head, claims, _ = sign(b"key", 1000).split(".")
    assert (head, claims) == (sign(b"other", 1000).split(".")[0], sign(b"other", 1000).split(".")[1])
    assert sign(b"key", 1000) != sign(b"other", 1000)


# the API server
def test_a_conflict_on_apply_ends_only_itself_and_is_tried_again() -> None:
    """409 on the budget: the pods are made all the same, the next pass applies it."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.kube.refuse["PATCH", "poddisruptionbudgets"] = [409]
        await b.step()
        assert b.names("pods") == ["w-0"]
        assert b.names("poddisruptionbudgets") == []
        await b.step(seconds=5)
        assert b.names("poddisruptionbudgets") == ["w-busy"]

    play(story)


def test_with_failed_action_stop_the_pass_ends_there_and_backs_off() -> None:
    """The design's back-off: 100 ms, then 200 ms."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.kube.refuse["PATCH", "poddisruptionbudgets"] = [409, 409]
        await b.step()
        assert b.names("pods") == []
        assert b.operator.queue.due_ns(NODE_SET) == b.now_ns + 100_000_000
        await b.step(seconds=1)
        assert b.operator.queue.due_ns(NODE_SET) == b.now_ns + 200_000_000

    play(story, switches={"failedAction": "stop"})


def test_memory_is_stored_before_the_first_action() -> None:
    """Write-ahead: the status is patched before any pod is made."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        await b.step()
        writes = [path for method, path in b.kube.calls if method != "GET" and "leases" not in path]
        assert writes[0].endswith("nodesets/w/status")
        assert any(path.endswith("/pods") for path in writes[1:])

    play(story)


def test_another_process_goes_on_with_the_stored_memory() -> None:
    """After a start the memory is read from the object, also one that cannot be read."""

    async def story(b: Bench) -> None:
        await settled(b)
        stored = b.get(NODE_SET)["status"]["memory"]
        b.operator.reconciler.forget_all()
        await b.step(seconds=5)
        assert b.get(NODE_SET)["status"]["memory"] == stored
        b.get(NODE_SET)["status"]["memory"] = "{broken"
        b.operator.reconciler.forget_all()
        await b.step(seconds=5)
        assert b.names("pods") == ["w-0", "w-1"]

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


def test_events_are_written_once_per_reason() -> None:
    """A node set that waits for a job says so once, not in every pass."""

    async def story(b: Bench) -> None:
        await settled(b, 1)
        b.slurm.nodes["w-0"]["state"] = ["MIXED", "DYNAMIC_NORM"]
        b.get(NODE_SET)["spec"]["replicas"] = 0
        b.get(NODE_SET)["metadata"]["generation"] += 1
        for _ in range(5):
            await b.step(seconds=5)

    assert play(story).events().count("WaitsForJobs") == 1


# Lease, stop
def test_a_lease_that_stood_still_is_taken_over_and_the_old_holder_knows() -> None:
    """Not before its duration is over on the new one's own clock; the old one finds itself out."""

    async def story() -> None:
        kube = KubeServer()
        now = [0]
        async with kube.serve() as base, KubeApi(base) as api:
            one = Lease(api, "ops", "one", 15, lambda: now[0])
            two = Lease(api, "ops", "two", 15, lambda: now[0])
            assert await one.step()
            assert not await two.step()
            now[0] += 14 * 10**9
            assert await one.step()
            assert not await two.step()
            now[0] += 14 * 10**9
            assert not await two.step()
            now[0] += 10**9
            assert not one.held
            assert await two.step()
            assert not await one.step()
            assert kube.objects["ops", "leases", "slurmtwin-operator"]["spec"]["leaseTransitions"] == 1

    asyncio.run(story())


def test_of_two_that_take_a_lease_at_once_one_fails() -> None:
    """The write names the version that was read."""

    async def story() -> None:
        kube = KubeServer()
        async with kube.serve() as base, KubeApi(base) as api:
            leases = [Lease(api, "ops", name, 15, lambda: 10**9) for name in ("one", "two", "three")]
            assert sum(await asyncio.gather(*(lease.step() for lease in leases))) == 1

    asyncio.run(story())


def test_of_two_that_take_over_a_free_lease_at_once_one_fails() -> None:
    """Each has read it free; only the first write finds the version that was read."""

    async def story() -> None:
        kube = KubeServer()
        kube.put("leases", {"metadata": {"name": "slurmtwin-operator"}, "spec": {"holderIdentity": ""}}, "ops")
        async with kube.serve() as base, KubeApi(base) as api:
            leases = [Lease(api, "ops", name, 15, lambda: 10**9) for name in ("one", "two", "three")]
            assert sum(await asyncio.gather(*(lease.step() for lease in leases))) == 1

    asyncio.run(story())


def test_a_lease_is_given_back_at_a_graceful_stop() -> None:
    """The next one takes it at once."""

    async def story(b: Bench) -> None:
        await b.operator.stop([])
        assert b.kube.objects["ops", "leases", "slurmtwin-operator"]["spec"]["holderIdentity"] == ""
        assert not b.operator.lease.held

    play(story)


def test_a_pass_without_the_lease_does_nothing() -> None:
    """The lease ran out between deciding and acting."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(2))
        b.sync()
        b.now_ns += 16 * 10**9
        await b.operator.run_pass(NODE_SET)
        assert b.names("pods") == []
        assert "status" not in b.get(NODE_SET)

    play(story)


def test_a_graceful_stop_lets_the_running_pass_end_and_begins_no_other() -> None:
    """Two objects wait; the one that is looked at is finished."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.sync()
        worker = asyncio.create_task(b.operator.work())
        entered, leave = asyncio.Event(), asyncio.Event()
        real = b.operator.reconciler.reconcile
        begun = []

        async def slow(key: Any) -> int:
            begun.append(key)
            entered.set()
            await leave.wait()
            return await real(key)

        b.operator.reconciler.reconcile = slow  # type: ignore[method-assign]
        b.now_ns += 10**9
        b.operator.wake(NODE_SET)
        await entered.wait()
        b.operator.wake(CLUSTER)
        stopping = asyncio.create_task(b.operator.stop([worker]))
        await asyncio.sleep(0)
        leave.set()
        await stopping
        assert len(begun) == 1

    play(story)


# what is told
def test_no_secret_is_in_logs_recordings_events_or_status(caplog: pytest.LogCaptureFixture) -> None:
    """The planted key, its base64 form and every token that was sent are searched for in all that was written."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.JsonLines())
    logs.log.addHandler(handler)
    logs.log.setLevel(logging.INFO)

    async def story(b: Bench) -> None:
        await b.step(CLUSTER)
        await settled(b)
        b.slurm.mode = "error"
        await b.step(seconds=5)
        b.slurm.mode = "answers"
        logs.say("careless", note=f"sent {b.slurm.tokens[-1]}")

    try:
        b = play(story)
    finally:
        logs.log.removeHandler(handler)
    told = (
        stream.getvalue()
        + b.recorded.getvalue()
        + "".join(json.dumps(item) for (_, plural, _), item in b.kube.objects.items() if plural != "secrets")
    )
    assert "careless" in told
    assert logs.STRUCK in told
    for secret in (SECRET.decode(), json.dumps(b.kube.objects["ns", "secrets", "c-keys"]["data"]["slurm.key"])[1:-1]):
        assert secret not in told
    assert b.slurm.tokens
    assert not [token for token in b.slurm.tokens if token in told]


def test_recorded_passes_replay_to_equal_plans(tmp_path: Any) -> None:
    """`slurmtwin check --plans` reads what the shell wrote."""

    async def story(b: Bench) -> None:
        await b.step(CLUSTER)
        await settled(b)

    b = play(story)
    path = tmp_path / "plans.jsonl"
    path.write_text(b.recorded.getvalue())
    found = replay(path)
    assert found.difference is None
    assert found.passes == 3


def test_metrics_tell_of_passes_actions_and_the_lease() -> None:
    """Prometheus' text form."""

    async def story(b: Bench) -> None:
        await settled(b)

    text = play(story).operator.telemetry.text().decode()
    assert 'slurmtwin_passes_total{kind="NodeSet",outcome="done"} 2.0' in text
    assert 'slurmtwin_actions_total{do="create-pod",outcome="done"} 2.0' in text
    assert "slurmtwin_leader" in text


def test_an_object_that_went_while_a_watch_was_broken_is_dropped() -> None:
    """No end was shown: comparing with the API server finds it, and the pod is made anew."""

    async def story(b: Bench) -> None:
        await settled(b)
        del b.kube.objects["ns", "pods", "w-1"]
        await b.operator.compare()
        assert b.operator.cache.get("Pod", "ns", "w-1") is None
        assert b.operator.cache.get("Pod", "ns", "w-0") is not None
        b.now_ns += 10**9
        await b.operator.lease.step()
        await b.operator.run_pass(NODE_SET)
        assert b.names("pods") == ["w-0", "w-1"]

    play(story)


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


def slinky_carrier(**more: Any) -> Settings:
    """Polls and back-off as Slinky's, from 100 ms."""
    carrier = CarrierSettings(poll_s=30, backoff_base_ms=100, backoff_cap_s=1000, **more)
    return Settings(namespace="ops", identity="op-1", carrier=carrier)


def test_with_stop_pass_a_silent_slurm_backs_off_and_an_answer_ends_it() -> None:
    """X18: each pass without an answer waits twice as long as the last; a good one comes back after the poll."""
    waits: list[int] = []

    async def story(b: Bench) -> None:
        await settled(b)
        b.slurm.mode = "error"
        for _ in range(8):
            b.operator.queue._due.clear()
            await b.step(seconds=waits[-1] / 1000 if waits else 5)
            due = b.operator.queue.due_ns(NODE_SET)
            assert due is not None
            waits.append((due - b.now_ns) // 1_000_000)
        b.slurm.mode = "answers"
        b.operator.queue._due.clear()
        await b.step(seconds=waits[-1] / 1000)
        assert b.operator.queue.due_ns(NODE_SET) == b.now_ns + 30 * 10**9

    b = play(story, slinky_carrier(poll_after_failure=False), switches={"restDown": "stop-pass"})
    assert waits == [100, 200, 400, 800, 1600, 3200, 6400, 12800]
    assert 'slurmtwin_passes_total{kind="NodeSet",outcome="failed"} 8.0' in b.operator.telemetry.text().decode()


def test_by_default_a_silent_slurm_fails_no_pass() -> None:
    """What needs no Slurm goes on, every few seconds."""

    async def story(b: Bench) -> None:
        await settled(b)
        b.slurm.mode = "error"
        b.get(NODE_SET)["spec"]["replicas"] = 1
        b.get(NODE_SET)["metadata"]["generation"] += 1
        for _ in range(4):
            b.operator.queue._due.clear()
            await b.step(seconds=5)
            assert b.operator.queue.due_ns(NODE_SET) == b.now_ns + 5 * 10**9

    assert 'outcome="failed"' not in play(story).operator.telemetry.text().decode()


@pytest.mark.parametrize(("after_failure", "woken"), [(True, True), (False, False)])
def test_the_poll_wakes_what_failed_only_where_the_design_does(after_failure: bool, woken: bool) -> None:
    """An object that waits for 1000 s is looked at after the next poll, or not before."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.sync()
        for _ in range(20):
            b.operator.queue.failed(NODE_SET, b.now_ns)
        poll = asyncio.create_task(b.operator.poll())
        while not b.operator.turns:
            await asyncio.sleep(0.01)
        b.operator._stopping.set()
        await poll
        due = b.operator.queue.due_ns(NODE_SET)
        assert due is not None
        assert (due == b.now_ns) is woken

    carrier = CarrierSettings(poll_s=1, backoff_base_ms=100, backoff_cap_s=1000, poll_after_failure=after_failure)
    play(story, Settings(namespace="ops", identity="op-1", carrier=carrier))


def test_probes_and_metrics_are_served() -> None:
    """200 while the loop of the Lease turns and the caches are full, 503 before and when it stands still."""

    async def story(b: Bench) -> None:
        app = application(b.operator.telemetry, b.operator.alive, b.operator.ready)
        async with TestClient(TestServer(app)) as client:
            assert [(await client.get(path)).status for path in ("/healthz", "/readyz")] == [200, 200]
            b.operator.filled = False
            b.now_ns += 61 * 10**9
            assert [(await client.get(path)).status for path in ("/healthz", "/readyz")] == [503, 503]
            answer = await client.get("/metrics")
            assert answer.headers["Content-Type"].startswith("text/plain")
            assert "slurmtwin_leader" in await answer.text()

    play(story)


def test_a_lease_that_cannot_be_renewed_is_ours_until_it_is_over() -> None:
    """An API server that fails for a moment stops nobody; one that fails for the lease's length does."""

    async def story(b: Bench) -> None:
        b.kube.refuse["GET", "leases"] = [500, 500, 500]
        for seconds, held in ((5, True), (9, True), (1, False)):
            b.now_ns += seconds * 10**9
            assert await b.operator.lease.step() is held

    play(story)


def test_a_lost_lease_ends_the_process() -> None:
    """Another holder is there: nothing more is done here, and the process is told to end."""

    async def story(b: Bench) -> None:
        leading = asyncio.create_task(b.operator.lead())
        while not b.operator._leading:
            await asyncio.sleep(0.01)
        spec = b.kube.objects["ops", "leases", "slurmtwin-operator"]["spec"]
        spec |= {"holderIdentity": "other", "renewTime": "2030-01-01T00:00:00.000000Z"}
        await leading
        assert b.operator.lost.is_set()
        assert not b.operator.lease.held

    play(story, Settings(namespace="ops", identity="op-1", renew_s=0.05))


def test_a_mistake_of_ours_costs_one_object_its_turn() -> None:
    """A pass that breaks is logged and backs off; the next object is looked at."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.sync()
        core = b.operator.reconciler._core

        def broken(observed: Any, *rest: Any) -> Any:
            if isinstance(observed, ClusterObserved):
                raise ZeroDivisionError
            return core(observed, *rest)

        b.operator.reconciler._core = broken
        await b.operator.run_pass(CLUSTER)
        await b.operator.run_pass(NODE_SET)
        assert b.operator.queue.due_ns(CLUSTER) == b.now_ns + 100_000_000
        assert b.names("pods") == ["w-0"]

    assert 'outcome="broken"' in play(story).operator.telemetry.text().decode()


def test_an_event_that_cannot_be_written_ends_nothing() -> None:
    """403 on events: the pass goes on."""

    async def story(b: Bench) -> None:
        b.kube.put("nodesets", node_set(1))
        b.kube.refuse["POST", "events"] = [403] * 9
        await b.step()
        assert b.names("pods") == ["w-0"]

    assert play(story).events() == []
