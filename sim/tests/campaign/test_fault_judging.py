"""Recordings in pods beside a stand-in for the twin: from the files to the verdicts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from slurmtwin.campaign import fault_judging, replications
from slurmtwin.campaign.fault_judging import (
    OWN_PARTITION,
    FaultOptions,
    ToJudge,
    conditions,
    find_fault_groups,
    judge_faults,
)
from slurmtwin.campaign.kept_replications import Table, read_table, write_table
from slurmtwin.campaign.parameters import change
from slurmtwin.campaign.replications import (
    BASE,
    OWN,
    Batch,
    Made,
    Replication,
    Variant,
    batches,
    prune,
    run_batch,
)
from slurmtwin.contract.clock import HOUR, MS, SECOND
from slurmtwin.contract.errors import ExitCode, InputError
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.manifest import Manifest
from slurmtwin.contract.pods import PodsSection
from slurmtwin.contract.scenario import Scenario, SlurmSection, load_scenario
from slurmtwin.engine.random_streams import generator
from slurmtwin.worlds.pod_durations import POD_DURATIONS_FILE
from slurmtwin_reports.faults.phase_verdict import PhaseVerdict
from slurmtwin_reports.history import history_of
from slurmtwin_reports.html import Section
from slurmtwin_reports.load import load_run
from slurmtwin_reports.testing import write_run
from slurmtwin_reports.verdict import Outcome, exit_code

SCENARIO = """\
schema: slurmtwin/scenario/1
name: case
slurm:
  version: '26.05'
  conf: {SlurmdTimeout: 30, AuthInfo: 'a=1,cred_expire=10'}
  nodes: [{NodeName: 'w-[0-3]', CPUs: 1}]
pods: {toleration: 40s, memory: 256Mi, liveness: {period: 10s}}
workload: {jobs: [{id: 1, submit: 1s, run: 300s}]}
faults: [{at: 20s, within: 10s, kind: kube_node.pause, target: 'node-of:slurmd:w-0'}]
budget: {max_time: 200s}
expect:
  properties: [rows-in-order, causes-point-back]
  phases:
  - {name: eviction, start: {kind: fault.injected}, end: {kind: pod.deleting}, low: 1s, rests_on: t,
     parameter: pods.toleration, source: s}
  - {name: job-lost, start: {kind: fault.injected}, end: {kind: job.lost}, low: 0s, absent: true, rests_on: none,
     source: s}
"""
FAULT = {"at": "20s", "kind": "kube_node.pause", "target": "node-of:slurmd:w-0", "within": "10s"}


def rows(injected_ns: int, late_ns: int, error_ns: int = 0) -> list[Event]:
    """What both worlds show: a start, a job, the injection, the eviction."""
    return [
        Event(-10 * SECOND, Kind.SLURMCTLD_STARTED, "slurmctld"),
        Event(SECOND, Kind.JOB_SUBMITTED, "slurmctld", 1),
        Event(injected_ns, Kind.FAULT_INJECTED, "fault", detail=json.dumps({"fault": FAULT}), t_err_ns=error_ns),
        Event(injected_ns + late_ns, Kind.POD_DELETING, "apiserver"),
    ]


def stand_in(one: Replication) -> Sequence[Event]:
    """A twin in four lines: the toleration, and up to 10 s of a timer's phase, after the recorded injection."""
    assert one.scenario.pods is not None
    assert one.scenario.pods.toleration is not None
    phase = int(generator(one.seed, one.number, "phase").integers(0, 10 * SECOND))
    return rows(one.times.fault_ns[0], one.scenario.pods.toleration + phase)


def deaf(one: Replication) -> Sequence[Event]:
    """A twin that always evicts after 90 s, whatever the toleration."""
    return rows(one.times.fault_ns[0], 90 * SECOND)


def ended(one: Replication) -> Sequence[Event]:
    """stand_in, but somebody ends the program while replications of the second scenario are made."""
    if one.scenario.name == "case-b" and one.number:
        raise KeyboardInterrupt
    return stand_in(one)


