"""Sensitivity: known answers of textbook functions, and the runs that a study's samples ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slurmtwin.campaign.cases import cases, scenario_of
from slurmtwin.campaign.sensitivity import Sampling, run_sensitivity, sampled_study
from slurmtwin.campaign.study_file import load_study
from slurmtwin.contract.errors import InputError
from slurmtwin_reports.gaussian_process import GaussianProcess, _likelihood
from slurmtwin_reports.sensitivity import (
    Surrogate,
    best_surrogate,
    chance_share,
    morris_samples,
    sensitivity,
    sobol_of,
    spread_samples,
)

UNCERTAIN = """\
uncertain:
  load: {low: 0.5, high: 2, places: {workload.generate.gap: -1}}
  run_length: {low: 0.5, high: 2, places: {workload.generate.median_run: 1, workload.generate.gap: 1}}
  size: {low: 0.4, high: 1, places: {slurm.nodes.0.CPUs: 1, slurm.nodes.0.CoresPerSocket: 1}}
"""


def ishigami(x: Any) -> Any:
    """Ishigami and Homma (1990), a = 7 and b = 0.1, on the unit cube."""
    a, b, c = (2 * np.pi * x[:, i] - np.pi for i in range(3))
    return np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)


def test_sobol_indices_of_ishigami_are_the_published_ones() -> None:
    """First order 0.3139, 0.4424, 0; total 0.5576, 0.4424, 0.2437."""
    first, total = sobol_of(ishigami, 3)
    assert first == pytest.approx([0.3139, 0.4424, 0.0], abs=0.03)
    assert total == pytest.approx([0.5576, 0.4424, 0.2437], abs=0.03)


def test_a_linear_answer_gives_its_slopes_and_a_perfect_surrogate() -> None:
    """y = 10 a - 4 b + 0 c: mu is the slope, sigma 0, the shares are 100/116 and 16/116."""
    names = ["a", "b", "c"]
    walks, spread = morris_samples(names, 5), spread_samples(names, 20)
    slopes = np.array([10.0, -4.0, 0.0])
    found = sensitivity(
        names, walks, spread, walks @ slopes, spread @ slopes, design="d", reference="r", metric="m", seeds=1
    )
    by_name = {one.parameter: one for one in found.influences}
    assert [one.parameter for one in found.influences] == names
    assert [by_name[n].mu for n in names] == pytest.approx([10, -4, 0])
    assert [by_name[n].sigma for n in names] == pytest.approx([0, 0, 0], abs=1e-9)
    assert found.surrogate_r2 == pytest.approx(1)
    assert by_name["a"].total == pytest.approx(100 / 116, abs=0.02)
    assert by_name["c"].total == pytest.approx(0, abs=0.02)
    assert {row["parameter"] for row in found.rows()} == set(names)


def test_a_surrogate_that_does_not_fit_says_so() -> None:
    """A jump far from any quadratic: little is left of R2 when each sample is predicted from the others."""
    samples = spread_samples(["a", "b"], 60)
    noise = np.random.default_rng(1).normal(size=60)
    assert best_surrogate(samples, noise)[2] < 0.2
    walks = morris_samples(["a", "b"], 4)
    found = sensitivity(
        ["a", "b"], walks, samples, np.random.default_rng(2).normal(size=len(walks)), noise,
        design="d", reference="r", metric="m", seeds=1,
    )  # fmt: skip
    assert [(one.first_order, one.total) for one in found.influences] == [(None, None)] * 2
    with pytest.raises(ValueError, match="cannot settle"):
        Surrogate(samples[:5], noise[:5])


def test_a_gaussian_process_predicts_what_no_quadratic_does() -> None:
    """Ishigami's function from 200 samples: four fifths explained, its indices within 0.05 of the published ones."""
    samples = spread_samples(["a", "b", "c"], 200)
    surrogate, kind, fit = best_surrogate(samples, ishigami(samples))
    assert kind == "Gaussian process"
    assert fit > 0.8
    first, total = sobol_of(surrogate, 3)
    assert first == pytest.approx([0.3139, 0.4424, 0.0], abs=0.05)
    assert total == pytest.approx([0.5576, 0.4424, 0.2437], abs=0.05)


def test_a_gaussian_process_tells_noise_from_what_matters() -> None:
    """y = sin(3 a) + noise as large: the mean is found, b has no say, and no more than half is called explained."""
    samples = spread_samples(["a", "b"], 300)
    truth = np.sin(3 * samples[:, 0])
    noisy = truth + np.random.default_rng(4).normal(0, truth.std(), 300)
    found = GaussianProcess(samples, noisy)(samples)
    assert np.corrcoef(found, truth)[0, 1] > 0.97
    assert best_surrogate(samples, noisy)[2] == pytest.approx(0.5, abs=0.12)
    first, _ = sobol_of(GaussianProcess(samples, noisy), 2)
    assert first[1] < 0.05


