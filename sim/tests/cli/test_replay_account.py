"""`slurmtwin replay` says what became of every row of a trace."""

from __future__ import annotations

import json
from pathlib import Path

from click.testing import CliRunner

from slurmtwin.cli.run_commands import replay

JOBS = (
    {"job_id": 1, "submit_ns": 0, "run_ns": 1_000_000_000, "ntasks": 1},
    {"job_id": 2, "submit_ns": 0, "run_ns": 1_000_000_000, "ntasks": 1, "constraint": "nowhere"},
)


def test_replay_counts_the_jobs_that_slurmctld_refuses(tmp_path: Path) -> None:
    """By the error it gave, in the document and in the text."""
    trace = tmp_path / "jobs.jsonl"
    trace.write_text("".join(json.dumps(job) + "\n" for job in JOBS), encoding="utf-8")
    words = [str(trace), "--nodes", "2x4", "--format", "jobs"]
    told = CliRunner().invoke(replay, [*words, "--json"], catch_exceptions=False)
    document = json.loads(told.stdout)
    assert document["jobs"] == 1
    assert document["rejected"] == {"Requested node configuration is not available": 1}
    shown = CliRunner().invoke(replay, words, catch_exceptions=False)
    assert "rejected at submission 1: Requested node configuration is not available" in shown.output
