"""Pods of a recorded run: when each changed, between what a stamp, its receipt and logs enclose."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from slurmtwin.contract.clock import MS

if TYPE_CHECKING:
    from slurmtwin_reports.history import Row

PROMPT: Final = frozenset({"pod.created", "pod.scheduled", "pod.ready", "claim.bound", "kube.event"})
"""Changes that are written when they happen; the status of a container waits for the kubelet's next look. That a pod is
ready is asked of probed ones alone (before_faults.py), and a probe's answer is written at once (status_manager.go).
"""
STARTED_MS: Final = 50.0
"""The kubelet sends the event of a container's start when the runtime's call is back: at most so long after its process
runs."""
UNMOUNTED_MS: Final = 250.0
"""So long behind an end the pod's volumes are surely unmounted: two loops of 100 ms see it (volume_manager.go)."""
DRAINED_MS: Final = 2000.0
"""kubectl asks again for a refused eviction after 5 s; those that are granted are marked sooner than that."""
RELIST_MS: Final = 1000.0
"""The pause between the kubelet's looks at its containers (kubelet.go, genericPlegRelistPeriod)."""
Interval = tuple[float, float]
"""Bounds of a span in ms."""
KINDS: Final = frozenset({"pod.created", "pod.scheduled", "container.started", "pod.ready"})
"""Changes of a pod whose first time is kept."""


class PodSpans:
    """Pods of a run: first time of each change, as what stamp, receipt and logs enclose together."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.app: dict[str, str] = {}
        self.name: dict[str, str] = {}
        self.checked: dict[str, Interval] = {}
        """Pod -> its image was looked at for the first time."""
        self._times: dict[tuple[str, str], Interval] = {}
        receipts = _receipts(rows)
        started: dict[str, Interval] = {}
        for row in rows:
            if row.actor != "apiserver":
                continue
            detail = row.details
            time = bounds(row, receipts.get(row.seq))
            if row.kind == "kube.event":
                told = {"Pulled": self.checked, "Started": started}.get(str(detail.get("reason")))
                if told is not None:
                    told.setdefault(str(detail.get("about")).removeprefix("Pod/"), time)
            elif row.pod_uid and row.kind in KINDS:
                self.app.setdefault(row.pod_uid, str(detail.get("app")))
                self.name.setdefault(row.pod_uid, str(detail.get("pod")).rpartition("/")[2])
                self._times.setdefault((row.kind, row.pod_uid), time)
        for uid, name in self.name.items():
            runs = self.at("container.started", uid)
            if runs is not None and name in started:
                low, high = started[name]
                low = max(runs[0], low - STARTED_MS)
                self._times["container.started", uid] = (low, max(low, min(runs[1], high)))
        self._enclose_by_logs(rows)

    def _enclose_by_logs(self, rows: Sequence[Row]) -> None:
        """Logs are known to 1 ms: a pod was bound before its kubelet synced it for the first time, and its container
        ran after that and before its daemon served.
        """
        logged: dict[tuple[str, str], Interval] = {}
        for row in rows:
            if row.kind == "pod.synced":
                logged.setdefault((row.kind, str(row.details.get("pod")).rpartition("/")[2]), bounds(row))
            elif row.kind in ("slurmctld.started", "slurmd.started"):
                logged.setdefault((row.kind, row.node or ""), bounds(row))
        known = Counter(self.name.values())
        for uid, name in self.name.items():
            if known[name] > 1:
                continue  # whose log it is cannot be told
            app = self.app[uid]
            synced = logged.get(("pod.synced", name))
            serves = logged.get((f"{app}.started", name), logged.get((f"{app}.started", "")))
            self._narrow("pod.scheduled", uid, before=synced)
            self._narrow("container.started", uid, after=synced, before=serves)

    def _narrow(self, kind: str, uid: str, after: Interval | None = None, before: Interval | None = None) -> None:
        """It happened between these two; a bound that contradicts what is known already counts for nothing."""
        found = self.at(kind, uid)
        if found is None:
            return
        low, high = found
        if after is not None and low < after[0] < high:
            low = after[0]
        if before is not None and low < before[1] < high:
            high = before[1]
        self._times[kind, uid] = (low, high)

    def alone(self, uid: str) -> bool:
        """No other pod was surely or perhaps between its binding and its container while this one was."""

        def start(one: str) -> Interval | None:
            bound, runs = self.at("pod.scheduled", one), self.at("container.started", one)
            return None if bound is None or runs is None else (bound[0], runs[1])

        own = start(uid)
        others = [start(one) for one in self.app if one != uid]
        return own is not None and not any(o is not None and o[0] < own[1] and own[0] < o[1] for o in others)

    def at(self, kind: str, uid: str) -> Interval | None:
        """When it happened to this pod first."""
        return self._times.get((kind, uid))


@dataclass(frozen=True, slots=True)
class Restart:
    """A daemon's container that runs and serves again, in its pod or in a new one."""

    app: str
    """slurmctld or slurmd."""
    node: str
    """Of slurmd; "" for slurmctld."""
    synced: Interval
    """The kubelet's sync that brought it back."""
    runs: Interval
    runs_by_ms: float
    """The latest that it may have run: `runs` is taken in the middle."""
    serves: Interval

    @classmethod
    def between(cls, app: str, node: str, synced: Interval, started: Interval, serves: Interval) -> Restart:
        """Its container runs between the sync and the daemon's log, and little before `started`, the event.

        Both ends are known to 1 ms, that moment to 60. It is taken to be in the middle, so that the container's span
        and the daemon's are together what was measured; as intervals each was fitted for itself, and both together
        lay up to 17 ms beside it (docs/surprises.md).
        """
        low = max(synced[0], started[0] - STARTED_MS)
        high = max(low, min(started[1], serves[1]))
        middle = (low + high) / 2
        return cls(app, node, synced, (middle, middle), high, serves)


