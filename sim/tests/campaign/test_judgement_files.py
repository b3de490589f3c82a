"""Files that many tasks of a check name are read once, and again when they were written anew."""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from slurmtwin.campaign import pool
from slurmtwin.cli.judge_commands import JUDGING
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.engine import garbage
from slurmtwin_operator.designs import load_design
from slurmtwin_reports.load import MOST_KEPT, TableRows

DESIGN = Path("scenarios/designs/default.yaml")


def test_a_scenario_is_read_once_and_anew_when_it_changed(tmp_path: Path) -> None:
    """By its text: a file of equal size and time may hold another one."""
    path = tmp_path / "a.yaml"
    path.write_text("schema: slurmtwin/scenario/1\nname: one\nslurm: {}\n")
    stamp = path.stat()
    assert load_scenario(path) is load_scenario(path)
    path.write_text("schema: slurmtwin/scenario/1\nname: two\nslurm: {}\n")
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert load_scenario(path).name == "two"


def test_a_design_is_read_once_and_anew_when_it_changed(tmp_path: Path) -> None:
    """Each run of an operator's asks for one."""
    path = tmp_path / "default.yaml"
    path.write_text(DESIGN.read_text())
    before = load_design(path)
    assert load_design(path) is before
    path.write_text(DESIGN.read_text().replace("name: default", "name: another"))
    assert load_design(path).name == "another"


def test_rows_of_a_short_table_are_built_once_and_of_a_long_one_cost_no_memory() -> None:
    """A year's table would not fit."""

    class Rows(TableRows):
        built = 0

        def __init__(self, count: int) -> None:
            super().__init__(None)
            self.count = count

        def __len__(self) -> int:
            return self.count

        def _built(self) -> Any:
            self.built += 1
            return iter(range(3))

    for count, times in ((MOST_KEPT, 1), (MOST_KEPT + 1, 2)):
        rows = Rows(count)
        assert [list(rows), list(rows)] == [[0, 1, 2]] * 2
        assert rows.built == times


def test_dear_tasks_begin_first_and_results_come_in_the_tasks_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else one worker would play the longest task alone at the end."""
    begun: list[int] = []

    class Executor:
        def __init__(self, *_: object) -> None: ...

        def __enter__(self) -> Executor:
            return self

        def __exit__(self, *_: object) -> None: ...

        def submit(self, in_worker: Any, work: Any, task: int) -> Future[int]:
            begun.append(task)
            done: Future[int] = Future()
            done.set_result(in_worker(work, task))
            return done

    monkeypatch.setattr(pool, "ProcessPoolExecutor", Executor)
    monkeypatch.setattr(garbage, "set_apart", lambda: None)
    tasks: Iterable[int] = [3, 1, 4, 2]
    assert pool.run_tasks(lambda task: -task, tasks, 2, cost=lambda task: task) == [-3, -1, -4, -2]
    assert begun == [4, 3, 2, 1]


@pytest.mark.parametrize("module", [*pool.READY, *JUDGING])
def test_what_the_server_of_workers_reads_is_there(module: str) -> None:
    """It goes past a module that was renamed, and each worker would read that by itself again."""
    assert find_spec(module) is not None
