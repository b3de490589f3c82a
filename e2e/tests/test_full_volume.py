"""What trials of a full volume are counted as."""

from __future__ import annotations

from slurmtwin_e2e.kind.full_volume import Filled, summary


def test_those_that_found_room_and_those_that_outlived_their_job_are_counted() -> None:
    """A trial whose slurmd found no room, or whose job did not come, says nothing of the job's start."""
    trials = [Filled(11.2, True, True), Filled(9.0, True, False), Filled(4.0, False, None), Filled(12.0, True, None)]
    found = summary(trials)
    assert (found["trials"], found["serves"], found["jobs"], found["outlives_job"]) == (4, 3, 2, 1)
    assert found["each"][0] == {"room_mib": 11.2, "serves": True, "outlives_job": True}


def test_no_trial_counts_nothing() -> None:
    """An empty measurement is no error."""
    assert summary([]) == {"trials": 0, "serves": 0, "jobs": 0, "outlives_job": 0, "each": []}
