"""Scheduling weights: the order in which groups of nodes are used (slurm.md 1.3 "Weight")."""

from __future__ import annotations

from collections.abc import Iterable

from slurmtwin.models.slurmctld.selection.pick import Offers


class WeightGroups:
    """Nodes by scheduling weight, lowest first; the same node is in one group."""

    __slots__ = ("groups",)

    def __init__(self, weights: Iterable[tuple[int, int]]) -> None:
        table: dict[int, int] = {}
        for weight, bitmap in weights:
            table[weight] = table.get(weight, 0) | bitmap
        self.groups: tuple[tuple[int, int], ...] = tuple((w, table[w]) for w in sorted(table))

    def cut(self, nodes: int) -> list[int]:
        """The parts of `nodes` by weight, lowest first."""
        if len(self.groups) == 1:
            return [nodes] if nodes else []
        return [bitmap & nodes for _weight, bitmap in self.groups if bitmap & nodes]

    def of(self, bit: int) -> int:
        """The weight of one node."""
        for weight, bitmap in self.groups:
            if bitmap & bit:
                return weight
        return 0

    def first(self, nodes: int) -> int:
        """Bit of the node of lowest weight, then lowest index; 0 for none."""
        for _weight, bitmap in self.groups:
            some = bitmap & nodes
            if some:
                return some & -some
        return 0

    def with_gpus(self, offers: Offers) -> WeightGroups:
        """The low byte counts GPUs beside free cores, more of them first (0xff - near_gpu_cnt)."""
        if not any(fit.near_gres for _bitmap, fit in offers):
            return self
        return WeightGroups(
            ((weight << 8) + 255 - fit.near_gres, bitmap & part)
            for weight, bitmap in self.groups
            for part, fit in offers
            if bitmap & part
        )
