"""The deformed algebra of nonextensive thermodynamics: `log_q`, `exp_q`, and power means in log space.

Paper, sections 2.3 and 3. All functions are differentiable and smooth through q = 1, where the closed forms are 0/0
and a short series takes over.
"""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import ArrayLike, Float, Real

from .core import FloatArray, RealLike, check_not_nan, is_concrete, log1p, promote_jax


def log_q(u: RealLike, q: RealLike) -> FloatArray:
    """Return the q-logarithm `(u^(1-q) - 1) / (1 - q)`, the natural logarithm at q = 1 (paper, eq. lnq).

    Defined for u >= 0 (NaN below). At u = 0 it is `-1/(1-q)` for q < 1 and `-inf` otherwise.

    Args:
        u: A number or array, at least 0.
        q: The order, broadcast against `u`.

    Returns:
        The q-logarithm of each entry, NaN where `u` is negative.

    Examples:
        >>> float(log_q(4.0, 0.5))  # 2 (sqrt(4) - 1)
        2.0
    """
    check_not_nan("q", q)
    u, q = promote_jax(u, q)
    return log_q_of_exp(jnp.log(u), 1 - q)


def log_q_of_exp(log_u: RealLike, delta: RealLike) -> FloatArray:
    """Return `log_q(exp(log_u))` with `delta = 1 - q`, which a q near 1 could not hold."""
    log_u, delta = promote_jax(log_u, delta)
    z = delta * jnp.where((delta == 0) & (log_u == -jnp.inf), 0, log_u)
    small = jnp.abs(z) < _series_limit(z)
    z_small = jnp.where(small, z, 0)
    series = log_u * (1 + z_small * (1 / 2 + z_small * (1 / 6 + z_small / 24)))
    # Far below zero the derivative of expm1, computed as expm1 + 1, has no digits left.
    power = jnp.where(z < -1, jnp.exp(z) - 1, jnp.expm1(z))
    return jnp.where(small, series, power / jnp.where(small, 1, delta))


def log_exp_q(x: RealLike, q: RealLike) -> FloatArray:
    """Return `log exp_q(x)`: `-inf` below the support (q < 1), `+inf` at and beyond the pole (q > 1)."""
    check_not_nan("q", q)
    x, q = promote_jax(x, q)
    return log_exp_delta(x, 1 - q)


def log_exp_delta(x: RealLike, delta: RealLike) -> FloatArray:
    """Return `log exp_q(x)` with `delta = 1 - q`, which a q near 1 could not hold."""
    x, delta = promote_jax(x, delta)
    z = delta * x
    small = jnp.abs(z) < _series_limit(z)
    inside = z > -1
    series = x * (1 - jnp.where(small, z, 0) * (1 / 2 - z * (1 / 3 - z / 4)))
    # Both branches of a `where` are differentiated, so outside the support the argument is replaced by a harmless one.
    power = log1p(jnp.where(inside, z, 0)) / jnp.where(small, 1, delta)
    return jnp.where(small, series, jnp.where(inside, power, jnp.where(delta > 0, -jnp.inf, jnp.inf)))


def exp_q(x: RealLike, q: RealLike) -> FloatArray:
    """Return the q-exponential `[1 + (1-q) x]_+^(1/(1-q))`, the exponential at q = 1 (paper, eq. expq).

    The inverse of `log_q`. For q < 1 it is 0 for `x <= -1/(1-q)`; for q > 1 it is `inf` for `x >= 1/(q-1)`.

    Args:
        x: A number or array.
        q: The order, broadcast against `x`.

    Returns:
        The q-exponential of each entry.

    Beyond the ends of its support it is 0 or `inf`, never NaN. There it does not invert `log_q`.

    Examples:
        >>> float(exp_q(2.0, 0.5))  # (1 + 2/2)^2
        4.0
    """
    return jnp.exp(log_exp_q(x, q))


