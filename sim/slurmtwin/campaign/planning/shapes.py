"""Node shapes of a cluster, and the same cluster with other counts of each shape."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from slurmtwin.contract.errors import InputError
from slurmtwin.contract.hostlist import compress, expand
from slurmtwin.contract.scenario import Scenario
from slurmtwin.workload.slurm_conf import cluster_conf
from slurmtwin.worlds.outside import literal_scenario

if TYPE_CHECKING:
    from slurmtwin.campaign.planning.queue_kernel import Machines

Counts = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Shape:
    """Nodes that are alike: one NodeName line of the cluster."""

    name: str
    """`80x517018M`, what the line gives each node."""
    line: dict[str, Any]
    names: tuple[str, ...]
    cpus: int
    memory_mib: int
    partitions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Cluster:
    """Today's cluster by shapes."""

    scenario: Scenario
    """Literal: no file is named any more."""
    shapes: tuple[Shape, ...]
    notes: tuple[str, ...] = ()

    @property
    def today(self) -> Counts:
        """How many nodes of each shape there are."""
        return tuple(len(shape.names) for shape in self.shapes)

    def counts(self, total: int) -> Counts:
        """`total` nodes in today's mix. By Webster's divisors: one node more never takes one of another shape."""
        counts = [0] * len(self.shapes)
        for _ in range(total):
            place = max(
                range(len(counts)), key=lambda i: (self.today[i] / (2 * counts[i] + 1), -i)
            )  # of equal claims the first
            counts[place] += 1
        return tuple(counts)

    def machines(self, counts: Counts, partitions: Sequence[str]) -> Machines:
        """The nodes for the quick model, in the order that slurmctld would have them."""
        from slurmtwin.campaign.planning.queue_kernel import Machines

        cpus = np.repeat([shape.cpus for shape in self.shapes], counts).astype(np.int64)
        memory = np.repeat([shape.memory_mib for shape in self.shapes], counts).astype(np.int64)
        member = [np.repeat([name in shape.partitions for shape in self.shapes], counts) for name in partitions]
        return Machines(cpus, memory, np.array(member, np.uint8).reshape(len(partitions), cpus.size))

    def names(self, counts: Counts) -> list[str]:
        """Node names for so many of each shape: today's first, then made-up ones."""
        out: list[str] = []
        for place, (shape, count) in enumerate(zip(self.shapes, counts, strict=True)):
            out += shape.names[:count]
            width = len(str(max(1, count)))
            out += [f"new{place}-{k:0{width}d}" for k in range(1, count - len(shape.names) + 1)]
        return out

    def with_counts(self, counts: Counts) -> Scenario:
        """The scenario with so many nodes of each shape; new nodes join the partitions of their shape."""
        lines: list[dict[str, Any]] = []
        members: dict[str, list[str]] = {}
        every = iter(self.names(counts))
        for shape, count in zip(self.shapes, counts, strict=True):
            names = [next(every) for _ in range(count)]
            if names:
                lines.append({**shape.line, "NodeName": compress(names)})
            for part in shape.partitions:
                members.setdefault(part, []).extend(names)
        slurm = self.scenario.slurm
        partitions = [
            {**part, "Nodes": compress(members[str(part["PartitionName"])])}
            for part in slurm.partitions
            if members.get(str(part["PartitionName"])) or str(part["PartitionName"]).upper() == "DEFAULT"
        ]
        update = {"nodes": lines, "partitions": partitions, "topology": []}
        return self.scenario.model_copy(update={"slurm": slurm.model_copy(update=update)})


def cluster_of(scenario: Scenario, base_dir: Path) -> Cluster:
    """The shapes of a scenario's cluster. Raises InputError for what cannot be counted anew."""
    literal = literal_scenario(scenario, base_dir)
    conf, _ = cluster_conf(literal, base_dir)
    nodes = {node.name: node for node in conf.nodes}
    defaults: dict[str, Any] = {}
    shapes = []
    for line in literal.slurm.nodes:
        if str(line.get("NodeName", "")).upper() == "DEFAULT":
            defaults = {**defaults, **line}
            continue
        names = tuple(name for name in expand(str(line["NodeName"])) if name in nodes)
        if not names:
            continue
        first = nodes[names[0]]
        parts = tuple(part.name for part in conf.partitions if first.name in part.nodes)
        memory = first.real_memory_mib - first.mem_spec_limit_mib
        text = f"{first.cpus}x{first.real_memory_mib}M" if first.real_memory_mib > 1 else f"{first.cpus}"
        whole = {k: v for k, v in {**defaults, **line}.items() if k not in ("NodeAddr", "NodeHostname", "Port")}
        shapes.append(Shape(text, whole, names, first.cpus, memory, parts))
    if not shapes:
        raise InputError("the cluster has no nodes to count")
    notes = ["switches (topology.conf) are left out: new nodes have no place in it"] if literal.slurm.topology else []
    return Cluster(literal, tuple(shapes), tuple(notes))
