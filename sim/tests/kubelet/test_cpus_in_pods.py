"""CPU sets of containers over time, and jobs that hold more CPUs than their containers have (kubernetes.md 1, X79)."""

from __future__ import annotations

from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.events import Kind
from slurmtwin.contract.kubernetes import Kubelet
from slurmtwin.engine.environment import Environment
from slurmtwin.engine.event_sink import EventSink
from slurmtwin.models.api_server.objects import Container
from slurmtwin.models.kubelet.configuration import (
    eviction_state,
    flat_host,
    node_resources,
    refuses_to_start,
)
from slurmtwin.models.kubelet.defaults import kubelet_defaults
from slurmtwin.models.slurm_pods.cpu_binding import CpuBook, task_cpus

STATIC = Kubelet(cpu_manager="static", reserved_cpus="0")
TWO = Container(name="c", milli_cpu=2000, milli_cpu_limit=2000, memory=1 << 20, memory_limit=1 << 20)


@pytest.mark.parametrize(
    ("plugin", "places", "seen", "now", "cpus"),
    [
        ("task/none", 0b1, 0b1111, 0b1111, 0b1111),
        ("task/none", 0b1, 0b1111, 0b1100, 0b1100),
        ("task/affinity", 0b11, 0b1111, 0b1111, 0b0011),
        ("task/affinity", 0b11, 0b1100, 0b1100, 0b1100),
        ("task/affinity", 0b11, 0b1111, 0b1110, 0b0010),
        ("task/affinity", 0b1, 0b1111, 0b1110, None),
    ],
)
def test_a_task_runs_where_slurm_and_the_kernel_agree(
    plugin: Any, places: int, seen: int, now: int, cpus: int | None
) -> None:
    """Without binding in the whole cpuset; with it in what is left of the mask; X79: nothing left, the launch fails."""
    assert task_cpus(plugin, places, seen, now) == cpus


def rows(sink: EventSink) -> list[tuple[float, int | None, str | None]]:
    """Overbooked CPUs as (seconds, how many, detail)."""
    sink.event_hash  # noqa: B018  flushes
    return [(e.t_ns / SECOND, e.value, e.detail) for e in sink.kept or () if e.kind is Kind.CPU_OVERBOOKED]


def test_jobs_of_two_pods_that_share_a_pool_are_told_when_they_are_too_many() -> None:
    """Two CPUs in the shared pool, Slurm has given three; the row says so, and says when it is over."""
    env, sink = Environment(), EventSink("r", "twin", keep=True)
    book = CpuBook(env, sink, lambda machine, container: 0b11)
    book.begin(1, "m", "a", 2)
    book.begin(2, "m", "b", 1)
    book.begin(3, "n", "c", 2)
    book.end(1)
    assert [(value, detail) for _, value, detail in rows(sink)] == [
        (1, '{"cpuset":"0-1","jobs":[1,2]}'), (0, '{"cpuset":"0-1","jobs":[2]}'),
    ]  # fmt: skip


def test_pods_with_cpus_of_their_own_do_not_disturb_each_other() -> None:
    """Each set is counted for itself."""
    env, sink = Environment(), EventSink("r", "twin", keep=True)
    book = CpuBook(env, sink, lambda machine, container: {"a": 0b0011, "b": 0b1100}[container])
    book.begin(1, "m", "a", 2)
    book.begin(2, "m", "b", 2)
    assert rows(sink) == []


def test_the_shared_pool_shrinks_for_old_containers_within_ten_seconds(one_node: Any) -> None:
    """A pod with exclusive CPUs shares them with those before it until the reconcile loop comes (kubernetes.md 1.6)."""
    told: list[tuple[float, str, int]] = []
    resources = node_resources(STATIC, flat_host(4, 8 << 30))
    node = one_node(
        resources=resources, on_cpus=lambda uid, name, cpus: told.append((node.env.now_ns / SECOND, uid, cpus))
    )
    node.create(name="shared")
    node.create(TWO, name="own", at_s=20)
    node.delete(60, name="own")
    node.run(100)
    [(_, _, first), (begun, _, own), (shrunk, _, less), (back, _, again)] = told
    assert (first, own, less, again) == (0b1111, 0b0110, 0b1001, 0b1111)
    assert 20 < begun < 22
    assert 0 < shrunk - begun <= 10
    assert 60 < back <= 71