def crashed(one: Replication) -> Sequence[Event]:
    """A twin with a bug."""
    raise ZeroDivisionError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The scenario with four recordings whose evictions take 42 to 48 s."""
    path = tmp_path / "case.yaml"
    path.write_text(SCENARIO)
    for place, late in enumerate((42.0, 44.1, 45.9, 48.2), 1):
        record(tmp_path, place, late)
    return tmp_path


def record(folder: Path, place: int, late: float, error_ns: int = 0) -> None:
    """A recording whose eviction takes so many seconds."""
    manifest = Manifest(
        world="kind", scenario="case", scenario_sha256="", seed=0, replication=place,
        parameters={"epoch_ns": 0, "slurm_version": "26.05"}, results={"run_id": f"case-{place}"},
    )  # fmt: skip
    run = folder / "recordings" / "case" / "26.05" / "pods" / str(place)
    told = rows((20 + place) * SECOND, round(late * SECOND), error_ns)
    write_run(run, history_of(manifest, told), "events.jsonl.gz")
    (run / "scenario.resolved.json").write_text(load_scenario(folder / "case.yaml").model_dump_json(by_alias=True))
    (run / "jobs.jsonl").write_text('{"job_id": 1, "submit_ns": 1000000000}\n')


def judged(folder: Path, world: replications.World = stand_in, **more: object) -> Section:
    """The one section."""
    groups = find_fault_groups([folder / "case.yaml"], folder / "recordings")
    options = FaultOptions(workers=1, world=world, **more)  # type: ignore[arg-type]
    (section,) = judge_faults(groups, options)
    return section


def outcomes(section: Section) -> dict[str, Outcome]:
    """Subject -> outcome of its phases."""
    return {v.subject: v.outcome for v in section.verdicts if v.subject.startswith(("phase ", "claim "))}


def test_a_twin_that_is_right_agrees_where_its_parameter_shows(folder: Path) -> None:
    """The eviction agrees; that nothing is lost is a claim, which holds and has no vote."""
    section = judged(folder)
    assert outcomes(section) == {"phase eviction": Outcome.AGREE, "claim job-lost": Outcome.HOLDS}
    assert section.fault is not None
    assert [run.name for run in section.fault.runs] == ["twin", "real 1", "real 2", "real 3", "real 4"]
    assert section.fault.verdicts[0].sharp is True
    assert {v.world for v in section.verdicts if v.outcome is Outcome.HOLDS and v.world} == {"twin", "kind"}


def test_the_judge_is_told_which_recorded_receipts_were_calm(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The eviction of #1 is heard of 0.3 s behind another change, in the others nothing came before it; of #4 nobody
    measured how late its receipts are."""
    for place in range(1, 5):
        path = folder / "recordings" / "case" / "26.05" / "pods" / str(place)
        real = load_run(path)
        told = [event._replace(actor="collector") if event.kind == Kind.POD_DELETING else event for event in rows(
            (20 + place) * SECOND, 45 * SECOND)]  # fmt: skip
        if place == 1:
            told.append(Event(65_700 * MS, Kind.POD_CREATED, "collector"))
        results = real.manifest.results | ({"watch_delay_ms": {"median": 5.1}} if place < 4 else {})
        manifest = replace(real.manifest, results=results)
        write_run(path, history_of(manifest, sorted(told, key=lambda event: event.t_ns)), "events.jsonl.gz")
    seen: list[bool] = []
    judge_times = fault_judging.judge_times

    def judge(one: ToJudge) -> list[PhaseVerdict]:
        ends = [repetition.recorded[0].end for repetition in one.repetitions]
        seen[:] = [end is not None and end.calm for end in ends]
        return judge_times(one)

    monkeypatch.setattr(fault_judging, "judge_times", judge)
    judged(folder)
    assert seen == [False, True, True, False]


