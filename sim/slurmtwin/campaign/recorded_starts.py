"""What the rows of a recording say of starts: when daemons, jobs and faults came, and where timers stood.

A timer's phase is read off the rows before the first fault; what comes after it is for the twin to find out. A fault
that only waits for another one (contract/cluster_faults.py, WAITING) is not yet the first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, TypeVar

from slurmtwin.adapters.slurm_lists import NEVER_NS
from slurmtwin.campaign.recorded_comments import commented, informed_from_ns
from slurmtwin.contract.clock import MS, SECOND, parse_duration
from slurmtwin.contract.cluster_faults import BURST_NS, WAITING
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.events import Kind
from slurmtwin.contract.scenario import Scenario
from slurmtwin.models.slurm_cluster import SHUTDOWN_WAIT_NS
from slurmtwin.models.slurmctld.background import steady_loop
from slurmtwin.models.slurmctld.coarse_clock import CAUGHT_UP_NS
from slurmtwin.models.slurmctld.scheduler import UNREAD_BATCH_SCHED_DELAY_S
from slurmtwin.worlds.start_times import StartTimes

Seen = TypeVar("Seen")

OF_RECORDS: Final = frozenset({"node.update", "node.create", "node.delete"})
"""Faults that change slurmctld's records alone: no kubelet hears of them, and its looks go on as they stood."""
MOST_LAG_MS: Final = 8
"""A coarse clock moves each 4 ms or oftener (the kernel's HZ), and the loop needs its own time."""
FEWEST_AT_ONCE: Final = 2
"""Ticks within 1 ms of a second, and none behind it, that tell of a clock which is hardly behind."""
MARKS_NS: Final = 400 * MS
"""A pass of slurm-operator has written its pods so long behind its status: the last sync of a worker by a label comes
84 to 248 ms behind it in four runs of x22-slinky, 20 to 22 ms for each write before it."""
TOLD_AGAIN_NS: Final = 20 * MS
"""A kubelet's sweep until a watch tells of what it put right: a look, a patch and the watch."""
SEEN_LATE_NS: Final = 2 * SECOND
"""A busy collector sees a new pod up to 0.7 s late, when its kubelet may have begun with it."""
CALLED_NS: Final = UNREAD_BATCH_SCHED_DELAY_S * SECOND
"""batch_sched_delay, where a scenario leaves it at its default."""
FEWEST_ROUNDS: Final = 10
"""Of the loop of 22.05: over fewer of them its sleeps differ too much."""


