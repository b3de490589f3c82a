"""A scenario's kubelet options (contract/kubernetes.py) as what the models of one node take.

Options in their own words: KubeletConfiguration v1beta1 of v1.34.2. One that is not modelled and would change what pods
get is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from slurmtwin.contract.clock import SECOND, parse_duration
from slurmtwin.contract.errors import InputError, UnsupportedError
from slurmtwin.contract.kubernetes import Kubelet
from slurmtwin.contract.quantity import milli_cpu, quantity_bytes
from slurmtwin.models.kubelet.cpu_manager import CpuPolicyOptions
from slurmtwin.models.kubelet.cpu_topology import CpuTopology, LogicalCpu, set_of
from slurmtwin.models.kubelet.defaults import KubeletDefaults
from slurmtwin.models.kubelet.eviction import EvictionState, read_thresholds
from slurmtwin.models.kubelet.node_resources import Host, KubeletConfiguration, NodeResources
from slurmtwin.models.kubelet.topology_manager import DEFAULT_MAX_NUMA_NODES

LOCAL_DISTANCE: Final = 10
REFUSED: Final = frozenset({
    "crashLoopBackOff", "memorySwap", "shutdownGracePeriod", "shutdownGracePeriodCriticalPods",
    "cpuManagerReconcilePeriod", "nodeStatusUpdateFrequency", "nodeLeaseDurationSeconds", "syncFrequency",
    "cgroupsPerQOS", "enforceNodeAllocatable",
})  # fmt: skip
"""Options that would change what happens to pods, and are not modelled."""


def flat_host(cpus: int, memory: int) -> Host:
    """A machine of one socket and one NUMA node without threads: so many CPUs, so many bytes."""
    topology = CpuTopology(LogicalCpu(cpu, cpu, 0, 0, 0) for cpu in range(cpus))
    return Host(topology, {0: {"memory": memory}}, {0: (LOCAL_DISTANCE,)})


def refuse_unknown(section: Kubelet) -> None:
    """Raises UnsupportedError for an option that matters and is not modelled."""
    for name in section.options:
        if name in REFUSED:
            raise UnsupportedError(f"kubelet option {name}: the twin does not model it", hint="--world kind runs it")


def node_resources(section: Kubelet, host: Host) -> NodeResources | None:
    """The resource managers of a node; None: none of them does anything. Raises InputError, UnsupportedError."""
    refuse_unknown(section)
    if section.cpu_manager == "none" and section.topology_manager == "none" and section.memory_manager == "None":
        return None
    options = section.options
    numa = _mapping(options, "topologyManagerPolicyOptions")
    configuration = KubeletConfiguration(
        cpu_policy=section.cpu_manager,
        cpu_options=CpuPolicyOptions(**_flags(_mapping(options, "cpuManagerPolicyOptions"))),
        reserved_cpus=set_of(_cpu_ids(section.reserved_cpus)),
        reserved_cpu_count=len(_cpu_ids(section.reserved_cpus)) or _reserved_count(options),
        topology_policy=section.topology_manager,
        topology_scope=section.topology_scope,
        prefer_closest_numa_nodes=numa.get("prefer-closest-numa-nodes", "false").lower() == "true",
        max_allowable_numa_nodes=int(numa.get("max-allowable-numa-nodes", DEFAULT_MAX_NUMA_NODES)),
        memory_policy=section.memory_manager,
        reserved_memory_bytes=_reserved_memory(section),
    )
    return NodeResources(host, configuration)


def _cpu_ids(text: str) -> list[int]:
    """A CPU list such as 0-1,4."""
    found: list[int] = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    return found


def _mapping(options: Mapping[str, Any], name: str) -> dict[str, str]:
    found = options.get(name, {})
    if not isinstance(found, Mapping):
        raise InputError(f"kubelet option {name} is a mapping")
    return {str(key): str(value) for key, value in found.items()}


def _flags(options: Mapping[str, str]) -> dict[str, bool]:
    known = CpuPolicyOptions.__dataclass_fields__
    found = {name.replace("-", "_"): value.lower() == "true" for name, value in options.items()}
    odd = sorted(set(found) - set(known))
    if odd:
        raise InputError(f"no CPU manager option is called {odd[0].replace('_', '-')}")
    return found


def _reserved_count(options: Mapping[str, Any]) -> int:
    """ceil(systemReserved.cpu + kubeReserved.cpu) (kubernetes.md 1.3)."""
    milli = sum(milli_cpu(_mapping(options, name).get("cpu", "0")) for name in ("systemReserved", "kubeReserved"))
    return -(-milli // 1000)


def _reserved_memory(section: Kubelet) -> dict[int, dict[str, int]]:
    if not section.system_reserved_memory:
        return {}
    return {0: {"memory": quantity_bytes(section.system_reserved_memory)}}


def eviction_state(section: Kubelet, defaults: KubeletDefaults) -> EvictionState | None:
    """The eviction manager's memory at its start; None: no threshold (kind's own configuration has none)."""
    options = section.options
    thresholds = read_thresholds(
        section.eviction_hard, section.eviction_soft, section.eviction_soft_grace,
        _mapping(options, "evictionMinimumReclaim"),
    )  # fmt: skip
    if not thresholds:
        return None
    transition = options.get("evictionPressureTransitionPeriod")
    grace = options.get("evictionMaxPodGracePeriod", 0)
    return EvictionState(
        thresholds, defaults.pressure_transition_ns if transition is None else parse_duration(str(transition)),
        int(str(grace)) * SECOND,
    )  # fmt: skip


def refuses_to_start(section: Kubelet, defaults: KubeletDefaults, cgroups: int) -> str:
    """Why this kubelet exits at its start; "": it does not (kubernetes.md 2.2, 2.18)."""
    fails = section.options.get("failCgroupV1", defaults.refuses_cgroup_v1)
    if cgroups == 1 and str(fails).lower() == "true":
        return "kubelet is configured to not run on a host using cgroup v1"
    if cgroups == 1 and str(section.options.get("singleProcessOOMKill", "true")).lower() == "false":
        return "singleProcessOOMKill must not be false on cgroup v1"
    return ""
