"""The study of accelerations: which factor agrees with k = 1, on runs made up for it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.manifest import Manifest, write_manifest
from slurmtwin_e2e.factor_study import agrees, compared, main, read_run, table


def folder(root: Path, factor: float, delays: list[float], nodes: str = "n1") -> Path:
    """A run of jobs submitted at 0 that start after 100 s and these delays."""
    path = root / f"k{factor:g}-{len(list(root.iterdir())) if root.exists() else 0}"
    path.mkdir(parents=True)
    write_manifest(path, Manifest("slurm", "s", "", 0, parameters={"factor": factor}))
    rows = []
    for number, delay in enumerate(delays, 1):
        rows.append({"kind": "job.submitted", "t_ns": 0, "job_id": number})
        rows.append({"kind": "job.started", "t_ns": int((100 + delay) * SECOND), "job_id": number, "node": nodes})
    text = "".join(json.dumps(row) + "\n" for row in rows)
    (path / "events.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return path


def test_the_figures_are_those_of_the_pairs(tmp_path: Path) -> None:
    """Start differences over all jobs, the mean wait relative to k = 1."""
    one, other = (read_run(folder(tmp_path, 5, delays)) for delays in ([0, 2, 4], [0, 0, 0]))
    found = compared([one], [other])
    assert (found.pairs, found.median_s, found.p95_s, found.same_nodes) == (1, 2.0, 4.0, 1.0)
    assert found.wait_gap == pytest.approx(0.02)


@pytest.mark.parametrize(
    ("delays", "good"),
    [([0.5] * 4, True), ([3] * 4, False), ([20] * 4, False), ([0, 0, 0, 60], False)],
)
def test_each_bar_can_fail(tmp_path: Path, delays: list[float], good: bool) -> None:
    """Median start, 95th percentile, mean wait: runs at k = 1 that are all equal allow no more than the bars."""
    base = [read_run(folder(tmp_path, 1, [0] * 4)) for _ in range(2)]
    fast = read_run(folder(tmp_path, 10, delays))
    among = compared(base, base)
    assert agrees(compared([fast], base), among) == good


def test_what_k1_runs_differ_themselves_is_allowed_to_others(tmp_path: Path) -> None:
    """1.5 times of it in start differences, not more; the mean wait has its own bar."""
    base = [read_run(folder(tmp_path, 1, [delay, -delay, 0])) for delay in (0, 10)]
    among = compared(base, base)
    assert among.median_s == 10
    assert agrees(compared([read_run(folder(tmp_path, 10, [14, -14, 0]))], base[:1]), among)
    assert not agrees(compared([read_run(folder(tmp_path, 20, [16, -16, 0]))], base[:1]), among)


def test_the_table_has_a_line_for_each_factor(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In order of the factor, with the judgement last."""
    names = [folder(tmp_path, k, [d]) for k, d in ((1, 0), (1, 0.1), *[(50, 30)] * 3, *[(5, 0.2)] * 3, (9, 0))]
    assert main([str(name) for name in names]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert [(line.split(" | ")[0].strip("| "), line.split(" | ")[-1].strip(" |")) for line in lines] == [
        ("1", "-"), ("5", "yes"), ("9", "too few"), ("50", "no"),
    ]  # fmt: skip


def test_without_runs_at_k1_there_is_nothing_to_compare_with(tmp_path: Path) -> None:
    """One is not enough either: it has no spread."""
    with pytest.raises(ValueError, match="two runs at k = 1"):
        table([read_run(folder(tmp_path, 1, [0])), read_run(folder(tmp_path, 5, [0]))])