class RecordedStarts:
    """The starts of one cluster, gathered row by row in the order of the table."""

    def __init__(self, epoch_ns: int, scenario: Scenario) -> None:
        self._epoch_ns = epoch_ns
        self._in_pods = scenario.pods is not None
        self._keys = [
            _fault_key({**fault.model_dump(mode="json", exclude_defaults=True), "kind": fault.kind})
            for fault in scenario.faults
        ]
        self._submits: dict[int, int] = {}
        self._scripts: dict[int, int] = {}
        self._injected: dict[str, tuple[int, int]] = {}
        """Fault -> when it was injected, and the half-width of that."""
        self._signals: list[tuple[int, int]] = []
        """When a fault sent a signal by itself, and the pause between two bursts that it was to keep."""
        self._disturbed = False
        """A fault has done something."""
        self._heard = False
        """One has that a kubelet may have heard of."""
        self._controllers: list[int] = []
        self._slurmds: list[int] = []
        self._stopped: tuple[int, int] | None = None
        """When a slurmctld ended last, as one that was told to, and the half-width of that."""
        self._firsts: dict[str, int] = {}
        """Field of StartTimes -> the first sight of something, the smallest time of its rows."""
        self._leases: dict[str, int] = {}
        self._relists: dict[str, int] = {}
        self._syncs: dict[str, int] = {}
        self._entered: dict[str, int] = {}
        self._probes: dict[str, dict[str, tuple[int, ...]]] = {}
        self._images: dict[str, int] = {}
        self._names: dict[str, str] = {}
        """Pod -> what it is called in StartTimes."""
        self._pods: dict[str, str] = {}
        self._pings: list[tuple[int, str]] = []
        self._stood: dict[str, int] = {}
        """Field of StartTimes -> when something with a period came last."""
        self._generations: dict[str, int] = {}
        """Node set -> the generation of its spec that was seen last."""
        self._status: tuple[str, int] = ("", 0)
        """The node set whose status was written last, and when."""
        self._statuses: list[int] = []
        self._ready: dict[str, list[tuple[int, int]]] = {}
        """Worker's pod -> from when to when it was ready, as far as is known."""
        self._sweeps: dict[str, int] = {}
        self._looks: tuple[list[int], list[int]] = [], []
        """Ticks before the first fault, and behind it."""
        self._delay_is_usual = "batch_sched_delay" not in str(scenario.slurm.conf.get("SchedulerParameters", ""))
        self._ended_ns = -(1 << 62)
        """When a job ended last."""
        self._calls: list[int] = []
        self._rounds = None if steady_loop(scenario.slurm.version) else Rounds()

    def take(self, row: Any) -> None:
        """The next row: contract.events' columns are its attributes."""
        kind = row.kind
        if self._in_pods:
            self._take_loop(row)
        if not self._disturbed:
            self._take_before(row)
        if not self._heard and row.node and kind == Kind.KUBELET_RELISTED:
            self._relists[kube_node(row.node)] = int(row.t_ns)
        if kind == Kind.JOB_SUBMITTED and row.job_id is not None:
            self._submits.setdefault(int(row.job_id), int(row.t_ns))
        elif kind == Kind.FAULT_INJECTED and row.actor == "fault":
            fault = json.loads(row.detail)["fault"]
            self._disturbed |= fault["kind"] not in WAITING
            self._heard |= fault["kind"] not in WAITING | OF_RECORDS
            called = _ordered(fault["kind"], int(row.t_ns), int(row.t_err_ns), self._stopped)
            self._injected.setdefault(_fault_key(fault), called)
        elif kind == Kind.FAULT_SIGNALLED:
            self._signals.append((int(row.t_ns), parse_duration(json.loads(row.detail)["fault"]["offset"])))
        elif kind == Kind.SLURMCTLD_STOPPED:
            self._stopped = int(row.t_ns), int(row.t_err_ns)
        elif kind == Kind.SLURMCTLD_STARTED:
            if self._controllers and not self._disturbed:
                self._stood["anew_ns"] = int(row.t_ns)
            self._controllers.append(int(row.t_ns))
        elif kind == Kind.SLURMD_STARTED and row.t_ns <= 0:
            self._slurmds.append(int(row.t_ns))

    def _take_loop(self, row: Any) -> None:
        """What slurmctld's loop shows of itself, in pods: its looks, pings, passes and cycles."""
        kind, at_ns = row.kind, int(row.t_ns)
        if kind == Kind.NODE_PINGED and row.value:
            self._looks[self._disturbed].append(at_ns)
        if self._disturbed:
            return
        if kind == Kind.NODE_PINGED and _is_ping(row):
            self._pings.append((at_ns, str(row.node)))
        if kind == Kind.SLURMCTLD_STANDBY:
            self._first("standby_ns", at_ns)
        if kind in (Kind.SCHED_MAIN_PASS, Kind.NODE_PINGED):
            self._stood["look_ns"] = at_ns
        if kind == Kind.NODE_PINGED and self._rounds is not None:
            self._rounds.look(at_ns)
        if kind == Kind.JOB_STARTED:
            self._take_start(row)
        elif kind == Kind.JOB_ENDED:
            self._ended_ns = at_ns
        if kind == Kind.SCRIPT_STARTED and row.job_id is not None and "array_task" not in (row.detail or ""):
            self._scripts.setdefault(int(row.job_id), at_ns)
        if kind == Kind.SCHED_BACKFILL_CYCLE:
            self._stood["cycle_ns"] = at_ns
        elif kind == Kind.SCHED_MAIN_PASS and json.loads(row.detail).get("depth") == "full":
            self._stood["full_pass_ns"] = at_ns

    def _take_start(self, row: Any) -> None:
        """Where a look of the loop, each second, had come since a job's submission and left it, the pass that starts it
        stands batch_sched_delay behind the call before it, unless it is a full one or follows another job's end."""
        at_ns = int(row.t_ns)
        waited_ns = at_ns - self._submits.get(row.job_id, at_ns)
        full_ns = self._stood.get("full_pass_ns")
        if json.loads(row.detail or "{}").get("by") != "main" or (full_ns is not None and at_ns - full_ns < SECOND):
            return
        if self._delay_is_usual and SECOND < waited_ns <= CALLED_NS and self._ended_ns < at_ns - waited_ns:
            self._calls.append(at_ns - CALLED_NS)

    def _take_before(self, row: Any) -> None:
        """What Kubernetes shows before the first fault: leases, timers of kubelets, places of pods, first sights."""
        kind, at_ns = row.kind, int(row.t_ns)
        if row.node and kind == Kind.LEASE_RENEWED:
            self._leases[kube_node(row.node)] = at_ns
        elif kind == Kind.POD_CREATED and row.actor == "apiserver":
            field = {"slurmd": "workers_ns", "slurmctld": "controller_ns"}.get(json.loads(row.detail).get("app"))
            if field is not None:
                self._first(field, at_ns)
        elif kind in (Kind.POD_CREATED, Kind.OBJECT_CHANGED) and row.actor == "collector":
            seen = json.loads(row.detail)
            if kind == Kind.POD_CREATED:
                self._made(str(seen.get("pod")), at_ns)
            if seen.get("resource") == "RestApi" or seen.get("app") == "slurmrestd":
                self._first("rest_ns", at_ns)
            elif seen.get("app") == "slurmd":
                self._first("made_ns", at_ns)
            elif seen.get("resource") == "NodeSet":
                self._node_set(str(seen.get("name")), int(seen.get("generation", 0)), at_ns)
        elif kind == Kind.KUBE_EVENT and row.actor == "collector" and at_ns < 0:
            if '"Pulled"' in row.detail or '"RestApi/' in row.detail:
                self._told_of(json.loads(row.detail), at_ns)
        elif kind == Kind.POD_SYNCED:
            pod = str(json.loads(row.detail)["pod"])
            self._syncs[pod] = at_ns
            self._entered.setdefault(pod, at_ns)
            self._marked(pod, at_ns)
        elif kind in (Kind.POD_READY, Kind.POD_UNREADY) and row.actor == "collector":
            seen = json.loads(row.detail)
            if seen.get("app") == "slurmd":
                self._readiness(str(seen["pod"]), kind == Kind.POD_READY, str(row.node), at_ns)
        elif kind == Kind.POD_PROBED:
            seen = json.loads(row.detail)
            probes, name = self._probes.setdefault(str(seen["pod"]), {}), f"{seen['container']}/{seen['probe']}"
            probes[name] = (*probes.get(name, ()), at_ns)
        elif row.node and kind == Kind.POD_SCHEDULED:
            seen = json.loads(row.detail)
            name = self._names[str(seen.get("pod"))] = _pod_name(seen)
            self._pods[name] = kube_node(row.node)

    def _told_of(self, event: Mapping[str, Any], at_ns: int) -> None:
        """An event of Kubernetes: a first image, or of a RestApi object that a busy collector has yet to see."""
        about = str(event.get("about"))
        if about.startswith("RestApi/"):
            self._first("rest_ns", at_ns)
        elif event.get("reason") == "Pulled":
            self._images.setdefault(about.removeprefix("Pod/"), at_ns)

    def _made(self, pod: str, at_ns: int) -> None:
        """A pod was made, perhaps anew: what was seen of one with its name is not of it."""
        self._images.pop(pod.rpartition("/")[2], None)
        self._probes.pop(pod, None)
        if self._entered.get(pod, at_ns) < at_ns - SEEN_LATE_NS:
            del self._entered[pod]

    def _node_set(self, name: str, generation: int, at_ns: int) -> None:
        """It changed and its spec did not: its status was written, at the end of a pass."""
        if self._generations.get(name) == generation:
            self._stood["told_ns"] = at_ns
            self._status = (name, at_ns)
            self._statuses.append(at_ns)
        self._generations[name] = generation

    def _marked(self, pod: str, at_ns: int) -> None:
        """Behind its status a pass writes conditions and labels of pods; of a label a kubelet hears."""
        name, status_ns = self._status
        if name and pod.rpartition("-")[0] == name and at_ns - status_ns <= MARKS_NS:
            self._stood["told_ns"] = at_ns

    def _readiness(self, pod: str, ready: bool, node: str, at_ns: int) -> None:
        """A worker's pod that was ready is not, by what its operator wrote, or its kubelet has put that right."""
        times = self._ready.setdefault(pod, [])
        if not ready:
            times[-1:] = [(begin, at_ns) for begin, _ in times[-1:]]
            return
        if times and times[-1][1] < NEVER_NS:
            self._sweeps[kube_node(node)] = at_ns - TOLD_AGAIN_NS
        times.append((at_ns, NEVER_NS))

    def _taken_back(self) -> dict[str, int]:
        """Workers that are not ready when the pass of told_ns has ended, and since when."""
        if "told_ns" not in self._stood:
            return {}
        end_ns = self._stood["told_ns"] + MARKS_NS
        last = {pod: [one for one in times if one[0] <= end_ns][-1:] for pod, times in self._ready.items()}
        return self._called({pod: since for pod, times in last.items() for _, since in times if since <= end_ns})

    def _commented(self) -> tuple[str, ...]:
        """Workers whose nodes have a comment then."""
        informed_ns = informed_from_ns(self._firsts.get("rest_ns"), self._firsts.get("made_ns"))
        return tuple(self._called(dict.fromkeys(commented(self._statuses, self._ready, informed_ns), True)))

    def _first(self, field: str, at_ns: int) -> None:
        self._firsts[field] = min(at_ns, self._firsts.get(field, at_ns))

    def times(self) -> StartTimes:
        """All of it. Raises InputError when no slurmctld started, or one of the scenario's faults was not injected."""
        if not self._controllers:
            raise InputError("the recording does not say when slurmctld started")
        missing = [key for key in self._keys if key not in self._injected]
        if missing:
            raise InputError(f"the recording does not say when a fault was injected: {missing[0]}")
        slurmds = sorted(self._slurmds)
        firsts = self._firsts
        return StartTimes(
            epoch_ns=self._epoch_ns,
            slurmctld_ns=self._controllers[0],
            slurmd_ns=slurmds[len(slurmds) // 2] if slurmds else self._controllers[0],
            workers_ns=firsts.get("workers_ns"),
            standby_ns=firsts.get("standby_ns"),
            controller_ns=firsts.get("controller_ns"),
            rest_ns=firsts.get("rest_ns"),
            made_ns=firsts.get("made_ns"),
            submit_ns=self._submits,
            fault_ns=tuple(self._injected[key][0] for key in self._keys),
            fault_err_ns=tuple(self._injected[key][1] for key in self._keys),
            **_bursts(self._signals),
            lease_ns=self._leases,
            clock_lag_ns=clock_lag_ns(self._looks[0], self._epoch_ns, self._looks[1]),
            pod_node=self._pods,
            pings=tuple(self._pings),
            **(self._timers() if self._keys else {}),
        )

    def _timers(self) -> dict[str, Any]:
        """Fields of StartTimes: where timers stood before the first fault."""
        round_ns = self._rounds.mean_ns() if self._rounds is not None else None
        return {
            "relist_ns": self._relists,
            "script_ns": self._scripts,
            "called_ns": tuple(dict.fromkeys(self._calls)),
            "sync_ns": self._called(self._syncs),
            "image_ns": self._imaged(),
            "entered_ns": self._called(self._entered),
            "probed_ns": self._called(self._probes),
            "round_ns": round_ns,
            "taken_back": self._taken_back(),
            "commented": self._commented(),
            "swept_ns": self._sweeps,
            **self._stood,
        }

    def _imaged(self) -> dict[str, int]:
        """First images, of pods whose place is known."""
        called = {pod.rpartition("/")[2]: name for pod, name in self._names.items()}
        return {called[pod]: at_ns for pod, at_ns in self._images.items() if pod in called}

    def _called(self, of_pods: Mapping[str, Seen]) -> dict[str, Seen]:
        """By names of StartTimes. Of pods with one name the last one counts."""
        return {self._names.get(pod, pod.rpartition("/")[2]): seen for pod, seen in of_pods.items()}


class Rounds:
    """What a round of 22.05's loop takes, from ticks of its ping cycle: looks that lie some rounds apart.

    Since time zero: before it the pods of this run and of those beside it start, and rounds are up to three times as
    late (docs/surprises.md).
    """

    def __init__(self) -> None:
        self._looks_ns: list[int] = []

    def look(self, at_ns: int) -> None:
        """A tick; rows of one tick come within a moment."""
        if at_ns >= 0 and (not self._looks_ns or at_ns - self._looks_ns[-1] > SECOND):
            self._looks_ns.append(at_ns)

    def mean_ns(self) -> int | None:
        """Between the first tick and the last; None where they are less than FEWEST_ROUNDS apart."""
        if not self._looks_ns:
            return None
        between_ns = self._looks_ns[-1] - self._looks_ns[0]
        rounds = sum(rounds_between(first_ns, last_ns) for first_ns, last_ns in pairwise(self._looks_ns))
        return between_ns // rounds if rounds >= FEWEST_ROUNDS else None


def rounds_between(first_ns: int, last_ns: int) -> int:
    """How many rounds of 22.05's loop lie between two looks: each takes some ms more than its second."""
    return round((last_ns - first_ns) / SECOND)


def clock_lag_ns(looks_ns: Iterable[int], epoch_ns: int, behind_fault_ns: Iterable[int] = ()) -> int:
    """How far time(NULL) was behind: the middle of the millisecond behind a whole second in which most ticks come.

    Ticks that are seen in their own second come right behind the lag, those seen a second late within 1 ms (24.11 on).
    It is the host's, not the run's: 5 ms on one day and 1 ms on another. Late are a quarter (coarse_clock.py), so where
    most ticks come within 1 ms, and two at least, the lag is less than that; behind a fault they may have waited for a
    silent node, and come as the loop wakes. Without such ticks CAUGHT_UP_NS.
    """
    early, late = (Counter((at + epoch_ns) % SECOND // MS for at in ticks) for ticks in (looks_ns, behind_fault_ns))
    behind = {ms: count for ms, count in (early + late).items() if 1 <= ms <= MOST_LAG_MS}
    at_once = early[0]
    if at_once >= FEWEST_AT_ONCE and at_once > 2 * max(behind.values(), default=0):
        return MS // 2
    return min(behind, key=lambda ms: (-behind[ms], ms)) * MS + MS // 2 if behind else CAUGHT_UP_NS


def _bursts(signals: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Fields of StartTimes: pauses and bursts of an API server, from the signals that stopped it and let it go on, in
    turns, and what each pause was to be."""
    if not signals:
        return {}
    stopped_ns, pause_ns = signals[0]
    lasts_ns = [end_ns - begin_ns for (begin_ns, _), (end_ns, _) in pairwise(signals)]
    pauses_ns = (ns - pause_ns for ns in lasts_ns[::2])
    runs_ns = (ns - BURST_NS for ns in [*lasts_ns[1::2], BURST_NS])  # the last burst has no end
    return {"stopped_ns": stopped_ns, "bursts_ns": tuple(zip(pauses_ns, runs_ns, strict=False))}


def _is_ping(row: Any) -> bool:
    """A tick asked nodes that answer, and not to register."""
    return bool(row.value) and json.loads(row.detail).get("purpose") == "ping"


def kube_node(name: str) -> str:
    """The name of a cluster's node in scenarios: kind's CLUSTER-worker, CLUSTER-worker2 are worker1, worker2."""
    if name.endswith("-control-plane"):
        return "control-plane"
    _, worker, number = name.rpartition("worker")
    return f"worker{number or 1}" if worker else name


def _pod_name(detail: dict[str, Any]) -> str:
    """NAME of a pod with a name of its own; of a Deployment's pod, whose name is drawn, its app."""
    name = str(detail.get("pod", "")).rpartition("/")[2]
    last = name.rpartition("-")[2]
    return name if last.isdigit() else str(detail.get("app", name))


def _ordered(kind: str, at_ns: int, err_ns: int, stopped: tuple[int, int] | None) -> tuple[int, int]:
    """The middle of a fault's call, and half of it; `scontrol takeover` comes back SHUTDOWN_WAIT behind its order.

    Its order is a request to the primary, which ends by it: where one ended within the call, the order was then.
    """
    if kind != "slurmctld.takeover":
        return at_ns, err_ns
    if stopped is not None and abs(stopped[0] - at_ns) <= err_ns:
        return stopped
    waits_ns = min(err_ns, SHUTDOWN_WAIT_NS // 2)
    return at_ns - waits_ns, err_ns - waits_ns


def _fault_key(fault: dict[str, Any]) -> str:
    return json.dumps(fault, sort_keys=True)
