"""When a killed container is called ended, from a kubelet's log."""

from __future__ import annotations

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin_e2e.kind.exit_delay import Delay, delays, summary

NOON_S = 1_795_305_600 - 43_200
HEAD = "node kubelet[1]: I1122"


def line(at_ms: int, said: str) -> str:
    """A line of the journal and of klog, so many ms behind noon."""
    micros = at_ms * 1000
    return (
        f"{NOON_S + micros // 1_000_000}.{micros % 1_000_000:06d} {HEAD} "
        f"12:00:{micros // 1_000_000:02d}.{micros % 1_000_000:06d}       1 generic.go:1] {said}"
    )


def look(at_ms: int) -> str:
    """A relist."""
    return line(at_ms, '"GenericPLEG: Relisting"')


def finished(at_ms: int, uid: str) -> str:
    """What a relist says of an end that it saw."""
    return line(at_ms, f'"Generic (PLEG): container finished" podID="{uid}" containerID="ab" exitCode=137')


def test_a_delay_lies_between_the_look_that_missed_the_end_and_the_one_that_saw_it() -> None:
    """The first container is missed 100 ms after its kill, the second seen 300 ms after; others are not asked about."""
    log = "\n".join([look(1000), look(2000), look(3000), finished(3010, "a"), finished(3011, "b"), finished(3012, "c")])
    kills = {uid: (NOON_S * SECOND + (at - 1) * MS, NOON_S * SECOND + (at + 1) * MS) for uid, at in KILLED.items()}
    found = list(delays(log, "node", kills))
    assert found == [Delay(100 * MS, 1100 * MS, MS), Delay(0, 300 * MS, MS)]
    told = summary(found)
    assert (told["containers"], told["latest_missed_ms"], told["earliest_saw_ms"]) == (2, 100.0, 300.0)
    assert {row["above_ms"]: (row["missed"], row["saw"]) for row in told["looks"] if row["missed"] or row["saw"]} == {
        50: (1, 0), 250: (0, 1),
    }  # fmt: skip


KILLED = {"a": 1900, "b": 2700}
