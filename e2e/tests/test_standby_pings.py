"""What strace's lines of a standby's rounds say."""

from __future__ import annotations

from slurmtwin_e2e.kind.standby_pings import rounds_ms, summary, without_fault

LINE = "{:.6f} clock_nanosleep(CLOCK_REALTIME, 0, {{tv_sec=1, tv_nsec=0}}, 0x7ffc) = 0"


def test_a_round_is_what_lies_between_two_sleeps_beyond_a_second() -> None:
    """Other lines, and sleeps of another length, are no rounds."""
    lines = [
        "strace: Process 7 attached", LINE.format(10.0), LINE.format(11.0002),
        "11.5 clock_nanosleep(CLOCK_REALTIME, 0, {tv_sec=0, tv_nsec=5000}, NULL) = 0", LINE.format(12.0022),
    ]  # fmt: skip
    assert [round(ms, 3) for ms in rounds_ms("\n".join(lines))] == [0.2, 2.0]


def test_polls_are_those_ten_rounds_apart_that_take_most() -> None:
    """A single late round elsewhere is none; what a poll takes is beyond the median of the others."""
    rounds = [2.2 if place % 10 == 3 else 0.2 for place in range(40)]
    rounds[25] = 30.0
    found = summary(rounds)
    assert (found["rounds"], found["polls"], found["traced_round_ms"]) == (36, 4, 0.2)
    assert found["each_ms"] == [2.0, 2.0, 2.0, 2.0]
    assert found["ping_ms"] == 2.0


def test_no_round_says_nothing() -> None:
    """A standby that ended before anything was seen is no error."""
    assert summary([])["polls"] == 0


def test_nothing_fails_in_the_run_that_is_followed() -> None:
    """And its job outlasts what is measured."""
    scenario = without_fault(60)
    assert scenario.faults == []
    assert scenario.expect.phases == []
