"""What supervisord's restarts of a killed daemon are counted as."""

from __future__ import annotations

from slurmtwin_e2e.kind.supervised_restart import spans, summary


def test_rounds_and_what_lies_beyond_them() -> None:
    """Of four kills one was answered two rounds later; beyond whole rounds the four took 20, 40, 40 and 50 ms."""
    text = "100.000000 101.020\n200.500000 201.540\n300.000000 302.040\n400.000000 401.050\n"
    found = summary(list(spans(text)))
    assert found["restarts"] == 4
    assert found["two_rounds"] == 1
    assert found["beyond_ms"] == 40.0
    assert found["each_s"] == [1.02, 1.04, 2.04, 1.05]


def test_without_a_restart_nothing_is_told() -> None:
    """No median of nothing."""
    assert summary([]) == {"restarts": 0, "two_rounds": 0, "beyond_ms": None, "sigma": None, "each_s": []}
