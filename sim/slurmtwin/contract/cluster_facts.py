"""What a checker must know of the cluster a run was made on: plain data in the manifest, no model behind it.

Every world writes `facts_of(conf).to_dict()` to `manifest.parameters["cluster"]`; the checks read it back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.cluster import ClusterConf
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.hostlist import compress, expand


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """Sizes and times that bound what may happen."""

    node_cpus: dict[str, int] = field(default_factory=dict)
    """CPUs of each node, in node-table order."""
    share: int = 1
    """How many jobs may hold one CPU at once: the largest OverSubscribe count, 2 at least under gang scheduling."""
    default_partition: str = ""
    bf_interval_ns: int = 30 * SECOND
    requeue_hold_ns: int = 121 * SECOND
    """End of a run to the earliest next start after a requeue (slurm.md 4.6)."""
    controllers: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; nodes of equal size share one hostlist."""
        groups: dict[int, list[str]] = {}
        for name, cpus in self.node_cpus.items():
            groups.setdefault(cpus, []).append(name)
        return {
            "nodes": [{"names": compress(names), "cpus": cpus} for cpus, names in groups.items()],
            "share": self.share,
            "default_partition": self.default_partition,
            "bf_interval_ns": self.bf_interval_ns,
            "requeue_hold_ns": self.requeue_hold_ns,
            "controllers": list(self.controllers),
        }

    @classmethod
    def from_dict(cls, document: dict[str, Any]) -> ClusterFacts:
        """The inverse of to_dict. Raises InputError when a key is missing or of the wrong type."""
        try:
            cpus = {name: int(g["cpus"]) for g in document["nodes"] for name in expand(g["names"])}
            return cls(
                node_cpus=cpus,
                share=int(document["share"]),
                default_partition=str(document["default_partition"]),
                bf_interval_ns=int(document["bf_interval_ns"]),
                requeue_hold_ns=int(document["requeue_hold_ns"]),
                controllers=tuple(str(c) for c in document["controllers"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"cluster facts of a manifest: {type(error).__name__} {error}") from error


def facts_of(conf: ClusterConf) -> ClusterFacts:
    """The facts of a configuration."""
    shares = [p.over_subscribe_count for p in conf.partitions if p.over_subscribe in ("YES", "FORCE")]
    hold = conf.timers.cred_expire_ns + SECOND
    if conf.scheduler.requeue_delay_ns >= 0:
        hold = conf.scheduler.requeue_delay_ns
    return ClusterFacts(
        node_cpus={n.name: n.cpus for n in conf.nodes},
        share=max([1, 2 if conf.preempt.gang else 1, *shares]),
        default_partition=next((p.name for p in conf.partitions if p.default), ""),
        bf_interval_ns=conf.scheduler.backfill.interval_ns,
        requeue_hold_ns=hold,
        controllers=conf.controller.hosts,
    )
