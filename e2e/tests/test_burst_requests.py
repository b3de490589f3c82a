"""What a request takes that waited for a stopped API server: from its spans and the signals."""

from __future__ import annotations

import pytest

from slurmtwin_e2e.kind.burst_requests import Measured, behind_signals, in_one_burst, summary
from slurmtwin_e2e.kind.faults.services import SIGNALS, at_all_times, in_bursts, signals

SIGNALS_S = [10.0, 12.104, 14.21]


def test_a_request_that_waited_counts_from_the_signal_that_let_the_server_go_on() -> None:
    """Not one that was served within a burst, nor one whose server was stopped before its answer and again."""
    spans = [(8.5, 10.02), (10.03, 10.04), (10.5, 12.154), (12.12, 12.16), (12.5, 12.9)]
    assert behind_signals(spans, SIGNALS_S) == pytest.approx([20, 50])


def test_what_follows_in_the_same_burst_tells_how_much_slower_the_server_is() -> None:
    """Not one that is answered behind the burst, nor one that was asked before it."""
    spans = [(10.01, 10.03), (10.09, 10.11), (9.99, 10.02), (12.15, 12.154)]
    assert in_one_burst(spans, SIGNALS_S) == pytest.approx([20, 4])


def test_waking_is_what_each_kind_takes_beyond_its_slower_self() -> None:
    """A read of 4 ms takes 8 in a burst, a patch of 11 takes 22: those that waited began 6 and 9 ms behind a signal."""
    quick = {"read": [(1.0, 1.004)], "patch": [(1.0, 1.01), (2.0, 2.012)]}
    behind = {"read": [(10.02, 10.028)], "patch": [(12.14, 12.162)]}
    told = summary(Measured(quick, {"read": [(9.0, 10.014)], "patch": [(11.0, 12.135)]}, behind, SIGNALS_S))
    assert told["kinds"]["patch"] == {
        "usual_ms": (11.0, 0.129), "waited": 1, "waited_ms": (31.0, None), "behind": 1, "slower": 2.0,
    }  # fmt: skip
    assert told["slower"] == 2.0
    assert told["each_wake_ms"] == [6.0, 9.0]
    assert told["each_cycle_ms"] == [4.0, 6.0]


def test_before_the_first_signal_nothing_is_known() -> None:
    """A request of before, and no signal at all."""
    assert behind_signals([(1.0, 2.0)], SIGNALS_S) == []
    assert summary(Measured())["wake_ms"] == (None, None)


def test_the_server_is_stopped_and_goes_on_until_the_flag_is_gone() -> None:
    """The shell's own words."""
    command = in_bursts("7", 2.0)
    assert "kill -STOP 7; do echo STOP $EPOCHREALTIME; sleep 2.0; kill -CONT 7; echo CONT $EPOCHREALTIME" in command
    assert command.endswith(f"> {SIGNALS} 2>&1 &")
    assert at_all_times("7", 2.0).endswith("kill -CONT 7")


def test_signals_are_read_as_the_shell_tells_them() -> None:
    """Unix time in microseconds; what is no signal is passed over."""
    told = "STOP 1800000000.000001\nCONT 1800000002.001500\nbash: kill: (7) - No such process\n"
    assert signals(told) == [("STOP", 1_800_000_000_000_001_000), ("CONT", 1_800_000_002_001_500_000)]
