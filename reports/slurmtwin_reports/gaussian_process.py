"""A Gaussian process as a surrogate: smooth in each parameter with a length of its own, and noise in every sample.

Rasmussen and Williams, Gaussian Processes for Machine Learning (2006), 2.2 and 5.4: squared exponential kernel with a
length per parameter, a nugget for what differs between seeds, both found by the likelihood. A length may grow so far
that its parameter has no say: that is how one without influence is found.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[np.float64]]

LENGTHS: Final = (0.1, 30.0)
"""Bounds of a length, in widths of the unit cube."""
NUGGETS: Final = (1e-6, 2.0)
"""Bounds of the noise's variance, in variances of the samples."""
AT_ONCE: Final = 4096
"""Rows that are predicted together."""


class GaussianProcess:
    """Fitted to values at rows of the unit cube."""

    def __init__(self, samples: Array, values: Array) -> None:
        import numpy as np
        from scipy import linalg, optimize

        self._samples = samples
        self._mean, self._scale = float(values.mean()), float(values.std()) or 1.0
        y = (values - self._mean) / self._scale
        count = samples.shape[1]
        begin = np.log([0.7] * count + [1.0, 0.2])
        bounds = [tuple(np.log(LENGTHS))] * count + [(np.log(0.05), np.log(50.0)), tuple(np.log(NUGGETS))]

        def cost(theta: Array) -> tuple[float, Array]:
            return _likelihood(theta, samples, y)

        found = optimize.minimize(cost, begin, jac=True, bounds=bounds, method="L-BFGS-B", options={"maxiter": 80})
        self._theta = np.asarray(found.x, dtype=np.float64)
        kernel = _kernel(self._theta, samples, samples) + np.exp(self._theta[-1]) * np.eye(len(y))
        self._weights = linalg.cho_solve(linalg.cho_factor(kernel, lower=True), y)

    def __call__(self, samples: Array) -> Array:
        """The mean at rows of the unit cube."""
        import numpy as np

        parts = [
            _kernel(self._theta, samples[place : place + AT_ONCE], self._samples) @ self._weights
            for place in range(0, len(samples), AT_ONCE)
        ]
        return np.asarray(self._mean + self._scale * np.concatenate(parts), dtype=np.float64)


def _kernel(theta: Array, one: Array, other: Array) -> Array:
    import numpy as np

    a, b = one / np.exp(theta[:-2]), other / np.exp(theta[:-2])
    apart = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1)[None, :] - 2 * a @ b.T
    return np.asarray(np.exp(theta[-2] - 0.5 * np.maximum(apart, 0.0)), dtype=np.float64)


def _likelihood(theta: Array, samples: Array, y: Array) -> tuple[float, Array]:
    """Minus the logarithm of the marginal likelihood, and its gradient (Rasmussen and Williams 2.30, 5.9)."""
    import numpy as np
    from scipy import linalg

    count = len(y)
    smooth, nugget = _kernel(theta, samples, samples), float(np.exp(theta[-1]))
    try:
        factor = linalg.cho_factor(smooth + (nugget + 1e-9) * np.eye(count), lower=True)
    except linalg.LinAlgError:
        return 1e12, np.zeros_like(theta)
    weights = linalg.cho_solve(factor, y)
    inverse = linalg.cho_solve(factor, np.eye(count))
    slope = inverse - np.outer(weights, weights)
    weighted = slope * smooth
    total = weighted.sum(axis=1)
    gradient = []
    for place, length in enumerate(np.exp(theta[:-2])):
        x = samples[:, place] / length
        gradient.append(float(x**2 @ total - x @ weighted @ x))  # half the sum of slope * smooth * (x_i - x_j) ** 2
    gradient += [0.5 * float(total.sum()), 0.5 * nugget * float(np.trace(slope))]
    value = 0.5 * float(y @ weights) + float(np.log(np.diag(factor[0])).sum()) + 0.5 * count * float(np.log(2 * np.pi))
    return value, np.array(gradient)
