"""`record` goes on where it stopped, keeps to its budget, repeats late runs, and writes whole runs only."""

from __future__ import annotations

import gzip
import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.contract.errors import ModelError
from slurmtwin.contract.jobs import JobRequest
from slurmtwin.contract.manifest import read_manifest
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin_e2e import record as record_module
from slurmtwin_e2e.conf import render
from slurmtwin_e2e.record import ATTEMPTS, missing, record
from slurmtwin_e2e.recording import IncompleteRunError, Place, write_recording
from slurmtwin_e2e.run import DEFAULT_FACTOR, RawRun

DATA = Path(__file__).parent / "data"
PROBES = Path(__file__).parents[2] / "scenarios" / "probes"
SCENARIO = load_scenario(PROBES / "het-jobs.yaml")
LATE = 10_000_000_000


def raw_run(folder: Path, scenario: Scenario = SCENARIO, late_ns: int = 0) -> RawRun:
    """An excerpt as if a container had just left it; late_ns: the host's largest lateness."""
    shutil.copytree(DATA / "het-jobs-22.05", folder)
    notes = [json.loads(line) for line in (folder / "driver.jsonl").read_text().splitlines()]
    for note in notes:
        if note["what"] == "lateness":
            note.update(median_ns=0, p99_ns=0, max_ns=late_ns)
    (folder / "driver.jsonl").write_text("".join(json.dumps(note) + "\n" for note in notes))
    plan = json.loads((folder / "plan.json").read_text())
    return RawRun(folder, plan, render(scenario.slurm, plan["version"]), wall_s=1.0, load=0.5)


class Runs:
    """Stands in for the container: what each next run does, and which runs there were."""

    def __init__(self) -> None:
        self.late: list[bool] = []
        self.fail: set[str] = set()
        self.made: list[tuple[str, str]] = []
        self.clock = 0.0

    def __call__(
        self, scenario: Scenario, jobs: Sequence[JobRequest], version: str, factor: float, work: Path
    ) -> RawRun:  # fmt: skip
        """One run takes ten seconds of the clock."""
        del jobs, factor
        self.clock += 10
        self.made.append((scenario.name, version))
        if version in self.fail:
            raise ModelError("the driver said no")
        late = self.late.pop(0) if self.late else False
        return raw_run(work, late_ns=LATE if late else 0)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    """record() without Docker, on a clock that only runs move."""
    fake = Runs()
    monkeypatch.setattr(record_module, "run_raw", fake)
    monkeypatch.setattr(record_module, "sweep", list)
    monkeypatch.setattr(record_module, "make_image", lambda version, say: None)
    monkeypatch.setattr(record_module, "package_versions", lambda version: {"slurmctld": version})
    monkeypatch.setattr(record_module.time, "monotonic", lambda: fake.clock)
    return fake


def wanted(root: Path, repetitions: int = 2) -> list[Any]:
    """What is missing of one scenario on two versions."""
    return list(missing([(SCENARIO, ())], ("22.05", "26.05"), 20, repetitions, root))


def said() -> tuple[list[str], Any]:
    """A list and what appends to it."""
    lines: list[str] = []
    return lines, lines.append


def test_every_scenario_is_wanted_once_before_any_a_second_time(tmp_path: Path) -> None:
    """So a small budget covers as much as it can."""
    assert [(w.place.version, w.place.repetition) for w in wanted(tmp_path)] == [
        ("22.05", 1), ("26.05", 1), ("22.05", 2), ("26.05", 2),
    ]  # fmt: skip


def test_without_a_factor_recording_goes_on_at_the_one_there_is(tmp_path: Path) -> None:
    """The one with most repetitions; k = 1 is kept for calibration, and without recordings the harness chooses."""
    for place in ("k20/1", "k20/2", "k40/1", "k1/1", "k1/2", "k1/3"):
        folder = tmp_path / "het-jobs" / "22.05" / place
        folder.mkdir(parents=True)
        (folder / "manifest.json").touch()
    found = missing([(SCENARIO, ())], ("22.05", "26.05"), None, 3, tmp_path)
    assert [(w.place.version, w.place.factor, w.place.repetition) for w in found] == [
        ("26.05", DEFAULT_FACTOR, 1), ("26.05", DEFAULT_FACTOR, 2), ("22.05", 20.0, 3), ("26.05", DEFAULT_FACTOR, 3),
    ]  # fmt: skip


def test_recording_goes_on_where_it_stopped(tmp_path: Path, runs: Runs) -> None:
    """After a budget for two runs the next call makes the other two, and a third has nothing to do."""
    lines, say = said()
    first = record(wanted(tmp_path), tmp_path, 15, say)
    assert (first.made, len(wanted(tmp_path))) == (2, 2)
    assert "budget used up: 2 recordings are still missing" in lines
    assert record(wanted(tmp_path), tmp_path, 1000, say).made == 2
    assert wanted(tmp_path) == []
    assert runs.made == [("het-jobs", "22.05"), ("het-jobs", "26.05")] * 2


