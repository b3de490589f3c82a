"""Settings, objects of Kubernetes and answers of slurmrestd as the core's types; when a key is due."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.errors import InputError
from slurmtwin_operator.core.observed import Policy
from slurmtwin_operator.core.spec import NodeSetSpec
from slurmtwin_operator.shell import objects as o
from slurmtwin_operator.shell.cache import Cache, Key
from slurmtwin_operator.shell.settings import read_settings
from slurmtwin_operator.shell.slurm_view import conf_hash, job, loaded_hash, node, number
from slurmtwin_operator.shell.work_queue import WorkQueue

KEY, OTHER = Key("NodeSet", "ns", "a"), Key("NodeSet", "ns", "b")


def test_settings_come_from_the_environment_and_errors_name_the_variable() -> None:
    """A design's carrier is JSON; an unknown or wrong variable is refused without its value."""
    found = read_settings({
        "SLURMTWIN_IMAGE_PREFIXES": "reg/a,reg/b", "SLURMTWIN_ALLOW_PRIVILEGED": "true", "HOME": "/x",
        "SLURMTWIN_WATCH_NAMESPACES": "one,two", "SLURMTWIN_CARRIER": '{"poll_s": 5}',
    })  # fmt: skip
    assert found.policy == Policy(True, ("reg/a", "reg/b"))
    assert (found.namespaces, found.carrier.poll_s) == (("one", "two"), 5)
    for name, value in (("SLURMTWIN_PORT", "secret-text"), ("SLURMTWIN_PROT", "1"), ("SLURMTWIN_CARRIER", "{")):
        with pytest.raises(InputError) as caught:
            read_settings({name: value})
        assert name in str(caught.value)
        assert "secret-text" not in str(caught.value)


def machine(*taints: dict[str, str], **labels: str) -> dict[str, Any]:
    """A Kubernetes node."""
    return {"metadata": {"name": "k1", "labels": labels}, "spec": {"taints": list(taints)}, "status": {"conditions": [
        {"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-01-01T00:00:07Z"},
        {"type": "MemoryPressure", "status": "True"}, {"type": "DiskPressure", "status": "False"}]}}  # fmt: skip


def test_a_machine_is_selected_by_labels_and_tolerated_taints() -> None:
    """A cordon, a lost node and our own lock do not count; PreferNoSchedule keeps nobody out."""
    spec = NodeSetSpec.model_validate({
        "cluster": "c", "image": "i", "nodeSelector": {"role": "compute"},
        "tolerations": [{"key": "gpu", "operator": "Exists"}],
    })  # fmt: skip
    gpu, other = {"key": "gpu", "effect": "NoSchedule"}, {"key": "x", "value": "y", "effect": "NoExecute"}
    assert o.is_selected(machine(gpu, role="compute"), spec)
    assert not o.is_selected(machine(gpu, role="other"), spec)
    assert not o.is_selected(machine(other, role="compute"), spec)
    assert o.is_selected(machine({**other, "effect": "PreferNoSchedule"}, role="compute"), spec)
    lock = {"key": o.LOCK, "value": "pending", "effect": "NoExecute"}
    seen = o.kube_node(machine(lock, role="compute"), spec, 2)
    assert (seen.selected, seen.locked, seen.foreign_pods) == (True, "pending", 2)
    assert (seen.ready, seen.not_ready_since_ns, seen.conditions) == (False, 1767225607 * 10**9, ("MemoryPressure",))


@pytest.mark.parametrize(
    ("toleration", "taint", "fits"),
    [
        ({"operator": "Exists"}, {"key": "a", "effect": "NoExecute"}, True),
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, {"key": "a", "effect": "NoExecute"}, False),
        ({"key": "a", "value": "v"}, {"key": "a", "value": "v", "effect": "NoSchedule"}, True),
        ({"key": "a", "value": "v"}, {"key": "a", "value": "w", "effect": "NoSchedule"}, False),
        ({"operator": "Equal", "value": ""}, {"key": "a", "effect": "NoSchedule"}, False),
        ({"key": "b", "operator": "Exists"}, {"key": "a", "effect": "NoSchedule"}, False),
    ],
)
def test_tolerations_by_the_rules_of_core_v1(toleration: dict[str, str], taint: dict[str, str], fits: bool) -> None:
    """Key, value, effect, operator."""
    assert o.tolerates(toleration, taint) is fits


def test_pods_that_the_lock_would_evict_are_counted() -> None:
    """Daemons, static and ended pods are not."""
    pod: dict[str, Any] = {"metadata": {}, "spec": {}, "status": {"phase": "Running"}}
    assert o.is_foreign(pod)
    assert not o.is_foreign({**pod, "metadata": {"ownerReferences": [{"kind": "DaemonSet"}]}})
    assert not o.is_foreign({**pod, "status": {"phase": "Succeeded"}})
    assert not o.is_foreign({**pod, "spec": {"tolerations": [{"operator": "Exists"}]}})


