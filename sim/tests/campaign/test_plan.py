"""A whole plan on a small trace, and the command around it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from slurmtwin.cli import main


def _trace(path: Path, jobs: int = 300) -> Path:
    """Jobs of one CPU, exponential gaps and run times; the recorded wait is 0."""
    draw = np.random.default_rng(5)
    submit = np.cumsum(draw.exponential(400, jobs)).astype(int)
    run = np.maximum(1, draw.exponential(1600, jobs)).astype(int)
    lines = [
        f"{i} {s} 0 {r} 1 -1 -1 1 {r + 600} -1 1 1 1 -1 -1 -1 -1 -1"
        for i, (s, r) in enumerate(zip(submit, run, strict=True), 1)
    ]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_plan_is_the_same_however_many_processes_and_its_search_finds_what_a_sweep_finds(tmp_path: Path) -> None:
    """Four CPUs are busy on average; the twin judges; the tables lie beside the page."""
    trace = _trace(tmp_path / "t.swf")
    line = ["plan", str(trace), "--nodes", "12x1", "--target", "mean wait < 2m", "--resamples", "3", "--json",
            "--failures", "mtbf 20d repair 4h", "--price", "1", "--watts", "100/300"]  # fmt: skip
    found = CliRunner().invoke(
        main, [*line, "--workers", "1", "--out", str(tmp_path / "out"), "--report", str(tmp_path / "p.html")]
    )
    assert found.exit_code in (0, 3), found.output
    plan = json.loads(found.stdout)
    assert plan["judge"]["settled"]
    points = {point["nodes"]: point["met"] for point in plan["judge"]["points"]}
    nodes = plan["answer"]["nodes"]
    assert points[nodes]
    assert not points.get(nodes - 1, False)
    assert 5 <= nodes <= 9
    assert plan["answer"]["low"] <= nodes <= plan["answer"]["high"]
    assert {row["assumption"] for row in plan["what_if"]} >= {"nothing ever goes away", "jobs run twice as long"}
    assert (tmp_path / "p.html").stat().st_size > 10_000
    assert {p.name for p in (tmp_path / "out" / "tables").iterdir()} >= {"curve.csv", "curve.parquet", "judged.csv"}
    swept = CliRunner().invoke(main, [*line, "--workers", "2", "--sweep"])
    other = json.loads(swept.stdout)
    for document in (plan, other):
        document.pop("command")
    assert other == plan


def test_a_wrong_plan_is_refused(tmp_path: Path) -> None:
    """Exit code 2 and the reason; never a traceback."""
    trace = _trace(tmp_path / "t.swf", 5)
    for more, says in (
        (["--target", "fast"], "not a target"), (["--target", "p95 wait < 1h", "--growth", "much"], "not a growth"),
        (["--target", "p95 wait < 1h", "--failures", "often"], "not a rate"),
    ):  # fmt: skip
        found = CliRunner().invoke(main, ["plan", str(trace), "--nodes", "2x1", *more])
        assert found.exit_code == 2
        assert says in found.stderr
    found = CliRunner().invoke(main, ["plan", str(trace), "--target", "p95 wait < 1h"])
    assert "say the cluster" in found.stderr