def test_a_late_run_is_thrown_away_whole_and_made_again(tmp_path: Path, runs: Runs) -> None:
    """It is said, counted, and leaves nothing in the folder."""
    runs.late = [True, False]
    lines, say = said()
    done = record(wanted(tmp_path, 1)[:1], tmp_path, 1000, say)
    assert (done.made, done.late, done.failed) == (1, 1, [])
    assert any(line.startswith("thrown away: het-jobs-22.05-k20-1") for line in lines)
    assert sorted(p.name for p in (tmp_path / "het-jobs/22.05/k20").iterdir()) == ["1"]


def test_a_host_that_stays_too_busy_is_a_failure(tmp_path: Path, runs: Runs) -> None:
    """After a few attempts, without a recording."""
    runs.late = [True] * (ATTEMPTS + 1)
    done = record(wanted(tmp_path, 1)[:1], tmp_path, 1000, lambda text: None)
    assert (done.made, done.late, len(done.failed)) == (0, ATTEMPTS, 1)
    assert not list(tmp_path.rglob("manifest.json"))


def test_a_failed_run_does_not_stop_the_others(tmp_path: Path, runs: Runs) -> None:
    """It is still missing afterwards."""
    runs.fail = {"22.05"}
    done = record(wanted(tmp_path, 1), tmp_path, 1000, lambda text: None)
    assert (done.made, len(done.failed)) == (1, 1)
    assert [w.place.version for w in wanted(tmp_path, 1)] == ["22.05"]


def test_a_run_that_did_not_finish_leaves_nothing(tmp_path: Path) -> None:
    """Not even a folder."""
    raw = raw_run(tmp_path / "raw")
    notes = (raw.folder / "driver.jsonl").read_text().splitlines()
    (raw.folder / "driver.jsonl").write_text("\n".join(n for n in notes if '"finished"' not in n) + "\n")
    with pytest.raises(IncompleteRunError, match=r"het-jobs-22\.05-k20-1"):
        write_recording(tmp_path / "out", Place("het-jobs", "22.05", 20, 1), SCENARIO, (), raw, {})
    assert not (tmp_path / "out").exists()


def test_what_a_killed_write_left_is_not_taken_for_a_recording(tmp_path: Path) -> None:
    """The folder gets its name last, and the next write starts clean."""
    place = Place("het-jobs", "22.05", 20, 1)
    half = place.folder(tmp_path).with_name(".1.part")
    half.mkdir(parents=True)
    (half / "manifest.json").write_text("{}")
    assert wanted(tmp_path, 1)[0].place == place
    write_recording(tmp_path, place, SCENARIO, (), raw_run(tmp_path / "raw"), {})
    assert not half.exists()
    assert read_manifest(place.folder(tmp_path)).results["job_starts"] == 5


def test_the_same_raw_run_gives_the_same_bytes(tmp_path: Path) -> None:
    """Apart from the manifest's record of this machine, and the archive carries no time stamp."""
    place = Place("het-jobs", "22.05", 20, 1)
    raw = raw_run(tmp_path / "raw")
    folders = [write_recording(tmp_path / name, place, SCENARIO, (), raw, {}) for name in "ab"]
    for name in ("events.jsonl.gz", "scenario.resolved.json", "jobs.jsonl"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()


def test_of_a_trace_only_numbers_times_and_nodes_are_kept(tmp_path: Path) -> None:
    """No jobs, no scenario, no user, no path of a site's slurm.conf."""
    document = SCENARIO.model_dump(mode="json", by_alias=True)
    document["slurm"]["conf"] |= {"SlurmctldLogFile": "/home/site/log", "SlurmUser": "site"}
    document["workload"]["file"] = {"path": "site.csv", "format": "events"}
    scenario = Scenario.model_validate(document)
    raw = raw_run(tmp_path / "raw", scenario)
    folder = write_recording(tmp_path, Place("het-jobs", "22.05", 20, 1), scenario, (), raw, {})
    assert sorted(p.name for p in folder.iterdir()) == ["events.jsonl.gz", "manifest.json"]
    text = gzip.decompress((folder / "events.jsonl.gz").read_bytes()).decode()
    rows = [json.loads(line) for line in text.splitlines()]
    assert {key for row in rows for key in json.loads(row.get("detail", "{}"))} <= {
        "by", "state", "node_cpus", "array_task", "why", "factor", "version",
    }  # fmt: skip
    assert {row["kind"] for row in rows} == {
        "job.submitted", "job.started", "job.ended", "run.started", "run.ended", "slurmctld.started", "slurmd.started",
    }  # fmt: skip
    assert read_manifest(folder).results["events"] == len(rows)
    manifest = (folder / "manifest.json").read_text()
    assert "/home/site" not in manifest
    assert '"(a path)"' in manifest