def restarts(rows: Sequence[Row]) -> Iterator[Restart]:
    """Of each daemon that a run kills: its container's return, where kubelet, events and its log all tell it."""
    from slurmtwin_reports.history import fault_of

    receipts = _receipts(rows)
    for place, killed in enumerate(rows):
        if killed.kind != "fault.injected":
            continue
        fault = fault_of(killed)
        if fault.get("kind") == "pod.delete":
            continue  # its container is another pod's
        app, _, node = str(fault.get("target", "")).partition(":")
        name = node or f"{app}-0"
        later = rows[place + 1 :]
        served = next((row for row in later if row.kind == f"{app}.started" and row.node in (node, None, "")), None)
        if served is None:
            continue
        syncs = [row for row in later if row.t_ns < served.t_ns and _is_sync(row, name)]
        if not syncs:
            continue
        synced, serves = bounds(syncs[-1]), bounds(served)
        started = _event(later, receipts, "Started", name, synced[0])
        if started is not None:
            yield Restart.between(app, node, synced, started, serves)


def relists(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each two looks of a kubelet that follow each other: when the pause behind the first would have ended, had that
    taken nothing, and when it did (generic.go, wait.Until). Both are of one log, so known to less than their rows say.
    """
    last: dict[str, float] = {}
    for row in rows:
        if row.kind == "kubelet.relisted" and row.node:
            now = row.t_ns / MS
            due = last.get(row.node, now) + RELIST_MS
            last[row.node] = now
            if due < now < due + RELIST_MS:  # else one between them has no row
                yield (due, due), (now, now)


def ends_told(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each daemon that a run kills: the sync that sees its container's end, and the receipt of that."""
    from slurmtwin_reports.history import fault_of

    for place, killed in enumerate(rows):
        fault = fault_of(killed) if killed.kind == "fault.injected" else {}
        app, _, node = str(fault.get("target", "")).partition(":")
        if not app or fault.get("kind") == "pod.delete":
            continue
        name = node or f"{app}-0"
        later = rows[place + 1 :]
        told = next((row for row in later if row.actor == "collector" and _is_end(row, name)), None)
        syncs = [row for row in later if told is not None and row.t_ns < told.t_ns and _is_sync(row, name)]
        if told is not None and syncs:
            yield bounds(syncs[-1]), (told.t_ns / MS, told.t_ns / MS)


def stops(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval, Interval]]:
    """Of each worker's pod that a run deletes with its grace: the request, slurmd's last line, the end's receipt."""
    from slurmtwin_reports.history import fault_of

    for place, asked in enumerate(rows):
        fault = fault_of(asked) if asked.kind == "fault.injected" else {}
        app, _, node = str(fault.get("target", "")).partition(":")
        if fault.get("kind") != "pod.delete" or app != "slurmd" or "grace" in fault:
            continue
        later = rows[place + 1 :]
        stopped = next((row for row in later if row.kind == "slurmd.stopped" and row.node == node), None)
        ends = (row for row in later if row.kind == "pod.ended" and row.actor == "collector")
        told = next((row for row in ends if _pod_name(row) == node), None)
        if stopped is not None and told is not None:
            yield bounds(asked), bounds(stopped), (told.t_ns / MS, told.t_ns / MS)


@dataclass(frozen=True, slots=True)
class Replaced:
    """A worker's pod that was deleted: its end, and the start of the next one of its name."""

    forced: bool
    """Without grace."""
    marked: Interval
    """These three as the collector received them: a receipt is as late as the next, so their errors, which bound how
    late, say nothing of the spans between them."""
    gone: Interval
    created: Interval
    ends: tuple[Interval, Interval] | None
    """With grace: the relist that let the kubelet end it, and its removal; None where its volumes may not have been
    unmounted by then, or no row tells."""
    bound: Interval
    checked: Interval
    """Its image was looked at."""
    back: Restart

    def beside(self, other: Replaced) -> bool:
        """Whether both were surely or perhaps between binding and container at one time."""
        return self.bound[0] < other.back.runs_by_ms and other.bound[0] < self.back.runs_by_ms


