"""Runs on the workers of a Dask scheduler: the same bytes as in one process."""

from __future__ import annotations

import gc
import os
import signal
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.campaign.campaign import Progress, Split, run_campaign
from slurmtwin.campaign.study_file import load_study
from slurmtwin.contract.errors import EnvironmentMissingError

distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Any]:
    """A scheduler with four worker processes on this machine."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with distributed.LocalCluster(
            n_workers=4, threads_per_worker=1, dashboard_address=None, local_directory=str(tmp_path / "dask"),
            silence_logs=50,
        ) as found:  # fmt: skip
            yield found
        gc.collect()  # a killed worker's sockets would be found unclosed in whatever test comes later


def test_four_dask_workers_give_the_bytes_of_one_process_and_a_killed_one_costs_nothing(
    study_file: Path, tmp_path: Path, cluster: Any
) -> None:
    """One worker is killed by SIGKILL once four runs are done."""
    loaded = load_study(study_file)
    run_campaign(loaded, tmp_path / "one", Split(workers=1), seeds=6)

    def kill(progress: Progress) -> None:
        if progress.done == 4:
            os.kill(next(iter(cluster.workers.values())).pid, signal.SIGKILL)

    split = Split(scheduler=cluster.scheduler_address)
    done = run_campaign(loaded, tmp_path / "dask-out", split, seeds=6, progress=kill)
    assert done.ran == 24
    assert not done.failed
    assert (tmp_path / "dask-out" / "results.jsonl").read_bytes() == (tmp_path / "one" / "results.jsonl").read_bytes()


def test_no_scheduler_is_an_environment_error(
    study_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 4 and no traceback."""

    def refuse(*_: Any, **__: Any) -> None:
        raise OSError("connection refused")

    monkeypatch.setattr(distributed, "Client", refuse)
    with pytest.raises(EnvironmentMissingError, match="no Dask scheduler"):
        run_campaign(load_study(study_file), tmp_path / "out", Split(scheduler="tcp://127.0.0.1:1"))
