"""Trackable resources (TRES): their names and order, what a job asks for and holds, billing weights.

Sources: slurm_common.h TRES_ARRAY_*, job_mgr.c job_set_req_tres() and job_set_alloc_tres(), assoc_mgr.c
assoc_mgr_tres_weighted(). A count vector is a list of ints in the order of `TresTable.names`; memory in MiB.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from slurmtwin.contract.cluster import ClusterConf, Limits
from slurmtwin.models.slurmctld.allocation import Allocation
from slurmtwin.models.slurmctld.tables import Job, Node, Partition, bits

CPU: Final = 0
MEM: Final = 1
ENERGY: Final = 2
NODE: Final = 3
BILLING: Final = 4
_STATIC: Final = ("cpu", "mem", "energy", "node", "billing")

Pairs = tuple[tuple[int, int], ...]
"""Sparse amounts: (TRES index, amount), ascending by index."""


def tres_name(text: str) -> str:
    """cpu, mem ... in lower case; gres/NAME and license/NAME keep the case of NAME."""
    kind, slash, rest = text.partition("/")
    return f"{kind.lower()}/{rest}" if slash else kind.lower()


def _named_in(limits: Limits) -> Iterable[str]:
    for name in limits.__slots__:
        value = getattr(limits, name)
        if isinstance(value, tuple):
            for tres, _ in value:
                yield tres


class TresTable:
    """The TRES of one cluster: the five static ones, then AccountingStorageTRES, then any that limits name."""

    def __init__(self, conf: ClusterConf) -> None:
        names = dict.fromkeys(_STATIC)
        names.update(dict.fromkeys(map(tres_name, conf.controller.accounting_tres)))
        for limits in (*(q.limits for q in conf.qos), *(a.limits for a in conf.assocs)):
            names.update(dict.fromkeys(map(tres_name, _named_in(limits))))
        names.update(dict.fromkeys(tres_name(n) for n, _ in conf.priority.weight_tres))
        for part in conf.partitions:
            names.update(dict.fromkeys(tres_name(n) for n, _ in part.tres_billing_weights))
        self.names: tuple[str, ...] = tuple(names)
        self.index: dict[str, int] = {name: i for i, name in enumerate(self.names)}
        self._gres = [(i, *_split_gres(n)) for i, n in enumerate(self.names) if n.startswith("gres/")]
        self._licenses = [(i, n.partition("/")[2]) for i, n in enumerate(self.names) if n.startswith("license/")]
        flags = {f.upper() for f in conf.priority.flags}
        self._max_tres = "MAX_TRES" in flags
        self._max_tres_gres = "MAX_TRES_GRES" in flags
        self._billing: dict[str, list[float] | None] = {}
        self._extra = len(self.names) > len(_STATIC)

    def __len__(self) -> int:
        return len(self.names)

    def kind(self, index: int) -> str:
        """The type of a TRES: cpu, mem, energy, node, billing, gres or license."""
        return self.names[index].partition("/")[0]

    def pairs(self, amounts: Iterable[tuple[str, int]]) -> Pairs:
        """Sparse form of named amounts; negative ones mean no limit and are left out."""
        return tuple(sorted((self.index[tres_name(name)], amount) for name, amount in amounts if amount >= 0))

    def weights(self, weights: Sequence[tuple[str, float]]) -> list[float] | None:
        """Weight per TRES; None when none is given. A memory weight is per MiB."""
        if not weights:
            return None
        out = [0.0] * len(self.names)
        for name, weight in weights:
            out[self.index[tres_name(name)]] = weight
        return out

    def requested(self, job: Job, part: Partition | None) -> list[int]:
        """tres_req_cnt: what the job asked for, at least (job_set_req_tres)."""
        return self._count(job, part, job.cpus_min, job.nodes_min, None, job.gres)

    def requested_with(self, job: Job, part: Partition | None, allocation: Allocation) -> list[int]:
        """The request on the selected nodes, as select_nodes() hands it to the limits."""
        return self._count(job, part, allocation.cpu_total, allocation.nodes.bit_count(), allocation, job.gres)

    def allocated(self, job: Job) -> list[int]:
        """tres_alloc_cnt of a started job (job_set_alloc_tres). Energy is never known in advance: 0."""
        alloc = job.alloc
        assert alloc is not None
        return self._count(job, job.part, alloc.cpu_total, alloc.nodes.bit_count(), alloc, None)

    def _count(
        self, job: Job, part: Partition | None, cpus: int, nodes: int, alloc: Allocation | None,
        gres: tuple[tuple[str, str, int], ...] | None,
    ) -> list[int]:  # fmt: skip
        counts = [0] * len(self.names)
        counts[CPU] = cpus
        counts[NODE] = nodes
        if alloc is not None and alloc.mem_mib is not None:
            counts[MEM] = sum(alloc.mem_mib)
        else:
            counts[MEM] = job.mem_mib * (cpus if job.mem_per_cpu else nodes)
        if self._extra:
            for i, lic in self._licenses:
                counts[i] = sum(n for name, n in job.licenses if name == lic)
            for i, name, kind in self._gres:
                if gres is None and alloc is not None and alloc.gres:
                    counts[i] = sum(
                        n for per_node in alloc.gres for g, t, n in per_node if g == name and kind in ("", t)
                    )
                else:
                    wanted = job.gres if gres is None else gres
                    counts[i] = nodes * sum(n for g, t, n in wanted if g == name and kind in ("", t))
        counts[BILLING] = int(self.billing(counts, part))
        return counts

    def billing(self, counts: Sequence[int], part: Partition | None) -> float:
        """Billable TRES: CPUs without TRESBillingWeights; else the weighted sum (or MAX_TRES)."""
        weights = self._partition_weights(part)
        if weights is None:
            return float(counts[CPU])
        node_bill = gres_bill = rest = 0.0
        for i, weight in enumerate(weights):
            if i == BILLING:
                continue
            value = counts[i] * weight
            kind = self.kind(i)
            if (self._max_tres or self._max_tres_gres) and kind in ("cpu", "mem", "node", "gres"):
                if self._max_tres_gres and kind == "gres":
                    gres_bill += value
                else:
                    node_bill = max(node_bill, value)
            else:
                rest += value
        return node_bill + gres_bill + rest

    def _partition_weights(self, part: Partition | None) -> list[float] | None:
        if part is None:
            return None
        name = part.name
        if name not in self._billing:
            self._billing[name] = self.weights(part.conf.tres_billing_weights)
        return self._billing[name]

    def partition_totals(self, part: Partition, nodes: Sequence[Node]) -> list[int]:
        """What the partition's nodes have in all (part_record tres_cnt): the divisor of the TRES factor."""
        counts = [0] * len(self.names)
        for i in bits(part.nodes):
            conf = nodes[i].conf
            counts[CPU] += conf.cpus
            counts[MEM] += conf.real_memory_mib
            counts[NODE] += 1
            for t, name, kind in self._gres:
                counts[t] += sum(g.count for g in conf.gres if g.name == name and kind in ("", g.type))
        counts[BILLING] = int(self.billing(counts, part))
        return counts


def _split_gres(name: str) -> tuple[str, str]:
    """`gres/gpu:a100` -> (gpu, a100)."""
    gres, _, kind = name.partition("/")[2].partition(":")
    return gres, kind
