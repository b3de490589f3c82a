"""What a study file says, and what it is refused for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from slurmtwin.campaign.cases import cases, run_options, scenario_of
from slurmtwin.campaign.study_file import changed, load_study
from slurmtwin.contract.errors import InputError


def test_every_design_meets_every_level_with_every_seed(study_file: Path) -> None:
    """Eight cases, seeds last: more seeds append behind what is there."""
    loaded = load_study(study_file)
    found = list(cases(loaded))
    assert [(c.design, c.point, c.seed) for c in found[:4]] == [
        ("backfill", "burst=2", 1), ("builtin", "burst=2", 1), ("backfill", "burst=10", 1), ("builtin", "burst=10", 1),
    ]  # fmt: skip
    assert [c.index for c in found] == list(range(8))
    assert list(cases(loaded, 3))[:8] == found


def test_a_case_changes_its_places_and_nothing_else(study_file: Path) -> None:
    """The last case: builtin, bursts of ten."""
    loaded = load_study(study_file)
    scenario = scenario_of(loaded, list(cases(loaded))[3])
    assert scenario.slurm.conf["SchedulerType"] == "sched/builtin"
    assert scenario.workload.generate is not None
    assert scenario.workload.generate.burst_size == 10
    assert scenario.slurm.nodes == loaded.base.slurm.nodes


def test_a_key_says_what_is_run_and_not_where_the_file_lies(study_file: Path, tmp_path: Path) -> None:
    """Equal studies in two folders have equal keys; another scenario has others."""
    other = tmp_path / "elsewhere"
    other.mkdir()
    for name in ("study.yaml", "small.yaml"):
        (other / name).write_text((tmp_path / name).read_text())
    keys = [c.key for c in cases(load_study(study_file))]
    assert [c.key for c in cases(load_study(other / "study.yaml"))] == keys
    (other / "small.yaml").write_text((tmp_path / "small.yaml").read_text().replace("jobs: 30", "jobs: 31"))
    assert not set(keys) & {c.key for c in cases(load_study(other / "study.yaml"))}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("slurmtwin/study/1", "slurmtwin/study/9", "not a study file"),
        ("seeds:", "sedes:", "sedes"),
        ("values: [2, 10]", "values: []", "path"),
        ("scenario: small.yaml", "scenario: none.yaml", "none.yaml"),
        ("designs:", "baseline: best\ndesigns:", "is no design"),
    ],
)
def test_a_wrong_study_is_refused_with_its_place(study_file: Path, old: str, new: str, says: str) -> None:
    """The message names what is wrong, and the file."""
    study_file.write_text(study_file.read_text().replace(old, new))
    with pytest.raises(InputError, match=says):
        load_study(study_file)


def test_a_place_set_by_design_and_factor_is_refused(study_file: Path) -> None:
    """Which of the two would count is not to be guessed."""
    text = study_file.read_text().replace("backfill: {}", "backfill: {workload.generate.burst_size: 3}")
    study_file.write_text(text)
    with pytest.raises(InputError, match="set twice"):
        list(cases(load_study(study_file)))


def test_a_change_needs_a_place_that_can_be() -> None:
    """Lists take numbers, values have no places inside."""
    document = {"a": {"b": 1}, "c": [{"d": 2}]}
    assert changed(document, {"a.e.f": 3, "c.0.d": 4}) == {"a": {"b": 1, "e": {"f": 3}}, "c": [{"d": 4}]}
    for place in ("a.b.c", "c.1.d", "c.x", "c.1"):
        with pytest.raises(InputError):
            changed(document, {place: 1})


MORE = """\
crossing: one-at-a-time
factors:
  - {name: burst, path: workload.generate.burst_size, values: [2, 10]}
  - name: ties
    levels:
      in-order: {}
      shuffled: {options.tie_seed: 3}
seeds: {first: 1, count: 1}
"""


def test_factors_can_be_varied_one_at_a_time(study_file: Path) -> None:
    """The first levels, then each other level alone; a shuffle of ties is no part of the scenario."""
    text = study_file.read_text()
    study_file.write_text(text[: text.index("factors:")] + MORE)
    loaded = load_study(study_file)
    found = [case for case in cases(loaded) if case.design == "backfill"]
    assert [case.point for case in found] == [
        "burst=2 ties=in-order", "burst=10 ties=in-order", "burst=2 ties=shuffled",
    ]  # fmt: skip
    assert [run_options(case).tie_seed for case in found] == [None, None, 3]
    assert scenario_of(loaded, found[2]) == scenario_of(loaded, found[0])
    assert found[2].key != found[0].key


def test_settings_of_the_operator_are_options_too(study_file: Path) -> None:
    """`options.operator.NAME` reaches the run; another option is refused."""
    text = study_file.read_text()
    more = MORE.replace("options.tie_seed: 3", "options.operator.poll_s: 5, options.operator.workers: 1")
    study_file.write_text(text[: text.index("factors:")] + more)
    case = list(cases(load_study(study_file)))[-1]
    assert run_options(case).operator == {"poll_s": 5, "workers": 1}
    with pytest.raises(InputError, match=r"options\.operator\.poll_s"):
        run_options(replace(case, changes='{"options.poll": 3}'))
