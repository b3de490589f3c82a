"""What the operator's tests share: a judge that knows neither core nor doubles, only rows."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from slurmtwin.contract.manifest import Manifest
from slurmtwin_operator.testing.kube import FakeKube
from slurmtwin_reports.checks.operator import OPERATOR_PROPERTIES
from slurmtwin_reports.history import history_of
from slurmtwin_reports.verdict import Outcome

Judge = Callable[[FakeKube], dict[str, str]]


def broken_properties(kube: FakeKube) -> dict[str, str]:
    """The properties that the run of these doubles broke, each with its first finding."""
    manifest = Manifest(world="twin", scenario="double", scenario_sha256="", seed=0)
    history = history_of(manifest, kube.events)
    verdicts = {name: check(history) for name, check in OPERATOR_PROPERTIES.items()}
    return {name: v.reason for name, v in verdicts.items() if v.outcome is Outcome.BROKEN}


@pytest.fixture
def judge() -> Judge:
    """The properties a run broke."""
    return broken_properties