def log_power_mean(
    log_u: Real[ArrayLike, "*batch n"], weights: Real[ArrayLike, "*#batch n"], q: Real[ArrayLike, ""]
) -> Float[Array, "*batch"]:
    """Log of the power mean `[sum_i w_i u_i^(1-q)]^(1/(1-q))` over the last axis (paper, eq. powermean).

    Args:
        log_u: Logs of the inputs; `-inf` is zero.
        weights: Non-negative; they are divided by their sum. An input of weight zero does not count, whatever it is.
        q: Any real number: q = 0 is the arithmetic mean, q = 1 the geometric, q = 2 the harmonic, q = +inf the minimum
            and q = -inf the maximum.

    Returns:
        One log mean for each row of inputs: the shape of `log_u` without its last axis.

    Weights that are all zero give NaN.

    Examples:
        >>> import numpy as np
        >>> log_u = np.log([1.0, 4.0])
        >>> [round(float(np.exp(log_power_mean(log_u, np.ones(2), q))), 3) for q in (0.0, 1.0, 2.0)]
        [2.5, 2.0, 1.6]
    """
    check_not_nan("q", q)
    _check_weights(weights)
    log_u, weights, q = promote_jax(log_u, weights, q)
    weights = jnp.broadcast_to(weights / jnp.sum(weights, axis=-1, keepdims=True), log_u.shape)
    delta = 1 - q

    counted = weights > 0
    positive = counted & (log_u > -jnp.inf)
    # An empty input adds nothing for delta > 0 and empties the mean otherwise; in the arithmetic below it is left out.
    empty = jnp.any(counted & ~positive, axis=-1)
    log_u = jnp.where(positive, log_u, 0)
    largest = jnp.max(jnp.where(positive, log_u, -jnp.inf), axis=-1)
    smallest = jnp.min(jnp.where(positive, log_u, jnp.inf), axis=-1)

    spread = largest - smallest
    near = ~empty & ((jnp.abs(delta) * spread < 0.5) | (spread == 0))
    near_mean = _near_mean(log_u, weights, jnp.where(jnp.isinf(delta) | ~near, 0, delta))
    far_mean = _far_mean(log_u, jnp.where(positive, weights, 0), jnp.where(delta > 0, largest, smallest), delta)
    value = jnp.where(near, near_mean, far_mean)
    return jnp.where(empty & (delta <= 0) | (largest == -jnp.inf), -jnp.inf, value)


def log_generalized_mean(
    log_u: Real[ArrayLike, "*batch n"],
    weights: Real[ArrayLike, "*#batch n"],
    transform: Callable[[Array], Array],
    inverse: Callable[[Array], Array],
) -> Float[Array, "*batch"]:
    """Log of the generalized mean `h^-1(sum_i w_i h(u_i))` over the last axis, for a monotone h (eq. abstract_mean).

    Args:
        log_u: Logs of the inputs; `-inf` is zero.
        weights: Non-negative; they are divided by their sum. An input of weight zero does not count, whatever it is.
        transform: `h` on the log scale, `transform(log_u) = h(u)`, elementwise.
        inverse: The inverse of `transform`. It maps the mean of h to a log.

    Power means have `log_power_mean`, which loses no digits. `GeneralizedMeanPath` is the mean of two densities.

    Returns:
        One log mean for each row of inputs: the shape of `log_u` without its last axis.

    Examples:
        >>> import jax.numpy as jnp
        >>> mean = log_generalized_mean(jnp.log(jnp.array([1.0, 2.0, 6.0])), jnp.ones(3), jnp.exp, jnp.log)
        >>> round(float(jnp.exp(mean)), 6)  # h(u) = u is the arithmetic mean
        3.0
    """
    _check_weights(weights)
    log_u, weights = promote_jax(log_u, weights)
    weights = jnp.broadcast_to(weights / jnp.sum(weights, axis=-1, keepdims=True), log_u.shape)
    return inverse(jnp.sum(jnp.where(weights > 0, weights * transform(log_u), 0), axis=-1))


def _near_mean(log_u: Array, weights: Array, delta: Array) -> Array:
    """Measure from the geometric mean: a series of the cumulants of log u, or `log1p` of a mean of `expm1`."""
    geometric = jnp.sum(weights * log_u, axis=-1, keepdims=True)
    deviation = jnp.where(weights > 0, log_u - geometric, 0)
    variance, third, fourth = (jnp.sum(weights * deviation**k, axis=-1) for k in (2, 3, 4))
    series = delta * (variance / 2 + delta * (third / 6 + delta * (fourth - 3 * variance**2) / 24))
    small = jnp.max(jnp.abs(delta[..., None] * deviation), axis=-1) < _series_limit(log_u)
    mean = log1p(jnp.sum(weights * jnp.expm1(delta[..., None] * deviation), axis=-1)) / jnp.where(small, 1, delta)
    return geometric[..., 0] + jnp.where(small, series, mean)


def _far_mean(log_u: Array, weights: Array, reference: Array, delta: Array) -> Array:
    """Measure from the input that dominates, the largest for delta > 0 and the smallest for delta < 0."""
    away = log_u - jnp.where(jnp.isfinite(reference), reference, 0)[..., None]
    exponent = jnp.where((weights > 0) & (away != 0), delta * away, 0)
    excess = jnp.log(jnp.sum(weights * jnp.exp(exponent), axis=-1))
    return reference + excess / jnp.where(delta == 0, 1, delta)


def _series_limit(x: Array) -> float:
    """Return the limit below which three terms of a series are exact to rounding, and differences keep no digits."""
    return float(jnp.finfo(x.dtype).eps) ** 0.25


def _check_weights(weights: object) -> None:
    """Raise unless concrete weights can be divided by their sum."""
    if is_concrete(weights):
        values = np.asarray(weights)
        if not (values >= 0).all() or not (values.sum(-1) > 0).all():
            raise ValueError(
                f"`weights` must be non-negative with a positive sum, got {values}: give one weight per input."
            )
