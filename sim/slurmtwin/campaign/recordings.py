"""Recorded real runs: where they lie, and what the twin must take from one to be compared with it.

scenarios/recordings/SCENARIO/VERSION/kFACTOR/REPETITION/   a run folder each
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slurmtwin.campaign.pod_spans import PodSpans
from slurmtwin.campaign.recorded_passes import last_poll_ns, read_passes
from slurmtwin.campaign.recorded_starts import RecordedStarts
from slurmtwin.contract.clock import MS
from slurmtwin.contract.errors import InputError, Where
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.manifest import Manifest, read_manifest
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.contract.several_clusters import has_several, member
from slurmtwin.contract.world import conditions_sha256
from slurmtwin.workload.resolve import resolve_jobs
from slurmtwin.worlds.outside import literal_scenario
from slurmtwin.worlds.pod_durations import durations_file
from slurmtwin.worlds.pod_faults import OPERATORS
from slurmtwin.worlds.start_times import StartTimes

RECORDINGS: Final = Path("scenarios/recordings")


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
        return _times(manifest, scenario, rows)
    known = list(rows)
    times = {
        cluster.name: _times(
            manifest, member(scenario, place), [row for row in known if row.cluster in (cluster.name, None)]
        )
        for place, cluster in enumerate(scenario.clusters)
    }
    return replace(next(iter(times.values())), members=times)


def _times(manifest: Manifest, scenario: Scenario, rows: Iterable[Any]) -> StartTimes:
    """Of one cluster."""
    starts = RecordedStarts(int(manifest.parameters["epoch_ns"]), scenario)
    known = list(rows)
    for row in known:
        starts.take(row)
    times = starts.times()
    if scenario.pods is None:
        return times
    beside = int(manifest.parameters.get("runs_beside", 1))
    times = replace(times, host_load=manifest.resources.get("host_load"), runs_beside=beside)
    if not scenario.pods.controller_after:
        return times
    return replace(times, container_ns=_waiting_workers(known))


def _waiting_workers(rows: Sequence[Any]) -> dict[str, tuple[int, int]]:
    """Workers that are there before slurmctld: when their containers began to run."""
    pods = PodSpans(rows)
    found = {pods.name[uid]: pods.at("container.started", uid) for uid, app in pods.app.items() if app == "slurmd"}
    return {name: (round(span[0] * MS), round(span[1] * MS)) for name, span in found.items() if span is not None}


def with_poll(times: StartTimes, folder: Path, scenario: Scenario) -> StartTimes:
    """With the operator's last poll before the first fault, where the recording has passes that show it: any, unless a
    fault is the operator's own."""
    if not times.fault_ns:
        return times
    lives_on = not any(getattr(fault, "target", "") in OPERATORS for fault in scenario.faults)
    passes = read_passes(folder, times.epoch_ns)
    return replace(times, poll_ns=last_poll_ns(passes, min(times.fault_ns), lives_on))


def recorded_durations(manifest: Manifest) -> Path:
    """The file with the durations of a recording's batch: that of its time and its host's processor."""
    processor = manifest.environment.get("host", {}).get("cpu")
    return durations_file(int(manifest.parameters["epoch_ns"]), str(processor))


def factor_of(folder: Path) -> float:
    """The acceleration k of a recording, from its manifest."""
    return float(read_manifest(folder).parameters["factor"])
