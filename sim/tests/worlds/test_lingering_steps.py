"""A slurmstepd that TERMINATE still finds: slurmd reports by message, and slurmctld looks at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event, Kind
from slurmtwin.contract.scenario import load_scenario
from slurmtwin.worlds import pod_durations
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
    monkeypatch.setattr(pod_durations, "STEPD_LINGERS", share)
    ended = [row.t_ns for row in rows_of(ARRAY) if row.kind == Kind.JOB_ENDED]
    assert len(ended) == 160
    took_s = (max(ended) - min(ended)) / SECOND
    assert (took_s < 20) == at_once


def test_a_run_that_is_alone_on_its_node_never_lingers(monkeypatch: pytest.MonkeyPatch) -> None:
    """None of 103 ends of single jobs was told by message."""
    monkeypatch.setattr(pod_durations, "STEPD_LINGERS", (100, 100))
    always = rows_of(ALONE)
    monkeypatch.setattr(pod_durations, "STEPD_LINGERS", (0, 100))
    assert always == rows_of(ALONE)
