"""Log-mean-exp, log ESS, promotion of types, and a few functions that lose no digits."""

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from ..arrays import logsumexp, namespace, quiet
from ..types import FloatArray, RealLike, ScalarLike


def log_mean_exp(log_values: RealLike, axis: int = -1) -> FloatArray:
    """Log of the mean of `exp(log_values)` along `axis`; `-inf` where every entry is `-inf`.

    The log evidence is `log_mean_exp(log_weights)`.
    """
    values = namespace(log_values).asarray(log_values)
    return logsumexp(values, axis=axis) - math.log(values.shape[axis])


def log_ess(log_weights: RealLike, axis: int = -1) -> FloatArray:
    """Log effective sample size, `log[(sum w)^2 / sum w^2]`, along `axis`; `-inf` where no weight is positive.

    The number of equal weights that would have the same relative variance (Kong, 1992).
    """
    xp = namespace(log_weights)
    log_weights = xp.asarray(log_weights)
    log_sum = logsumexp(log_weights, axis=axis)
    log_sum_of_squares = logsumexp(2 * log_weights, axis=axis)
    with quiet():
        return xp.where(log_sum == -xp.inf, -xp.inf, 2 * log_sum - log_sum_of_squares)


def log1p(x: Any) -> Any:
    """`log(1 + x)` to the last digits. XLA's own is off by a hundred ulp in float64 for -0.45 < x < -0.1."""
    xp = namespace(x)
    if xp is not jnp:
        return xp.log1p(x)
    negative = x < 0
    return jnp.where(negative, -1, 1) * jnp.log1p(jnp.where(negative, -x / (1 + x), x))


def log_gamma_ratio(z: Array, a: ScalarLike) -> Array:
    """`log Gamma(z + a) - log Gamma(z)` for z > 0 and a >= 0, without the cancellation of two large numbers.

    The difference of two Stirling series for z >= 10. (`jax.scipy.special.betaln` is off by 5e-7 near z = 8.)
    """
    large = z >= 10
    x = jnp.where(large, z, 10)
    stirling = (x - 0.5) * log1p(a / x) + a * (jnp.log(x + a) - 1) + _stirling_tail(x + a) - _stirling_tail(x)
    y = jnp.where(large, 1, z)
    return jnp.where(large, stirling, jax.lax.lgamma(y + a) - jax.lax.lgamma(y))


def _stirling_tail(z: Array) -> Array:
    """`log Gamma(z) - (z - 1/2) log z + z - log(2 pi) / 2` for z >= 10."""
    w = 1 / (z * z)
    return (1 / 12 + w * (-1 / 360 + w * (1 / 1260 + w * (-1 / 1680 + w * (1 / 1188 - w * 691 / 360360))))) / z


def promote(*values: Any) -> tuple[Any, ...]:
    """All values as arrays of their common floating type; Python numbers do not widen it."""
    xp = namespace(*values)
    dtype = xp.result_type(*values)
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = xp.result_type(float)
    return tuple(xp.asarray(value, dtype) for value in values)


def promote_jax(*values: Any) -> tuple[Array, ...]:
    """As `promote`, but JAX arrays whatever the values are."""
    return tuple(map(jnp.asarray, promote(*values)))
