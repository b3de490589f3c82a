"""Errors that were told are freed by their reference count: no ring of names waits for the collector."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.engine.environment import Environment, RunBudget
from slurmtwin.models.api_server.client import Client
from slurmtwin.models.api_server.errors import ApiError
from slurmtwin.models.api_server.objects import Pod
from slurmtwin.models.api_server.server import ApiServer


@pytest.fixture(autouse=True)
def _no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.parametrize("serves", [True, False])
def test_an_error_that_was_told_is_gone(serves: bool) -> None:
    """A request that finds nothing, or no server: its error does not hold the frames that it came through."""
    env = Environment()
    server = ApiServer(env)
    if not serves:
        server.stop()
    told: list[Any] = []

    def done(answer: ApiError) -> None:
        told.append((type(answer), weakref.ref(answer)))

    Client(server, env, lambda: SECOND).get(Pod, "default/none", done)
    env.run_within(RunBudget())
    kind, left = told[0]
    assert issubclass(kind, ApiError)
    assert left() is None
