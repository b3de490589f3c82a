"""Known differences: listed ones are accepted up to their size, unlisted and stale ones are findings."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.errors import ExitCode, InputError
from slurmtwin_reports.known_differences import KnownDifference, apply_known, load_known_differences, parse_size
from slurmtwin_reports.verdict import Outcome, Verdict, exit_code

HEAD = "schema: slurmtwin/known-differences/1\n"
ENTRY = """differences:
  - scenario: mixed
    version: "22.05"
    phase: start error, p95
    size: 45s
    cause: host costs at factor 20
"""


def verdict(outcome: Outcome = Outcome.DIFFER, size: float = 40.0, **more: str) -> Verdict:
    values = {"scenario": "mixed", "version": "22.05", "subject": "start error, p95", "reason": "r", **more}
    return Verdict(**values, outcome=outcome, size=size, unit="s", bar=30.0)


def listed(**more: str) -> list[KnownDifference]:
    return [KnownDifference(scenario="mixed", phase="start error, p95", size=45.0, cause="host costs", **more)]


def test_the_file_is_read_with_its_places(tmp_path: Path) -> None:
    """Each entry knows its line, so that a stale one can be found."""
    path = tmp_path / "known-differences.yaml"
    path.write_text(HEAD + ENTRY, encoding="utf-8")
    (entry,) = load_known_differences(path)
    assert (entry.scenario, entry.version, entry.phase, entry.size) == ("mixed", "22.05", "start error, p95", 45.0)
    assert str(entry.where).endswith("known-differences.yaml:3")


def test_no_file_means_nothing_is_known(tmp_path: Path) -> None:
    """A project without the file accepts no difference."""
    assert load_known_differences(tmp_path / "none.yaml") == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("differences: []\n", "not a file of known differences"),
        (HEAD + "differences: 3\n", "is a list"),
        (HEAD + "others: []\n", ":2: unknown key others"),
        (HEAD + ENTRY.replace("cause:", "because:"), ":3: unknown key because"),
        (HEAD + ENTRY.replace("    size: 45s\n", ""), ":3: size is missing"),
        (HEAD + ENTRY.replace("45s", "much"), ":3: not a size: 'much'"),
        (HEAD + "differences:\n  - mixed\n", ":3: an entry is a mapping"),
    ],
)
def test_a_wrong_file_is_named_with_its_line(tmp_path: Path, text: str, what: str) -> None:
    """Each mistake in the file is an InputError with file:line."""
    path = tmp_path / "known-differences.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=what):
        load_known_differences(path)


@pytest.mark.parametrize(("text", "size"), [("45s", 45.0), ("1m30s", 90.0), ("7 %", 0.07), ("3", 3.0), ("0.5", 0.5)])
def test_sizes_are_times_shares_or_counts(text: str, size: float) -> None:
    """A size has the unit of its verdict."""
    assert parse_size(text) == pytest.approx(size)


def test_a_listed_difference_is_accepted() -> None:
    """The check passes, and the verdict carries the cause."""
    (found,), stale = apply_known([verdict()], listed())
    assert found.known == "host costs"
    assert not stale
    assert exit_code([found]) is ExitCode.FINE


def test_a_difference_larger_than_listed_is_a_finding() -> None:
    """50 s where 45 s are known is new."""
    (found,), stale = apply_known([verdict(size=50.0)], listed())
    assert found.is_finding
    assert "larger than the known difference" in found.reason
    assert not stale


@pytest.mark.parametrize("other", [{"subject": "node sets"}, {"scenario": "wide"}, {"version": "26.05"}])
def test_an_unlisted_difference_is_a_finding(other: dict[str, str]) -> None:
    """Another phase, scenario or version is not covered."""
    (found,), stale = apply_known([verdict(**other)], listed(version="22.05"), complete=False)
    assert found.is_finding
    assert exit_code([found]) is ExitCode.FINDING
    assert not stale


def test_an_entry_for_a_difference_that_is_gone_is_stale() -> None:
    """The phase agrees now: the entry must go, and until then the check fails."""
    found, stale = apply_known([verdict(Outcome.AGREE, 0.5)], listed())
    assert "the difference is gone" in stale[0].reason
    assert exit_code([*found, *stale]) is ExitCode.FINDING


def test_an_entry_nobody_needs_is_stale_only_when_all_was_checked() -> None:
    """A partial check says nothing about scenarios it did not run."""
    assert apply_known([], listed(), complete=False)[1] == []
    assert "no verdict is about it" in apply_known([], listed(), complete=True)[1][0].reason


def test_no_entry_is_stale_by_a_part_of_the_recordings() -> None:
    """Fresh runs that do not show a difference say nothing of the older ones that it was listed for."""
    assert apply_known([verdict(Outcome.AGREE, 0.5)], listed(), ages=False)[1] == []
    assert apply_known([], listed(), complete=True, ages=False)[1] == []


def test_unknown_can_be_accepted_and_else_gives_exit_3() -> None:
    """What could not be judged is neither good nor a finding."""
    unknown = verdict(Outcome.UNKNOWN, 0.0)
    assert exit_code([unknown]) is ExitCode.UNKNOWN
    assert exit_code(apply_known([unknown], listed())[0]) is ExitCode.FINE
