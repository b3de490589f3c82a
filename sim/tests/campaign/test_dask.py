"""Runs on the workers of a Dask scheduler: the same bytes as in one process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.campaign.campaign import Split, run_campaign
from slurmtwin.campaign.study_file import load_study
from slurmtwin.contract.errors import EnvironmentMissingError

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
pytestmark = pytest.mark.slow

CHILD = Path(__file__).parent / "dask_with_a_killed_worker.py"


def test_four_dask_workers_give_the_bytes_of_one_process_and_a_killed_one_costs_nothing(
    study_file: Path, tmp_path: Path
) -> None:
    """In a process of its own: sockets of the killed worker would be found unclosed in whatever test comes later."""
    run_campaign(load_study(study_file), tmp_path / "one", Split(workers=1), seeds=6)
    child = [sys.executable, "-W", "ignore", str(CHILD), str(study_file), str(tmp_path)]
    done = subprocess.run(child, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "ran 24, failed 0, workers lost 1\n"
    assert (tmp_path / "results" / "results.jsonl").read_bytes() == (tmp_path / "one" / "results.jsonl").read_bytes()


def test_no_scheduler_is_an_environment_error(
    study_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 4 and no traceback."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("connection refused")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(EnvironmentMissingError, match="no Dask scheduler"):
        run_campaign(load_study(study_file), tmp_path / "out", Split(scheduler="tcp://127.0.0.1:1"))
