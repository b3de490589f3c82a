"""How much of two processors a campaign uses for its runs: `python sim/tests/campaign/efficiency.py --runs 1000`.

The same runs in one process and over `--workers`. By wall: serial time over workers times parallel time, which says
nothing on a machine that others use; by processor time: what the runs cost alone over what the campaign cost in all.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from multiprocessing import forkserver
from pathlib import Path

from slurmtwin.campaign.campaign import Split, run_campaign
from slurmtwin.campaign.study_file import load_study

SCENARIO = """\
schema: slurmtwin/scenario/1
name: small
slurm:
  nodes: [{NodeName: "n[1-8]", CPUs: 4, CoresPerSocket: 4, RealMemory: 8000}]
  partitions: [{PartitionName: main, Nodes: ALL, Default: "YES", MaxTime: INFINITE}]
workload:
  generate: {model: burst, jobs: 60, gap: 60s, median_run: 60s, cpus: [1, 2, 4, 8]}
"""
STUDY = """\
schema: slurmtwin/study/1
name: efficiency
question: How much of the machine is used?
scenario: small.yaml
seeds: {first: 1, count: 1}
"""


def _cost(study: Path, out: Path, workers: int, runs: int) -> tuple[float, float]:
    """(wall, processor seconds of this process and its children)."""
    before, began = os.times(), time.monotonic()
    run_campaign(load_study(study), out, Split(workers=workers), seeds=runs)
    if workers > 1:
        forkserver._forkserver._stop()  # type: ignore[attr-defined]
    after = os.times()
    return time.monotonic() - began, sum(after[:4]) - sum(before[:4])


def main(arguments: list[str]) -> int:
    """Print both figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "small.yaml").write_text(SCENARIO)
        study = folder / "study.yaml"
        study.write_text(STUDY)
        _cost(study, folder / "warm", 1, 2)
        serial_wall, serial_cpu = _cost(study, folder / "one", 1, given.runs)
        wall, cpu = _cost(study, folder / "many", given.workers, given.runs)
        same = (folder / "one" / "results.jsonl").read_bytes() == (folder / "many" / "results.jsonl").read_bytes()
    print(  # noqa: T201
        f"{given.runs} runs: serial {serial_wall:.1f} s wall, {serial_cpu:.1f} s processor; {given.workers} workers "
        f"{wall:.1f} s wall, {cpu:.1f} s processor; efficiency {serial_wall / given.workers / wall:.1%} by wall, "
        f"{serial_cpu / cpu:.1%} by processor time; equal bytes: {same}"
    )
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
