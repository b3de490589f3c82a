"""The reference operator on a real cluster loses no job, in any recorded run of scenarios/operator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from slurmtwin.contract.scenario import load_scenario
from slurmtwin_reports import phases

EXPLAINED = {"op-create/job-starts"}
"""Differing phases whose cause was found (scenarios/phase-reasons.yaml, docs/surprises.md)."""
ROOT = Path(__file__).parents[2] / "scenarios"
RUNS = sorted(path.parent for path in ROOT.glob("recordings/op-*/*/pods/*/manifest.json"))


@pytest.mark.conformance
@pytest.mark.parametrize("folder", RUNS, ids=lambda path: "/".join(path.parts[-4:]))
def test_every_job_ends_by_itself(folder: Path) -> None:
    """Each job that was submitted is completed once; none is requeued, held, cancelled or failed with its node."""
    rows = phases.read_rows(folder)
    submitted = {row.job_id for row in rows if row.kind == "job.submitted"}
    ends = [(row.job_id, json.loads(row.detail or "{}").get("state")) for row in rows if row.kind == "job.ended"]
    assert submitted
    assert sorted(ends) == sorted((job, "COMPLETED") for job in submitted)
    assert [row.kind for row in rows if row.kind in ("job.requeued", "job.held", "job.lost")] == []


@pytest.mark.conformance
@pytest.mark.parametrize("name", sorted({path.parent.parent.parent.name for path in RUNS}))
def test_its_phases_are_as_they_were_predicted(name: str) -> None:
    """Every phase of every repetition lies within what its scenario said before the recording, but those explained."""
    scenario = load_scenario(ROOT / "operator" / f"{name}.yaml")
    tables = [phases.read_rows(run) for run in RUNS if run.parent.parent.parent.name == name]
    assert len(tables) >= 3
    said = {
        one.name: phases.verdict(one, [phases.span(rows, one) for rows in tables]) for one in scenario.expect.phases
    }
    assert {phase for phase, what in said.items() if what != phases.AGREE} == {
        one.split("/")[1] for one in EXPLAINED if one.startswith(f"{name}/")
    }
