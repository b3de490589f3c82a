"""What rows say is there now: node sets, pods, Slurm nodes, running jobs. Rebuilt row by row; imports no model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from slurmtwin_reports.history import Row, nodes_of

OWN_PREFIXES: Final = ("slurmtwin: ", "slurm-operator:")
OPERATOR: Final = "operator"
PEOPLE: Final = ("user", "admin", "fault")
"""Actors whose acts were asked for, or are a fault."""
STIRS: Final = ("job.ended", "job.requeued", "kube_node.deleted")
"""Other rows after which an operator may have something to do."""
QUIET_NS: Final = 180_000_000_000
"""What is left at the end is judged only when nothing stirred for so long before it."""


@dataclass(slots=True)
class PodState:
    """A pod."""

    name: str
    node_set: str
    revision: str
    uid: str
    ready: bool = False
    deleting: bool = False
    machine: str = ""


@dataclass(slots=True)
class NodeState:
    """A Slurm node record."""

    down: bool = False
    silent: bool = False
    drained: bool = False
    reason: str = ""
    foreign: bool = False
    """Somebody other than the operator drained it, and nobody has resumed it since."""


@dataclass(slots=True)
class SetState:
    """A node set as last changed."""

    replicas: int
    revision: str
    max_unavailable: str
    update: str
    changed_ns: int
    before: int
    """Replicas before the last change."""
    counted: bool = True
    """Its size is a number of replicas."""
    deleted: bool = False


@dataclass(slots=True)
class Board:
    """The state that the rows so far add up to."""

    sets: dict[str, SetState] = field(default_factory=dict)
    pods: dict[str, PodState] = field(default_factory=dict)
    nodes: dict[str, NodeState] = field(default_factory=dict)
    running: dict[str, dict[int, None]] = field(default_factory=dict)
    """Slurm node -> jobs running on it."""
    lost_ns: dict[str, int] = field(default_factory=dict)
    """Slurm node -> when something other than the operator took it out of service."""
    dropped: dict[str, None] = field(default_factory=dict)
    """Slurm nodes whose record was deleted and is not back."""
    lost_machines: dict[str, None] = field(default_factory=dict)
    """Kubernetes nodes that are not ready."""
    seen_pods: bool = False
    stirred_ns: int = 0
    """When somebody last asked for something, or a job or machine went."""
    end_ns: int = 0
    """The last row's time."""

    @property
    def quiet(self) -> bool:
        """Nothing has stirred for so long that everything should be there, or gone."""
        return self.end_ns - self.stirred_ns >= QUIET_NS

    def serves(self, name: str) -> bool:
        """The pod is ready and Slurm may start jobs on its node."""
        pod, node = self.pods.get(name), self.nodes.get(name)
        if pod is None or node is None or not pod.ready or pod.deleting:
            return False
        return not (node.down or node.silent or node.drained)

    def take(self, row: Row) -> None:
        """Add one row."""
        self.end_ns = row.t_ns
        if row.actor in PEOPLE or row.kind in STIRS:
            self.stirred_ns = row.t_ns
        if row.kind.startswith("pod."):
            self._pod(row)
        elif row.kind.startswith("job."):
            self._job(row)
        elif row.kind == "object.changed" and row.details.get("resource") == "nodesets":
            self._set(row)
        elif row.kind == "kube_node.unready" and row.node:
            self.lost_machines[row.node] = None
        elif row.kind in ("kube_node.ready", "kube_node.deleted"):
            self.lost_machines.pop(row.node or "", None)
        elif row.kind.startswith("node.") and row.node:
            for name in nodes_of(row.node):
                self._node(row, name)

    def _pod(self, row: Row) -> None:
        self.seen_pods = True
        details = row.details
        name = str(details.get("pod", "")).rpartition("/")[2]
        if row.kind == "pod.created":
            uid = row.pod_uid or ""
            self.pods[name] = PodState(name, str(details.get("node_set", "")), str(details.get("revision", "")), uid)
            return
        pod = self.pods.get(name)
        if pod is None or (row.pod_uid and pod.uid != row.pod_uid):
            return
        if row.kind == "pod.ready":
            pod.ready = True
            self.lost_ns.pop(name, None)
        elif row.kind in ("pod.unready", "pod.ended"):
            pod.ready = False
            self.lost_ns[name] = row.t_ns
        elif row.kind == "pod.deleting":
            pod.deleting = True
            if row.actor in PEOPLE:
                self.lost_ns[name] = row.t_ns
        elif row.kind == "pod.scheduled":
            pod.machine = row.node or ""
        elif row.kind == "pod.deleted":
            del self.pods[name]

    def _job(self, row: Row) -> None:
        if row.job_id is None:
            return
        if row.kind == "job.started" and row.node:
            for name in nodes_of(row.node):
                self.running.setdefault(name, {})[row.job_id] = None
        elif row.kind in ("job.ended", "job.requeued", "job.lost", "job.completed"):
            for jobs in self.running.values():
                jobs.pop(row.job_id, None)

    def _set(self, row: Row) -> None:
        details = row.details
        name = str(details.get("name"))
        known = self.sets.get(name)
        if details.get("deleted") or details.get("gone"):
            if known is not None:
                known.deleted, known.replicas = True, 0
            return
        replicas = int(details.get("replicas", 0))
        before = known.replicas if known is not None else 0
        self.sets[name] = SetState(
            replicas, str(details.get("revision", "")), str(details.get("max_unavailable", "25%")),
            str(details.get("update", "rolling")), row.t_ns, before,
            bool(details.get("counted", True)),
        )  # fmt: skip

    def _node(self, row: Row, name: str) -> None:
        if row.kind == "node.deleted":
            self.nodes.pop(name, None)
            self.running.pop(name, None)
            self.dropped[name] = None
            return
        self.dropped.pop(name, None)
        node = self.nodes.setdefault(name, NodeState())
        if row.kind == "node.drained":
            node.drained, node.reason = True, str(row.details.get("reason", ""))
            own = node.reason.startswith(OWN_PREFIXES)
            node.foreign = node.foreign or not own
            if own:
                self.lost_ns.pop(name, None)
            else:
                self.lost_ns[name] = row.t_ns
        elif row.kind == "node.resumed":
            node.drained = node.down = node.foreign = False
            node.reason = ""
            self.lost_ns.pop(name, None)
        elif row.kind == "node.down":
            node.down = True
            if not str(row.details.get("reason", "")).startswith(OWN_PREFIXES):
                self.lost_ns[name] = row.t_ns
        elif row.kind == "node.not_responding":
            node.silent = True
            self.lost_ns[name] = row.t_ns
        elif row.kind in ("node.up", "node.responding"):
            node.down = node.silent = False
        elif row.kind in ("node.registered", "node.created"):
            node.silent = False


def is_own_action(row: Row, *verbs: str) -> bool:
    """The operator did one of these, and it took effect."""
    if row.kind != "action.issued":
        return False
    details = row.details
    return details.get("do") in verbs and details.get("outcome", "done") == "done"
