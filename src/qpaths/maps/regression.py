"""A coordinate as a regression on others: a mean and a log scale that are linear in features."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

_RIDGE = 1e-6
_NUM_ROUNDS, _CONVERGED = 20, 0.01
"""Rounds at most, and the change of the log scale that ends them."""
_CLEAR = 3.0
"""Standard errors from which on a term counts."""
_MEAN_LOG_NORMAL = -0.635
"""E log |z| of a standard normal number."""

Coefficients = Float[np.ndarray, " _"]


def mean_and_log_scale(of_mean: Any, of_scale: Any, own: Any, weights: Any) -> tuple[Coefficients, Coefficients]:
    """Fit coefficients by maximum likelihood: least squares for the mean and Fisher scoring for the log scale, in turn.

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


def clear_terms(of_mean: Any, of_scale: Any, own: Any) -> tuple[Coefficients, Coefficients]:
    """Fit without the terms that are not clear of noise, which are zero; the first features are intercepts.

    Where a scale becomes tiny, a term of the mean that should not be there is many scales large, however small it is.
    """
    weights = np.ones(len(own))
    kept, kept_scale = np.ones(of_mean.shape[1], bool), np.ones(of_scale.shape[1], bool)
    while True:
        mean, log_scale = mean_and_log_scale(of_mean[:, kept], of_scale[:, kept_scale], own, weights)
        precision = np.exp(np.clip(-2 * of_scale[:, kept_scale] @ log_scale, -60.0, 60.0))
        clear = _is_clear(of_mean[:, kept], precision, mean)
        clear_scale = _is_clear(of_scale[:, kept_scale], 2 * weights, log_scale)
        if clear.all() and clear_scale.all():
            break
        kept[np.flatnonzero(kept)[~clear]] = False
        kept_scale[np.flatnonzero(kept_scale)[~clear_scale]] = False
    coefficients, log_scales = np.zeros(len(kept)), np.zeros(len(kept_scale))
    coefficients[kept], log_scales[kept_scale] = mean, log_scale
    return coefficients, log_scales


def _is_clear(features: Any, information: Any, coefficients: Coefficients) -> Bool[np.ndarray, " _"]:
    """Return which coefficients are beyond noise, given the information of each row; the first one always counts."""
    gram = features.T @ (features * information[:, None])
    variance = np.diag(np.linalg.pinv(gram + np.diag(_RIDGE * np.diag(gram)), hermitian=True))
    clear = np.abs(coefficients) > _CLEAR * np.sqrt(np.maximum(variance, 0.0))
    clear[0] = True
    return clear


def least_squares(features: Any, weights: Any, values: Any) -> Coefficients:
    """Return weighted least squares, with a ridge in proportion to the size of each feature."""
    weighted = features * weights[:, None]
    return solved(features.T @ weighted, weighted.T @ values)


def solved(gram: Any, right: Any) -> Coefficients:
    """Return least squares from the products of features with each other and with the values."""
    return np.linalg.solve(gram + np.diag(_RIDGE * np.diag(gram) + 1e-300), right)
