"""How much a study's conclusion hangs on each uncertain parameter: Morris' elementary effects and Sobol's indices.

The output is a design's difference to the reference in one metric, as a share of the mean of both, over all seeds.
Morris: Technometrics 33
(1991), with mu* of Campolongo (2007), by SALib. Sobol indices are those of a surrogate in the parameters' logarithms,
fitted to all runs, by scipy; they are worth what the surrogate is, so the R2 of its predictions of samples that it had
not seen stands beside them. Of a quadratic and a Gaussian process the one that predicts better is taken. A sample is a
row of the unit cube: 0 is a parameter's low, 1 its high.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

SURROGATE_DRAWS: Final = 4096
LEAST_R2: Final = 0.5
"""A surrogate that explains less of runs it has not seen tells no indices."""
ENOUGH: Final = 3
"""Samples for each term of a surrogate with products; below that it has none, and no parameter acts through another."""
FOLDS: Final = 5
"""Parts of the samples, each predicted from the others."""
LEVELS: Final = 4
"""Levels of a Morris trajectory."""


@dataclass(frozen=True, slots=True)
class Influence:
    """One parameter. Effects in units of the output, over the parameter's whole range; Sobol in shares of variance."""

    parameter: str
    mu: float
    """Mean elementary effect: its sign says which way the difference goes when the parameter grows."""
    mu_star: float
    mu_star_half: float
    """95 % half-width of mu_star, bootstrapped."""
    sigma: float
    """Spread of the effects: large beside mu_star where the parameter acts through others or bends."""
    first_order: float | None
    """None: the surrogate is no good."""
    total: float | None


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """The whole answer for one design and metric."""

    design: str
    reference: str
    metric: str
    influences: list[Influence]
    """The strongest first."""
    samples: int
    seeds: int
    surrogate: str
    """Which one predicted better."""
    surrogate_r2: float
    """Of samples that it had not seen."""
    chance: float | None
    """Share of the variance between samples that is chance between seeds: no surrogate explains it. None: one seed."""
    same_sign: float
    """Share of the samples in which the difference has the sign that it has on average."""
    mean: float
    low: float
    high: float
    """Mean, least and largest difference over the samples."""

    def rows(self) -> list[dict[str, Any]]:
        """A table, one parameter a row."""
        return [
            {"design": self.design, "reference": self.reference, "metric": self.metric, "parameter": one.parameter,
             "mu": one.mu, "mu_star": one.mu_star, "mu_star_half": one.mu_star_half, "sigma": one.sigma,
             "sobol_first": one.first_order, "sobol_total": one.total, "surrogate": self.surrogate,
             "surrogate_r2": self.surrogate_r2, "chance": self.chance,
             "samples": self.samples, "seeds": self.seeds, "same_sign": self.same_sign, "mean": self.mean,
             "low": self.low, "high": self.high}
            for one in self.influences
        ]  # fmt: skip


def morris_samples(names: Sequence[str], trajectories: int, seed: int = 0) -> Array:
    """Rows of the unit cube: `trajectories` walks, each changing one parameter at a time."""
    import numpy as np
    from SALib.sample import morris

    return np.asarray(morris.sample(_problem(names), trajectories, num_levels=LEVELS, seed=seed), dtype=np.float64)


def spread_samples(names: Sequence[str], count: int, seed: int = 0) -> Array:
    """Rows of the unit cube: a Latin hypercube, for the surrogate."""
    import numpy as np
    from scipy.stats import qmc

    return np.asarray(qmc.LatinHypercube(len(names), rng=np.random.default_rng(seed)).random(count), dtype=np.float64)


def sensitivity(
    names: Sequence[str], walks: Array, spread: Array, walk_values: Array, spread_values: Array,
    *, design: str, reference: str, metric: str, seeds: int, chance: float | None = None,
) -> Sensitivity:  # fmt: skip
    """Both analyses of one output; values are the difference at each row of `walks` and `spread`."""
    import numpy as np
    from SALib.analyze import morris

    found = morris.analyze(_problem(names), walks, walk_values, num_levels=LEVELS, seed=0)
    samples, values = np.vstack([walks, spread]), np.concatenate([walk_values, spread_values])
    surrogate, kind, fit = best_surrogate(samples, values)
    shares = list(zip(*sobol_of(surrogate, len(names)), strict=True))
    influences = [
        Influence(name, float(found["mu"][i]), float(found["mu_star"][i]), float(found["mu_star_conf"][i]),
                  float(found["sigma"][i]), *(shares[i] if fit >= LEAST_R2 else (None, None)))
        for i, name in enumerate(names)
    ]  # fmt: skip
    mean = math.fsum(values.tolist()) / len(values)
    return Sensitivity(
        design, reference, metric, sorted(influences, key=lambda one: (-one.mu_star, one.parameter)), len(values),
        seeds, kind, fit, chance, float(np.mean(np.sign(values) == np.sign(mean))), mean, float(values.min()),
        float(values.max()),
    )  # fmt: skip


