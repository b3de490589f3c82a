"""When the reference operator looks, as recorded (op-rolling-update): changes that come together make one pass."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds.twin import TwinOptions, run_scenario
from slurmtwin_reports.history import Row, rows_of_events

SCENARIO = Path("scenarios/operator/op-rolling-update.yaml")


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """One run of four workers that are replaced one by one."""
    run = run_scenario(load_scenario(SCENARIO), SCENARIO.parent, TwinOptions(keep=True))
    return list(rows_of_events(run.kept or []))


def test_after_a_resume_nothing_is_looked_at_until_the_poll(rows: list[Row]) -> None:
    """Startup and readiness are two writes within 0.1 s and one pass; Slurm's change wakes nobody (recorded: the next
    drain comes with the poll each 30 s, in 7 of 8 cases)."""
    acted = [row for row in rows if row.kind == "action.issued"]
    pairs = list(itertools.pairwise(acted))
    next_ns = [after.t_ns for before, after in pairs if before.details["do"] == "resume"]
    assert len(next_ns) == 4
    assert [round((t_ns - next_ns[0]) / SECOND) for t_ns in next_ns] == [0, 30, 60, 90]


def test_probes_tick_from_the_second_look_at_the_volumes_on(rows: list[Row]) -> None:
    """An operator's pod is ready 10.6 to 10.9 s after its creation (recorded 10.5 to 11.4), not 10.1."""
    made = {row.node: row.t_ns for row in rows if row.kind == "action.issued" and row.details["do"] == "create-pod"}
    ready = [(row.details["do"], row.node, row.t_ns) for row in rows if row.kind == "action.issued"]
    spans = [(t_ns - made[node]) / SECOND for do, node, t_ns in ready if do == "resume"]
    assert len(spans) == 4
    assert all(10.6 < span < 11.4 for span in spans)


def test_a_run_is_not_over_while_kubectl_drains() -> None:
    """Jobs are over at 41 s, the operator's poll takes the protection off up to 30 s later (recorded: 60, 44, 68 s)."""
    path = Path("scenarios/operator/op-kubectl-drain.yaml")
    for number in range(4):
        run = run_scenario(load_scenario(path), path.parent, TwinOptions(keep=True, replication=number))
        rows = rows_of_events(run.kept or [])
        assert sum(row.kind == "pod.deleting" and row.actor == "collector" for row in rows) >= 2
