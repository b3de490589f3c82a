"""Fault scenarios recorded in pods, judged: properties of every run, phases of twin against real (DESIGN 5).

A group whose replications are kept is one task of the process pool, from its recordings to its figures. Where some are
made there are three rounds: the replications of every recording; then those with a parameter halved and doubled, only
for phases that are not already known to differ; beside them those with calibrated durations held still. What was made
is kept as one table per scenario (kept_replications.py), which a fresh clone has.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from slurmtwin.campaign.kept_replications import Table, read_table, write_table
from slurmtwin.campaign.parameters import change
from slurmtwin.campaign.pool import Progress, run_tasks
from slurmtwin.campaign.recordings import RECORDINGS, recorded_durations, recorded_scenario
from slurmtwin.campaign.replications import (
    BASE,
    OWN,
    STILL,
    UNCHANGED,
    Batch,
    Made,
    Variant,
    World,
    batches,
    design_text,
    prepared,
    run_all,
    run_one,
    run_twin,
)
from slurmtwin.contract.errors import InputError
from slurmtwin.contract.manifest import Manifest, read_manifest
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.worlds.pod_durations import calibrated_on, fitted_laws
from slurmtwin.worlds.twin import not_modelled

if TYPE_CHECKING:
    from slurmtwin.campaign.replications import Times
    from slurmtwin.contract.events import Event
    from slurmtwin.contract.phases import Phase
    from slurmtwin_reports.faults.phase_verdict import PhaseVerdict
    from slurmtwin_reports.faults.replicated import Repetition
    from slurmtwin_reports.history import History
    from slurmtwin_reports.html import Section
    from slurmtwin_reports.verdict import Verdict

REPLICATIONS: Final = 200
BASE_KEY: Final = f"{BASE}|1.0|{{}}"
HOW_TO_MAKE: Final = "slurmtwin check --replicate"
OWN_PARTITION: Final = {
    "PartitionName": "batch", "Nodes": "ALL", "Default": "YES", "MaxTime": "INFINITE", "State": "UP",
}  # fmt: skip
"""The partition that the world kind writes for a scenario in pods that names none."""
CHANGED_REPLICATIONS: Final = 100
"""With a parameter halved or doubled: a power of 80 % is known to 4 % from them."""
OWN_FROM: Final = 20
"""From so many recordings on spans are held against replications with noise of their own (`Repetition.own`): of K that
share one noise a sum is wrong by K to their number more, a tenth here."""
MADE_TOGETHER: Final = 12
"""Recordings whose replications are made before their tables are kept: enough to keep all processors at work."""
MADE_ANEW: Final = 7
"""Replications of each recording, beside the first, that are made anew before what is kept of it is taken for today's,
where others may be made."""
MADE_AT_LEAST: Final = 6
"""A plain check makes so many replications of a scenario: one of each recording, or two where it has fewer."""
MADE_AT_MOST: Final = 24
"""Of more recordings a plain check makes replications of so many, evenly among them. What is kept of the others is
known by its hash; another twin shows in those that are made.
"""


def picked(made_for: str, count: int) -> list[int]:
    """Places among so many replications, by a recording's hash: at least MADE_ANEW of them. By it each recording has
    others than the next: together they see nearly all that the twin draws, where the first replications see one fit of
    the durations.
    """
    return [int(made_for[at : at + 8], 16) % count for at in range(0, len(made_for), 8)]


def made_anew(made_for: str, count: int, recordings: int, make: bool) -> list[int]:
    """Which of so many replications of one of so many recordings are made anew; the first of them is shown."""
    others = picked(made_for, count)
    if make:
        return [0, *others[:MADE_ANEW]]
    return others[: 1 if recordings >= MADE_AT_LEAST else 2]


def spread(recordings: int, make: bool) -> list[int]:
    """Places of the recordings of which replications are made anew."""
    count = recordings if make else min(recordings, MADE_AT_MOST)
    return [at * recordings // count for at in range(count)]


@dataclass(frozen=True, slots=True)
class ToJudge:
    """What the verdicts of one scenario are made of: a task of the process pool."""

    phases: Sequence[Phase]
    repetitions: Sequence[Repetition]
    seed: int


def judge_times(one: ToJudge) -> list[PhaseVerdict]:
    """The verdicts of its phases."""
    from slurmtwin_reports.faults.phase_verdict import judge_phases

    return judge_phases(one.phases, one.repetitions, one.seed)[0]


@dataclass(frozen=True, slots=True)
class FaultGroup:
    """The repetitions of one scenario in pods on one Slurm version."""

    path: Path
    scenario: Scenario
    version: str
    folders: tuple[Path, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """How many replications, from which seed, and who makes them."""

    seed: int = 0
    workers: int = 0
    cache: Path | None = None
    """Batches of replications while they are made: a run that was ended goes on there."""
    kept: Path | None = None
    """The tables of replications; None: nothing is kept."""
    replications: int = REPLICATIONS
    changed: int = CHANGED_REPLICATIONS
    world: World = run_twin
    make: bool = True
    """Make replications that are not kept; else their phases are unknown, with the reason."""
    anew: bool = False
    """Make all of them, kept or not."""
    progress: Progress | None = None
    drawn: bool = True
    """The report's figures are wanted."""
    sections: int = 1
    """How many that report has: in one of many only the last recordings of each have lanes."""
    since_ns: int = 0
    """Judge phases by the recordings whose time zero is not before this (unix ns)."""


