"""What stops of a container under supervisord are counted as."""

from __future__ import annotations

from slurmtwin_e2e.kind.supervised_stop import summary


def test_a_stop_longer_than_a_round_took_two() -> None:
    """SIGTERM is heard within a second; one end of four came a round behind that."""
    assert summary([0.9, 1.03, 1.2, 0.1]) == {
        "stops": 4, "two_rounds": 1, "median_s": 0.965, "each_s": [0.1, 0.9, 1.03, 1.2],
    }  # fmt: skip


def test_no_stop_says_nothing() -> None:
    """An empty measurement is no error."""
    assert summary([]) == {"stops": 0, "two_rounds": 0, "median_s": None, "each_s": []}
