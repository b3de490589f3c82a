"""When a killed container is called ended, from a kubelet's log."""

from __future__ import annotations

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin_e2e.kind.exit_delay import Delay, Restart, began_ns, delays, restart_summary, restarts, summary

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


def synced(at_ms: int, pod: str, what: str = "enter") -> str:
    """A pod's sync begins, or ends."""
    return line(at_ms, f'"SyncPod {what}" pod="s/{pod}" podUID="{pod}"')


def test_a_restart_is_counted_from_the_sync_behind_the_look_that_saw_the_end() -> None:
    """Syncs before that look and later ones are of other news; a pod that was not killed is not asked about."""
    log = [look(1000), synced(1002, "a"), look(2000), finished(2004, "a"), finished(2004, "c"), synced(2007, "b")]
    log += [synced(2010, "a"), synced(2011, "c"), synced(2250, "a", "exit"), look(3000), synced(3004, "a")]
    wrote = began_ns(f"2026-11-22T12:00:02.2Z stdout F {NOON_S + 2}.190000")
    found = list(restarts("\n".join(log), "node", {"a": ("s/a", wrote)}))
    assert found == [Restart(10 * MS, 180 * MS)]
    told = restart_summary([*found, Restart(5 * MS, 220 * MS)])
    assert (told["restarts"], told["median_ms"], told["sigma"]) == (2, 200.0, 0.142)


def test_a_restart_takes_its_own_sync_alone() -> None:
    """SyncPod exit and the sync behind the next look are none of a restart."""
    log = [look(1000), finished(1004, "a"), synced(1006, "a", "exit"), synced(1008, "a"), synced(2008, "a")]
    [found] = restarts("\n".join(log), "node", {"a": ("s/a", NOON_S * SECOND + 1100 * MS)})
    assert found == Restart(8 * MS, 92 * MS)


def test_a_sync_behind_the_new_process_is_not_the_one_that_made_it() -> None:
    """The line of the right sync is missing in 3 of 60: no restart takes less than nothing."""
    log = [look(1000), finished(1004, "a"), synced(2008, "a")]
    assert not list(restarts("\n".join(log), "node", {"a": ("s/a", NOON_S * SECOND + 1100 * MS)}))


KILLED = {"a": 1900, "b": 2700}
