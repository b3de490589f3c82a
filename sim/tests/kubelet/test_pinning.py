"""Pinning against the real kubelet's managers (kubernetes.md 1; v1.34.2), and what they do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurmtwin.contract.errors import InputError
from slurmtwin.models.kubelet import cpu_distribution, cpu_manager, memory_manager, node_resources
from slurmtwin.models.kubelet.cpu_accumulator import (
    CpuAccumulator,
    NotEnoughCpusError,
    take_packed,
)
from slurmtwin.models.kubelet.cpu_distribution import AllocatorHangsError, take_distributed
from slurmtwin.models.kubelet.cpu_manager import (
    CpuManager,
    CpuPolicyOptions,
    ManagerStartError,
)
from slurmtwin.models.kubelet.cpu_topology import CpuTopology, LogicalCpu, list_form, set_of
from slurmtwin.models.kubelet.memory_manager import MemoryManager
from slurmtwin.models.kubelet.node_resources import (
    Host,
    KubeletConfiguration,
    NodeResources,
)
from slurmtwin.models.kubelet.pod_resources import ContainerResources, PodResources
from slurmtwin.models.kubelet.topology_manager import TopologyHint, TopologyManager
from slurmtwin.worlds.pinning import compare, first_difference, recorded, replay

RECORDED = Path(__file__).parents[3] / "scenarios" / "pinning" / "kubelet-1.34.2.jsonl.gz"


def smt_host(cores: int, numa: int = 1, threads: int = 2) -> CpuTopology:
    """Cores numbered first, siblings after them, one socket and cache per NUMA node."""
    total = cores * numa
    return CpuTopology(
        LogicalCpu(core + thread * total, core, core // cores, core // cores, core // cores)
        for core in range(total)
        for thread in range(threads)
    )


def pod(uid: str, *cpus: int, init: tuple[int, ...] = ()) -> PodResources:
    """A Guaranteed pod with these whole CPUs per container."""
    return PodResources(
        uid,
        guaranteed=True,
        containers=tuple(ContainerResources(f"c{n}", 1000 * count) for n, count in enumerate(cpus)),
        init_containers=tuple(ContainerResources(f"i{n}", 1000 * count) for n, count in enumerate(init)),
    )


def node(topology: CpuTopology, **settings: Any) -> NodeResources:
    """A started node of the static policy with CPU 0 reserved."""
    host = Host(topology, {0: {"memory": 0}}, dict.fromkeys(topology.numa_nodes, (10,)))
    static = {"cpu_policy": "static", "reserved_cpus": 1, "reserved_cpu_count": 1}
    started = NodeResources(host, KubeletConfiguration(**{**static, **settings}))
    started.start()
    return started


def cpus_of(resources: NodeResources, uid: str, container: str = "c0") -> str:
    """Where a container would start, in list form."""
    assert resources.cpu is not None
    return list_form(resources.cpu.cpuset(uid, container))


def test_980_recorded_sequences_of_the_real_managers_are_reproduced() -> None:
    """Every admission, cpuset, memory group and refusal, over restarts of the kubelet."""
    result = compare(RECORDED)
    assert result.mismatches == []
    assert result.sequences == 980
    assert result.steps / result.sequences >= 20
    assert result.with_rejection / result.sequences >= 0.25
    assert result.by_chance <= 5
    assert set(result.reasons) == {
        "SMTAlignmentError",
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
    }


def no_whole(accumulator: CpuAccumulator, *_: Any) -> None:
    """A step of the allocator that takes nothing."""


def emptiest_first(accumulator: CpuAccumulator, groups: dict[int, int], within: int) -> list[int]:
    """The wrong way round."""
    present = [key for key, cpus in groups.items() if cpus & within]
    free = accumulator.free
    return sorted(present, key=lambda key: (-(groups[key] & free).bit_count(), key))


def ties_downwards(accumulator: CpuAccumulator, groups: dict[int, int], within: int) -> list[int]:
    """Ties broken by the highest id."""
    present = [key for key, cpus in groups.items() if cpus & within]
    free = accumulator.free
    return sorted(present, key=lambda key: ((groups[key] & free).bit_count(), -key))


def fresh_list(prefix: Any, item: int) -> Any:
    """A list of its own for each combination: what one would expect, and Go does not do."""
    return type(prefix)([*prefix.items(), item], prefix.length + 1)


def first_mask(manager: TopologyManager, hints: Any) -> tuple[TopologyHint, bool]:
    """Any node will do."""
    return TopologyHint(None, preferred=True), True


PLANTED: dict[str, tuple[Any, str, Any]] = {
    "emptiest group first": (CpuAccumulator, "_ordered", emptiest_first),
    "ties by highest id": (CpuAccumulator, "_ordered", ties_downwards),
    "whole NUMA nodes and sockets skipped": (
        CpuAccumulator,
        "take_numa_nodes_and_sockets",
        no_whole,
    ),
    "whole caches skipped": (CpuAccumulator, "take_uncore_caches", no_whole),
    "parts of caches skipped": (CpuAccumulator, "_take_part_of_cache", no_whole),
    "whole cores skipped": (CpuAccumulator, "take_cores", no_whole),
    "combinations do not share storage": (cpu_distribution._Prefix, "plus", fresh_list),
    "imbalance not rounded": (cpu_distribution, "_rounded", lambda value: value),
    "no chunk lost": (
        cpu_distribution._Distribution,
        "share",
        lambda distribution, nodes: distribution._wanted // nodes,
    ),
    "cores not kept whole": (CpuManager, "_require_whole_cores", no_whole),
    "init containers' CPUs not reused": (CpuManager, "_reusable_of", lambda *_: 0),
    "socket alignment ignored": (CpuManager, "_socket_aligned", lambda *_: False),
    "near is anywhere": (
        CpuManager,
        "_near",
        lambda manager, numa: manager._topology.all_cpus,
    ),
    "fractions get CPUs": (
        CpuManager,
        "_exclusive",
        lambda manager, pod, container: container.milli_cpu // 1000 if pod.guaranteed else 0,
    ),
    "any QoS gets CPUs": (
        CpuManager,
        "_exclusive",
        lambda manager, pod, container: 0 if container.milli_cpu % 1000 else container.milli_cpu // 1000,
    ),
    "ended pods keep their CPUs": (CpuManager, "remove_stale", no_whole),
    "ended pods keep their memory": (MemoryManager, "remove_stale", no_whole),
    "hints ignored": (TopologyManager, "merge", first_mask),
    "distances ignored": (
        TopologyManager,
        "_fitness",
        lambda manager, numa: (numa.bit_count(), 0.0, numa),
    ),
    "narrowest though unpreferred": (
        TopologyManager,
        "_unpreferred_fitness",
        lambda manager, offers: manager._fitness,
    ),
    "groups may overlap": (memory_manager, "_may_form", lambda *_: True),
    "memory from the highest node": (
        memory_manager,
        "_occupy",
        lambda nodes, numa, resource, size: None,
    ),
    "init containers' memory not reused": (MemoryManager, "_reusable_of", lambda *_: 0),
    "init containers' memory kept": (MemoryManager, "container_started", no_whole),
    "taken-over memory counts twice": (MemoryManager, "_charge_init_containers", no_whole),
    "affinity never widened": (
        MemoryManager,
        "_group",
        lambda manager, pod, wanted, affinity: affinity.numa or 1,
    ),
    "checkpoint lost at restart": (CpuManager, "start", no_whole),
    "refused pods stay active": (
        node_resources.NodeResources,
        "_admit",
        lambda resources, pod: _keep_refused(resources, pod),
    ),
}


def _keep_refused(resources: NodeResources, refused: PodResources) -> Any:
    try:
        resources._allocate_pod(refused)
    except cpu_manager.AdmissionError as error:
        return node_resources.Admission(refused.uid, error.reason)
    return node_resources.Admission(refused.uid, "")


def differences() -> Iterator[str]:
    """Differences over the recorded sequences, one at a time."""
    for case, answer in recorded(RECORDED):
        try:
            difference = first_difference(answer, replay(case))
        except Exception as error:
            difference = repr(error)
        if difference:
            yield difference


@pytest.mark.parametrize("bug", PLANTED)
def test_a_bug_planted_in_any_step_is_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step of the allocators matters in some recorded sequence."""
    place, name, planted = PLANTED[bug]
    monkeypatch.setattr(place, name, planted)
    assert list(islice(differences(), 1)), f"no recorded sequence notices: {bug}"


