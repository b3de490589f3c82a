"""Recorded real runs: where they lie, and what the twin must take from one to be compared with it.

scenarios/recordings/SCENARIO/VERSION/kFACTOR/REPETITION/   a run folder each
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.events import Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.manifest import Manifest, read_manifest
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.contract.several_clusters import has_several, member
from slurmtwin.contract.world import conditions_sha256
from slurmtwin.models.slurmctld.coarse_clock import CAUGHT_UP_NS
from slurmtwin.workload.resolve import resolve_jobs
from slurmtwin.worlds.outside import literal_scenario
from slurmtwin.worlds.start_times import StartTimes

RECORDINGS: Final = Path("scenarios/recordings")
MOST_LAG_MS: Final = 8
"""A coarse clock moves each 4 ms or oftener (the kernel's HZ), and the loop needs its own time."""


@dataclass(frozen=True, slots=True, order=True)
class Group:
    """The repetitions of one scenario on one Slurm version at one acceleration."""

    scenario: str
    version: str
    factor: str
    folders: tuple[Path, ...]

    @property
    def label(self) -> str:
        """The scenario's name in verdicts; at k = 1 it says so, as both are judged."""
        return f"{self.scenario} (k=1)" if self.factor == "k1" else self.scenario


def find_groups(scenario: str, root: Path = RECORDINGS) -> list[Group]:
    """All recordings of a scenario, by version and acceleration; [] when there is none."""
    groups: list[Group] = []
    for factor in sorted((root / scenario).glob("*/k*")):
        folders = tuple(sorted(p.parent for p in factor.glob("*/manifest.json")))
        if folders:
            groups.append(Group(scenario, factor.parent.name, factor.name, folders))
    return groups


def recorded_scenario(folder: Path, path: Path | None = None) -> Scenario:
    """The scenario as it was run, every default written out. Raises InputError when the file is broken.

    path: the scenario file. A recording of a trace keeps no copy of scenario and jobs (they are the trace's owner's):
    then the file is read, and must be what was recorded.
    """
    kept = folder / "scenario.resolved.json"
    if path is not None and not kept.exists():
        return _scenario_of_trace(folder, path)
    try:
        return Scenario.model_validate(json.loads(kept.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise InputError(f"not a resolved scenario: {error}", Where(str(kept))) from error


def _scenario_of_trace(folder: Path, path: Path) -> Scenario:
    parameters = read_manifest(folder).parameters
    scenario = literal_scenario(load_scenario(path), path.parent)
    jobs = list(resolve_jobs(scenario, path.parent))
    if conditions_sha256(scenario, jobs) != parameters.get("conditions_sha256"):
        raise InputError(f"{folder} was recorded from other settings or jobs than these", Where(str(path)))
    host = scenario.host.model_copy(update={"factor": float(parameters["factor"])})
    return scenario.of_version(parameters["slurm_version"]).model_copy(update={"host": host})


def recorded_jobs(folder: Path, path: Path | None = None) -> list[JobRequest]:
    """The workload as it was submitted, in submit order; of a trace that is not kept: read from the scenario's file."""
    kept = folder / "jobs.jsonl"
    if path is not None and not kept.exists():
        return list(resolve_jobs(load_scenario(path), path.parent))
    try:
        lines = kept.read_text(encoding="utf-8").splitlines()
        return [JobRequest(**json.loads(line)) for line in lines]
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"not a recorded workload: {error}", Where(str(kept))) from error


def same_conditions(now: Scenario, recorded: Scenario) -> bool:
    """Cluster, workload and faults are those of the scenario file today (its version and host may differ)."""

    def parts(scenario: Scenario) -> dict[str, Any]:
        document = scenario.model_dump(mode="json", include={"slurm", "workload", "faults", "after"})
        document["slurm"].pop("version")
        return document

    return parts(now) == parts(recorded)


def start_times(manifest: Manifest, scenario: Scenario, rows: Iterable[Any]) -> StartTimes:
    """What the recording fixes: the clock, daemon starts, submit times as slurmctld saw them, fault times.

    Of a run in pods also where each pod ran, when each node's lease was renewed, which nodes a tick pinged, and where
    slurmctld's passes and backfill cycles stood, all before the first fault.

    `rows` are event rows in the order of the table, with contract.events' columns as attributes.
    Of several clusters each has its own. Raises InputError when the recording lacks one of them.
    """
    if not has_several(scenario):
        return _start_times(manifest, scenario, rows)
    known = list(rows)
    times = {
        cluster.name: _start_times(
            manifest, member(scenario, place), [row for row in known if row.cluster in (cluster.name, None)]
        )
        for place, cluster in enumerate(scenario.clusters)
    }
    return replace(next(iter(times.values())), members=times)


def _start_times(manifest: Manifest, scenario: Scenario, rows: Iterable[Any]) -> StartTimes:
    """Of one cluster."""
    submits: dict[int, int] = {}
    injected: dict[str, int] = {}
    controllers: list[int] = []
    slurmds: list[int] = []
    workers: list[int] = []
    rests: list[int] = []
    made: list[int] = []
    leases: dict[str, int] = {}
    pods: dict[str, str] = {}
    pings: list[tuple[int, str]] = []
    stood: dict[str, int] = {}
    look_ns: int | None = None
    looks: list[int] = []
    epoch_ns = int(manifest.parameters["epoch_ns"])
    for row in rows:
        kind = row.kind
        if kind == Kind.NODE_PINGED and row.value and scenario.pods is not None:
            looks.append(int(row.t_ns))
        if kind == Kind.NODE_PINGED and scenario.pods is not None and not injected and _is_ping(row):
            pings.append((int(row.t_ns), str(row.node)))
        if not injected and scenario.pods is not None and kind in _PASSES and _is_periodic(row):
            stood[kind] = int(row.t_ns)
        if not injected and scenario.pods is not None and kind in (Kind.SCHED_MAIN_PASS, Kind.NODE_PINGED):
            look_ns = int(row.t_ns)
        if not injected and row.node and kind == Kind.LEASE_RENEWED:
            leases[kube_node(row.node)] = int(row.t_ns)
        elif not injected and kind == Kind.POD_CREATED and row.actor == "apiserver":
            if json.loads(row.detail).get("app") == "slurmd":
                workers.append(int(row.t_ns))
        elif not injected and kind in (Kind.POD_CREATED, Kind.OBJECT_CHANGED) and row.actor == "collector":
            seen = json.loads(row.detail)
            if seen.get("resource") == "RestApi" or seen.get("app") == "slurmrestd":
                rests.append(int(row.t_ns))
            elif seen.get("app") == "slurmd":
                made.append(int(row.t_ns))
        elif not injected and row.node and kind == Kind.POD_SCHEDULED:
            pods[_pod_name(json.loads(row.detail))] = kube_node(row.node)
        if kind == Kind.JOB_SUBMITTED and row.job_id is not None:
            submits.setdefault(int(row.job_id), int(row.t_ns))
        elif kind == Kind.FAULT_INJECTED and row.actor == "fault":
            injected.setdefault(_fault_key(json.loads(row.detail)["fault"]), int(row.t_ns))
        elif kind == Kind.SLURMCTLD_STARTED:
            controllers.append(int(row.t_ns))
        elif kind == Kind.SLURMD_STARTED and row.t_ns <= 0:
            slurmds.append(int(row.t_ns))
    if not controllers:
        raise InputError("the recording does not say when slurmctld started")
    keys = [
        _fault_key({**fault.model_dump(mode="json", exclude_defaults=True), "kind": fault.kind})
        for fault in scenario.faults
    ]
    missing = [key for key in keys if key not in injected]
    if missing:
        raise InputError(f"the recording does not say when a fault was injected: {missing[0]}")
    slurmds.sort()
    return StartTimes(
        epoch_ns=epoch_ns,
        slurmctld_ns=controllers[0],
        slurmd_ns=slurmds[len(slurmds) // 2] if slurmds else controllers[0],
        workers_ns=min(workers, default=None),
        rest_ns=min(rests, default=None),
        made_ns=min(made, default=None),
        submit_ns=submits,
        fault_ns=tuple(injected[key] for key in keys),
        lease_ns=leases,
        full_pass_ns=stood.get(Kind.SCHED_MAIN_PASS) if keys else None,
        cycle_ns=stood.get(Kind.SCHED_BACKFILL_CYCLE) if keys else None,
        look_ns=look_ns if keys else None,
        clock_lag_ns=clock_lag_ns(looks, epoch_ns),
        pod_node=pods,
        pings=tuple(pings),
    )


def clock_lag_ns(looks_ns: Iterable[int], epoch_ns: int) -> int:
    """How far time(NULL) was behind: the most frequent time behind a whole second at which ticks come, in whole ms.

    Ticks that are seen in their own second come right behind the lag, those seen a second late within 1 ms (24.11 on).
    It is the host's, not the run's: 5 ms on one day and 1 ms on another. Without such ticks CAUGHT_UP_NS.
    """
    counted = Counter(round((at + epoch_ns) % SECOND / MS) for at in looks_ns)
    behind = {ms: count for ms, count in counted.items() if 1 <= ms <= MOST_LAG_MS}
    return min(behind, key=lambda ms: (-behind[ms], ms)) * MS if behind else CAUGHT_UP_NS


_PASSES: Final = (Kind.SCHED_MAIN_PASS, Kind.SCHED_BACKFILL_CYCLE)


def _is_periodic(row: Any) -> bool:
    """A backfill cycle, or a main pass over the whole queue: those have a period."""
    if row.kind == Kind.SCHED_BACKFILL_CYCLE:
        return True
    return bool(json.loads(row.detail).get("depth") == "full")


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


def _fault_key(fault: dict[str, Any]) -> str:
    return json.dumps(fault, sort_keys=True)


def factor_of(folder: Path) -> float:
    """The acceleration k of a recording, from its manifest."""
    return float(read_manifest(folder).parameters["factor"])
