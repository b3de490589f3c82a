"""The twin's part of the timing card (slurmtwin_reports.timing_card): the spans of each cell.

A cell is a small scenario of its own: the card's base, the timers of its design, its pods and its fault, which the
replications meet evenly spread over the timers. Beside it the twin runs from the start of each recording of the cell.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from slurmtwin.campaign.pool import Progress, run_tasks
from slurmtwin.campaign.recordings import recorded_jobs, recorded_scenario, start_times
from slurmtwin.contract.clock import format_duration, parse_duration
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.manifest import sha256_text
from slurmtwin.contract.phases import Phase
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.contract.yaml_file import first_error, load_yaml, plain
from slurmtwin.worlds.pod_durations import drawn_durations
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.history import rows_of_events
from slurmtwin_reports.load import load_run
from slurmtwin_reports.timing_card import Card, Cell, CellTimes, Spans, length_of, recordings_of

TIMERS: Final = ("SlurmdTimeout", "SlurmctldTimeout", "ReturnToService", "KillWait", "MessageTimeout", "TCPTimeout")
"""Settings of a design that the card's spans rest on."""


@dataclass(frozen=True, slots=True)
class _Task:
    """One replication of a cell, or of a recording of it."""

    cell: str
    recording: str
    scenario: Scenario
    phase: Phase
    number: int
    times: StartTimes | None = None
    jobs: Sequence[JobRequest] | None = None

    @property
    def what(self) -> tuple[str, str, int]:
        """Equal for tasks with equal answers."""
        return self.recording or self.cell, self.phase.model_dump_json(exclude={"name"}), self.number


def scenario_of_cell(card: Card, cell: Cell, designs: Path, number: int = 0) -> Scenario:
    """The scenario of a cell's replication. Raises InputError when the cell makes none."""
    document: dict[str, Any] = json.loads(json.dumps(card.base))
    settings = plain(load_yaml(designs / f"{card.column(cell.column).design}.yaml"))
    timers = {name: value for name, value in settings.get("slurm_conf", {}).items() if name in TIMERS}
    document["slurm"]["conf"] = {**document["slurm"].get("conf", {}), **timers, **cell.conf}
    document["faults"] = json.loads(json.dumps(cell.faults or card.event(cell.event).faults))
    if cell.pods is not None:
        document["pods"] = cell.pods
    if cell.until:
        document["budget"]["max_time"] = format_duration(cell.until)
    spread = card.event(cell.event).spread if cell.spread is None else cell.spread
    first = document["faults"][0]
    first["at"] = format_duration(parse_duration(first["at"]) + spread * (2 * number + 1) // (2 * card.replications))
    try:
        return Scenario.model_validate(document)
    except ValidationError as error:
        raise InputError(f"cell {cell.key}: {first_error(error)}") from error


def made_for(card: Card, cell: Cell, designs: Path) -> str:
    """Hash of what is asked for: a change of the card or of a design shows, one of the twin itself does not."""
    asked = [
        scenario_of_cell(card, cell, designs, number).model_dump_json(by_alias=True, exclude_defaults=True)
        for number in (0, 1)
    ]
    phases = [card.phase(cell, recorded).model_dump_json(exclude_defaults=True) for recorded in (False, True)]
    named = cell.recorded.scenario if cell.recorded else ""
    return sha256_text(json.dumps([asked, phases, named, card.replications]))[:16]


def card_times(
    card: Card, designs: Path, recordings: Path, workers: int = 1, count: int | None = None,
    progress: Progress | None = None,
) -> dict[str, CellTimes]:  # fmt: skip
    """The spans of every cell that the twin makes; `count`: only the first replications."""
    asked = [cell for cell in card.cells if not cell.reason]
    tasks = [task for cell in asked for task in _tasks(card, cell, designs, recordings, count or card.replications)]
    once = {task.what: task for task in tasks}  # designs that share a mechanism share its recordings
    found = dict(zip(once, run_tasks(_length, list(once.values()), workers, progress), strict=True))
    own: dict[str, Spans] = {cell.key: [] for cell in asked}
    recorded: dict[str, dict[str, Spans]] = {cell.key: {} for cell in asked}
    for task in tasks:
        spans = recorded[task.cell].setdefault(task.recording, []) if task.recording else own[task.cell]
        spans.append(found[task.what])
    return {
        cell.key: CellTimes(made_for(card, cell, designs), own[cell.key], recorded[cell.key]) for cell in asked
    }  # fmt: skip


def _tasks(card: Card, cell: Cell, designs: Path, recordings: Path, count: int) -> list[_Task]:
    phase = card.phase(cell)
    out = [_Task(cell.key, "", scenario_of_cell(card, cell, designs, n), phase, n) for n in range(count)]
    if cell.recorded is None:
        return out
    phase = card.phase(cell, recorded=True)
    for folder in recordings_of(cell.recorded.scenario, recordings):
        name = folder.relative_to(recordings).as_posix()
        real, scenario = load_run(folder), _scenario_of_recording(folder, recordings)
        times, jobs = start_times(real.manifest, scenario, list(real.rows())), recorded_jobs(folder)
        out += [_Task(cell.key, name, scenario, phase, n, times, jobs) for n in range(count)]
    return out


def _scenario_of_recording(folder: Path, recordings: Path) -> Scenario:
    """In pods the scenario's file, as replications take it: early recordings keep no partitions; else the kept one."""
    name, version = folder.relative_to(recordings).parts[:2]
    for room in ("faults", "operator"):
        path = recordings.parent / room / f"{name}.yaml"
        if path.exists():
            return load_scenario(path).of_version(version)
    return recorded_scenario(folder)


def _length(task: _Task) -> int | None:
    durations = drawn_durations(task.number) if task.scenario.pods is not None else {}
    options = TwinOptions(
        seed=1, replication=task.number, keep=True, durations=durations, times=task.times or StartTimes()
    )
    run = run_scenario(task.scenario, ".", options, task.jobs)
    try:
        return length_of(list(rows_of_events(run.kept or [])), task.phase)
    except InputError as error:
        raise InputError(f"cell {task.cell} {task.recording}: {error}") from error