def test_a_second_guaranteed_pod_gets_what_the_first_left_or_is_refused() -> None:
    """Exclusive CPUs leave the shared set; without enough of them the pod fails for good."""
    resources = node(smt_host(cores=2))
    assert resources.admit(pod("one", 2)).admitted
    assert cpus_of(resources, "one") == "1,3"
    assert cpus_of(resources, "shared") == "0,2"
    refused = resources.admit(pod("two", 2))
    assert refused.reason == "UnexpectedAdmissionError"
    assert "two" not in resources.pods


def test_a_container_keeps_its_cpus_over_its_own_and_the_kubelets_restart() -> None:
    """The key is pod and container name, and the state is in a file (kubernetes.md 1.7, 1.9)."""
    resources = node(smt_host(cores=4))
    resources.admit(pod("one", 2))
    before = cpus_of(resources, "one")
    resources.container_started("one", "c0")
    assert all(admission.admitted for admission in resources.start())
    assert cpus_of(resources, "one") == before


def test_freed_cpus_return_with_the_next_admission_not_before() -> None:
    """Release is lazy (kubernetes.md 1.8)."""
    resources = node(smt_host(cores=2))
    resources.admit(pod("one", 2))
    resources.remove("one")
    assert cpus_of(resources, "shared") == "0,2"
    assert resources.admit(pod("two", 2)).admitted
    resources.remove("two")
    resources.reconcile()
    assert cpus_of(resources, "shared") == "0-3"


