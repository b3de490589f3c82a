"""What a silent node's DOWN behind its requeue is counted as."""

from __future__ import annotations

from slurmtwin_e2e.kind.silent_node import summary


def test_stamps_that_are_cut_to_whole_milliseconds_may_say_nothing() -> None:
    """Of 0, 1, 1 and 9 ms the middle is 1, and 0 counts as half a millisecond: its logarithm is one."""
    found = summary([0.0, 0.001, 0.001, 0.009])
    assert (found["nodes"], found["behind_ms"], found["each_ms"]) == (4, 1.0, [0, 1, 1, 9])
    assert found["sigma"] == 1.257
    assert summary([]) == {"nodes": 0, "behind_ms": None, "sigma": None, "each_ms": []}
