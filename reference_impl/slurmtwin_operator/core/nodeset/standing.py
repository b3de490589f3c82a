"""What stands from pass to pass: a pass looks at the members that changed, or about whom something is to be decided.

A member is quiet when no rule can do anything about it alone: its pod and its Slurm node serve, nobody wants it
drained, its labels are as they shall be. Of quiet members a pass needs numbers only. The rules are the same functions
as ever (drains, scale, update, records), over fewer members; where one of them needs all of them (scale-in, a pod too
few, names that matter, machines that are acted on, Slurm away) the pass looks at all. Whoever keeps a Standing gets
the plan that one without it gets, in time that goes by what changed.
"""

from __future__ import annotations

from itertools import compress, count
from operator import is_not
from typing import Any, NamedTuple

from slurmtwin_operator.core.actions import Memory
from slurmtwin_operator.core.nodeset.machines import touches_machines
from slurmtwin_operator.core.nodeset.records import may_be_pruned
from slurmtwin_operator.core.nodeset.survey import Tally, Watched
from slurmtwin_operator.core.observed import KubeNode, NodeSetObserved, Pod, SlurmNode
from slurmtwin_operator.core.switches import Switches


class Standing:
    """One node set's members as the last pass saw them. It holds nothing that an observation does not say."""

    def __init__(self) -> None:
        self._seen: NodeSetObserved | None = None
        """What the rest is made of; None: nothing is known."""
        self._pods: dict[str, int] = {}
        """Name -> place among the observed pods."""
        self._uids: dict[str, int] = {}
        self._nodes: dict[str, SlurmNode] = {}
        self._machines: dict[str, KubeNode] = {}
        self._hosted: dict[str, set[int]] = {}
        """Machine -> places of pods on it."""
        self._counted: list[SlurmNode | None] = []
        """By place: the Slurm node that a quiet member was counted with; None: it is not quiet."""
        self._noticed: set[int] = set()
        """Places of members that are not quiet."""
        self._unpodded: dict[str, SlurmNode] = {}
        self._rest = Tally()

    def watched(self, o: NodeSetObserved, memory: Memory) -> Watched | None:
        """What a pass has to look at; None: everything."""
        if not _ordinary(o) or not self._follow(o):
            return None
        places = set(self._noticed)
        places.update(self._pods[name] for name, _ in memory.drained if name in self._pods)
        places.update(self._uids[uid] for uid, _ in memory.deleted if uid in self._uids)
        rest = self._rest
        if len(places) != len(self._noticed):
            rest = rest.copy()
            for place in places:
                node = self._counted[place]
                if node is not None:
                    rest.count(o.pods[place], node, -1)
        members = [self._joined(o.pods[place]) for place in sorted(places)]
        return Watched(members, rest, tuple(self._unpodded.values()))

    def _joined(self, pod: Pod) -> tuple[Pod, SlurmNode | None, KubeNode | None]:
        return pod, self._nodes.get(pod.name), self._machines.get(pod.kube_node)

    def _follow(self, o: NodeSetObserved) -> bool:
        """Take over what changed. False: names are not unique, so nothing is kept."""
        seen, self._seen = self._seen, o
        moved = _moved(seen, o) if seen is not None else None
        if seen is None or moved is None:
            return self._begin(o)
        touched: set[int] = set()
        for node in [o.slurm.nodes[place] for place in moved.nodes]:
            self._nodes[node.name] = node
            place = self._pods.get(node.name)
            if place is not None:
                touched.add(place)
            else:
                self._sort_record(node, o.me.name)
        for machine in [o.kube_nodes[place] for place in moved.machines]:
            self._machines[machine.name] = machine
            touched |= self._hosted.get(machine.name, frozenset())
        for place in moved.pods:
            self._move(place, seen.pods[place].kube_node, o.pods[place].kube_node)
            touched.add(place)
        for place in touched:
            self._judge(o, place, seen.pods[place])
        return True

    def _begin(self, o: NodeSetObserved) -> bool:
        """Everything anew."""
        self._pods = {pod.name: place for place, pod in enumerate(o.pods)}
        self._uids = {pod.uid: place for place, pod in enumerate(o.pods)}
        self._nodes = {node.name: node for node in o.slurm.nodes}
        self._machines = {machine.name: machine for machine in o.kube_nodes}
        pods, slots = len(o.pods), len({pod.slot for pod in o.pods})
        if not (
            pods == slots == len(self._pods) == len(self._uids)
            and len(o.slurm.nodes) == len(self._nodes) and len(o.kube_nodes) == len(self._machines)
        ):  # fmt: skip
            self._seen = None
            return False
        self._hosted = {}
        self._counted = [None] * pods
        self._noticed = set(range(pods))
        self._rest = Tally()
        self._unpodded = {}
        for place, pod in enumerate(o.pods):
            self._hosted.setdefault(pod.kube_node, set()).add(place)
            self._judge(o, place, pod)
        for node in o.slurm.nodes:
            if node.name not in self._pods:
                self._sort_record(node, o.me.name)
        return True

    def _move(self, place: int, old: str, new: str) -> None:
        if old != new:
            self._hosted[old].discard(place)
            self._hosted.setdefault(new, set()).add(place)

    def _sort_record(self, node: SlurmNode, node_set: str) -> None:
        """A record without a pod."""
        if may_be_pruned(node, node_set):
            self._unpodded[node.name] = node
        else:
            self._unpodded.pop(node.name, None)

    def _judge(self, o: NodeSetObserved, place: int, before: Pod) -> None:
        """Is this member quiet now? before: its pod when it was counted."""
        counted = self._counted[place]
        if counted is not None:
            self._rest.count(before, counted, -1)
        pod, node, machine = self._joined(o.pods[place])
        if node is not None and _quiet(pod, node, machine, o.spec.revision, o.switches):
            self._rest.count(pod, node, 1)
            self._counted[place] = node
            self._noticed.discard(place)
        else:
            self._counted[place] = None
            self._noticed.add(place)