def test_many_recordings_have_replications_with_noise_of_their_own(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From OWN_FROM on; replications of one number share their phase in all recordings, those none."""
    kept = folder / "kept"
    judged(folder, kept=kept)
    found = read_table(kept / "case-26.05.npz")
    assert found is not None
    assert not [key for key in found.times if key.startswith(OWN)], "of four"
    monkeypatch.setattr(fault_judging, "OWN_FROM", 4)
    lacking = judged(folder, kept=kept, make=False)
    assert "noise of their own" in reason(lacking)
    made = judged(folder, kept=kept)
    again = read_table(kept / "case-26.05.npz")
    assert again is not None
    assert all((again.times[key] == times).all() for key, times in found.times.items()), "the others stay"
    spans = {key: np.diff(times[:, 0, :]) for key, times in again.times.items() if "|1.0|" in key}
    common, own = ([spans[f"{name}|1.0|{place}"] for place in (1, 2)] for name in (BASE, OWN))
    assert (common[0] == common[1]).all()
    assert not (own[0] == own[1]).any()
    assert not (own[0] == common[0]).any()
    assert outcomes(judged(folder, kept=kept, make=False)) == outcomes(made)


def test_a_fresh_set_is_judged_by_its_own_recordings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four recordings two are fresh: too few, and a group without any is left out."""
    for place in (3, 4):
        path = folder / "recordings" / "case" / "26.05" / "pods" / str(place) / "manifest.json"
        path.write_text(path.read_text().replace('"epoch_ns": 0', f'"epoch_ns": {place * HOUR}'))
    section = judged(folder, since_ns=3 * HOUR)
    found = next(v for v in section.verdicts if v.subject == "phase eviction")
    assert (found.outcome, "2 repetitions" in found.reason) == (Outcome.UNKNOWN, True)
    assert section.fault is not None
    assert [run.name for run in section.fault.runs] == ["twin", "real 3", "real 4"], "those that have an interval"
    assert len(section.fault.verdicts[0].intervals) == 2
    assert section.fault.verdicts[0].recordings == ("3", "4")
    assert not find_fault_groups([folder / "case.yaml"], folder / "recordings", 5 * HOUR)
    judged(folder, kept=folder / "kept")
    monkeypatch.setattr(fault_judging, "MADE_AT_MOST", 2)
    section = judged(folder, kept=folder / "kept", make=False, since_ns=4 * HOUR)
    assert section.fault is not None
    assert [run.name for run in section.fault.runs] == ["twin", "real 4"], "its twin is made, whatever others are"


def test_a_twin_that_is_wrong_differs(folder: Path) -> None:
    """And no replications with changed parameters are asked for."""
    section = judged(folder, deaf)
    assert outcomes(section)["phase eviction"] is Outcome.DIFFER
    found = next(v for v in section.verdicts if v.subject == "phase eviction")
    assert found.is_finding
    assert found.size == pytest.approx(48.0)


def test_a_bug_of_the_twin_is_no_unknown(folder: Path) -> None:
    """It ends the check."""
    with pytest.raises(ZeroDivisionError):
        judged(folder, crashed)


def test_kept_replications_are_read_again(folder: Path) -> None:
    """The second time no replication is made but the first of each recording; another seed makes new ones."""
    cache, kept = folder / "cache", folder / "kept"
    first = judged(folder, cache=cache, kept=kept)
    batches_made = {path.name for path in cache.iterdir()}
    assert len(batches_made) == 4 * (4 + 4 + 2 * 2)  # recordings x batches of base, still, halved and doubled
    again = judged(folder, cache=folder / "none", kept=kept)
    assert not (folder / "none").exists()
    assert [v.to_dict() for v in again.verdicts] == [v.to_dict() for v in first.verdicts]
    (table,) = kept.iterdir()
    before = table.read_bytes()
    table.unlink()
    resumed = judged(folder, cache=cache, kept=kept)
    assert [v.to_dict() for v in resumed.verdicts] == [v.to_dict() for v in first.verdicts]
    assert table.read_bytes() == before
    assert {path.name for path in cache.iterdir()} == batches_made
    judged(folder, cache=cache, kept=kept, seed=1)
    assert len(list(cache.iterdir())) == 2 * len(batches_made)
    prune(cache, 5)
    assert len(list(cache.iterdir())) == 5


def test_a_phase_that_differs_no_more_gets_its_changed_replications(folder: Path) -> None:
    """None were made while it differed: the judge was another one, or a recording has gone since."""
    cache, kept = folder / "cache", folder / "kept"
    first = judged(folder, kept=kept)
    (path,) = kept.iterdir()
    whole, table = path.read_bytes(), read_table(path)
    assert table is not None
    unchanged = {key: times for key, times in table.times.items() if key.startswith(("base|", "still|"))}
    write_table(path, replace(table, times=unchanged))
    assert outcomes(judged(folder, kept=kept, make=False))["phase eviction"] is Outcome.UNKNOWN
    assert [v.to_dict() for v in judged(folder, cache=cache, kept=kept).verdicts] == [
        v.to_dict() for v in first.verdicts
    ]
    assert len(list(cache.iterdir())) == 4 * 2 * 2  # recordings x batches of halved and doubled
    assert path.read_bytes() == whole


def test_an_end_loses_only_what_is_being_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are kept as scenarios are finished, and the next check makes the others alone."""
    monkeypatch.setattr(fault_judging, "MADE_TOGETHER", 4)
    (folder / "case-b.yaml").write_text(SCENARIO.replace("name: case", "name: case-b"))
    shutil.copytree(folder / "recordings" / "case", folder / "recordings" / "case-b")
    groups = find_fault_groups([folder / "case.yaml", folder / "case-b.yaml"], folder / "recordings")
    options = FaultOptions(workers=1, kept=folder / "kept", world=ended)
    with pytest.raises(KeyboardInterrupt):
        judge_faults(groups, options)
    assert [path.name for path in (folder / "kept").iterdir()] == ["case-26.05.npz"]


def test_a_further_repetition_leaves_the_replications_of_the_others(folder: Path) -> None:
    """Ten sorts before two: a recording is known by its name, not by its place; what is kept equals what is made."""
    kept = folder / "kept"
    judged(folder, kept=kept)
    record(folder, 10, 47.0)
    assert "recording 10" in reason(judged(folder, kept=kept, make=False))
    cache = folder / "cache"
    more = judged(folder, cache=cache, kept=kept)
    assert len(list(cache.iterdir())) == 4 + 4 + 2 * 2  # of the new one alone
    (table,) = kept.iterdir()
    before = table.read_bytes()
    assert [v.to_dict() for v in judged(folder, kept=kept, anew=True).verdicts] == [v.to_dict() for v in more.verdicts]
    assert table.read_bytes() == before


def test_nothing_is_made_where_only_kept_replications_are_asked_for(folder: Path) -> None:
    """Then its phases are unknown, with the command that would make them: a check that compared nothing agrees not."""
    kept = folder / "kept"
    section = judged(folder, kept=kept, make=False)
    assert outcomes(section) == {}
    assert exit_code(section.verdicts) is ExitCode.UNKNOWN
    (row,) = [v for v in section.verdicts if v.subject == "phases"]
    assert "--replicate" in row.reason
    made = judged(folder, kept=kept)
    again = judged(folder, kept=kept, make=False)
    assert outcomes(again) == outcomes(made) != {}
    assert not [v for v in again.verdicts if v.subject == "phases"]
    (folder / "case.yaml").write_text(SCENARIO + "# another text\n")
    other = judged(folder, kept=kept, make=False)
    assert outcomes(other) == {}
    assert "another scenario" in reason(other)


def test_replications_of_another_twin_are_stale(folder: Path) -> None:
    """The table says nothing of the twin's source: a twin that makes other rows is found out, and can renew it."""
    kept = folder / "kept"
    judged(folder, kept=kept)
    (table,) = kept.iterdir()
    found = read_table(table)
    assert found is not None
    write_table(table, replace(found, times={name: times + SECOND for name, times in found.times.items()}))
    stale = judged(folder, kept=kept, make=False)
    assert outcomes(stale) == {}
    assert "today's twin" in reason(stale)
    renewed = judged(folder, kept=kept)
    assert outcomes(renewed)["phase eviction"] is Outcome.AGREE
    table.write_bytes(b"PK")
    assert "no replications are kept" in reason(judged(folder, kept=kept, make=False))


def test_a_twin_whose_first_replications_are_as_ever_is_found_out_too(folder: Path) -> None:
    """A change that the first draws do not show: each check makes another replication of each recording as well."""
    kept = folder / "kept"
    judged(folder, kept=kept)
    (table,) = kept.iterdir()
    found = read_table(table)
    assert found is not None
    later = {name: np.concatenate([times[:1], times[1:] + SECOND]) for name, times in found.times.items()}
    write_table(table, replace(found, times=later))
    assert "today's twin" in reason(judged(folder, kept=kept, make=False))


def test_a_change_that_few_replications_show_is_found_where_others_may_be_made(folder: Path) -> None:
    """Seven of each recording are made anew then, beside the first, where a plain check makes two."""
    kept = folder / "kept"
    judged(folder, kept=kept)
    (table,) = kept.iterdir()
    before, found = table.read_bytes(), read_table(table)
    assert found is not None
    times = {name: rows.copy() for name, rows in found.times.items()}
    first, second, *others = fault_judging.picked(found.made_for["2"], 200)
    changed = [place for place in others[:5] if place not in (0, first, second)]
    assert changed
    times[fault_judging.BASE_KEY.format("2")][changed] += SECOND
    write_table(table, replace(found, times=times))
    assert outcomes(judged(folder, kept=kept, make=False)) != {}
    judged(folder, kept=kept)
    assert table.read_bytes() == before


def kept_of(folder: Path, recordings: int) -> tuple[Section, Path, Table]:
    """So many recordings, judged; what is kept of their replications, and the file that it is in."""
    for number in range(5, recordings + 1):
        record(folder, number, 47.0)
    made = judged(folder, kept=folder / "kept")
    (table,) = (folder / "kept").iterdir()
    found = read_table(table)
    assert found is not None
    return made, table, found


@pytest.mark.parametrize(("recordings", "of_each"), [(4, 2), (5, 2), (6, 1), (8, 1)])
def test_a_plain_check_makes_one_replication_of_each_recording_and_two_of_few(
    folder: Path, monkeypatch: pytest.MonkeyPatch, recordings: int, of_each: int
) -> None:
    """By its hash each its own: the first replication is the same draw for all of them."""
    kept = folder / "kept"
    made, table, found = kept_of(folder, recordings)
    played: list[tuple[str, int]] = []
    run_one = replications.run_one

    def seen(batch: Batch, prepared: Made, number: int) -> tuple[Manifest | None, Sequence[Event]]:
        played.append((batch.recording.name, number))
        return run_one(batch, prepared, number)

    monkeypatch.setattr(fault_judging, "run_one", seen)
    assert outcomes(judged(folder, kept=kept, make=False)) == outcomes(made)
    names = sorted(found.made_for)
    picked = {name: fault_judging.picked(found.made_for[name], 200)[:of_each] for name in names}
    assert played == [(name, number) for name in names for number in picked[name]]
    times = {name: rows.copy() for name, rows in found.times.items()}
    times[fault_judging.BASE_KEY.format(names[-1])][picked[names[-1]][-1]] += SECOND
    write_table(table, replace(found, times=times))
    assert "today's twin" in reason(judged(folder, kept=kept, make=False))


def test_a_plain_check_makes_replications_of_some_of_many_recordings(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Evenly among them; of the others it takes what is kept, which is known by what it was made for."""
    kept = folder / "kept"
    made, table, found = kept_of(folder, 6)
    monkeypatch.setattr(fault_judging, "MADE_AT_MOST", 4)
    assert fault_judging.spread(6, make=False) == [0, 1, 3, 4]
    assert fault_judging.spread(6, make=True) == [0, 1, 2, 3, 4, 5]
    later = {
        name: {key: times + SECOND * key.endswith(f"|{name}") for key, times in found.times.items()}
        for name in found.made_for
    }
    for name, times in later.items():
        write_table(table, replace(found, times=times))
        unseen = outcomes(judged(folder, kept=kept, make=False)) != {}
        assert unseen == (name in ("3", "6"))
    write_table(table, replace(found, made_for=found.made_for | {"3": "0" * 64}))
    assert "another scenario, recording or calibration" in reason(judged(folder, kept=kept, make=False))
    write_table(table, found)
    assert outcomes(judged(folder, kept=kept, make=False)) == outcomes(made)


def test_a_law_that_came_later_leaves_the_replications_that_do_not_draw_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another fit of a law that was there when they were made makes them stale, and so does its loss."""
    kept, laws = folder / "kept", folder / "laws.json"
    document = json.loads(POD_DURATIONS_FILE.read_text())
    monkeypatch.setattr(fault_judging, "recorded_durations", lambda _manifest: laws)
    dropped = document["durations"].pop("eviction")
    laws.write_text(json.dumps(document))
    made = judged(folder, kept=kept)
    document["durations"]["eviction"] = dropped
    document["origin"] = []
    laws.write_text(json.dumps(document))
    assert outcomes(judged(folder, kept=kept, make=False)) == outcomes(made)
    record(folder, 5, 47.0)
    judged(folder, kept=kept)
    (table,) = kept.iterdir()
    found = read_table(table)
    assert found is not None
    assert "eviction" in found.laws["5"]
    assert "eviction" not in found.laws["1"], "made before it was there"
    document["durations"]["submit"]["fits"][0][0] += 1
    laws.write_text(json.dumps(document))
    assert "another scenario, recording or calibration" in reason(judged(folder, kept=kept, make=False))


def reason(section: Section) -> str:
    """Why its phases were not compared."""
    (row,) = [v for v in section.verdicts if v.subject == "phases"]
    assert row.outcome is Outcome.UNKNOWN
    return row.reason


@pytest.mark.parametrize("edit", [("toleration: 40s", "toleration: 41s"), ("nth: 1", "nth: 1"), ("at: 20s", "at: 20s")])
def test_a_kept_batch_depends_on_the_scenario(folder: Path, edit: tuple[str, str]) -> None:
    """Equal text, equal file; another toleration, another file."""
    cache = folder / "cache"

    def make() -> None:
        recording = folder / "recordings/case/26.05/pods/1"
        run_batch(batches(folder / "case.yaml", recording, "26.05", Variant(), 3, cache=cache, world=stand_in)[0])

    make()
    (folder / "case.yaml").write_text(SCENARIO.replace(*edit))
    make()
    assert len(list(cache.iterdir())) == (1 if edit[0] == edit[1] else 2)


def test_each_replication_injects_where_the_recording_may_have(folder: Path) -> None:
    """Within the error of the recorded stamp, all over it; another replication elsewhere, the same one there again."""
    error_ns, stamp_ns, seen = 40 * MS, 21 * SECOND, []
    record(folder, 1, 42.0, error_ns)

    def watched(one: Replication) -> Sequence[Event]:
        seen.append(one.times.fault_ns[0] - stamp_ns)
        return stand_in(one)

    recording = folder / "recordings/case/26.05/pods/1"
    for _ in range(2):
        run_batch(batches(folder / "case.yaml", recording, "26.05", Variant(), 40, world=watched)[0])
    assert seen[:40] == seen[40:]
    assert -error_ns <= min(seen) < -0.8 * error_ns
    assert 0.8 * error_ns < max(seen) <= error_ns


def test_two_workers_find_what_one_finds(folder: Path) -> None:
    """The batches' order is that of the tasks, whoever ran them."""
    recording = folder / "recordings/case/26.05/pods/2"
    todo = batches(folder / "case.yaml", recording, "26.05", Variant(), 120, world=stand_in)
    alone = [run_batch(batch) for batch in todo]
    assert [len(times) for times in alone] == [50, 50, 20]
    assert np.concatenate(alone).shape == (120, 2, 2)
    together = replications.run_all(todo, 2)
    assert all((a == b).all() for a, b in zip(alone, together, strict=True))


def test_a_recording_of_another_cluster_is_a_finding(folder: Path) -> None:
    """The scenario's pods were changed after the recording."""
    (folder / "case.yaml").write_text(SCENARIO.replace("memory: 256Mi", "memory: 300Mi"))
    found = [v for v in judged(folder).verdicts if v.subject == "recording is of this scenario"]
    assert [v.outcome for v in found] == [Outcome.BROKEN]


def test_what_durations_come_from_is_not_judged_by_them(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Calibrated and judged are never the same runs; the section says why."""
    monkeypatch.setattr("slurmtwin.campaign.fault_judging.calibrated_on", lambda: frozenset({"case-2"}))
    section = judged(folder)
    assert outcomes(section) == {}
    assert section.fault is not None
    assert "calibrated" in section.fault.why_not


def test_expectations_are_no_condition_of_a_recording() -> None:
    """Words and phases may change, and the world's own partition may be written out; what was run may not."""
    one = Scenario.model_validate({"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {}})
    assert conditions(one) == conditions(one.model_copy(update={"title": "other"}))
    named = one.model_copy(update={"pods": PodsSection(), "slurm": SlurmSection(partitions=[OWN_PARTITION])})
    assert conditions(one.model_copy(update={"pods": PodsSection()})) == conditions(named)
    slower = one.model_copy(update={"after": SECOND})
    assert conditions(one) != conditions(slower)


@pytest.mark.parametrize(
    ("parameter", "factor", "path", "value"),
    [
        ("pods.toleration", 0.5, ("pods", "toleration"), "20s"),
        ("pods.grace", 2.0, ("pods", "grace"), "1m"),
        ("pods.liveness.period", 2.0, ("pods", "liveness", "period"), "20s"),
        ("pods.memory", 0.5, ("pods", "memory"), "128Mi"),
        ("slurm.conf.SlurmdTimeout", 0.5, ("slurm", "conf", "SlurmdTimeout"), 15),
        ("slurm.conf.AuthInfo:cred_expire", 2.0, ("slurm", "conf", "AuthInfo"), "a=1,cred_expire=20"),
    ],
)
def test_a_parameter_of_the_scenario_is_changed_in_it(
    tmp_path: Path, parameter: str, factor: float, path: tuple[str, ...], value: object
) -> None:
    """Durations, quantities, numbers, and options inside a text; nothing else moves."""
    (tmp_path / "a.yaml").write_text(SCENARIO)
    scenario = load_scenario(tmp_path / "a.yaml")
    before, after = (s.model_dump(mode="json") for s in (scenario, change(scenario, parameter, factor).scenario))
    at, was = after, before
    for key in path[:-1]:
        at, was = at[key], was[key]
    assert at[path[-1]] == value
    was[path[-1]] = value
    assert before == after


@pytest.mark.parametrize(
    "parameter",
    ["slurm.conf.KillWait", "pods.nowhere", "duration:sleep", "rule:thumb", "slurm.conf.AuthInfo:b",
     "pods.liveness"],
)  # fmt: skip
def test_what_the_scenario_does_not_set_cannot_be_changed(tmp_path: Path, parameter: str) -> None:
    """Neither an option that is not there, nor a section, nor a duration that nobody calibrates."""
    (tmp_path / "a.yaml").write_text(SCENARIO)
    with pytest.raises(InputError):
        change(load_scenario(tmp_path / "a.yaml"), parameter, 2.0)


def test_durations_and_rules_are_scaled_outside_the_scenario(tmp_path: Path) -> None:
    """The twin is asked for them."""
    (tmp_path / "a.yaml").write_text(SCENARIO)
    scenario = load_scenario(tmp_path / "a.yaml")
    assert change(scenario, "duration:pod-start", 2.0).durations == {"pod-start": 2.0}
    assert change(scenario, "rule:shutdown-wait", 0.5).rules == {"shutdown-wait": 0.5}


def test_the_twins_own_properties_are_judged_with_its_manifest(tmp_path: Path) -> None:
    """Its final state follows from its rows; nothing of the twin stays unknown for want of a manifest."""
    groups = find_fault_groups([Path("scenarios/faults/x62-slurmd-crash-supervised.yaml")])
    (section,) = judge_faults(groups[:1], FaultOptions(workers=1, replications=2, changed=1))
    found = {v.subject: v.outcome for v in section.verdicts if v.world == "twin"}
    assert found["final-state"] is Outcome.HOLDS
    assert set(found.values()) == {Outcome.HOLDS}
