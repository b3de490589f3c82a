"""Where the runs of a campaign are computed: here, in local processes, or on the workers of a Dask scheduler.

Each executor yields (case, result) as runs finish, in any order, and each case once. A worker that dies (killed, out
of memory) costs its runs in flight, which are given to another; a run that kills every worker alone is failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from typing import Any, Final

from slurmtwin.campaign.case_run import Result, failed, run_case
from slurmtwin.campaign.cases import Case
from slurmtwin.campaign.pool import end_with_parent, worker_context
from slurmtwin.campaign.study_file import LoadedStudy
from slurmtwin.contract.errors import EnvironmentMissingError

AHEAD: Final = 3
"""Runs handed to each worker beyond the one it computes: it never waits for this process."""
DEATHS: Final = 2
"""Pools that may break with a run in flight; then it runs alone, and the next death is its own doing."""
Answers = Iterator[tuple[Case, Result]]

_loaded: LoadedStudy | None = None


def in_this_process(loaded: LoadedStudy, todo: Iterable[Case]) -> Answers:
    """One after the other."""
    for case in todo:
        yield case, run_case(loaded, case)


def in_processes(loaded: LoadedStudy, todo: Iterable[Case], workers: int) -> Answers:
    """Over `workers` processes; a new pool takes the place of one whose worker died."""
    waiting = deque(todo)
    deaths: dict[str, int] = {}
    while waiting:
        suspects = [case for case in waiting if deaths.get(case.key, 0) >= DEATHS]
        if suspects:
            waiting = deque(case for case in waiting if deaths.get(case.key, 0) < DEATHS)
            for case in suspects:
                yield case, _alone(loaded, case)
            continue
        in_flight: dict[Future[Result], Case] = {}
        with _pool(loaded, min(workers, len(waiting))) as pool:
            try:
                yield from _drain(pool, waiting, in_flight, workers)
            except BrokenProcessPool:
                lost = list(in_flight.values())
                for case in lost:
                    deaths[case.key] = deaths.get(case.key, 0) + 1
                waiting.extendleft(reversed(lost))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def _drain(
    pool: ProcessPoolExecutor, waiting: deque[Case], in_flight: dict[Future[Result], Case], workers: int
) -> Answers:
    """Keep every worker busy; raises BrokenProcessPool, with what was lost left in `in_flight`."""
    while waiting or in_flight:
        while waiting and len(in_flight) < workers * (1 + AHEAD):
            case = waiting.popleft()
            try:
                in_flight[pool.submit(_work, case)] = case
            except BrokenProcessPool:
                waiting.appendleft(case)
                raise
        done, _ = wait(in_flight, return_when=FIRST_COMPLETED)
        for future in done:
            result = future.result()
            yield in_flight.pop(future), result


def _alone(loaded: LoadedStudy, case: Case) -> Result:
    with _pool(loaded, 1) as pool:
        try:
            return pool.submit(_work, case).result()
        except BrokenProcessPool:
            return failed(case, "the process that ran it was killed, each time it was tried")


def _pool(loaded: LoadedStudy, workers: int) -> ProcessPoolExecutor:
    return ProcessPoolExecutor(workers, mp_context=worker_context(), initializer=_begin, initargs=(loaded,))


def _begin(loaded: LoadedStudy) -> None:
    """Set up a worker: the study stays in it, and it ends when whoever asked for the runs is gone."""
    global _loaded
    _loaded = loaded
    end_with_parent()


def _work(case: Case) -> Result:
    assert _loaded is not None
    return run_case(_loaded, case)


def on_dask(loaded: LoadedStudy, todo: Iterable[Case], address: str) -> Answers:
    """On the workers of the Dask scheduler at `address`; traces must lie at the same path there.

    Raises EnvironmentMissingError when dask.distributed is not installed or the scheduler does not answer.
    """
    try:
        distributed: Any = import_module("distributed")
    except ImportError as error:
        raise EnvironmentMissingError("--scheduler needs dask.distributed: pip install slurmtwin[dask]") from error
    try:
        client: Any = distributed.Client(address, timeout="15s", set_as_default=False)
    except (OSError, TimeoutError) as error:
        raise EnvironmentMissingError(f"no Dask scheduler answers at {address}: {error}") from error
    waiting = iter(todo)
    with client:
        study = client.scatter(loaded, broadcast=True)
        room = AHEAD * max(1, sum(client.nthreads().values())) + 1
        flight = distributed.as_completed(loop=client.loop)
        places: dict[str, Case] = {}

        def send() -> None:
            for case in waiting:
                future = client.submit(run_case, study, case, key=f"slurmtwin-{case.key}", pure=False, retries=DEATHS)
                places[future.key] = case
                flight.add(future)
                return

        for _ in range(room):
            send()
        for future in flight:
            case = places.pop(future.key)
            why = future.exception()
            yield case, future.result() if why is None else failed(case, f"{type(why).__name__}: {why}")
            future.release()
            send()
