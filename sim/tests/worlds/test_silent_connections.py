"""An operator whose connections fall silent: past its renewal deadline it has lost its lease, and begins anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.contract.clock import SECOND
from slurmtwin.contract.events import Kind
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.worlds.twin import TwinOptions, run_scenario

X24 = Path("scenarios/faults/x24-slinky.yaml")


def drained_after_s(lasts: str, seed: int) -> float:
    """Seconds from the scale-in, 8 s behind the begin of the silence, until slurmctld drains the worker."""
    document = load_scenario(X24).model_dump(mode="json", by_alias=True)
    document["faults"][0]["lasts"] = lasts
    run = run_scenario(Scenario.model_validate(document), X24.parent, TwinOptions(seed=seed, keep=True))
    rows = list(run.kept or [])
    scaled = [row.t_ns for row in rows if row.kind == Kind.FAULT_INJECTED][1]
    return (next(row.t_ns for row in rows if row.kind == Kind.NODE_DRAINED) - scaled) / SECOND


@pytest.mark.parametrize("seed", range(4))
def test_a_lease_is_lost_17_s_after_its_last_renewal(seed: int) -> None:
    """15 to 17 s into the silence; then a start of its container, and a whole lease of 15 s that nobody renews."""
    assert 15 - 8 + 15 < drained_after_s("30s", seed) < 17 - 8 + 15 + 10


@pytest.mark.parametrize("seed", range(4))
def test_a_short_silence_costs_no_lease(seed: int) -> None:
    """10 s: the next renewal is answered in time, and the change is seen as the watch goes on, 2 s behind it."""
    assert 2 < drained_after_s("10s", seed) < 8
