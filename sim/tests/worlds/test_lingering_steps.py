"""Short tasks that begin and end together: launches share the host, and a slurmstepd that TERMINATE still finds makes
slurmd report by message, so slurmctld looks at once.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.clock import MS, SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds import pod_durations
from slurmtwin.worlds.pod_durations import still_durations
from slurmtwin.worlds.start_times import StartTimes
from slurmtwin.worlds.twin import TwinOptions, run_scenario

ARRAY = Path("scenarios/faults/quiet-array.yaml")
ALONE = Path("scenarios/faults/quiet-pods.yaml")


def rows_of(path: Path) -> list[Event]:
    """The twin's rows of a scenario."""
    return list(run_scenario(load_scenario(path), path.parent, TwinOptions(seed=0, keep=True)).kept or [])


@pytest.mark.parametrize(("share", "at_once"), [((0, 100), False), ((100, 100), True)])
def test_ends_that_linger_bring_a_pass_at_once(
    monkeypatch: pytest.MonkeyPatch, share: tuple[int, int], at_once: bool
) -> None:
    """Eight tasks that end at once fill the workers again as each is told, else in steps of batch_sched_delay."""
    monkeypatch.setitem(pod_durations.SHARES, "stepd.lingers", share)
    ended = [row.t_ns for row in rows_of(ARRAY) if row.kind == Kind.JOB_ENDED]
    assert len(ended) == 160
    took_s = (max(ended) - min(ended)) / SECOND
    assert (took_s < 20) == at_once


def test_a_run_that_is_alone_on_its_node_never_lingers(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of 103 ends of single jobs was told by message."""
    monkeypatch.setitem(pod_durations.SHARES, "stepd.lingers", (100, 100))
    always = rows_of(ALONE)
    monkeypatch.setitem(pod_durations.SHARES, "stepd.lingers", (0, 100))
    assert always == rows_of(ALONE)


def launches(durations: dict[str, tuple[int, ...]], recorded: bool) -> list[int]:
    """Of the first eight tasks of quiet-array: ms until their scripts run, in order."""
    times = StartTimes(submit_ns={1: SECOND}) if recorded else StartTimes()
    options = TwinOptions(seed=0, keep=True, durations=durations, times=times)
    rows = list(run_scenario(load_scenario(ARRAY), ARRAY.parent, options).kept or [])
    began = [row.t_ns for row in rows if row.kind == Kind.JOB_STARTED][:8]
    ran = [row.t_ns for row in rows if row.kind == Kind.SCRIPT_STARTED][:8]
    assert max(began) - min(began) < 20 * MS
    return [(at - began[0]) // MS for at in ran]


def test_launches_that_begin_together_share_the_recorded_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight at 12 ms: half of the work is shared, half is done in turn, so the first takes 60 ms, the last 144."""
    monkeypatch.setitem(pod_durations.SHARES, "stepd.lingers", (0, 100))
    held = still_durations() | {"script-launch": (30 * MS,), "launch-among": (12 * MS,)}
    assert launches(held, recorded=True) == pytest.approx([60 + 12 * place for place in range(8)], abs=3)
    assert launches(held, recorded=False) == pytest.approx([30] * 8, abs=6), "nodes may be machines of their own"
    without = {name: values for name, values in held.items() if name != "launch-among"}
    assert launches(without, recorded=True) == pytest.approx([30] * 8, abs=6)


@pytest.mark.parametrize(("share", "again"), [((0, 100), True), ((100, 100), False)])
def test_an_order_to_a_new_pod_goes_to_the_old_address_as_often_as_counted(
    monkeypatch: pytest.MonkeyPatch, share: tuple[int, int], again: bool
) -> None:
    """x46-pod-force-deleted: a job whose remains are at the new pod starts behind its hold, else not within the run."""
    monkeypatch.setitem(pod_durations.SHARES, "slurmctld.orders_first", share)
    rows = rows_of(Path("scenarios/faults/x46-pod-force-deleted.yaml"))
    [requeued] = [row.t_ns for row in rows if row.kind == Kind.JOB_REQUEUED]
    assert any(row.kind == Kind.JOB_STARTED and row.t_ns > requeued for row in rows) == again