def best_surrogate(samples: Array, values: Array) -> tuple[Any, str, float]:
    """The surrogate that predicts better what it has not seen, fitted to everything; its name and its R2.

    The R2 is of FOLDS parts, each predicted from the others, the kernel's lengths found anew each time.
    """
    from slurmtwin_reports.gaussian_process import GaussianProcess

    found = {"quadratic": (Surrogate, _held_out(Surrogate, samples, values)),
             "Gaussian process": (GaussianProcess, _held_out(GaussianProcess, samples, values))}  # fmt: skip
    kind = max(found, key=lambda name: found[name][1])
    made, fit = found[kind]
    return made(samples, values), kind, fit


def _held_out(made: Any, samples: Array, values: Array) -> float:
    import numpy as np

    spread = float(np.sum((values - values.mean()) ** 2))
    if not spread:
        return 1.0
    left = np.zeros_like(values)
    part = np.random.default_rng(0).permutation(len(values)) % FOLDS
    for fold in range(FOLDS):
        seen = part != fold
        left[~seen] = values[~seen] - made(samples[seen], values[seen])(samples[~seen])
    return 1 - float(np.sum(left**2)) / spread


def chance_share(by_seed: Array) -> float | None:
    """Of the variance of the samples' means the share that is chance between seeds; rows are samples, columns seeds.

    What a seed adds to all samples alike is in no difference between them, so it is taken off first.
    """
    count, seeds = by_seed.shape
    if seeds < 2 or count < 2:
        return None
    rest = by_seed - by_seed.mean(axis=0)
    means = rest.mean(axis=1)
    whole = float((means**2).sum()) / (count - 1)
    noise = float(((rest - means[:, None]) ** 2).sum()) / ((count - 1) * (seeds - 1)) / seeds
    return min(1.0, noise / whole) if whole else 0.0


class Surrogate:
    """A quadratic in all parameters by least squares; with every product of two where there are samples enough."""

    def __init__(self, samples: Array, values: Array) -> None:
        import numpy as np

        terms = _terms(samples, True)
        self.products = len(values) >= ENOUGH * terms.shape[1]
        if not self.products:
            terms = _terms(samples, False)
        if len(values) <= terms.shape[1]:
            raise ValueError(f"{len(values)} samples cannot settle {terms.shape[1]} terms")
        self._weights, *_ = np.linalg.lstsq(terms, values, rcond=None)

    def __call__(self, samples: Array) -> Array:
        """The surrogate at rows of the unit cube."""
        import numpy as np

        return np.asarray(_terms(samples, self.products) @ self._weights, dtype=np.float64)


def sobol_of(model: Any, count: int) -> tuple[list[float], list[float]]:
    """First-order and total indices of a function of the unit cube, all 0 where it is constant."""
    import numpy as np
    from scipy import stats

    constant = model(np.vstack([np.zeros(count), np.ones(count), np.full(count, 0.5)]))
    if float(np.ptp(constant)) == 0 and float(np.ptp(model(spread_samples([""] * count, 64)))) == 0:
        return [0.0] * count, [0.0] * count
    found = stats.sobol_indices(
        func=lambda x: model(x.T)[None, :], n=SURROGATE_DRAWS, dists=[stats.uniform(0, 1)] * count,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    return [float(v) for v in np.ravel(found.first_order)], [float(v) for v in np.ravel(found.total_order)]


def _terms(samples: Array, products: bool) -> Array:
    import numpy as np

    count = samples.shape[1]
    columns = [np.ones(len(samples)), *samples.T, *(samples**2).T]
    if products:
        columns += [samples[:, i] * samples[:, j] for i, j in itertools.combinations(range(count), 2)]
    return np.column_stack(columns)


def _problem(names: Sequence[str]) -> dict[str, Any]:
    return {"num_vars": len(names), "names": list(names), "bounds": [[0.0, 1.0]] * len(names)}
