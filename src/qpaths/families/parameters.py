"""Checks of parameters that are concrete: each error names the parameter, the value and the allowed range."""

from typing import Any

import jax.numpy as jnp
import numpy as np

from ..core import ScalarLike, is_concrete


def check_numbers(**values: Any) -> None:
    """Raise if a parameter is an array where one number is drawn: with one key, all draws would be shifted alike."""
    for name, value in values.items():
        if np.ndim(value):
            raise ValueError(
                f"`{name}` must be a number, got an array of shape {np.shape(value)}: this is the density of one "
                f"number. For several take a multivariate density, such as `MultivariateNormal(mean, cov)`, or a prior "
                f"with a density for each name."
            )


def check_positive(name: str, value: Any, hint: str) -> None:
    """Raise unless every entry is positive and finite."""
    if is_concrete(value) and not (np.asarray(value) > 0).all():
        raise ValueError(f"`{name}` must be positive, got {value}: {hint}.")
    check_finite(name, value)


def check_finite(name: str, value: Any) -> None:
    """Raise if an entry is infinite or NaN."""
    if is_concrete(value) and not np.isfinite(np.asarray(value)).all():
        raise ValueError(f"`{name}` must be finite, got {value}.")


def check_between(name: str, value: Any, low: ScalarLike, high: ScalarLike, hint: str) -> None:
    """Raise unless every entry lies strictly between `low` and `high`."""
    if is_concrete(value):
        values = np.asarray(value)
        if not ((values > low) & (values < high)).all():
            raise ValueError(f"`{name}` must lie in ({low:g}, {high:g}), got {value}: {hint}.")


def cholesky(name: str, matrix: Any) -> Any:
    """The lower Cholesky factor, or an error that says which matrix is not positive definite."""
    factor = jnp.linalg.cholesky(matrix)
    if is_concrete((factor, matrix)):
        values = np.asarray(matrix)
        asymmetry = np.abs(values - values.T).max(initial=0.0)
        if np.isnan(np.asarray(factor)).any() or asymmetry > 1e-4 * np.abs(values).max(initial=0.0):
            raise ValueError(f"`{name}` must be symmetric and positive definite, got {matrix}.")
    return factor
