"""Run against run: differences pair by job, folders by run, and a regression needs size and certainty."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.errors import ExitCode, InputError
from slurmtwin_reports.compare import Change, compare, compare_paths, find_runs, interval
from slurmtwin_reports.history import History
from slurmtwin_reports.testing import a_history, in_order, job_story, queue_run, write_run


def waiting(extra_s: float, jobs: int = 30) -> History:
    """Jobs that wait 100 s and a bit each, plus `extra_s`."""
    waits = {j: 100 + j % 7 + extra_s * (1 + j % 3) for j in range(1, jobs)}
    return a_history(in_order(*(job_story(j, j * 1000, j * 1000 + wait, j * 1000 + 900) for j, wait in waits.items())))


def metric(changes: tuple[Change, ...], name: str) -> Change:
    return next(c for c in changes if c.metric == name)


def test_a_run_against_itself_has_no_difference() -> None:
    """All differences are zero, and equal hashes are said."""
    a, b = (queue_run(50, results={"event_hash": "ab"}) for _ in range(2))
    found = compare([a], [b])
    assert found.identical
    assert {c.difference for c in found.changes} == {0.0}
    assert found.exit_code(0.0) is ExitCode.FINE


def test_longer_waits_are_a_regression() -> None:
    """Waits 10 to 30 s longer on 103 s: about a fifth worse, surely, and past 5 %."""
    found = compare([waiting(0)], [waiting(10)])
    change = metric(found.changes, "mean_wait_s")
    assert change.difference == pytest.approx(20, abs=1)
    assert change.low is not None
    assert change.high is not None
    assert 10 <= change.low <= change.difference <= change.high <= 30
    assert found.exit_code(0.05) is ExitCode.FINDING
    assert found.exit_code(0.5) is ExitCode.FINE


def test_shorter_waits_are_no_regression() -> None:
    """Better is never a finding, whatever the allowance."""
    found = compare([waiting(10)], [waiting(0)])
    assert "mean_wait_s" not in [c.metric for c in found.regressions(0.0)]


def test_a_drop_of_utilisation_is_a_regression() -> None:
    """For utilisation and goodput less is worse."""
    change = Change(metric="utilisation", a=0.9, b=0.6, low=None, high=None, pairs=1)
    assert change.regressed(0.05)
    assert not Change(metric="utilisation", a=0.6, b=0.9, low=None, high=None, pairs=1).regressed(0.0)


def test_an_interval_that_holds_zero_is_no_regression() -> None:
    """A mean that is worse by chance alone is not enough."""
    assert not Change(metric="mean_wait_s", a=100, b=120, low=-10, high=50, pairs=5).regressed(0.05)


def test_folders_pair_by_scenario_seed_and_replication(tmp_path: Path) -> None:
    """Three replications each: three pairs, an interval over runs, the odd one named."""
    for i in range(3):
        write_run(tmp_path / "a" / f"r{i}", queue_run(60, seed=i, replication=i))
        write_run(tmp_path / "b" / f"r{i}", queue_run(60, seed=i, noise_s=30, noise_seed=i, replication=i))
    write_run(tmp_path / "b" / "r9", queue_run(60, seed=9, replication=9))
    found = compare_paths(tmp_path / "a", tmp_path / "b")
    assert found.paired == 3
    assert found.unpaired == ("tiny 1 9",)
    assert metric(found.changes, "mean_wait_s").pairs == 3


def test_nothing_in_common_is_an_input_error() -> None:
    """Two runs of different workloads cannot be compared."""
    with pytest.raises(InputError, match="no job in common"):
        compare([a_history(in_order(job_story(1, 0, 1, 2)))], [a_history(in_order(job_story(2, 0, 1, 2)))])


def test_a_folder_without_runs_is_an_input_error(tmp_path: Path) -> None:
    """A path that holds no run is said, with the path."""
    with pytest.raises(InputError, match="no run folder here"):
        find_runs(tmp_path)


def test_intervals_are_repeatable_and_cover_the_mean() -> None:
    """The bootstrap draws from a fixed stream."""
    values = [float(i % 13) for i in range(100)]
    low, high = interval(values)
    assert (low, high) == interval(values)
    assert low is not None
    assert high is not None
    assert low < sum(values) / 100 < high


@pytest.mark.parametrize(
    ("values", "bounds"), [([], (None, None)), ([4.0], (None, None)), ([2.0, 2.0, 2.0], (2.0, 2.0))]
)
def test_intervals_of_little_data(values: list[float], bounds: tuple[float | None, float | None]) -> None:
    """No interval from one value; equal values leave no doubt."""
    assert interval(values) == bounds


def test_many_pairs_use_the_normal_interval() -> None:
    """Above 2,000 values the interval is mean ± 1.96 standard errors."""
    values = [float(i % 10) for i in range(5000)]
    low, high = interval(values)
    assert low == pytest.approx(4.5 - 1.96 * 2.8726 / 5000**0.5, abs=1e-3)
    assert high == pytest.approx(4.5 + 1.96 * 2.8726 / 5000**0.5, abs=1e-3)
