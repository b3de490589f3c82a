"""What trials of a full volume say."""

from __future__ import annotations

from slurmtwin_e2e.kind.full_volume import summary


def test_what_was_written_late_is_what_is_missing_from_the_most_room() -> None:
    """Processes that are gone leave the same room each time; a job that writes on leaves less."""
    found = summary([7.85, 6.2, 7.8, 3.33, 7.49])
    assert found["most_room_mib"] == 7.85
    assert found["late_mib"] == [0.0, 0.05, 0.36, 1.65, 4.52]
    assert found["median_mib"] == 0.36


def test_no_trial_says_nothing() -> None:
    """An empty measurement is no error."""
    assert summary([]) == {"trials": 0, "most_room_mib": 0.0, "late_mib": [], "median_mib": None}
