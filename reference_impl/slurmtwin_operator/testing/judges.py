"""What must hold of clusters, groups and copies on the whole way, judged from rows alone: no core, no doubles.

Node sets have their judges in slurmtwin_reports.checks.operator; so has every kind for coming to rest.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from slurmtwin.contract.events import Event, Kind

REST_NS: Final = 120_000_000_000
"""Nothing is written so long before the end of a story."""
LOST_NS: Final = 900_000_000_000
"""So long a silent cluster keeps its workload (MultiKueue's workerLostTimeout)."""


def _details(event: Event) -> dict[str, Any]:
    return dict(json.loads(event.detail)) if event.detail else {}


def rest(events: Sequence[Event]) -> list[str]:
    """The operator has come to rest long before the end."""
    late = [e for e in events if e.kind in (Kind.ACTION_ISSUED, Kind.ACTION_FAILED)]
    return [f"{_details(e).get('do')} at {e.t_ns}" for e in late if e.t_ns > events[-1].t_ns - REST_NS]


def controllers(events: Iterable[Event]) -> list[str]:
    """slurmctld never crashes, one pod at most is labelled active, and a Cluster outlives its node sets."""
    findings: list[str] = []
    active: set[str] = set()
    node_sets: list[str] = []
    for event in events:
        details, host = _details(event), str(event.node)
        if event.kind is Kind.SLURMCTLD_CRASHED:
            findings.append(f"slurmctld of {host} crashed at {event.t_ns}")
        elif event.kind is Kind.KUBE_EVENT and details.get("reason") == "active label":
            (active.add if details["on"] else active.discard)(host)
            if len(active) > 1:
                findings.append(f"{len(active)} controllers are labelled active at {event.t_ns}")
        elif event.kind is Kind.OBJECT_CHANGED and details.get("resource") == "clusters":
            if details.get("gone") and node_sets:
                findings.append(f"the Cluster went at {event.t_ns} before {', '.join(node_sets)}")
            node_sets = details.get("node_sets", node_sets)
    return findings


class _Groups:
    """Jobs and pods of groups as the rows so far add up to."""

    def __init__(self) -> None:
        self.findings: list[str] = []
        self.names: dict[int, str] = {}
        self.live: dict[int, tuple[str, ...]] = {}
        """Job -> its nodes; none while it waits."""
        self.pods: dict[str, tuple[str, str]] = {}
        """uid -> (group, node) of bound pods that have neither ended nor gone."""
        self.deleted: set[str] = set()

    def group_of(self, job: int) -> str:
        return self.names[job].removeprefix("slurmtwin-ns-").rpartition("-")[0]

    def holds(self, group: str, node: str) -> bool:
        return any(self.group_of(job) == group and node in nodes for job, nodes in self.live.items())

    def take(self, event: Event) -> None:
        details = _details(event)
        if event.job_id is not None:
            self._job(event, event.job_id, details)
        elif event.kind is Kind.OBJECT_CHANGED and details.get("deleted"):
            self.deleted.add(str(details["name"]))
        elif event.pod_uid is not None:
            self._pod(event, event.pod_uid, details)

    def _job(self, event: Event, job: int, details: dict[str, Any]) -> None:
        if event.kind is Kind.JOB_SUBMITTED:
            self.names[job] = str(details["name"])
            twin = [other for other in self.live if self.names[other] == self.names[job]]
            self.findings += [f"job {job} of {self.group_of(job)} was submitted beside job {other}" for other in twin]
            self.live[job] = ()
        elif event.kind is Kind.JOB_STARTED:
            self.live[job] = tuple(str(event.node).split(","))
        elif event.kind is Kind.JOB_REQUEUED:
            self.live[job] = ()
        elif event.kind is Kind.JOB_ENDED:
            held = [group for group, _ in self.pods.values() if group == self.group_of(job)]
            if details["by"] == "operator" and held:
                self.findings.append(f"job {job} was ended under {len(held)} pods at {event.t_ns}")
            del self.live[job]

    def _pod(self, event: Event, uid: str, details: dict[str, Any]) -> None:
        if event.kind is Kind.POD_SCHEDULED:
            group, node = str(details["group"]), str(event.node)
            if not self.holds(group, node):
                self.findings.append(f"{details['pod']} was bound to {node} outside its job at {event.t_ns}")
            self.pods[uid] = group, node
        elif event.kind is Kind.POD_DELETING and event.actor == "operator" and uid in self.pods:
            group, node = self.pods[uid]
            if group not in self.deleted and self.holds(group, node):
                self.findings.append(f"{details['pod']} was deleted inside its job at {event.t_ns}")
        elif event.kind in (Kind.POD_ENDED, Kind.POD_DELETED):
            self.pods.pop(uid, None)


def groups(events: Iterable[Event]) -> list[str]:
    """One job a group; pods run only inside it; it is not given back under them; none is deleted inside it."""
    board = _Groups()
    for event in events:
        board.take(event)
    return board.findings


def copies(events: Iterable[Event]) -> list[str]:
    """A workload runs in one cluster at a time, but for one that was silent too long; and it ends well only once."""
    findings: list[str] = []
    running: dict[str, dict[str, None]] = {}
    cut: dict[str, int] = {}
    finished: dict[str, str] = {}
    for event in events:
        details, where = _details(event), str(event.node)
        if event.kind in (Kind.FAULT_INJECTED, Kind.FAULT_CLEARED) and details.get("kind") == "cluster.cut":
            target = str(details["target"])
            if event.kind is Kind.FAULT_INJECTED:
                cut[target] = event.t_ns
            else:
                cut.pop(target, None)
        elif event.kind is Kind.SCRIPT_STARTED:
            name = str(details["workload"])
            beside = [c for c in running.get(name, {}) if event.t_ns - cut.get(c, event.t_ns) < LOST_NS]
            findings += [f"{name} began in {where} while it ran in {other}" for other in beside]
            running.setdefault(name, {})[where] = None
        elif event.kind is Kind.SCRIPT_ENDED:
            name = str(details["workload"])
            running[name].pop(where)
            if details["why"] == "finished":
                if name in finished and finished[name] not in cut:
                    findings.append(f"{name} finished twice, in {finished[name]} and {where}")
                finished[name] = where
    return findings


JUDGES: Final[dict[str, tuple[Callable[[Sequence[Event]], list[str]], ...]]] = {
    "NodeSet": (), "Cluster": (controllers, rest), "PodGroup": (groups, rest), "Dispatch": (copies, rest),
}  # fmt: skip
"""Kind of object -> its judges."""


def findings(kind: str, events: Sequence[Event]) -> list[str]:
    """What the judges of a kind say."""
    return [text for judge in JUDGES[kind] for text in judge(events)]