def test_the_gradient_of_the_likelihood_is_the_gradient() -> None:
    """Against differences of the likelihood itself, in every direction."""
    samples = spread_samples(["a", "b"], 30)
    y, theta = np.cos(4 * samples[:, 0]) - samples[:, 1], np.log([0.5, 1.5, 0.8, 0.1])
    _, gradient = _likelihood(theta, samples, y)
    for place in range(len(theta)):
        step = np.zeros(len(theta))
        step[place] = 1e-5
        ahead, behind = (_likelihood(theta + sign * step, samples, y)[0] for sign in (1, -1))
        assert gradient[place] == pytest.approx((ahead - behind) / 2e-5, rel=1e-4, abs=1e-4)


def test_the_share_of_chance_is_that_of_the_noise() -> None:
    """Samples of variance 4, noise of variance 9 in each of 3 seeds: 3 of 7; a seed's own level counts for nothing."""
    draw = np.random.default_rng(8)
    true, level = draw.normal(0, 2, (4000, 1)), np.array([0.0, 50.0, -20.0])
    assert chance_share(true + level + draw.normal(0, 3, (4000, 3))) == pytest.approx(3 / 7, abs=0.03)
    assert chance_share(true + level) == pytest.approx(0, abs=1e-9)
    assert chance_share(true) is None


def test_a_constant_answer_has_no_influences() -> None:
    """All indices are 0, none is a division by 0."""
    assert sobol_of(lambda x: np.zeros(len(x)), 2) == ([0.0, 0.0], [0.0, 0.0])


def test_a_sample_multiplies_each_of_its_places(study_file: Path) -> None:
    """Gaps take the power -1 of load and 1 of run length, both at once; CPUs stay whole and at least one."""
    study_file.write_text(study_file.read_text() + UNCERTAIN)
    loaded = load_study(study_file)
    sampled, walks, spread = sampled_study(loaded, Sampling(2, 4, 1))
    assert len(walks) == 2 * 4
    assert len(spread) == 4
    found = [case for case in cases(sampled) if case.design == "backfill"]
    assert len(found) == 12
    for case, (load, run, size) in zip(found, [*walks.tolist(), *spread.tolist()], strict=True):
        scenario = scenario_of(sampled, case)
        generate: Any = scenario.workload.generate
        assert generate.gap / 60e9 == pytest.approx(4 ** (run - 0.5) / 4 ** (load - 0.5), rel=1e-6)
        assert generate.median_run / 60e9 == pytest.approx(4 ** (run - 0.5), rel=1e-6)
        assert scenario.slurm.nodes[0]["CPUs"] == scenario.slurm.nodes[0]["CoresPerSocket"]
        assert scenario.slurm.nodes[0]["CPUs"] in ((1, 2) if size < 1 else (2,))


def test_the_whole_analysis_runs_and_finds_what_matters(study_file: Path, tmp_path: Path) -> None:
    """Each metric of the other design has all three parameters; a second call runs nothing again."""
    study_file.write_text(study_file.read_text() + UNCERTAIN)
    loaded = load_study(study_file)
    sampling = Sampling(trajectories=2, spread=12, seeds=1)
    campaign, found = run_sensitivity(loaded, tmp_path / "out", sampling)
    assert not campaign.failed
    assert campaign.ran == (2 * 4 + 12) * 2
    assert [one.metric for one in found] == loaded.study.metrics
    assert all({i.parameter for i in one.influences} == {"load", "run_length", "size"} for one in found)
    again, same = run_sensitivity(loaded, tmp_path / "out", sampling)
    assert again.ran == 0
    assert same == found


def test_a_study_without_uncertain_parameters_is_refused(study_file: Path) -> None:
    """There is nothing to vary."""
    with pytest.raises(InputError, match="uncertain"):
        sampled_study(load_study(study_file), Sampling())


def test_samples_may_be_smaller_than_the_study(study_file: Path) -> None:
    """`sampled` changes the base of the samples, not of the study."""
    study_file.write_text(study_file.read_text() + UNCERTAIN + "sampled: {workload.generate.jobs: 7}\n")
    loaded = load_study(study_file)
    sampled, *_ = sampled_study(loaded, Sampling(2, 4, 1))
    made: Any = scenario_of(sampled, next(iter(cases(sampled)))).workload.generate
    own: Any = scenario_of(loaded, next(iter(cases(loaded)))).workload.generate
    assert (made.jobs, own.jobs) == (7, 30)


def test_one_design_alone_is_held_against_the_baseline(study_file: Path) -> None:
    """Another name, or the baseline's own, is refused."""
    study_file.write_text(study_file.read_text() + UNCERTAIN)
    loaded = load_study(study_file)
    sampled, *_ = sampled_study(loaded, Sampling(2, 4, 1, "builtin"))
    assert list(sampled.study.designs) == ["backfill", "builtin"]
    for wrong in ("backfill", "none"):
        with pytest.raises(InputError, match=wrong):
            sampled_study(loaded, Sampling(2, 4, 1, wrong))
