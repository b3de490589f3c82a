"""Rows of Kubernetes objects: what changed between two versions of an object, as facts.

An object's own stamp (metav1.Time) is cut to whole seconds by the API: such a row has it + 0.5 s ± 0.5 s and actor
`apiserver`. The collector's receipt is a second row, actor `collector`, tied to it by cause_seq; its time is known
to the measured delay of watches. Leases carry microseconds and need no second row; theirs has as its value how much
later it was received.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from slurmtwin.contract.events import Event, Kind
from slurmtwin_e2e.collect.run_events import detail
from slurmtwin_e2e.kind.collect.informer import Change
from slurmtwin_e2e.operators.reading import PodReader

SECOND: Final = 1_000_000_000
HALF_SECOND: Final = SECOND // 2
MICRO: Final = 1_000
_STAMP = re.compile(r"(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)(?:\.(\d+))?Z\Z")
QUIET: Final = ("ContainerCreating", "PodInitializing")
"""Waiting reasons of every start."""


def stamp_ns(text: str | None) -> int | None:
    """Unix ns of an API time; None for none."""
    found = _STAMP.match(text or "")
    if not found:
        return None
    parts = tuple(int(found[i]) for i in range(1, 7))
    return calendar.timegm(parts) * SECOND + int((found[7] or "0").ljust(9, "0")[:9])


@dataclass(slots=True)
class Fact:
    """One change: kind, the object's own time if it has one, and the row's other columns."""

    kind: Kind
    own_ns: int | None = None
    node: str | None = None
    pod_uid: str | None = None
    value: int | None = None
    unit: str | None = None
    detail: dict[str, Any] = field(default_factory=dict)


def _conditions(item: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {c["type"]: c for c in item.get("status", {}).get("conditions", [])}


def _pod_name(item: dict[str, Any]) -> str:
    return f"{item['metadata']['namespace']}/{item['metadata']['name']}"


def pod_facts(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterable[Fact]:
    """What happened to a pod between two of its versions (None: it was not, or is no more)."""
    item = new or old or {}
    meta = item["metadata"]
    base: dict[str, Any] = {"node": item["spec"].get("nodeName"), "pod_uid": meta["uid"]}
    name = {"pod": _pod_name(item), "app": meta.get("labels", {}).get("app")}

    def fact(kind: Kind, own: str | None = None, **more: Any) -> Fact:
        return Fact(kind, stamp_ns(own), **base, detail=name | more)

    if old is None and new is not None:
        yield fact(Kind.POD_CREATED, meta.get("creationTimestamp"))
    if new is None:
        yield fact(Kind.POD_DELETED)
        return
    before = old or {"metadata": {}, "spec": {}, "status": {}}
    if new["spec"].get("nodeName") and not before["spec"].get("nodeName"):
        yield fact(Kind.POD_SCHEDULED, _conditions(new).get("PodScheduled", {}).get("lastTransitionTime"))
    yield from _container_facts(before, new, base, name)
    was, now = (_conditions(i).get("Ready", {}) for i in (before, new))
    if now.get("status") != was.get("status") and (now.get("status") == "True" or was):
        kind = Kind.POD_READY if now.get("status") == "True" else Kind.POD_UNREADY
        yield fact(kind, now.get("lastTransitionTime"))
    if "deletionTimestamp" in meta and "deletionTimestamp" not in before["metadata"]:
        grace = int(meta.get("deletionGracePeriodSeconds") or 0)
        own = stamp_ns(meta["deletionTimestamp"])
        found = fact(Kind.POD_DELETING)
        found.own_ns, found.value, found.unit = (own - grace * SECOND if own is not None else None), grace, "s"
        yield found
    phase = new["status"].get("phase")
    if phase in ("Failed", "Succeeded") and before["status"].get("phase") != phase:
        yield fact(Kind.POD_ENDED, phase=phase, reason=new["status"].get("reason"))


def _statuses(item: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {s["name"]: s for s in item["status"].get("containerStatuses") or []}


def _container_facts(
    old: dict[str, Any], new: dict[str, Any], base: dict[str, Any], name: dict[str, Any]
) -> Iterable[Fact]:
    before = _statuses(old)
    for container, status in _statuses(new).items():
        was = before.get(container, {})
        more = name | {"container": container}
        ends_before = {e.get("containerID") for e in _ends(was)}
        for end in _ends(status):
            if end.get("containerID") not in ends_before:
                said = {"reason": end.get("reason"), "exit_code": end.get("exitCode"), "signal": end.get("signal")}
                yield Fact(Kind.CONTAINER_ENDED, stamp_ns(end.get("finishedAt")), **base, detail=more | said)
        running = status.get("state", {}).get("running", {})
        ran = was.get("containerID") if was.get("state", {}).get("running") else None
        if running and status.get("containerID") != ran:
            yield Fact(
                Kind.CONTAINER_STARTED, stamp_ns(running.get("startedAt")), **base,
                value=int(status.get("restartCount", 0)), unit="restart", detail=more,
            )  # fmt: skip
        reason = status.get("state", {}).get("waiting", {}).get("reason")
        if reason and reason not in QUIET and reason != was.get("state", {}).get("waiting", {}).get("reason"):
            yield Fact(Kind.CONTAINER_WAITING, None, **base, detail=more | {"reason": reason})


def _ends(status: dict[str, Any]) -> list[dict[str, Any]]:
    both = (status.get("state", {}).get("terminated"), status.get("lastState", {}).get("terminated"))
    return [end for end in both if end]


def node_facts(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterable[Fact]:
    """What happened to a Kubernetes node."""
    item = new or old or {}
    name = item["metadata"]["name"]
    if new is None:
        yield Fact(Kind.KUBE_NODE_DELETED, node=name)
        return
    if old is None:
        yield Fact(Kind.KUBE_NODE_CREATED, stamp_ns(item["metadata"].get("creationTimestamp")), node=name)
    before = old or {"spec": {}, "status": {}}
    was, now = (_conditions(i).get("Ready", {}) for i in (before, new))
    if now.get("status") != was.get("status"):
        kind = Kind.KUBE_NODE_READY if now.get("status") == "True" else Kind.KUBE_NODE_UNREADY
        yield Fact(kind, stamp_ns(now.get("lastTransitionTime")), node=name, detail={"status": now.get("status")})
    marks, old_marks = (sorted(f"{t['key']}:{t['effect']}" for t in i["spec"].get("taints", [])) for i in (new, before))
    if marks != old_marks:
        yield Fact(Kind.KUBE_NODE_TAINTED, node=name, detail={"taints": ",".join(marks)})
    if bool(new["spec"].get("unschedulable")) != bool(before["spec"].get("unschedulable")):
        cordoned = bool(new["spec"].get("unschedulable"))
        yield Fact(Kind.KUBE_NODE_CORDONED if cordoned else Kind.KUBE_NODE_UNCORDONED, node=name)


def lease_facts(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterable[Fact]:
    """A kubelet renewed its lease."""
    if new is None:
        return
    renewed = new["spec"].get("renewTime")
    if old is None or old["spec"].get("renewTime") != renewed:
        yield Fact(Kind.LEASE_RENEWED, stamp_ns(renewed), node=new["metadata"]["name"])


def claim_facts(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterable[Fact]:
    """A claim was bound, or lost its volume."""
    phase = (new or {}).get("status", {}).get("phase")
    if new is not None and phase != (old or {}).get("status", {}).get("phase"):
        kinds = {"Bound": Kind.CLAIM_BOUND, "Lost": Kind.CLAIM_LOST}
        if phase in kinds:
            yield Fact(kinds[phase], detail={"claim": _pod_name(new)})


def event_facts(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterable[Fact]:
    """An Event object was written or counted up."""
    if new is None or (old is not None and old.get("count") == new.get("count")):
        return
    about = new.get("involvedObject", {})
    own = stamp_ns(new.get("eventTime")) or stamp_ns(new.get("lastTimestamp"))
    yield Fact(
        Kind.KUBE_EVENT, own,
        detail={"reason": new.get("reason"), "about": f"{about.get('kind')}/{about.get('name')}",
                "message": str(new.get("message", ""))[:160], "count": new.get("count")},
    )  # fmt: skip


def custom_facts(old: dict[str, Any] | None, new: dict[str, Any] | None) -> Iterable[Fact]:
    """An object of a custom resource changed."""
    item = new or old or {}
    generation = item["metadata"].get("generation")
    if (
        new is None
        or old is None
        or old.get("status") != new.get("status")
        or (old["metadata"].get("generation") != generation)
    ):
        yield Fact(
            Kind.OBJECT_CHANGED,
            detail={"resource": item.get("kind"), "name": _pod_name(item), "generation": generation,
                    "gone": True if new is None else None},
        )  # fmt: skip


READERS: Final = {
    "pods": pod_facts, "nodes": node_facts, "leases": lease_facts, "persistentvolumeclaims": claim_facts,
    "events": event_facts,
}  # fmt: skip
EXACT: Final = (Kind.LEASE_RENEWED,)
"""Kinds whose own stamp has microseconds."""


class KubeRows:
    """Changes of all informers to rows; t_ns is unix time (the table moves it to the run's zero)."""

    def __init__(self, receipt_error_ns: int, own_error_ns: int = 0, reader: PodReader | None = None) -> None:
        self._reader = reader or PodReader()
        self._error = receipt_error_ns
        self._own_error = own_error_ns
        self._objects: dict[tuple[str, str], dict[str, Any]] = {}
        self.holes = 0
        self.rows: list[tuple[Event, Event | None]] = []
        """(receipt or exact row, the object's own row that it is tied to)."""

    def take(self, change: Change) -> None:
        """One change."""
        watch = {"BROKEN": Kind.WATCH_BROKEN, "RESUMED": Kind.WATCH_RESUMED, "HOLE": Kind.WATCH_RESUMED}
        if change.verb in watch:
            hole = True if change.verb == "HOLE" else None
            self.holes += bool(hole)
            text = detail(resource=change.resource, hole=hole, error=change.note)
            self.rows.append((Event(change.t_ns, watch[change.verb], "collector", detail=text), None))
            return
        key = (change.resource, change.object["metadata"]["uid"])
        old = self._objects.get(key)
        item = self._reader.named(change.object) if change.resource == "pods" else change.object
        new = None if change.verb == "DELETED" else item
        if change.verb == "LISTED":
            self._objects[key] = item
            return
        for fact in READERS.get(change.resource, custom_facts)(old, new):
            self._add(change.t_ns, fact)
        if new is None:
            self._objects.pop(key, None)
        else:
            self._objects[key] = new

    def _add(self, t_ns: int, fact: Fact) -> None:
        text = detail(**fact.detail)
        seen = Event(
            t_ns, fact.kind, "collector", None, fact.node, fact.value, fact.unit, text, None, self._error, fact.pod_uid
        )
        if fact.own_ns is None:
            self.rows.append((seen, None))
        elif fact.kind in EXACT:
            exact = seen._replace(
                t_ns=fact.own_ns, actor="kubelet", t_err_ns=MICRO + self._own_error, value=t_ns - fact.own_ns, unit="ns"
            )
            self.rows.append((exact, None))
        else:
            own = seen._replace(
                t_ns=fact.own_ns + HALF_SECOND, actor="apiserver", t_err_ns=HALF_SECOND + self._own_error
            )
            self.rows.append((seen, own))
