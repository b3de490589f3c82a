"""A small study: two designs, two loads, two seeds; a run takes a few hundredths of a second."""

from __future__ import annotations

from pathlib import Path

import pytest

SCENARIO = """\
schema: slurmtwin/scenario/1
name: small
slurm:
  conf: {SchedulerType: sched/backfill, SlurmdTimeout: 0}
  nodes: [{NodeName: "n[1-4]", CPUs: 2, CoresPerSocket: 2, RealMemory: 4000}]
  partitions: [{PartitionName: main, Nodes: ALL, Default: "YES", MaxTime: INFINITE}]
workload:
  generate: {model: burst, jobs: 30, gap: 60s, median_run: 60s, cpus: [1, 2, 4]}
"""
STUDY = """\
schema: slurmtwin/study/1
name: small-study
question: Does backfill pay?
scenario: small.yaml
designs:
  backfill: {}
  builtin: {slurm.conf.SchedulerType: sched/builtin}
factors:
  - {name: burst, path: workload.generate.burst_size, values: [2, 10]}
seeds: {first: 1, count: 2}
"""


@pytest.fixture
def study_file(tmp_path: Path) -> Path:
    """The study's file, its scenario beside it."""
    (tmp_path / "small.yaml").write_text(SCENARIO)
    path = tmp_path / "study.yaml"
    path.write_text(STUDY)
    return path
