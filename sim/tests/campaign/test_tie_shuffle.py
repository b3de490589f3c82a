"""Events of one instant in another order flip no verdict of a fault scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from slurmtwin.campaign.fault_judging import FaultGroup, FaultOptions, find_fault_groups, judge_faults
from slurmtwin.campaign.replications import Replication, World, run_twin
from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Event
from slurmtwin.worlds.twin import TwinOptions, run_scenario

pytestmark = pytest.mark.once
FAULTS = Path("scenarios/faults")
FEW = 12
"""Three repetitions of each still reject: p can be as small as 13 ** -3."""
RECORDINGS = 6
NAMES = (
    "x1-controller-crash", "x3-controller-host-statefulset", "x33-slinky", "x64-worker-host-lost", "x9-takeover",
)  # fmt: skip


def shuffled(one: Replication) -> Sequence[Event]:
    """The replication with simultaneous events in an order drawn anew."""
    options = TwinOptions(
        seed=one.seed, replication=one.number, keep=True, times=one.times, durations=one.durations, scaled=one.scaled,
        tie_seed=one.number + 1,
    )  # fmt: skip
    return run_scenario(one.scenario, one.base_dir, options, one.jobs).kept or []


def slower(one: Replication) -> Sequence[Event]:
    """A planted mistake: what follows the injection comes 5 s later."""
    rows = run_twin(one)
    late = min(row.t_ns for row in rows if row.kind == "fault.injected")
    return [row._replace(t_ns=row.t_ns + 5 * SECOND) if row.t_ns > late else row for row in rows]


def findings(group: FaultGroup, world: World) -> set[str]:
    """Phases that differ and claims that are broken."""
    how = FaultOptions(workers=1, replications=FEW, changed=0, world=world)
    return {v.subject for v in judge_faults([group], how)[0].verdicts if v.outcome in ("differ", "broken")}


def group_of(name: str) -> FaultGroup:
    """Some recordings of one scenario: each has a start of its own, and all draw the same."""
    group = find_fault_groups([FAULTS / f"{name}.yaml"])[0]
    return replace(group, folders=group.folders[:RECORDINGS])


@pytest.mark.parametrize("name", NAMES)
def test_a_shuffle_of_simultaneous_events_flips_no_verdict(name: str) -> None:
    """The same findings, whichever of two events of one instant comes first."""
    group = group_of(name)
    assert findings(group, shuffled) == findings(group, run_twin)


def test_another_time_does_flip_one() -> None:
    """Else the test above could not fail."""
    group = group_of("x64-worker-host-lost")
    assert findings(group, slower) - findings(group, run_twin)
