"""The working area of a NodeSet pass: what is observed, joined pod by pod with its Slurm node and the memory."""

from __future__ import annotations

from typing import Final, NamedTuple

from slurmtwin_operator.core.actions import Action, Memory, Reason, Why
from slurmtwin_operator.core.observed import KubeNode, NodeSetObserved, Pod, SlurmNode

SECOND: Final = 1_000_000_000
REMEMBER_NS: Final = 60 * SECOND
"""How long an asked-for delete or drain is believed without being seen; then it is decided anew."""
ORPHAN_NS: Final = 60 * SECOND
"""A record without a pod for so long is defunct: its pod is not just being replaced, or missing from a cache."""
REGISTER_NS: Final = 60 * SECOND
"""A pod that is ready so long and unknown to Slurm counts as unregistered."""


class Member:
    """One pod of the set and what this pass thinks of it."""

    __slots__ = ("available", "condemned", "dead", "gone", "kube", "old", "order", "pod", "slurm", "updating", "want")

    def __init__(self, pod: Pod, slurm: SlurmNode | None, kube: KubeNode | None) -> None:
        self.pod = pod
        self.order = slot_key(pod.slot)
        self.slurm = slurm
        self.kube = kube
        self.gone = pod.deleting
        """Going: it serves no more, and still holds its name."""
        self.dead = False
        self.old = False
        self.available = False
        self.condemned = False
        """Surplus: to be removed for good."""
        self.updating = False
        """To be replaced by a pod of the new revision."""
        self.want = ""
        """Why its Slurm node shall be drained; empty: it shall not."""


class Tally:
    """Numbers of members that nothing has to be decided about: a pass counts them and looks at none of them."""

    __slots__ = ("available", "ready", "states", "total")

    def __init__(self) -> None:
        self.total = 0
        """None of them is of an old revision, on its way out, or drained."""
        self.ready = 0
        self.available = 0
        self.states: dict[str, int] = {}
        """Base state in Slurm -> how many."""

    def copy(self) -> Tally:
        """Another one with the same numbers."""
        other = Tally()
        other.total, other.ready, other.available = self.total, self.ready, self.available
        other.states = dict(self.states)
        return other

    def count(self, pod: Pod, node: SlurmNode, by: int) -> None:
        """One member more (1) or less (-1)."""
        self.total += by
        if pod.ready:
            self.ready += by
            if serves(node):
                self.available += by
        self.states[node.state] = self.states.get(node.state, 0) + by


class Watched(NamedTuple):
    """What a pass has to look at where the rest is known to be quiet (standing.py)."""

    members: list[tuple[Pod, SlurmNode | None, KubeNode | None]]
    """In the order of observation."""
    rest: Tally
    unpodded: tuple[SlurmNode, ...]
    """Records of this set without a pod."""


class Pass:
    """One pass over one NodeSet."""

    __slots__ = (
        "actions",
        "deleted",
        "drained",
        "members",
        "memory",
        "now",
        "o",
        "orphans",
        "reasons",
        "rest",
        "sw",
        "unpodded",
        "unsettled",
        "usable",
    )

    def __init__(self, o: NodeSetObserved, memory: Memory, now: int, watched: Watched | None = None) -> None:
        self.o = o
        self.sw = o.switches
        self.memory = memory
        self.now = now
        self.actions: list[Action] = []
        self.reasons: list[Reason] = []
        self.usable = o.slurm.answer == "fresh"
        """Slurm answered this pass, so it can be told things."""
        self.deleted = {uid: at for uid, at in memory.deleted if now - at < REMEMBER_NS}
        self.drained = {node: at for node, at in memory.drained if now - at < REMEMBER_NS}
        self.orphans: dict[str, int] = {}
        self.unsettled = False
        self.rest = _NOBODY if watched is None else watched.rest
        """Members that are not among `members`."""
        self.unpodded = None if watched is None else watched.unpodded
        """Records of this set without a pod; None: nobody has looked."""
        self.members = self._survey(self._joined() if watched is None else watched.members)

    def say(self, why: Why, about: str = "") -> None:
        """Note a reason."""
        self.reasons.append(Reason(why, about))

    def remember_delete(self, pod: Pod) -> None:
        """The next passes take this pod for gone."""
        if self.sw.remember_deletes:
            self.deleted.setdefault(pod.uid, self.now)

    def _joined(self) -> list[tuple[Pod, SlurmNode | None, KubeNode | None]]:
        """Each pod with its Slurm node and its machine."""
        slurm = {node.name: node for node in self.o.slurm.nodes}
        kube = {node.name: node for node in self.o.kube_nodes}
        return [(pod, slurm.get(pod.name), kube.get(pod.kube_node)) for pod in self.o.pods]

    def _survey(self, joined: list[tuple[Pod, SlurmNode | None, KubeNode | None]]) -> list[Member]:
        """Members in the order of their slots."""
        revision, known = self.o.spec.revision, self.o.slurm.answer != "absent"
        deleted, asked = self.deleted, self.drained
        members = []
        for pod, node, kube in joined:
            m = Member(pod, node, kube)
            m.old = pod.revision != revision
            m.dead = pod.phase == "Failed" or pod.phase == "Succeeded"
            if deleted and pod.uid in deleted:
                m.gone = True
            if pod.ready and not m.gone and not m.dead:
                m.available = serves(node) if node is not None else not known
                if asked and pod.name in asked:
                    m.available = False
            members.append(m)
        members.sort(key=_slot)
        return members


def serves(node: SlurmNode) -> bool:
    """Slurm may start jobs on it."""
    if node.state == "DOWN":
        return False
    return not node.flags or not ("DRAIN" in node.flags or "NOT_RESPONDING" in node.flags)


def slot_key(slot: str) -> tuple[int, str]:
    """Ordinals as numbers, node names after them as text."""
    return (int(slot), "") if slot.isdecimal() else (1 << 62, slot)


def _slot(m: Member) -> tuple[int, str]:
    return m.order


_NOBODY: Final = Tally()
