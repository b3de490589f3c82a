"""Independent tasks over worker processes. Results come back in the order of the tasks, whatever ran first."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from typing import TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")
Progress = Callable[[int, int], None]
"""Called with (done, all) after each task."""


def default_workers() -> int:
    """One worker per processor this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_tasks(
    work: Callable[[Task], Result], tasks: Iterable[Task], workers: int = 0, progress: Progress | None = None
) -> list[Result]:
    """`[work(t) for t in tasks]`, spread over `workers` spawned processes (0: as many as processors).

    One worker, or one task, runs in this process. The first exception ends the rest and is raised here.
    """
    todo = list(tasks)
    workers = min(workers or default_workers(), len(todo))
    if workers <= 1:
        return list(_serial(work, todo, progress))
    results: dict[int, Result] = {}
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        futures: dict[Future[Result], int] = {pool.submit(work, task): place for place, task in enumerate(todo)}
        try:
            _collect(futures, results, len(todo), progress)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [results[place] for place in range(len(todo))]


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
