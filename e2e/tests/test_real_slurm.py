"""Two jobs on real Slurm, on this machine, now. Runs where SLURMTWIN_REAL=1 asks for it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from slurmtwin.contract.events import Kind
from slurmtwin.contract.listed_jobs import listed_jobs
from slurmtwin.contract.scenario import Scenario
from slurmtwin.contract.world import RunOrder
from slurmtwin_e2e.docker import LABEL, docker
from slurmtwin_e2e.slurm_world import run_scenario

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.environ.get("SLURMTWIN_REAL") != "1", reason="real Slurm: needs Docker and SLURMTWIN_REAL=1"),
]


@pytest.mark.parametrize("version", ["22.05", "24.11", "26.05"])
def test_two_jobs_run_one_after_the_other(version: str, tmp_path: Path) -> None:
    """The first takes both nodes, so the second starts when it has ended; nothing of it is left behind."""
    scenario = Scenario.model_validate({
        "schema": "slurmtwin/scenario/1", "name": "two-jobs",
        "slurm": {
            "version": version, "conf": {"SelectType": "select/cons_tres", "SelectTypeParameters": "CR_Core"},
            "nodes": [{"NodeName": "n[1-2]", "CPUs": 4, "RealMemory": 1000}],
            "partitions": [{"PartitionName": "p", "Nodes": "n[1-2]", "Default": "YES", "State": "UP"}],
        },
        "workload": {"jobs": [{"submit": "1s", "run": "20s", "ntasks": 8, "time": "2"},
                              {"submit": "3s", "run": "5s", "ntasks": 2, "time": "2"}]},
        "host": {"factor": 10},
    })  # fmt: skip
    answer = run_scenario(RunOrder(scenario=scenario, jobs=tuple(listed_jobs(scenario)), folder=tmp_path / "run"))
    ended = {e.job_id: e.t_ns for e in answer.events if e.kind is Kind.JOB_ENDED}
    started = {e.job_id: e for e in answer.events if e.kind is Kind.JOB_STARTED}
    assert answer.manifest.results["stop_reason"] == "done"
    assert started[1].node == "n[1-2]"
    assert started[2].t_ns > ended[1]
    assert (tmp_path / "run" / "events.jsonl.gz").exists()
    mine = docker("ps", "-aq", "--filter", f"label=org.slurmtwin.owner={os.getpid()}").stdout
    assert mine == "", LABEL
