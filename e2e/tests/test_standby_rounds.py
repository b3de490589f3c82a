"""What a standby's rounds are counted as."""

from __future__ import annotations

import pytest

from slurmtwin_e2e.kind.daemon_log import said_s
from slurmtwin_e2e.kind.standby_rounds import STANDS_BY, TAKES_OVER, Takeover, summary

LOG = f"""\
[2026-11-23T17:00:38.421] slurmctld version 26.05.5 started on cluster twin(0)
[2026-11-23T17:00:38.500] slurmctld {STANDS_BY}
slurmscriptd: {TAKES_OVER}
[2026-11-23T17:00:58.510] error: ControlMachine slurmctld-0 not responding, BackupController1 slurmctld-1 {TAKES_OVER}
[2026-11-23T17:01:58.510] error: ControlMachine slurmctld-0 not responding, BackupController1 slurmctld-1 {TAKES_OVER}
"""


def test_a_log_tells_when_it_stood_by_and_took_over() -> None:
    """By the first line with these words and a stamp."""
    stood_by_s, took_over_s = said_s(LOG, STANDS_BY), said_s(LOG, TAKES_OVER)
    assert stood_by_s is not None
    assert took_over_s is not None
    assert took_over_s - stood_by_s == pytest.approx(20.01)
    assert said_s(LOG, "power_save") is None


def test_what_lies_beyond_whole_seconds_is_of_all_rounds() -> None:
    """20 rounds and 10 ms, 40 and 20, 30 and 30: 0.5, 0.5 and 1 ms a round."""
    found = summary([Takeover(20.01, 0.004), Takeover(40.02, 0.006), Takeover(30.03, 0.005)])
    assert (found["takeovers"], found["round_ms"][0], found["ping_ms"]) == (3, 0.5, None)
    assert found["load_ms"][0] == 5.0
    assert summary([])["round_ms"] is None


def test_what_a_hung_primary_adds_is_of_all_pings() -> None:
    """Two pings of 10 s and 20 rounds of 1 ms leave 40 ms of 60; three and 30 rounds leave 60 of 90: 20 ms a ping."""
    found = summary([Takeover(40.06, 0.004, pings=2), Takeover(60.09, 0.004, pings=3)], round_ms=1.0)
    assert found["ping_ms"][0] == pytest.approx(20.0)