def find_fault_groups(paths: Sequence[Path], recordings: Path = RECORDINGS, since_ns: int = 0) -> list[FaultGroup]:
    """The recordings in pods of these scenario files, where one is not older. Raises InputError for a broken file."""
    out = []
    for path in paths:
        scenario = load_scenario(path)
        if scenario.pods is None:
            continue
        for pods in sorted((recordings / scenario.name).glob("*/pods")):
            folders = tuple(sorted(p.parent for p in pods.glob("*/manifest.json")))
            if any(_zero_ns(read_manifest(folder)) >= since_ns for folder in folders):
                version = pods.parent.name
                out.append(FaultGroup(path, scenario.of_version(version), version, folders))
    return out


def judge_faults(groups: Sequence[FaultGroup], options: FaultOptions) -> list[Section]:
    """One section per group: properties, and phases where the twin models the scenario and was not fitted to it."""
    alone = replace(options, progress=None)
    tasks = [KeptTask(group, alone) for group in groups]
    found = run_tasks(judge_kept, tasks, options.workers, options.progress, lambda task: task.bytes)
    made = iter(_judge_new([group for group, one in zip(groups, found, strict=True) if one is None], options))
    return [next(made) if one is None else one for one in found]


@dataclass(frozen=True, slots=True)
class KeptTask:
    """A group that is judged by what is kept of it: a task of the process pool."""

    group: FaultGroup
    options: FaultOptions

    @property
    def bytes(self) -> int:
        """Size of the recorded rows: about how long it takes."""
        return sum(path.stat().st_size for folder in self.group.folders for path in folder.glob("events.*"))


def judge_kept(task: KeptTask) -> Section | None:
    """The section of a group, without the rows; None: replications are to be made of it."""
    one = _Group(task.group, task.options)
    if one.compared:
        one.begin()
        if task.options.make and one.lacks:
            return None
        if one.times:
            one.judge(one.recent)
        if task.options.make and one.lacks_changed:
            return None
    return one.section()


def _judge_new(groups: Sequence[FaultGroup], options: FaultOptions) -> list[Section]:
    """Groups of which replications are made: some at a time, so that an end loses those alone that are being made."""
    out: list[Section] = []
    part: list[FaultGroup] = []
    for group in groups:
        part.append(group)
        if sum(len(one.folders) for one in part) >= MADE_TOGETHER or group is groups[-1]:
            out += _judge_part(part, options)
            part = []
    return out


def _judge_part(groups: Sequence[FaultGroup], options: FaultOptions) -> list[Section]:
    new = [_Group(group, options) for group in groups]
    for one in new:
        one.begin()
    _make(new, [[Variant(BASE), *one.own] for one in new], options.replications, options)
    for one in new:
        one.judge(range(len(one.reals)))
    _make(new, [one.wanted() for one in new], options.changed, options)
    _make(new, [[Variant(STILL)]] * len(new), options.replications, options)
    for one in new:
        one.keep()
    judged = run_tasks(judge_times, [one.to_judge(one.recent) for one in new], options.workers)
    for one, verdicts in zip(new, judged, strict=True):
        one.verdicts = verdicts
    return [one.section() for one in new]


def _make(todo: Sequence[_Group], wanted: Sequence[Sequence[Variant]], count: int, options: FaultOptions) -> None:
    """Make these variants of each group for all its recordings in one go."""
    work: list[tuple[_Group, Variant, int]] = []
    tasks: list[Batch] = []
    for one, variants in zip(todo, wanted, strict=True):
        for variant in variants:
            for place, folder in enumerate(one.group.folders):
                if (variant, place) in one.times:
                    continue
                made = batches(
                    one.group.path, folder, one.group.version, variant, count,
                    seed=options.seed, cache=options.cache, world=options.world,
                )  # fmt: skip
                tasks += made
                work += [(one, variant, place)] * len(made)
    for (one, variant, place), times in zip(work, run_all(tasks, options.workers, options.progress), strict=True):
        one.take(variant, place, times)