def test_a_stale_state_file_stops_the_kubelet_until_it_is_deleted() -> None:
    """Another policy, or reserved CPUs that are given away (kubernetes.md 1.9)."""
    resources = node(smt_host(cores=4))
    resources.admit(pod("one", 2))
    with pytest.raises(ManagerStartError, match=r"^cpu: .*policy static"):
        resources.start(KubeletConfiguration())
    more = KubeletConfiguration(cpu_policy="static", reserved_cpus=0b11111, reserved_cpu_count=5)
    with pytest.raises(ManagerStartError, match=r"^cpu: reserved CPUs missing"):
        resources.start(more)
    with pytest.raises(InputError, match="not running"):
        resources.admit(pod("two", 1))
    resources.wipe(more)
    assert resources.admit(pod("two", 2)).admitted


def test_the_last_cpus_of_a_reserved_core_are_no_whole_core() -> None:
    """full-pcpus-only counts free CPUs beside reserved ones as taken (kubernetes.md 1.2)."""
    resources = node(smt_host(cores=2), cpu_options=CpuPolicyOptions(full_pcpus_only=True))
    assert resources.admit(pod("odd", 1)).reason == "SMTAlignmentError"
    assert resources.admit(pod("two", 2)).admitted
    assert resources.admit(pod("more", 2)).reason == "SMTAlignmentError"


def test_a_refused_pod_keeps_what_its_first_container_got_until_the_next_admission() -> None:
    """Admission gives out container by container and takes nothing back (kubernetes.md 1.12)."""
    resources = node(smt_host(cores=2))
    assert not resources.admit(pod("one", 2, 2)).admitted
    assert cpus_of(resources, "shared") == "0,2"
    assert resources.admit(pod("two", 3)).admitted


