"""All rooms' tests: what a test process has read to collect them, no collection of garbage walks again."""

from __future__ import annotations

import pytest

from slurmtwin.engine import garbage


def pytest_collection_finish(session: pytest.Session) -> None:  # noqa: ARG001  the hook's name for it
    """A tenth of the tests' time went into such walks, as each run in the twin sets its own heap apart."""
    garbage.set_apart()