def replaced(rows: Sequence[Row]) -> Iterator[Replaced]:
    """Of each worker's pod that a run deletes: its return, where kubelet, events and logs all tell it."""
    receipts = _receipts(rows)
    received = [row for row in rows if row.actor == "collector" and row.kind.startswith(("pod.", "container.ended"))]
    for place, marked in enumerate(received):
        if marked.kind != "pod.deleting" or marked.details.get("app") != "slurmd":
            continue
        pod = marked.details.get("pod")
        later = [row for row in received[place + 1 :] if row.details.get("pod") == pod]
        gone = next((row for row in later if row.kind == "pod.deleted" and row.pod_uid == marked.pod_uid), None)
        created = next((row for row in later if row.kind == "pod.created"), None)
        if gone is None or created is None:
            continue
        name = str(pod).rpartition("/")[2]
        since = [row for row in rows if row.t_ns > created.t_ns]
        bound = next((row for row in rows if row.kind == "pod.scheduled" and row.pod_uid == created.pod_uid), None)
        synced = next((row for row in since if _is_sync(row, name)), None)
        served = next((row for row in since if row.kind == "slurmd.started" and row.node == name), None)
        checked, started = (_event(rows, receipts, word, name, created.t_ns / MS) for word in ("Pulled", "Started"))
        if bound is None or synced is None or served is None or checked is None or started is None:
            continue
        back = Restart.between("slurmd", name, bounds(synced), started, bounds(served))
        mark, end, new = ((row.t_ns / MS, row.t_ns / MS) for row in (marked, gone, created))
        low, high = bounds(bound, receipts.get(bound.seq))[0], back.synced[1]
        ends = _ends(rows, gone, next((row for row in later if row.kind == "container.ended"), None))
        yield Replaced(not marked.value, mark, end, new, ends, (min(low, high), high), checked, back)


def evictions(rows: Sequence[Row]) -> Iterator[tuple[Interval, Interval]]:
    """Of each drain: when it was asked for, and when each of its pods was marked, within DRAINED_MS."""
    from slurmtwin_reports.history import fault_of

    for place, asked in enumerate(rows):
        if asked.kind == "fault.injected" and fault_of(asked).get("kind") == "kube_node.drain":
            begun = bounds(asked)
            for row in rows[place + 1 :]:
                if row.kind == "pod.deleting" and row.actor == "collector" and bounds(row)[1] < begun[1] + DRAINED_MS:
                    yield begun, bounds(row)


def _ends(rows: Sequence[Row], gone: Row, ended: Row | None) -> tuple[Interval, Interval] | None:
    """The first relist of the pod's kubelet behind the end of its container, and the pod's removal."""
    if ended is None or ended.t_ns > gone.t_ns:
        return None
    looks = [row for row in rows if row.kind == "kubelet.relisted" and row.node == gone.node]
    looks = [row for row in looks if ended.t_ns < row.t_ns < gone.t_ns]
    if len(looks) != 1 or looks[0].t_ns - ended.t_ns < UNMOUNTED_MS * MS:
        return None
    return bounds(looks[0]), bounds(gone)


def _event(rows: Sequence[Row], receipts: dict[int, Row], reason: str, name: str, after_ms: float) -> Interval | None:
    """When the kubelet's first event of this reason about a pod was written that was received after a time."""
    told = (bounds(row, receipts.get(row.seq)) for row in rows if _tells(row, reason, name))
    return next((time for time in told if time[1] > after_ms), None)


def _receipts(rows: Sequence[Row]) -> dict[int, Row]:
    """Number of a change's row -> the collector's receipt of it."""
    return {row.cause_seq: row for row in rows if row.actor == "collector" and row.cause_seq is not None}


def _is_sync(row: Row, name: str) -> bool:
    return row.kind == "pod.synced" and _pod_name(row) == name


def _is_end(row: Row, name: str) -> bool:
    return row.kind == "container.ended" and _pod_name(row) == name


def _pod_name(row: Row) -> str:
    return str(row.details.get("pod")).rpartition("/")[2]


def _tells(row: Row, reason: str, name: str) -> bool:
    told = row.kind == "kube.event" and row.actor == "apiserver" and row.details.get("reason") == reason
    return told and row.details.get("about") == f"Pod/{name}"


def bounds(row: Row, receipt: Row | None = None) -> Interval:
    """The interval of a row's time in ms; a change did not happen after it was received."""
    low, high = row.t_ns - row.t_err_ns, row.t_ns + row.t_err_ns
    received = row if row.actor == "collector" else receipt
    if received is not None:
        late = received.t_ns - received.t_err_ns
        if row.kind in PROMPT and late <= high:  # else its watch was later than it mostly is: the stamp alone counts
            low = max(low, late)
        high = max(low, min(high, received.t_ns))
    return low / MS, high / MS