def test_cpus_of_an_ended_init_container_go_to_the_pods_next_one() -> None:
    """Only to the same pod (kubernetes.md 1.5)."""
    resources = node(smt_host(cores=2))
    assert resources.admit(pod("one", 2, init=(2,))).admitted
    assert cpus_of(resources, "one", "i0") == cpus_of(resources, "one", "c0")


def test_the_best_combination_of_four_numa_nodes_may_be_overwritten_by_a_later_one() -> None:
    """The kubelet keeps a Go slice that later combinations write into (docs/pinning.md)."""
    four = list(cpu_distribution._combinations(range(5), 4))
    assert [prefix.items() for prefix in four[:2]] == [[0, 1, 2, 4], [0, 1, 2, 4]]
    three = [prefix.items() for prefix in cpu_distribution._combinations(range(4), 3)]
    assert three == [[0, 1, 2], [0, 1, 3], [0, 2, 3], [1, 2, 3]]


def test_a_recorded_request_makes_the_real_kubelet_loop_for_ever() -> None:
    """distribute-cpus-across-numa with odd CPUs left over; the model says so, and does not."""
    hanging = [
        (case, answer) for case, answer in recorded(RECORDED) if any(step["hangs"] for step in answer["steps"] or [])
    ]
    assert len(hanging) == 1
    case, answer = hanging[0]
    assert "distribute-cpus-across-numa" in case["kubelet"]["cpu_options"]
    assert replay(case)["steps"][-1] == {"hangs": True}
    assert len(answer["steps"]) < len(case["steps"])


def test_impossible_hosts_are_refused() -> None:
    """No CPU, the same CPU twice, more NUMA nodes than the manager allows."""
    with pytest.raises(InputError, match="without CPUs"):
        CpuTopology([])
    with pytest.raises(InputError, match="twice"):
        CpuTopology([LogicalCpu(0, 0, 0, 0, 0)] * 2)
    host = Host(smt_host(cores=1, numa=9), {}, {})
    with pytest.raises(ManagerStartError, match=r"topology: 9 NUMA nodes.*max-allowable"):
        NodeResources(host, KubeletConfiguration(topology_policy="restricted")).start()


@given(st.sets(st.integers(0, 70)))
def test_list_form_names_exactly_the_members(ids: set[int]) -> None:
    """As Linux would read it."""
    read: set[int] = set()
    for part in filter(None, list_form(set_of(ids)).split(",")):
        bounds = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        assert bounds is not None
        read.update(range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1))
    assert read == ids


Allocator = Callable[[CpuTopology, int, int], int]


@pytest.mark.parametrize(
    "allocator",
    [
        lambda host, free, n: take_packed(host, free, n, spread=False, by_uncore=True),
        lambda host, free, n: take_packed(host, free, n, spread=True, by_uncore=False),
        lambda host, free, n: take_distributed(host, free, n, chunk=2, spread=False),
    ],
)
@given(
    data=st.data(),
    cores=st.integers(1, 4),
    numa=st.integers(1, 5),
    threads=st.sampled_from((1, 2, 4)),
)
def test_an_allocation_has_the_size_asked_for_and_only_free_cpus(
    allocator: Allocator, data: st.DataObject, cores: int, numa: int, threads: int
) -> None:
    """Or it says that there are not enough, or that the kubelet hangs."""
    host = smt_host(cores, numa, threads)
    free = data.draw(st.integers(0, host.all_cpus)) & host.all_cpus
    wanted = data.draw(st.integers(0, len(host.cpus)))
    try:
        taken = allocator(host, free, wanted)
    except NotEnoughCpusError:
        assert wanted > free.bit_count() or len(host.numa_nodes) >= 4
    except AllocatorHangsError:
        assert len(host.numa_nodes) >= 3
    else:
        assert taken.bit_count() == wanted
        assert not taken & ~free
