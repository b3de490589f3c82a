"""What a request takes that waited for a stopped API server: from its spans and the signals."""

from __future__ import annotations

import pytest

from slurmtwin_e2e.kind.burst_requests import behind_signals, summary
from slurmtwin_e2e.kind.faults.services import at_all_times, in_bursts

SIGNALS_S = [10.0, 12.1, 14.2]


def test_a_request_that_waited_counts_from_the_signal_that_let_the_server_go_on() -> None:
    """Not one that was served within a burst, nor one whose server was stopped before its answer and again."""
    spans = [(8.5, 10.02), (10.03, 10.04), (10.5, 12.15), (12.12, 12.16), (12.5, 12.9)]
    assert behind_signals(spans, SIGNALS_S) == pytest.approx([20, 50])
    told = summary([(1.0, 1.01), (2.0, 2.012)], spans, SIGNALS_S)
    assert told["waited"] == 2
    assert told["usual_ms"][0] == pytest.approx(11, abs=0.1)
    assert told["waited_ms"][0] == pytest.approx(35, abs=0.1)
    assert told["cycle_ms"][0] == pytest.approx(2100, abs=0.1)


def test_before_the_first_signal_nothing_is_known() -> None:
    """A request of before, and no signal at all."""
    assert behind_signals([(1.0, 2.0)], SIGNALS_S) == []
    assert summary([], [], [])["waited_ms"] == (None, None)


def test_the_server_is_stopped_and_goes_on_until_the_flag_is_gone() -> None:
    """The shell's own words."""
    assert "kill -STOP 7; do sleep 2.0; kill -CONT 7; echo $EPOCHREALTIME" in in_bursts("7", 2.0)
    assert at_all_times("7", 2.0).endswith("kill -CONT 7")
