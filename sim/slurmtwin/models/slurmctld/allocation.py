"""What a job holds: nodes, CPUs, cores, memory and generic resources (job_resources_t)."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Allocation:
    """One job's resources. Tuples run over the nodes of `nodes` in table order.

    `cores` holds one bitmap per node; None when the select plugin deals in whole nodes only and every
    core is taken. `gres`: per node (name, type, count) triples, or () when none was asked.
    """

    nodes: int
    """Bitmap."""
    cpus: tuple[int, ...] | None
    """CPUs per node; None: all CPUs of every node."""
    cpu_total: int
    cores: tuple[int, ...] | None = None
    mem_mib: tuple[int, ...] | None = None
    """Per node; None: no memory is consumed."""
    gres: tuple[tuple[tuple[str, str, int], ...], ...] = ()
    whole_nodes: bool = False
    """No other job may share the nodes (EXCLUSIVE, select/linear, --exclusive)."""
    row: int = 0
    """OverSubscribe row of the partition (0: not shared)."""
    groups: tuple[tuple[int, tuple[int, int, int, tuple[int, ...]]], ...] = ()
    """The same by sets of equal nodes: (bitmap, (cores, CPUs, MiB, count per gres entry of the node)); the
    select plugin's own form, () when it did not make this allocation."""
