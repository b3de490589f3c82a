"""The shipped recordings of real Slurm break no property: what they show really can happen."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.scenario import load_scenario
from slurmtwin_reports.checks import run_checks
from slurmtwin_reports.known_differences import load_known_differences
from slurmtwin_reports.load import load_run
from slurmtwin_reports.verdict import FINDINGS

RECORDINGS = Path(__file__).parents[2] / "scenarios" / "recordings"
SCENARIOS = sorted(p.name for p in RECORDINGS.iterdir() if p.is_dir()) if RECORDINGS.is_dir() else []


@pytest.mark.conformance
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_a_recording_breaks_no_property(scenario: str) -> None:
    """Every repetition of every version loads, and no check finds anything against it but what is named as known."""
    folders = sorted(p.parent for p in (RECORDINGS / scenario).rglob("manifest.json"))
    assert folders
    said = claimed(scenario)
    known = load_known_differences(RECORDINGS.parent / "known-differences.yaml")
    named = {(d.version, d.phase) for d in known if (d.scenario, d.world) == (scenario, "kind")}
    found = [v for folder in folders for v in run_checks(load_run(folder)) if v.outcome in FINDINGS]
    found = [v for v in found if (v.version, v.subject) not in named]
    assert [f"{v.version} {v.subject}: {v.reason}" for v in found if not said or v.subject in said] == []


def claimed(scenario: str) -> set[str]:
    """The properties that its file names today, with the reason for those left out; none: all of them."""
    path = RECORDINGS.parent / "faults" / f"{scenario}.yaml"
    return set(load_scenario(path).expect.properties) if path.is_file() else set()


def test_recordings_are_shipped() -> None:
    """The check of this file is not an empty one."""
    assert len(SCENARIOS) >= 12
