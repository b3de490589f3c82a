"""`calibrate --pods`: of which recorded runs durations come."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.cli.real_commands import _batch
from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.manifest import Manifest, write_manifest

XEON = "Intel(R) Xeon(R) Processor"


@pytest.mark.parametrize(
    ("begin_s", "end_s", "cpu", "expected"),
    [
        (0, None, "", ["1", "2", "3"]),
        (20, None, "", ["2", "3"]),
        (20, 30, "", ["2"]),
        (0, None, XEON, ["2"]),
        (30, None, XEON, []),
    ],
)
def test_runs_are_chosen_by_time_and_processor(
    tmp_path: Path, begin_s: int, end_s: int | None, cpu: str, expected: list[str]
) -> None:
    """Hosts of two processors take turns, so a time alone parts no batch."""
    for number, (epoch_s, host) in enumerate(((10, "AMD EPYC"), (20, XEON), (30, "AMD EPYC")), 1):
        folder = tmp_path / "quiet-pods" / "26.05" / "pods" / str(number)
        folder.mkdir(parents=True)
        manifest = Manifest(
            world="kind", scenario="quiet-pods", scenario_sha256="", seed=0,
            parameters={"epoch_ns": epoch_s * SECOND}, environment={"host": {"cpu": host}},
        )  # fmt: skip
        write_manifest(folder, manifest)
    end_ns = None if end_s is None else end_s * SECOND
    assert [folder.name for folder in _batch(tmp_path, begin_s * SECOND, end_ns, cpu)] == expected
