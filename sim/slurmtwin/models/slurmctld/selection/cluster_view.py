"""The nodes as node selection groups them: shapes, features, weights, sharing and owners."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slurmtwin.models.slurmctld.node_counts import NodeCounts
from slurmtwin.models.slurmctld.selection.shapes import Shape, shape_of
from slurmtwin.models.slurmctld.selection.weights import WeightGroups

if TYPE_CHECKING:
    from slurmtwin.models.slurmctld.slurmctld import Slurmctld

_BOOT = 0x300_0000_0000
_BOOTING = 0x200_0000_0000


class ClusterView:
    """Static facts of the node table; made anew when nodes or their configuration change."""

    def __init__(self, ctld: Slurmctld) -> None:
        self._table = ctld.nodes
        self.shapes: list[Shape] = []
        self.shape_nodes: list[int] = []
        """Bitmap per shape."""
        self.shape_of: list[int] = []
        """Shape index per node."""
        known: dict[Shape, int] = {}
        for node in ctld.nodes.nodes:
            shape = shape_of(node.conf)
            place = known.get(shape)
            if place is None:
                place = known[shape] = len(self.shapes)
                self.shapes.append(shape)
                self.shape_nodes.append(0)
            self.shape_of.append(place)
            self.shape_nodes[place] |= node.bit
        self.everything = (1 << len(ctld.nodes)) - 1
        self._features: dict[str, int] = {}
        for node in ctld.nodes.nodes:
            for name in node.conf.features:
                self._features[name] = self._features.get(name, 0) | node.bit
        self._weights = self._base_weights()
        self._groups: dict[tuple[int, int, int, bool], WeightGroups] = {}
        self._config_sets: list[tuple[int, int]] | None = None

    def _base_weights(self) -> list[tuple[int, int]]:
        table: dict[int, int] = {}
        for node in self._table.nodes:
            table[node.conf.weight] = table.get(node.conf.weight, 0) | node.bit
        return sorted(table.items())

    def having(self, feature: str) -> int:
        """The nodes with a feature."""
        return self._features.get(feature, 0)

    def weights(self, completing: int = 0, future: bool = False) -> WeightGroups:
        """Nodes by sched_weight: the configured weight, far higher when the node must boot first.

        completing: nodes that come after others of their weight (26.05 will-run tests).
        """
        table = self._table
        key = (table.booting, table.power_down, completing, future)
        groups = self._groups.get(key)
        if groups is None:
            if len(self._groups) > 64:
                self._groups.clear()
            parts: list[tuple[int, int]] = []
            for weight, nodes in self._weights:
                base = weight << 8
                down, booting = nodes & table.power_down, nodes & table.booting & ~table.power_down
                up = nodes & ~down & ~booting
                parts += [(base + _BOOT, down), (base + _BOOTING, booting), (base + 1, up & completing)]
                parts.append((base, up & ~completing))
            groups = self._groups[key] = WeightGroups((w, b) for w, b in parts if b)
        return groups

    def preferring(self, preferred: int, nodes: int) -> WeightGroups:
        """weights() with nodes in use under the job's node limits first (node_scheduler.c _build_node_list()).

        nodes: those that serve the job. A node set with preferred and other nodes is split, and the others weigh one
        more; a set of others alone keeps its weight, as slurmctld raises that of a set which is not filled yet.
        """
        groups = self.weights()
        later = 0
        for _weight, bitmap in self.config_sets():
            if bitmap & nodes & preferred:
                later |= bitmap & nodes & ~preferred
        return WeightGroups(
            (weight + (256 if moved else 0), some)
            for weight, bitmap in groups.groups
            for moved, some in ((False, bitmap & ~later), (True, bitmap & later))
            if some
        )

    def config_sets(self) -> list[tuple[int, int]]:
        """(weight, bitmap) of nodes configured alike, in table order: node sets of select/linear."""
        if self._config_sets is not None:
            return self._config_sets
        found: dict[tuple[object, ...], int] = {}
        weight: dict[tuple[object, ...], int] = {}
        for node in self._table.nodes:
            key = (self.shape_of[node.index], node.conf.weight, node.conf.features, node.conf.tmp_disk_mib)
            found[key] = found.get(key, 0) | node.bit
            weight[key] = node.conf.weight
        self._config_sets = [(weight[key], bitmap) for key, bitmap in found.items()]
        return self._config_sets


class Sharing:
    """Which nodes run jobs that nobody may join, and whose nodes are whose (share_node_bitmap, node owner)."""

    def __init__(self) -> None:
        self._no_share = NodeCounts()
        self._owners: dict[str, NodeCounts] = {}

    def started(self, nodes: int, no_share: bool, owner: str | None) -> None:
        """make_node_alloc()."""
        if no_share:
            self._no_share.add(nodes)
        if owner is not None:
            self._owners.setdefault(owner, NodeCounts()).add(nodes)

    def ended(self, nodes: int, no_share: bool, owner: str | None) -> None:
        """make_node_comp(), and the end of make_node_idle() for the owner."""
        if no_share:
            self._no_share.take(nodes)
        if owner is not None and owner in self._owners:
            self._owners[owner].take(nodes)
            if not self._owners[owner].some:
                del self._owners[owner]

    @property
    def barred(self) -> int:
        """Nodes that are not in share_node_bitmap."""
        return self._no_share.some

    def of_others(self, user: str) -> int:
        """Nodes owned by other users."""
        out = 0
        for owner, counts in self._owners.items():
            if owner != user:
                out |= counts.some
        return out
