"""A coordinate as a regression on others: a mean and a log scale that are linear in features."""

from typing import Any

import numpy as np
from jaxtyping import Float

_RIDGE = 1e-6
_NUM_ROUNDS, _CONVERGED = 20, 0.01
"""Rounds at most, and the change of the log scale that ends them."""
_MEAN_LOG_NORMAL = -0.635
"""E log |z| of a standard normal number."""

Coefficients = Float[np.ndarray, " _"]


def mean_and_log_scale(of_mean: Any, of_scale: Any, own: Any, weights: Any) -> tuple[Coefficients, Coefficients]:
    """Coefficients by maximum likelihood: least squares for the mean and Fisher scoring for the log scale, in turn.

    The first log scale is a regression of `log |residual|`, whose slopes are right whatever the noise is.
    """
    mean = least_squares(of_mean, weights, own)
    log_size = np.log(np.abs(own - of_mean @ mean) + 1e-12) - _MEAN_LOG_NORMAL
    log_scale = least_squares(of_scale, weights, log_size)
    for _ in range(_NUM_ROUNDS):
        precision = np.exp(np.clip(-2 * of_scale @ log_scale, -60.0, 60.0))
        mean = least_squares(of_mean, weights * precision, own)
        excess = np.clip((own - of_mean @ mean) ** 2 * precision, 0.0, 30.0) - 1
        change = np.clip(0.5 * least_squares(of_scale, weights, excess), -0.5, 0.5)
        log_scale = log_scale + change
        if np.sqrt(np.mean((of_scale @ change) ** 2)) < _CONVERGED:
            break
    return mean, log_scale


def least_squares(features: Any, weights: Any, values: Any) -> Coefficients:
    """Weighted, with a ridge in proportion to the size of each feature."""
    weighted = features * weights[:, None]
    return solved(features.T @ weighted, weighted.T @ values)


def solved(gram: Any, right: Any) -> Coefficients:
    """The same from the products of features with each other and with the values."""
    return np.linalg.solve(gram + np.diag(_RIDGE * np.diag(gram) + 1e-300), right)
