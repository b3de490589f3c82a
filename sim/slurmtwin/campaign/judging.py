"""`check`: every scenario in the twin, beside each of its recordings, judged by slurmtwin_reports.

One twin run per recorded repetition, started from that repetition's own times; a scenario without recordings
runs once and is judged by its properties alone. A task of the process pool is a case, from its runs to its figures.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slurmtwin.campaign.pool import Progress, run_tasks
from slurmtwin.campaign.recordings import (
    RECORDINGS,
    Group,
    factor_of,
    find_groups,
    recorded_jobs,
    recorded_scenario,
    same_conditions,
    start_times,
)
from slurmtwin.contract.jobs import to_dict
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.worlds.one_step import replay_starts
from slurmtwin.worlds.outside import literal_scenario
from slurmtwin.worlds.twin import TwinOptions, not_modelled, run_scenario

if TYPE_CHECKING:
    from slurmtwin_reports.history import History
    from slurmtwin_reports.html import Section


@dataclass(frozen=True, slots=True)
class Done:
    """The twin's run, beside which recorded run, and its one-step score: real starts, and those the twin would have
    made equally.
    """

    twin: History
    real: History | None = None
    starts: int = 0
    same: int = 0


@dataclass(frozen=True, slots=True)
class Case:
    """One row of a check: a scenario, and one group of its recordings (None: it has none)."""

    path: Path
    scenario: Scenario
    group: Group | None

    @property
    def label(self) -> str:
        """The name verdicts carry."""
        return self.group.label if self.group else self.scenario.name


@dataclass(frozen=True, slots=True)
class Task:
    """One case of a check: its twin runs go below `out`."""

    case: Case
    out: Path
    seed: int
    drawn: bool
    """The report's figures are wanted."""
    kept: bool
    """The twin's runs stay in their folder."""

    @property
    def bytes(self) -> int:
        """Size of the recorded rows: about how long it takes."""
        folders = self.case.group.folders if self.case.group else ()
        return sum(path.stat().st_size for folder in folders for path in folder.glob("events.*"))


def comparable(paths: Sequence[Path]) -> tuple[list[Path], list[Path]]:
    """(scenarios that the twin models, those it does not: pods, faults of a Kubernetes cluster)."""
    modelled: list[Path] = []
    others: list[Path] = []
    for path in paths:
        (others if not_modelled(load_scenario(path)) else modelled).append(path)
    return modelled, others


def find_cases(paths: Sequence[Path], recordings: Path = RECORDINGS) -> list[Case]:
    """The cases of scenario files. Raises InputError for a broken file."""
    cases: list[Case] = []
    for path in paths:
        scenario = load_scenario(path)
        groups = find_groups(scenario.name, recordings)
        cases += [Case(path, scenario, group) for group in groups] or [Case(path, scenario, None)]
    return cases


def judge_case(task: Task) -> Section:
    """Run the twin beside each recording of a case, or alone, and judge it: without rows, which the process keeps."""
    from slurmtwin_reports.html import without_runs

    case = task.case
    folders: Sequence[Path | None] = case.group.folders if case.group else [None]
    runs = [_run(task, recording, task.out / str(place)) for place, recording in enumerate(folders)]
    section = without_runs(_section(case, runs), task.drawn)
    if not task.kept and task.out.exists():
        shutil.rmtree(task.out)
    return section


def _run(task: Task, recording: Path | None, out: Path) -> Done:
    """Run the twin once: alone, into its folder, or beside a recorded run, in memory where that folder is not kept."""
    from slurmtwin_reports.history import history_of
    from slurmtwin_reports.load import load_run

    case, seed = task.case, task.seed
    if recording is None:
        run_scenario(load_scenario(case.path), case.path.parent, TwinOptions(seed=seed, folder=out))
        return Done(load_run(out))
    real = load_run(recording)
    scenario = recorded_scenario(recording, case.path)
    host = scenario.host.model_copy(update={"factor": factor_of(recording)})
    scenario = scenario.of_version(real.version).model_copy(update={"host": host})
    rows = list(real.rows())
    jobs = recorded_jobs(recording, case.path)
    options = TwinOptions(
        seed=seed, folder=out if task.kept else None, keep=not task.kept,
        times=start_times(real.manifest, scenario, rows),
    )  # fmt: skip
    run = run_scenario(scenario, case.path.parent, options, jobs)
    asked = {job.job_id: to_dict(job) for job in jobs}
    twin = load_run(out) if task.kept else history_of(run.manifest, run.kept or [], asked)
    starts, same = replay_starts(scenario, case.path.parent, jobs, rows, options.times)
    return Done(twin, real, starts, same)


def judge_cases(
    cases: Sequence[Case], out: Path, seed: int = 0, workers: int = 0, progress: Progress | None = None, *,
    drawn: bool = True, kept: bool = True,
) -> list[Section]:  # fmt: skip
    """The judged sections, in the order of the cases. Twin runs go below `out`, and stay there where they are kept."""
    tasks = [
        Task(case, out / f"{number:03d}-{case.scenario.name}", seed, drawn, kept) for number, case in enumerate(cases)
    ]
    return run_tasks(judge_case, tasks, workers, progress, lambda task: task.bytes)


def _section(case: Case, runs: Sequence[Done]) -> Section:
    from slurmtwin_reports import conformance
    from slurmtwin_reports.judge import judge_pairs, judge_runs

    properties = case.scenario.expect.properties or None
    twins = [run.twin for run in runs]
    if case.group is None:
        return judge_runs(twins, properties, case.scenario.title)
    reals = [run.real for run in runs if run.real is not None]
    section = judge_pairs(list(zip(twins, reals, strict=True)), properties, case.scenario.title)
    same, starts = sum(run.same for run in runs), sum(run.starts for run in runs)
    extra = []
    if not case.scenario.faults:  # a fault changes the tables in ways that starts and ends do not show
        extra.append(conformance.judge_one_step(case.label, case.group.version, same, starts))
        if section.conformance is not None:
            section.conformance.one_step = (same, starts)
    now = literal_scenario(case.scenario, case.path.parent)
    stale = [f for f in case.group.folders if not same_conditions(now, recorded_scenario(f, case.path))]
    if stale:
        extra.append(_stale(case, len(stale)))
    verdicts = [replace(v, scenario=case.label) for v in [*section.verdicts, *extra]]
    return replace(section, scenario=case.label, verdicts=verdicts)


def _stale(case: Case, count: int) -> Any:
    from slurmtwin_reports.verdict import broken

    assert case.group is not None
    reason = f"{count} recordings were made of another workload or cluster than {case.path} holds now; record it again"
    return broken("recording is of this scenario", [reason]).about(case.label, case.group.version)
