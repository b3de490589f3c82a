"""Independent tasks over worker processes. Results come back in the order of the tasks, whatever ran first."""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import forkserver
from multiprocessing.connection import wait as wait_for
from multiprocessing.context import BaseContext
from typing import Final, TypeVar

from slurmtwin.engine import garbage

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with (done, all) after each task."""

READY: Final = [
    "slurmtwin.campaign.case_run", "slurmtwin.workload.resolve", "slurmtwin_reports.history",
    "slurmtwin_reports.study_metrics", "pyarrow.parquet", "ruamel.yaml",
]  # fmt: skip
"""What a run needs of the program, where it is installed: read once for all workers."""


def default_workers() -> int:
    """One worker per processor this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def worker_context(more: Sequence[str] = ()) -> BaseContext:
    """How worker processes are made: forked from a server that has read the program, where the system has that.

    A worker that is started from nothing spends a second of its own on imports. more: modules that this campaign's
    tasks need beside READY; nothing to a server that runs already.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*READY, *more])
    return context


def make_ready(more: Sequence[str] = ()) -> None:
    """Let the server of workers read the program, and `more` modules, while this process has other things to do."""
    if worker_context(more).get_start_method() == "forkserver":
        forkserver.ensure_running()


def end_with_parent() -> None:
    """Make this worker process end when the one that asked for it is gone, however that ended."""
    threading.Thread(target=_wait_for_parent, daemon=True).start()


def _wait_for_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait_for([parent.sentinel])
        os._exit(1)


def run_tasks(
    work: Callable[[Task], Result], tasks: Iterable[Task], workers: int = 0, progress: Progress | None = None,
    cost: Callable[[Task], int] | None = None,
) -> list[Result]:  # fmt: skip
    """`[work(t) for t in tasks]`, spread over `workers` processes (0: as many as processors).

    By `cost` the dearest tasks are begun first, so that all workers are busy to the end. One worker, or one task, runs
    in this process. The first exception ends the rest and is raised here.
    """
    todo = list(tasks)
    workers = min(workers or default_workers(), len(todo))
    if workers <= 1:
        return list(_serial(work, todo, progress))
    results: dict[int, Result] = {}
    with ProcessPoolExecutor(workers, worker_context(), end_with_parent) as pool:
        order = sorted(range(len(todo)), key=lambda place: -cost(todo[place])) if cost else range(len(todo))
        futures: dict[Future[Result], int] = {pool.submit(_in_worker, work, todo[place]): place for place in order}
        try:
            _collect(futures, results, len(todo), progress)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[place] for place in range(len(todo))]


def _in_worker(work: Callable[[Task], Result], task: Task) -> Result:
    """The task's result. What its process has read by the end of the first one stays: no collection walks it again."""
    result = work(task)
    garbage.set_apart()
    return result


def _serial(work: Callable[[Task], Result], todo: Sequence[Task], progress: Progress | None) -> Iterator[Result]:
    for place, task in enumerate(todo, 1):
        yield work(task)
        if progress:
            progress(place, len(todo))


def _collect(
    futures: dict[Future[Result], int], results: dict[int, Result], total: int, progress: Progress | None
) -> None:
    open_futures = set(futures)
    while open_futures:
        done, open_futures = wait(open_futures, return_when=FIRST_COMPLETED)
        for future in done:
            results[futures[future]] = future.result()
        if progress:
            progress(len(results), total)
