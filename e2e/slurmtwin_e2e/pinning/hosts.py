"""Random hosts and kubelet configurations for the pinning oracle.

A host has 1 to 4 sockets, 1, 2 or 4 threads a core, 1 to 8 NUMA nodes and split last-level
caches; some are uneven, as after a CPU was taken offline.
"""

from __future__ import annotations

from itertools import product
from random import Random
from typing import Any

MIB = 1 << 20
GIB = 1 << 30

FULL = "full-pcpus-only"
ACROSS_NUMA = "distribute-cpus-across-numa"
BY_SOCKET = "align-by-socket"
ACROSS_CORES = "distribute-cpus-across-cores"
STRICT = "strict-cpu-reservation"
BY_UNCORE = "prefer-align-cpus-by-uncorecache"
OPTIONS = (FULL, ACROSS_NUMA, BY_SOCKET, ACROSS_CORES, STRICT, BY_UNCORE)
FORBIDDEN = (
    {FULL, ACROSS_CORES},
    {ACROSS_NUMA, ACROSS_CORES},
    {BY_UNCORE, ACROSS_CORES},
    {BY_UNCORE, ACROSS_NUMA},
)
TOPOLOGY_POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


def legal_pairs() -> list[tuple[tuple[str, ...], str]]:
    """Every set of options that may stand together, with every policy it goes with."""
    pairs: list[tuple[tuple[str, ...], str]] = []
    for chosen in product((False, True), repeat=len(OPTIONS)):
        options = tuple(name for name, taken in zip(OPTIONS, chosen, strict=True) if taken)
        if any(pair <= set(options) for pair in FORBIDDEN):
            continue
        pairs.extend(
            (options, policy)
            for policy in TOPOLOGY_POLICIES
            if not (BY_SOCKET in options and policy == "single-numa-node")
        )
    return pairs


def host(random: Random) -> dict[str, Any]:
    """One host as cAdvisor would describe it, at most 96 CPUs."""
    while True:
        sockets = random.choice((1, 1, 2, 2, 4))
        threads = random.choice((1, 2, 2, 2, 4))
        numa_per_socket = random.choice((1, 1, 1, 2, 2, 4, 8))
        sockets_per_numa = random.choice((1, 1, 1, 1, 2)) if numa_per_socket == 1 else 1
        cores = random.randint(1, 8)
        numa = max(1, sockets * numa_per_socket // sockets_per_numa)
        if numa <= 8 and sockets * numa_per_socket * cores * threads <= 96:
            break
    caches = random.choice((1, 1, 2, 4))
    interleaved = random.random() < 0.5
    total_cores = sockets * numa_per_socket * cores
    cpus: list[dict[str, int]] = []
    for core in range(total_cores):
        part = core // cores
        ids = [core + thread * total_cores if interleaved else core * threads + thread for thread in range(threads)]
        cpus.extend(
            {
                "cpu": cpu,
                "core": min(ids),
                "socket": part // numa_per_socket,
                "numa": part // sockets_per_numa,
                "uncore": part * 8 + core % cores * caches // cores,
            }
            for cpu in ids
        )
    if random.random() < 0.15:
        cpus = _with_a_cpu_offline(random, cpus)
    return {"cpus": sorted(cpus, key=lambda cpu: cpu["cpu"]), "numa": _memory(random, numa)}


def _with_a_cpu_offline(random: Random, cpus: list[dict[str, int]]) -> list[dict[str, int]]:
    """The host without one CPU; its core is named after the lowest CPU left."""
    gone = random.choice(cpus)
    left = [cpu for cpu in cpus if cpu is not gone]
    if {cpu["numa"] for cpu in left} != {cpu["numa"] for cpu in cpus}:
        return cpus
    siblings = [cpu["cpu"] for cpu in left if cpu["core"] == gone["core"]]
    return [{**cpu, "core": min(siblings)} if cpu["core"] == gone["core"] else cpu for cpu in left]


def _memory(random: Random, numa: int) -> list[dict[str, Any]]:
    pages = random.choice((0, 0, 256, 512)) if numa <= 3 else 0
    size = random.choice((4, 8, 16)) * GIB
    return [
        {
            "id": node,
            "memory": size + random.choice((0, 0, 512 * MIB)),
            "hugepages": [{"size_kib": 2048, "count": pages}] if pages else [],
            "distances": [10 if other == node else 12 + 4 * (abs(other - node) % 3) for other in range(numa)],
        }
        for node in range(numa)
    ]


def kubelet(random: Random, machine: dict[str, Any], options: tuple[str, ...], policy: str) -> dict[str, Any]:
    """A kubelet that starts on the host, or in some cases one that must refuse."""
    cpus = [cpu["cpu"] for cpu in machine["cpus"]]
    count = random.randint(1, max(1, min(4, len(cpus) // 3)))
    explicit = random.random() < 0.5
    topology_options = {"prefer-closest-numa-nodes": "true"} if random.random() < 0.3 else {}
    static_memory = random.random() < (0.4 if len(machine["numa"]) <= 4 else 0.1)
    reserved = sorted(random.sample(cpus, count)) if explicit else []
    return {
        "cpu_policy": "static",
        "cpu_options": dict.fromkeys(options, "true"),
        "reserved_cpus": ",".join(map(str, reserved)),
        "reserved_milli_cpu": 1000 * count - (0 if explicit else random.choice((0, 0, 500))),
        "topology_policy": policy,
        "topology_scope": random.choice(("container", "pod")),
        "topology_options": topology_options,
        "memory_policy": "Static" if static_memory else "None",
        "reserved_memory": _reserved_memory(random, machine) if static_memory else [],
    }


def _reserved_memory(random: Random, machine: dict[str, Any]) -> list[dict[str, int]]:
    nodes = machine["numa"] if random.random() < 0.5 else machine["numa"][:1]
    return [{"numa": node["id"], "memory": 512 * MIB, "hugepages_2mi": 0} for node in nodes]
