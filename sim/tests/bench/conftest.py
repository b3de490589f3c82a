"""Figures of the benchmarks, printed together at the end: pytest-benchmark's own table has no room for them."""

from __future__ import annotations

import pytest

_FIGURES: dict[str, dict[str, float]] = {}


@pytest.fixture
def figures(request: pytest.FixtureRequest) -> dict[str, float]:
    """Named figures of one benchmark, printed when all have run."""
    return _FIGURES.setdefault(request.node.name, {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line per benchmark."""
    if any(_FIGURES.values()):
        terminalreporter.section("figures")
        for name, values in _FIGURES.items():
            terminalreporter.line(f"{name}: " + ", ".join(f"{what} {value:,.10g}" for what, value in values.items()))