class _Group:
    """One group while it is judged."""

    def __init__(self, group: FaultGroup, options: FaultOptions) -> None:
        from slurmtwin_reports.load import load_run

        self.group, self.options = group, options
        self.reals: list[History] = [load_run(folder) for folder in group.folders]
        self.times: dict[tuple[Variant, int], list[Times]] = {}
        self.verdicts: list[PhaseVerdict] = []
        self.twins: dict[int, tuple[Manifest | None, Sequence[Event]]] = {}
        """Place of a recording -> the first replication of it that was made anew."""
        self._asked: dict[int, tuple[Batch, Made]] = {}
        """Place of a recording of which replications are made anew -> what those are made of."""
        self._laws: dict[int, tuple[str, ...]] = {}
        """Of recordings whose replications were kept, the durations that were there when they were made."""
        self.why_not, self.judgeable = self._why_not()
        self.recent = [place for place in self._places if _zero_ns(self.reals[place].manifest) >= options.since_ns]
        """Places of the recordings that its phases are judged by; a twin of the first of them is shown."""

    @property
    def compared(self) -> bool:
        """Can its phases be held against the twin?"""
        return not self.why_not

    def _why_not(self) -> tuple[str, bool]:
        """(why its phases are not held against the twin, whether that leaves them unknown)."""
        if not self.group.scenario.expect.phases:
            return "it names no phases", False
        if {str(real.manifest.results.get("run_id")) for real in self.reals} & calibrated_on():
            return "calibrated durations come from these runs", False
        asked = not_modelled(self.group.scenario) if self.options.world is run_twin else ""
        return (f"the twin does not model {asked}", True) if asked else ("", True)

    @property
    def table(self) -> Path | None:
        """The file of its replications."""
        kept = self.options.kept
        return None if kept is None else kept / f"{self.group.scenario.name}-{self.group.version}.npz"

    @property
    def lacks(self) -> bool:
        """Has a recording no replications?"""
        return any((v, place) not in self.times for v in (Variant(BASE), *self.own) for place in self._places)

    @property
    def own(self) -> list[Variant]:
        """The replications with noise of its own, where there are so many recordings that it shows."""
        return [Variant(OWN)] if len(self.reals) >= OWN_FROM else []

    @property
    def lacks_changed(self) -> bool:
        """Does a phase not differ any more, and no replication has its parameter halved or doubled?"""
        everything = len(self.recent) == len(self.reals)
        return everything and any((v, place) not in self.times for v in self.wanted() for place in self._places)

    def _made_for(self, place: int, laws: Sequence[str]) -> str:
        """Hash of what a recording's replications were asked for: scenario, recording, design, and of the calibrated
        durations these.
        """
        options = self.options
        digest = hashlib.sha256(self.group.path.read_bytes())
        for path in sorted(self.group.folders[place].iterdir()):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
        asked = [options.seed, options.replications, options.changed, f"{options.world.__module__}"]
        digest.update(f"{asked} {options.world.__qualname__} {self.group.version}".encode())
        fits = self._fits(place)
        digest.update(f"{design_text(self.group.scenario)} {[fits.get(name) for name in laws]}".encode())
        return digest.hexdigest()

    def _fits(self, place: int) -> Mapping[str, str]:
        """The calibrated durations of a recording's batch."""
        return fitted_laws(recorded_durations(self.reals[place].manifest))

    def _read_kept(self) -> None:
        """Make today's replications, and take what was made before where those are as kept; else say why not."""
        found = None if self.options.make and self.options.anew else read_table(self.table)
        why = [self._take_kept(found, place) for place in self._places]
        if self.lacks:
            why.append(f"no replications with noise of their own are kept for {OWN_FROM} recordings; {HOW_TO_MAKE}")
        self.why_not = "" if self.options.make else next(filter(None, why), "")
        if self.why_not:
            self.times.clear()

    def _take_kept(self, found: Table | None, place: int) -> str:
        """Make some replications of one recording, and take what is kept of it; "" or why not."""
        made_for, why = self._kept_for(found, place)
        if found is None or why:
            if place in self._asked:
                self._play(place, [0])
            return why
        name = self.group.folders[place].name
        base = found.times[BASE_KEY.format(name)]
        numbers = made_anew(made_for, len(base), len(self.reals), self.options.make)
        if place in self._asked and self._play(place, numbers) != base[numbers].tolist():
            return f"today's twin makes other replications than those kept; {HOW_TO_MAKE} renews them"
        self._laws[place] = found.laws.get(name, ())
        for key, times in found.times.items():
            variant, factor, recording = key.split("|")
            if recording == name:
                self.take(Variant(variant, float(factor)), place, times)
        return ""

    def _kept_for(self, found: Table | None, place: int) -> tuple[str, str]:
        """(hash of what the kept replications of a recording were asked for, "" or why they cannot be taken)."""
        if found is None:
            return "", f"no replications are kept for it; {HOW_TO_MAKE} makes them"
        name = self.group.folders[place].name
        if name not in found.made_for:
            return "", f"no replications are kept for recording {name}; {HOW_TO_MAKE} makes them"
        made_for = self._made_for(place, found.laws.get(name, ()))
        if found.made_for[name] != made_for:
            return "", f"what is kept was made for another scenario, recording or calibration; {HOW_TO_MAKE}"
        return made_for, ""

    def _play(self, place: int, numbers: Sequence[int]) -> list[list[Any]]:
        """The times of these replications of a recording, made just now; the rows of the first stay."""
        batch, made = self._asked[place]
        out: list[list[Any]] = []
        for number in numbers:
            played = run_one(batch, made, number)
            self.twins.setdefault(place, played)
            out.append(self._times(played[1]))
        return out

    @property
    def _places(self) -> range:
        return range(len(self.reals))

    def _times(self, events: Sequence[Event]) -> list[Any]:
        from slurmtwin_reports.faults.measurement import times_of
        from slurmtwin_reports.faults.milestones import all_marks
        from slurmtwin_reports.history import rows_of_events

        marks = all_marks(rows_of_events(events), self.group.scenario.expect.phases)
        times: list[Any] = times_of([marks])[0].tolist()
        return times

    def keep(self) -> None:
        """Write all times to one file."""
        import numpy as np

        if self.table is not None:
            names = [folder.name for folder in self.group.folders]
            made = {
                f"{v.name}|{v.factor}|{names[place]}": np.concatenate(times)
                for (v, place), times in sorted(self.times.items(), key=_by_place)
            }
            laws = {names[place]: self._laws.get(place) or tuple(sorted(self._fits(place))) for place in self._places}
            asked = {names[place]: self._made_for(place, laws[names[place]]) for place in self._places}
            write_table(self.table, Table(asked, made, laws))

    def take(self, variant: Variant, place: int, times: Times) -> None:
        """One batch of one recording, in the order of the batches."""
        self.times.setdefault((variant, place), []).append(times)

    def to_judge(self, places: Sequence[int]) -> ToJudge:
        """What its verdicts by these recordings are made of."""
        phases = self.group.scenario.expect.phases
        return ToJudge(phases, [self._repetition(place) for place in places], self.options.seed)

    def judge(self, places: Sequence[int]) -> None:
        """The verdicts by these recordings, from what has been made so far."""
        self.verdicts = judge_times(self.to_judge(places))

    def _repetition(self, place: int) -> Repetition:
        import numpy as np

        from slurmtwin_reports.faults.milestones import recorded_marks
        from slurmtwin_reports.faults.replicated import Repetition

        def of(variant: Variant) -> Any:
            made = self.times.get((variant, place))
            return np.concatenate(made) if made else None

        changed = {(v.name, v.factor): of(v) for v, at in self.times if at == place and v.name not in UNCHANGED}
        real = self.reals[place]
        median_ms = real.manifest.results.get("watch_delay_ms", {}).get("median")
        return Repetition(
            recorded=recorded_marks(real.rows(), self.group.scenario.expect.phases, median_ms), changed=changed,
            epoch_ns=_zero_ns(real.manifest), base=of(Variant(BASE)), still=of(Variant(STILL)), own=of(Variant(OWN)),
            name=self.group.folders[place].name,
        )  # fmt: skip

    def wanted(self) -> list[Variant]:
        """Parameters to halve and double: of phases that do not differ, where the scenario sets them."""
        from slurmtwin_reports.verdict import Outcome

        names = {v.phase.parameter for v in self.verdicts if v.outcome is not Outcome.DIFFER} - {""}
        out = []
        for name in sorted(names):
            try:
                change(self.group.scenario, name, 1.0)
            except InputError:
                continue  # the verdict says that there are no such replications
            out += [Variant(name, 0.5), Variant(name, 2.0)]
        return out

    def begin(self) -> None:
        """Make replications of recordings, whose properties are judged and one of which is shown, and read the kept."""
        group, options = self.group, self.options
        for place in sorted({*spread(len(self.reals), options.make), *self.recent[:1]}):
            (batch,) = batches(
                group.path, group.folders[place], group.version, Variant(BASE), 1,
                seed=options.seed, world=options.world,
            )  # fmt: skip
            self._asked[place] = batch, prepared(batch, group.scenario, self.reals[place])
        self._read_kept()

    def section(self) -> Section:
        """The section of a report, without the rows."""
        from slurmtwin_reports.checks import run_checks
        from slurmtwin_reports.faults.case import FaultCase, case_run
        from slurmtwin_reports.html import Section, without_runs
        from slurmtwin_reports.judge import merge_repetitions

        scenario, version = self.group.scenario, self.group.version
        names = scenario.expect.properties or None
        twins = {place: self._twin(place) for place in self.twins}
        verdicts: list[Verdict] = [v.row(scenario.name, version) for v in self.verdicts] if self.compared else []
        for runs in (list(twins.values()), self.reals):
            if runs:
                verdicts += merge_repetitions([run_checks(run, names) for run in runs])
        verdicts += self._stale()
        if self.why_not and self.judgeable:
            verdicts.append(_uncompared(scenario.name, version, self.why_not))
        phases = scenario.expect.phases
        first = [twins[self.recent[0]]] if twins else []
        reals = [self.reals[place] for place in self.recent]
        shown = [case_run(twin, phases, "twin") for twin in first]
        shown += [case_run(real, phases, f"real {place + 1}") for place, real in zip(self.recent, reals, strict=True)]
        case = FaultCase(phases, shown, self.verdicts if self.compared else [], self.why_not)
        section = Section(
            scenario.name, version, scenario.title, [replace(v, version=version) for v in verdicts],
            runs=[*first, *reals], fault=case,
        )  # fmt: skip
        return without_runs(section, self.options.drawn, self.options.sections)

    def _twin(self, place: int) -> History:
        """The first replication of this recording that was made anew, with what the recording's cluster was."""
        from slurmtwin_reports.history import history_of

        real, (manifest, events) = self.reals[place], self.twins[place]
        return history_of(manifest or _twin_manifest(real.manifest), events, real.jobs, real.facts)

    def _stale(self) -> list[Verdict]:
        from slurmtwin_reports.verdict import broken

        now = conditions(self.group.scenario)
        stale = [f for f in self.group.folders if conditions(recorded_scenario(f, self.group.path)) != now]
        if not stale:
            return []
        reason = f"{len(stale)} recordings were made of another cluster, workload or fault; record it again"
        found = broken("recording is of this scenario", [reason])
        return [found.about(self.group.scenario.name, self.group.version)]


