"""What the reference operator decided on a real cluster is what today's core decides."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin_operator.replay import check_plans

RECORDINGS = Path(__file__).parents[2] / "scenarios" / "recordings"
FILES = sorted(RECORDINGS.glob("op-*/*/pods/*/plans.jsonl.gz"))
SCENARIOS = sorted(path.stem for path in (RECORDINGS.parent / "operator").glob("*.yaml"))


@pytest.mark.conformance
@pytest.mark.parametrize("path", FILES, ids=lambda path: "/".join(path.parts[-5:-1]))
def test_recorded_passes_give_the_recorded_plans(path: Path) -> None:
    """Every observation of a run on a cluster, with the memory and time of its pass."""
    ((_, found),) = check_plans([path])
    assert found.difference is None
    assert found.passes > 10


def test_every_scenario_of_the_operator_is_recorded_three_times() -> None:
    """The parametrized test above is no empty one."""
    made = {name: sum(path.parts[-5] == name for path in FILES) for name in SCENARIOS}
    assert len(made) >= 9
    assert {name: count for name, count in made.items() if count < 3} == {}
