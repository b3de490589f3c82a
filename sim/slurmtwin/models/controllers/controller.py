"""What controllers have in common: a work queue whose keys are reconciled by requests, one by one or in batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from slurmtwin.models.api_server.errors import ApiError
from slurmtwin.models.api_server.work_queue import Finished, WorkQueue

if TYPE_CHECKING:
    from slurmtwin.models.api_server.client import Client, Done
    from slurmtwin.models.controllers.controller_manager import ControllerManager

Request = Callable[["Done"], None]
"""Sends one request; calls back with its answer."""


class Controller:
    """Base of a controller: `sync(key)` says what to ask for."""

    def __init__(self, plane: ControllerManager, workers: int) -> None:
        self.plane = plane
        self.client: Client = plane.client()
        self.queue = WorkQueue(plane.clock, self._reconcile, workers)

    def sync(self, key: str, finished: Finished) -> None:
        """Bring one object a step further; finished(good) when its requests are answered."""
        raise NotImplementedError

    def _reconcile(self, key: str, finished: Finished) -> None:
        self.sync(key, finished)


def one_by_one(requests: Sequence[Request], finished: Finished) -> None:
    """Each after the answer of the one before; the first error ends it."""
    _batches(requests, 0, 1, 1, finished)


def in_batches(requests: Sequence[Request], finished: Finished) -> None:
    """1, 2, 4 ... at once; a batch with an error is the last (controller_utils.go slowStartBatch())."""
    _batches(requests, 0, 1, 2, finished)


def _batches(requests: Sequence[Request], first: int, size: int, growth: int, finished: Finished) -> None:
    batch = requests[first : first + size]
    if not batch:
        finished(True)
        return
    open_count, good = len(batch), True

    def answered(answer: Any) -> None:
        nonlocal open_count, good
        open_count -= 1
        good = good and not isinstance(answer, ApiError)
        if open_count:
            return
        if good:
            _batches(requests, first + len(batch), size * growth, growth, finished)
        else:
            finished(False)

    for request in batch:
        request(answered)