def _by_place(entry: tuple[tuple[Variant, int], object]) -> tuple[int, str, float]:
    (variant, place), _ = entry
    return place, variant.name, variant.factor


def _zero_ns(manifest: Manifest) -> int:
    """Unix time of a recording's time zero."""
    return int(manifest.parameters["epoch_ns"])


def conditions(scenario: Scenario) -> Mapping[str, Any]:
    """What a recording must share with the scenario of today: all but its name, words, expectations and version."""
    parts = {"slurm", "cluster", "pods", "workload", "faults", "after", "budget"}
    document: dict[str, Any] = scenario.model_dump(mode="json", include=parts, exclude_defaults=True)
    slurm = document.setdefault("slurm", {})
    slurm.pop("version", None)
    if scenario.pods is not None:
        slurm.setdefault("partitions", [OWN_PARTITION])
    return document


def _uncompared(scenario: str, version: str, reason: str) -> Verdict:
    """Phases that nobody held against the twin are unknown: a check that compared nothing is no agreement."""
    from slurmtwin_reports.verdict import Outcome, Verdict

    return Verdict(scenario=scenario, version=version, subject="phases", outcome=Outcome.UNKNOWN, reason=reason)


def _twin_manifest(real: Manifest) -> Manifest:
    """Of a replication whose world writes none: the recording's cluster."""
    return Manifest(
        world="twin", scenario=real.scenario, scenario_sha256=real.scenario_sha256, seed=0, replication=0,
        parameters=real.parameters, software={"slurm": real.software.get("slurm")},
    )  # fmt: skip
