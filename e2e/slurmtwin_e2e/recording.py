"""A recorded run as a run folder: events.jsonl.gz, manifest.json, scenario.resolved.json, jobs.jsonl.

A recording is written whole or not at all, and never edited: what is wrong is deleted and recorded again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.manifest import Manifest, environment_block, sha256_text, software_block
from slurmtwin.contract.scenario import Scenario
from slurmtwin.contract.world import conditions_sha256
from slurmtwin_e2e.collect.run_events import build_events, rounded
from slurmtwin_e2e.facts import cluster_facts, cpus_of_nodes
from slurmtwin_e2e.lateness import lateness_of
from slurmtwin_e2e.run import RawRun
from slurmtwin_e2e.run_folder import write_folder

TRACE_KINDS: Final = (Kind.JOB_SUBMITTED, Kind.JOB_STARTED, Kind.JOB_ENDED)
RUN_KINDS: Final = (Kind.RUN_STARTED, Kind.RUN_ENDED, Kind.SLURMCTLD_STARTED, Kind.SLURMD_STARTED)
"""What a recording of a trace keeps: rows of jobs, and what the twin must start from."""


class IncompleteRunError(Exception):
    """The run did not reach its end: nothing is recorded."""


class LateRunError(Exception):
    """The host was too busy for this acceleration (lateness.py): the run is thrown away whole."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a recording belongs: SCENARIO/VERSION/kFACTOR/REPETITION below the folder of recordings."""

    scenario: str
    version: str
    factor: float
    repetition: int

    def folder(self, root: Path) -> Path:
        """The run folder."""
        return root / self.scenario / self.version / f"k{self.factor:g}" / str(self.repetition)

    @property
    def run_id(self) -> str:
        """A name for the rows."""
        return f"{self.scenario}-{self.version}-k{self.factor:g}-{self.repetition}"


def fault_documents(scenario: Scenario) -> list[dict[str, Any]]:
    """The scenario's faults as plain data, in its order."""
    return [fault.model_dump(mode="json", exclude_defaults=True) | {"kind": fault.kind} for fault in scenario.faults]


def run_events(scenario: Scenario, raw: RawRun) -> list[Event]:
    """The event table of a raw run."""
    return build_events(raw.folder, raw.plan, fault_documents(scenario), cpus_of_nodes(scenario))


def _notes(raw: RawRun) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (raw.folder / "driver.jsonl").read_text().splitlines()]


def build_manifest(
    place: Place, scenario: Scenario, jobs: Sequence[JobRequest], raw: RawRun, events: Sequence[Event],
    packages: dict[str, str],
) -> Manifest:  # fmt: skip
    """Provenance of one run: software, factor, host, what the harness overrode, what came out."""
    notes = _notes(raw)
    zero = next(int(n["zero"]) for n in notes if n["what"] == "zero")
    late = lateness_of(notes)
    real_time = any(n.get("real_time") for n in notes if n["what"] == "driver.started")
    why = next((json.loads(e.detail or "{}").get("why", "") for e in reversed(events) if e.kind is Kind.RUN_ENDED), "")
    return Manifest(
        world="slurm", scenario=scenario.name, scenario_sha256=sha256_text(resolved_text(scenario, place)),
        seed=0, replication=place.repetition,
        software={**software_block(), "slurm": place.version, "packages": packages},
        parameters={
            "slurm_version": place.version, "factor": place.factor, "epoch_ns": zero,
            "cluster": cluster_facts(scenario).to_dict(), "overridden": raw.files.overridden,
            "conditions_sha256": conditions_sha256(scenario, jobs),
            "accelerated_by": "libfaketime" if place.factor != 1 else "",
        },
        environment=environment_block(),
        resources={"wall_s": round(raw.wall_s, 1), "host_load": round(raw.load, 2),
                   "scheduling": "real-time" if real_time else "shares", **(late.to_dict() if late else {})},
        results={
            "run_id": place.run_id, "events": len(events), "stop_reason": why,
            "jobs_submitted": sum(e.kind is Kind.JOB_SUBMITTED for e in events),
            "job_starts": sum(e.kind is Kind.JOB_STARTED for e in events),
        },
    )  # fmt: skip


def write_recording(
    root: Path, place: Place, scenario: Scenario, jobs: Sequence[JobRequest], raw: RawRun, packages: dict[str, str]
) -> Path:
    """Write a recording to its place.

    Raises IncompleteRunError when the driver did not finish, LateRunError when the host was too busy.
    """
    target = place.folder(root)
    late = lateness_of(_notes(raw))
    if late is not None and late.excess:
        raise LateRunError(f"{place.run_id}: {late.excess}")
    manifest, events = read_run(place, scenario, jobs, raw, packages)
    if scenario.workload.file is None:
        write_folder(target, manifest, events, resolved_text(scenario, place), jobs)
    else:
        kept = times_only(events)
        manifest = replace(without_paths(manifest), results={**manifest.results, "events": len(kept)})
        write_folder(target, manifest, kept)
    return target


def times_only(events: Sequence[Event]) -> list[Event]:
    """Job numbers, times and nodes: a trace belongs to somebody, and no more of its run is kept."""
    keys = ("array_task", "by", "state", "node_cpus")
    out = []
    for event in events:
        if event.kind in TRACE_KINDS:
            known = json.loads(event.detail or "{}")
            kept = {key: known[key] for key in keys if key in known}
            text = json.dumps(kept, sort_keys=True, separators=(",", ":")) if kept else None
            out.append(event._replace(detail=text))
        elif event.job_id is None and event.kind in RUN_KINDS:
            out.append(event)
    return out


def without_paths(manifest: Manifest) -> Manifest:
    """The same manifest without the paths of somebody's slurm.conf."""
    changes = {
        option: {"asked": "(a path)" if change["asked"].startswith("/") else change["asked"], "used": change["used"]}
        for option, change in manifest.parameters["overridden"].items()
    }
    return replace(manifest, parameters={**manifest.parameters, "overridden": changes})


def write_run(
    target: Path, place: Place, scenario: Scenario, jobs: Sequence[JobRequest], raw: RawRun, packages: dict[str, str]
) -> tuple[Manifest, list[Event]]:
    """Write one run folder, whole or not at all. Raises IncompleteRunError when the driver did not finish."""
    manifest, events = read_run(place, scenario, jobs, raw, packages)
    write_folder(target, manifest, events, resolved_text(scenario, place), jobs)
    return manifest, events


def read_run(
    place: Place, scenario: Scenario, jobs: Sequence[JobRequest], raw: RawRun, packages: dict[str, str]
) -> tuple[Manifest, list[Event]]:  # fmt: skip
    """Manifest and event table of a raw run. Raises IncompleteRunError when the driver did not finish."""
    if not any(note["what"] == "finished" for note in _notes(raw)):
        raise IncompleteRunError(f"{place.run_id}: the driver did not finish")
    events = [rounded(event) for event in run_events(scenario, raw)]
    return build_manifest(place, scenario, jobs, raw, events, packages), events


def resolved_text(scenario: Scenario, place: Place) -> str:
    """scenario.resolved.json: every default written out, with the version and the factor of this run."""
    document = json.loads(scenario.model_dump_json(by_alias=True))
    document["slurm"]["version"] = place.version
    document["host"]["factor"] = place.factor
    return json.dumps(document, sort_keys=True, separators=(",", ":")) + "\n"
