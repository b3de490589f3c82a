"""The hardware of a node as node selection sees it; nodes of one shape are interchangeable."""

from __future__ import annotations

from dataclasses import dataclass

from slurmtwin.contract.cluster import NodeConf


@dataclass(frozen=True, slots=True)
class Shape:
    """Sockets, cores, threads, memory and generic resources of a node (node_record_t)."""

    cpus: int
    """Usable CPUs: without specialised cores (cpus_efctv)."""
    config_cpus: int
    sockets: int
    cores: int
    """Per socket."""
    tpc: int
    """Threads per core that count as CPUs: 1 when CPUs= names the cores."""
    threads: int
    mem_mib: int
    """RealMemory less MemSpecLimit."""
    real_mem_mib: int
    core_map: int
    """Bitmap of cores a job may get: all but CoreSpecCount."""
    gres: tuple[tuple[str, str, int], ...]

    @property
    def total_cores(self) -> int:
        """Cores of all sockets, specialised ones included."""
        return self.sockets * self.cores


def shape_of(conf: NodeConf) -> Shape:
    """The shape of a configured node. Specialised cores come from the last core of the last socket down."""
    cores = conf.cores_per_socket
    total = conf.sockets * cores
    tpc = conf.threads_per_core if conf.cpus >= total * conf.threads_per_core else 1
    core_map = (1 << total) - 1
    left = conf.core_spec_count
    for core in range(cores - 1, -1, -1):
        for socket in range(conf.sockets - 1, -1, -1):
            if left > 0:
                core_map &= ~(1 << (socket * cores + core))
                left -= 1
    return Shape(
        cpus=conf.cpus - (total - core_map.bit_count()) * tpc,
        config_cpus=conf.cpus,
        sockets=conf.sockets,
        cores=cores,
        tpc=tpc,
        threads=conf.threads_per_core,
        mem_mib=conf.real_memory_mib - conf.mem_spec_limit_mib,
        real_mem_mib=conf.real_memory_mib,
        core_map=core_map,
        gres=tuple((g.name, g.type, g.count) for g in conf.gres),
    )
