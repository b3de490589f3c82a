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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """With -v a table of planted mistakes: what each is, and what it turned red."""
    if terminalreporter.verbosity < 1:
        return
    found = [report.user_properties for report in terminalreporter.stats.get("passed", [])]
    rows = [dict(told) | {"red": "; ".join(str(v) for k, v in told if k == "red")} for told in found]
    rows = [row for row in rows if "mutation" in row]
    if rows:
        terminalreporter.section(f"{len(rows)} planted mistakes were caught")
        width = max(len(str(row["mutation"])) for row in rows)
        for row in rows:
            terminalreporter.write_line(f"{row['mutation']!s:{width}}  {row['red']}")
