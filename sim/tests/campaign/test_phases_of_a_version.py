"""A phase may be of some Slurm versions alone: before 25.11 nobody finds a slurmctld that stands still."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmtwin.campaign.fault_judging import find_fault_groups
from slurmtwin.contract.scenario import load_scenario

HANG = Path("scenarios/faults/x2-controller-hang.yaml")


def test_phases_are_taken_by_version() -> None:
    """22.05 has the claim that nothing is found, 26.05 the phases of what is."""
    expect = load_scenario(HANG).expect
    old, new = ({phase.name for phase in expect.of_version(version).phases} for version in ("22.05", "26.05"))
    assert old == {"undetected", "job-lost"}
    assert new == {"detection", "grace", "restart", "job-lost"}


def test_a_scenario_of_another_version_has_its_phases_alone() -> None:
    """Everything else stays; a version that nobody knows is refused."""
    here = load_scenario(HANG)
    old = here.of_version("22.05")
    assert (old.slurm.version, len(old.expect.phases)) == ("22.05", 2)
    assert old.model_copy(update={"slurm": here.slurm, "expect": here.expect}) == here
    with pytest.raises(ValueError, match="Input should be"):
        here.of_version("21.08")


def test_recordings_are_judged_by_the_phases_of_their_version() -> None:
    """Of one file, two groups."""
    names = {group.version: len(group.scenario.expect.phases) for group in find_fault_groups([HANG])}
    assert names == {"22.05": 2, "26.05": 4}
