"""Replications of the twin itself: what they depend on, and what they leave behind."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest

from slurmtwin.campaign.fault_judging import OWN_FROM, REPLICATIONS, find_fault_groups
from slurmtwin.campaign.kept_replications import KEPT, read_table
from slurmtwin.campaign.recordings import RECORDINGS
from slurmtwin.campaign.replications import (
    OWN,
    Batch,
    Variant,
    batches,
    design_text,
    own_seed,
    run_batch,
    run_twin,
)
from slurmtwin.contract.errors import UnsupportedError
from slurmtwin.contract.pods import PodsSection
from slurmtwin.contract.scenario import Scenario, load_scenario
from slurmtwin.engine import garbage
from slurmtwin.worlds import twin
from slurmtwin.worlds.twin import not_modelled, run_scenario


def test_the_twin_itself_answers_a_replication() -> None:
    """Two replications of a real recording have its milestones, and differ in nothing but their draws."""
    group = find_fault_groups([Path("scenarios/faults/x62-slurmd-crash-supervised.yaml")])[0]
    (batch,) = batches(group.path, group.folders[0], group.version, Variant(), 2)
    times = run_batch(batch)
    assert times.shape == (2, len(group.scenario.expect.phases), 2)
    assert (times[0] != times[1]).any()
    assert (run_batch(batch) == times).all()


@pytest.mark.parametrize("path", sorted(Path("scenarios/faults").glob("*.yaml")), ids=lambda path: path.stem)
def test_what_the_twin_says_it_models_runs(path: Path) -> None:
    """A check of all scenarios ends at none of them."""
    scenario = load_scenario(path)
    if not_modelled(scenario):
        with pytest.raises(UnsupportedError):
            run_scenario(scenario, path.parent)
    else:
        assert run_scenario(scenario, path.parent).event_count > 10


def test_kept_replications_depend_on_the_operators_design() -> None:
    """Two designs, two texts; without an operator there is none."""
    one = Scenario.model_validate({"schema": "slurmtwin/scenario/1", "name": "a", "slurm": {}})
    texts = [design_text(one.model_copy(update={"pods": PodsSection(operator=name)})) for name in ("slinky", "default")]
    assert texts[0] != texts[1]
    assert design_text(one) == design_text(one.model_copy(update={"pods": PodsSection()})) == ""


def test_noise_of_its_own_goes_by_the_recording_wherever_it_lies() -> None:
    """Scenario, version, world and number; and by the seed that is asked for."""

    def of(recording: str, seed: int = 0) -> int:
        return own_seed(Batch(scenario=Path("s"), recording=Path(recording), version="", seed=seed, world=run_twin))

    assert of("a/case/26.05/pods/1") == of("/b/c/case/26.05/pods/1")
    others = [of("a/case/26.05/pods/1", 1)]
    others += [of(f"a/{one}") for one in ("case/26.05/pods/2", "case/22.05/pods/1", "cases/26.05/pods/1")]
    assert len({of("a/case/26.05/pods/1"), *others}) == 5


@pytest.mark.parametrize("path", sorted(KEPT.glob("*.npz")), ids=lambda path: path.stem)
def test_kept_replications_with_noise_of_their_own_are_those_of_todays_twin(path: Path) -> None:
    """One of a recording of each table that has them; a plain check plays those of BASE anew, and none of these."""
    table = read_table(path)
    assert table is not None
    names = [key.rpartition("|")[2] for key in table.times if key.startswith(f"{OWN}|")]
    if not names:
        assert len(table.made_for) < OWN_FROM
        return
    scenario, _, version = path.stem.rpartition("-")
    recording = max(names, key=lambda name: table.made_for[name])
    number = int(table.made_for[recording][:8], 16) % REPLICATIONS
    folder = RECORDINGS / scenario / version / "pods" / recording
    (file,) = Path("scenarios").glob(f"*/{scenario}.yaml")
    one = Batch(
        scenario=file, recording=folder, version=version, variant=Variant(OWN), first=number, count=1, world=run_twin
    )
    assert (run_batch(one)[0] == table.times[f"{OWN}|1.0|{recording}"][number]).all()


def test_worlds_that_are_over_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A worker makes thousands of replications: what is left of them is bounded, not one world after the other."""
    group = find_fault_groups([Path("scenarios/faults/x1-controller-crash.yaml")])[0]
    gc.collect()
    monkeypatch.setattr(garbage, "ROWS_LEFT", 800)
    (batch,) = batches(group.path, group.folders[0], group.version, Variant(), 12)
    run_batch(batch)
    assert sum(isinstance(one, twin.TwinWorld) for one in gc.get_objects()) <= 4
