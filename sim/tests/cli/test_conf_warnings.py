"""What slurm.conf says and the twin takes otherwise is told on stderr, in the JSON document, and with file:line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slurmtwin.cli.file_commands import validate
from slurmtwin.cli.run_commands import replay

CONF = """ClusterName=c
SlurmctldHost=h
SchedulerParameters=max_sched_time=30
NodeName=n1 CPUs=2
PartitionName=main Nodes=n1 Default=YES
"""
SCENARIO = """schema: slurmtwin/scenario/1
name: small
slurm:
  files: {slurm_conf: slurm.conf}
workload:
  jobs: [{id: 1, run: 1s, time: '1'}]
"""
WARNING = "max_sched_time is above MessageTimeout/2"


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with a slurm.conf, a scenario that reads it and a trace."""
    (tmp_path / "slurm.conf").write_text(CONF, encoding="utf-8")
    (tmp_path / "small.yaml").write_text(SCENARIO, encoding="utf-8")
    event = "-dt 0 -e submit_batch_job | -sim-walltime 5 -n 1 -J jobid_1\n"
    (tmp_path / "t.events").write_text(event, encoding="utf-8")
    return tmp_path


def run(command: object, *words: str) -> Result:
    return CliRunner().invoke(command, list(words), catch_exceptions=False)  # type: ignore[arg-type]


def test_validate_names_the_warnings_of_each_file(site: Path) -> None:
    """One line each, with the scenario and the line of slurm.conf."""
    done = run(validate, str(site / "small.yaml"))
    assert done.exit_code == 0
    (line,) = [text for text in done.stderr.splitlines() if text.startswith("warning:")]
    assert "small.yaml" in line
    assert f"slurm.conf:3: {WARNING}" in line


@pytest.mark.parametrize("as_json", [True, False])
def test_replay_names_the_warnings_of_its_slurm_conf(site: Path, as_json: bool) -> None:
    """In the document under `warnings`, else on stderr; stdout stays data."""
    words = [str(site / "t.events"), "--slurm-conf", str(site / "slurm.conf"), *(["--json"] if as_json else [])]
    done = run(replay, *words)
    assert done.exit_code == 0
    told = json.loads(done.stdout)["warnings"] if as_json else done.stderr.splitlines()
    assert [WARNING in text for text in told].count(True) == 1
    assert WARNING not in (done.stdout if not as_json else done.stderr)