def test_a_workload_is_ready_when_its_controller_has_seen_it_and_all_pods_are() -> None:
    """A change that was not seen yet is not ready, whatever the old numbers say."""
    item = {"kind": "Deployment", "metadata": {"name": "d", "generation": 2}, "spec": {"replicas": 1}}
    assert not o.applied({**item, "status": {"observedGeneration": 1, "readyReplicas": 1}}).ready
    assert o.applied({**item, "status": {"observedGeneration": 2, "readyReplicas": 1}}).ready
    assert not o.applied({**item, "status": {"observedGeneration": 2}}).ready


def test_node_records_of_newer_and_older_parsers_are_read_alike() -> None:
    """States as a list or as words with plus signs; features as a list or with commas."""
    new = node({"name": "w-0", "state": ["IDLE", "DRAIN", "DYNAMIC_NORM"], "features": ["w", "x"],
                "slurmd_start_time": {"set": True, "infinite": False, "number": 7}})  # fmt: skip
    old = node({"name": "w-0", "state": "IDLE+DRAIN+DYNAMIC_NORM", "features": "w,x", "slurmd_start_time": 7})
    assert new == old
    assert (new.state, new.drained, new.dynamic, new.registered_ns) == ("IDLE", True, True, 7 * 10**9)
    assert (number({"set": False, "number": 9}), number({"infinite": True, "number": 9}), number(None)) == (0, 0, 0)


def test_job_records_name_their_nodes_one_by_one() -> None:
    """A pending job has none."""
    ran = job({"job_id": 3, "job_state": ["RUNNING", "COMPLETING"], "nodes": "w-[0-1]", "end_time": 9, "name": "n"})
    assert (ran.state, ran.nodes, ran.end_ns) == ("RUNNING", ("w-0", "w-1"), 9 * 10**9)
    assert job({"job_id": 3, "job_state": ["PENDING"], "nodes": ""}).nodes == ()


def test_the_hash_of_a_configuration_is_slurmctlds_own() -> None:
    """Worked by hand from parse_config.c: `A` alone, then the order of lines matters."""
    assert conf_hash("") == 0
    value = 0x41 << 8
    for _ in range(8):
        value = (value << 1 ^ 4129) if value & 0x8000 else value << 1
    assert conf_hash("A") == value & 0xFFFFFFFF
    assert conf_hash("A=1\nB=2\n") != conf_hash("B=2\nA=1\n")
    assert loaded_hash({"slurm_conf_meta": {"HashValue": 5}}) == 5
    assert loaded_hash({"slurm_conf": {}}) is None


def test_a_key_is_looked_at_once_at_a_time_and_never_forgotten() -> None:
    """A wish that comes while it is looked at makes it due again afterwards."""
    queue = WorkQueue(100, 60)
    queue.add(KEY, 10)
    queue.add(KEY, 5)
    assert (queue.take(4), queue.take(5)) == (None, KEY)
    queue.add(KEY, 6)
    assert queue.take(9) is None
    queue.done(KEY, 9, 1000)
    assert queue.take(9) == KEY
    queue.done(KEY, 9, -1)
    assert queue.next_ns() is None


def test_failures_double_up_to_the_cap_and_hold_off_other_wishes() -> None:
    """100 ms, 200 ms … 60 s; a good pass forgets them; the other keys do not wait."""
    queue = WorkQueue(100, 60)
    pauses = []
    for _ in range(12):
        queue.add(KEY, 0)
        assert queue.take(10**15) == KEY
        pauses.append(queue.failed(KEY, 10**15) // 10**6)
        queue._due.clear()
    assert pauses[:3] == [100, 200, 400]
    assert pauses[-1] == 60_000
    queue.add(OTHER, 0)
    assert queue.take(10**15) == OTHER


def test_our_own_writes_of_status_wake_nobody_and_pods_of_others_are_kept_small() -> None:
    """A new generation does; a node's heartbeat does not, its cordon does."""
    cache = Cache()
    item: dict[str, Any] = {"metadata": {"namespace": "ns", "name": "w", "generation": 1}, "spec": {"cluster": "c"}}
    assert cache.put("NodeSet", item) == {Key("NodeSet", "ns", "w"), Key("Cluster", "ns", "c")}
    assert cache.put("NodeSet", {**item, "status": {"replicas": 1}}) == set()
    newer = {**item, "metadata": {**item["metadata"], "generation": 2}}
    assert Key("NodeSet", "ns", "w") in cache.put("NodeSet", newer)
    node_item: dict[str, Any] = {"metadata": {"name": "k1", "resourceVersion": "1"}, "spec": {}, "status": {}}
    assert cache.put("Node", node_item)
    assert cache.put("Node", {**node_item, "metadata": {"name": "k1", "resourceVersion": "2"}}) == set()
    assert cache.put("Node", {**node_item, "spec": {"unschedulable": True}}) == {Key("NodeSet", "ns", "w")}
    secret = {"name": "PASSWORD", "value": "x"}
    spec = {"nodeName": "k1", "containers": [{"env": [secret]}]}
    pod = {"metadata": {"namespace": "other", "name": "p"}, "spec": spec}
    assert cache.put("Pod", pod) == set()
    assert "PASSWORD" not in str(cache.get("Pod", "other", "p"))