def _ordinary(o: NodeSetObserved) -> bool:
    """No rule needs all members at once: as many pods as wanted, their names do not matter, Slurm answers."""
    switches = o.switches
    return (
        len(o.pods) == o.spec.replicas and o.slurm.answer == "fresh" and not o.me.deleting
        and o.spec.scaling == "count" and o.spec.update.type != "scheduled"
        and switches.workers == "pods" and switches.scale_source == "replicas" and not touches_machines(switches)
    )  # fmt: skip


def _quiet(pod: Pod, node: SlurmNode, machine: KubeNode | None, revision: str, switches: Switches) -> bool:
    """Nothing is to be done about it, as long as it and the memory stay as they are."""
    if pod.deleting or pod.revision != revision or pod.cordoned or pod.phase == "Failed" or pod.phase == "Succeeded":
        return False
    if node.state == "DOWN" or "DRAIN" in node.flags:
        return False
    if machine is not None and (machine.unschedulable or machine.conditions):
        return False
    if switches.down_return == "moved" and node.comment != pod.kube_node:
        return False
    if switches.pdb == "none":
        return True
    return pod.protected == (node.busy or switches.pdb == "until-drained")


class _Moved(NamedTuple):
    """Places where another object stands than at the last pass."""

    nodes: list[int]
    machines: list[int]
    pods: list[int]


def _moved(seen: NodeSetObserved, o: NodeSetObserved) -> _Moved | None:
    """What is another object; None: not the same set by the same rules, with the same names in the same places."""
    if (
        seen.me.name != o.me.name or not (seen.spec is o.spec or seen.spec == o.spec)
        or not (seen.switches is o.switches or seen.switches == o.switches)
    ):  # fmt: skip
        return None
    nodes = _places(seen.slurm.nodes, o.slurm.nodes)
    machines = _places(seen.kube_nodes, o.kube_nodes)
    pods = _places(seen.pods, o.pods)
    if nodes is None or machines is None or pods is None:
        return None
    if any(seen.pods[at].uid != o.pods[at].uid or seen.pods[at].slot != o.pods[at].slot for at in pods):
        return None
    return _Moved(nodes, machines, pods)


def _places(before: tuple[Any, ...], now: tuple[Any, ...]) -> list[int] | None:
    """Where another object of the same name stands now; None: there are other names."""
    if before is now:
        return []
    if len(before) != len(now):
        return None
    places = list(compress(count(), map(is_not, before, now)))
    return places if all(before[place].name == now[place].name for place in places) else None