def test_a_second_pod_without_cpus_left_is_refused(one_node: Any) -> None:
    """The managers say so before the node's room is counted: UnexpectedAdmissionError (kubernetes.md 1.12)."""
    node = one_node(resources=node_resources(STATIC, flat_host(4, 8 << 30)), milli_cpu=8000)
    node.create(TWO, name="a")
    node.create(TWO, name="b", at_s=5)
    node.run(20)
    assert node.pod("a").status.phase == "Running"
    assert (node.pod("b").status.phase, node.pod("b").status.reason) == ("Failed", "UnexpectedAdmissionError")


def test_a_container_keeps_its_cpus_over_its_own_restart_and_the_kubelet_s(one_node: Any) -> None:
    """The key is pod and container, the checkpoint outlives the kubelet (kubernetes.md 1.7, 1.9)."""
    told: list[int] = []
    resources = node_resources(STATIC, flat_host(4, 8 << 30))
    node = one_node(resources=resources, on_cpus=lambda uid, name, cpus: told.append(cpus))
    node.create(TWO)
    node.at(20, lambda: node.program().place.exited(1))
    node.at(40, node.machine.kill_kubelet)
    node.at(50, node.machine.start_kubelet)
    node.run(90)
    assert node.pod().status.containers[0].restart_count == 1
    assert told == [0b0110]


def test_a_kubelet_with_another_policy_than_its_checkpoint_does_not_start(one_node: Any) -> None:
    """Cure: drain and delete the file (kubernetes.md 1.9)."""
    resources = node_resources(STATIC, flat_host(4, 8 << 30))
    node = one_node(resources=resources)
    node.run(5)
    node.machine.kill_kubelet()
    resources.configuration = node_resources(
        Kubelet(cpu_manager="none", topology_manager="best-effort"), flat_host(4, 8 << 30)
    ).configuration
    node.machine.start_kubelet()
    assert node.machine.kubelet is None
    assert "policy" in node.machine.refused


@pytest.mark.parametrize(
    ("version", "cgroups", "options", "refused"),
    [
        ("1.34", 1, {}, False),
        ("1.35", 1, {}, True),
        ("1.35", 2, {}, False),
        ("1.35", 1, {"failCgroupV1": False}, False),
        ("1.34", 1, {"singleProcessOOMKill": False}, True),
    ],
)
def test_which_kubelets_refuse_cgroup_v1(version: str, cgroups: int, options: Any, refused: bool) -> None:
    """kubernetes.md 2.2 and 2.18."""
    assert bool(refuses_to_start(Kubelet(options=options), kubelet_defaults(version), cgroups)) == refused


def test_thresholds_of_a_scenario_are_read_and_none_means_none() -> None:
    """kind's kubelets have no memory threshold (kubernetes.md 8.1)."""
    defaults = kubelet_defaults("1.34")
    assert eviction_state(Kubelet(), defaults) is None
    state = eviction_state(Kubelet(eviction_hard={"memory.available": "1Gi"}), defaults)
    assert state is not None
    assert {t.signal for t in state.thresholds} == {"memory.available", "allocatableMemory.available"}


def test_options_that_matter_and_are_not_modelled_are_refused() -> None:
    """Leaving them out would change results."""
    with pytest.raises(UnsupportedError, match="memorySwap"):
        node_resources(Kubelet(options={"memorySwap": {"swapBehavior": "LimitedSwap"}}), flat_host(2, 1))
    wrong = Kubelet(cpu_manager="static", options={"cpuManagerPolicyOptions": {"full-cpus": "true"}})
    with pytest.raises(InputError, match="full-cpus"):
        node_resources(wrong, flat_host(2, 1))
