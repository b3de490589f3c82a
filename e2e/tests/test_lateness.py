"""A run on a busy host is not kept, and the bound says so in figures."""

from __future__ import annotations

import pytest

from slurmtwin_e2e.lateness import MAX_LIMIT_MS, P99_LIMIT_MS, Lateness, lateness_of


@pytest.mark.parametrize(
    ("p99", "maximum", "word"),
    [(P99_LIMIT_MS, MAX_LIMIT_MS, ""), (P99_LIMIT_MS + 1, 0, "p99"), (1, MAX_LIMIT_MS + 1, "maximum")],
)
def test_both_bounds_are_judged(p99: float, maximum: float, word: str) -> None:
    """At the bound a run is kept, beyond it the broken bound is named."""
    excess = Lateness(0, p99, maximum).excess
    assert excess.startswith(word)
    assert bool(excess) == bool(word)


def test_a_run_that_ended_early_has_no_lateness() -> None:
    """Then it is not complete either, which is judged elsewhere."""
    assert lateness_of([{"what": "zero", "zero": 1}]) is None


def test_the_note_is_in_nanoseconds_and_the_manifest_in_milliseconds() -> None:
    """Rounded to a tenth."""
    note = {"what": "lateness", "median_ns": 2_130_000, "p99_ns": 68_000_000, "max_ns": 372_392_440}
    late = lateness_of([note])
    assert late is not None
    assert late.to_dict() == {"late_median_ms": 2.1, "late_p99_ms": 68.0, "late_max_ms": 372.4}
