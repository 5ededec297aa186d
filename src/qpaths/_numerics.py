"""Numerics that every layer shares: the power mean of two log densities, log-mean-exp, log ESS.

Nothing here knows about paths or samplers. All functions are elementwise (or reduce over one axis), work in the
precision of their arguments, and return no NaN for arguments in their domain, `-inf` included.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_derivatives import SymbolicZero

from ._types import FloatArray, RealLike, ScalarLike


def log_mean_exp(log_values: RealLike, axis: int = -1) -> FloatArray:
    """Log of the mean of `exp(log_values)` along `axis`; `-inf` where every entry is `-inf`."""
    log_values = jnp.asarray(log_values)
    return jax.nn.logsumexp(log_values, axis=axis) - jnp.log(float(log_values.shape[axis]))


def log_ess(log_weights: RealLike, axis: int = -1) -> FloatArray:
    """Log effective sample size, (sum w)^2 / sum w^2, along `axis`; `-inf` where no weight is positive."""
    log_weights = jnp.asarray(log_weights)
    log_sum = jax.nn.logsumexp(log_weights, axis=axis)
    log_sum_of_squares = jax.nn.logsumexp(2 * log_weights, axis=axis)
    return jnp.where(log_sum == -jnp.inf, -jnp.inf, 2 * log_sum - log_sum_of_squares)


def log1p(x: Array) -> Array:
    """`log(1 + x)` to the last digits. XLA's own is off by a hundred ulp in float64 for -0.45 < x < -0.1."""
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


def promote(*values: Any) -> tuple[Array, ...]:
    """All values as arrays of their common floating type; Python numbers do not widen it."""
    dtype = jnp.result_type(*values)
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = jnp.result_type(float)
    return tuple(jnp.asarray(value, dtype) for value in values)


def log_power_mean_pair(
    beta: RealLike, log_base: RealLike, log_target: RealLike, delta: RealLike, shift: RealLike = 0.0
) -> FloatArray:
    """`(1/delta) log[(1 - b) exp(delta log_base) + b exp(delta log_target)]` where `logit b = logit beta + shift`.

    The power mean of two numbers given by their logs, with `delta = 1 - q`; `delta = 0` is the weighted sum of the
    logs, `delta = inf` their maximum and `delta = -inf` their minimum. `beta = 0` and `beta = 1` return `log_base` and
    `log_target` themselves, bit for bit; a beta outside [0, 1] gives NaN. Differentiable in every argument without
    NaN: an infinite derivative comes back as the largest finite number, since infinity times a zero tangent is NaN.
    """
    return _power_mean(*promote(beta, log_base, log_target, delta, shift))


def power_mean_pair_derivative(
    beta: RealLike, log_base: RealLike, log_target: RealLike, delta: RealLike, shift: RealLike = 0.0
) -> FloatArray:
    """Derivative of `log_power_mean_pair` in `beta`, one-sided at 0 and 1; infinite where it is."""
    beta, log_base, log_target, delta, shift = promote(beta, log_base, log_target, delta, shift)
    weights = _mixing_weights(beta, shift)
    return weights.slope * _derivative(weights, *_exponents(log_base, log_target, delta), delta)


def power_mean_pair_shares(
    beta: RealLike, log_base: RealLike, log_target: RealLike, delta: RealLike, shift: RealLike = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Derivatives of `log_power_mean_pair` in `log_base` and `log_target`: the shares `(1 - a, a)` of the endpoints."""
    beta, log_base, log_target, delta, shift = promote(beta, log_base, log_target, delta, shift)
    log_odds = _log_odds(_mixing_weights(beta, shift), _exponents(log_base, log_target, delta)[1])
    return jax.nn.sigmoid(-log_odds), jax.nn.sigmoid(log_odds)


class _Weights(NamedTuple):
    """The two mixing weights, apart so that neither loses digits: `base` is not computed as `1 - target`."""

    base: Array
    target: Array
    slope: Array
    """d target / d beta."""


def _mixing_weights(beta: Array, shift: Array) -> _Weights:
    scale = jnp.exp(-jnp.abs(shift))
    base = (1 - beta) * jnp.where(shift > 0, scale, 1)
    target = beta * jnp.where(shift < 0, scale, 1)
    total = base + target
    # slope = scale / total^2; the square underflows in float32 for shifts beyond 44.
    return _Weights(base / total, target / total, jnp.exp(-jnp.abs(shift) - 2 * jnp.log(total)))


def _exponents(log_base: Array, log_target: Array, delta: Array) -> tuple[Array, Array]:
    """`r = log_target - log_base` and `y = delta r`; r is 0 where both are `-inf`, and 0 * inf is 0."""
    r = jnp.where(log_target == log_base, 0, log_target - log_base)
    return r, jnp.where((r == 0) | (delta == 0), 0, delta * r)


def _log_weight(weight: Array, other: Array) -> Array:
    """Log of one of two weights that sum to one; a weight near one is known better through the other."""
    return jnp.where(other < 0.5, log1p(-jnp.where(other < 0.5, other, 0)), jnp.log(weight))


def _log_odds(weights: _Weights, y: Array) -> Array:
    """Log odds of the target's share, `logit b + y`; at the ends of the path the weight decides, even if y is inf."""
    log_odds = jnp.log(weights.target) - jnp.log(weights.base) + y
    return jnp.where(weights.target == 0, -jnp.inf, jnp.where(weights.base == 0, jnp.inf, log_odds))


def _is_zero(delta: Array) -> Array:
    """Zero, or so small that XLA may flush it to zero."""
    return jnp.abs(delta) < jnp.finfo(delta.dtype).tiny


def _from_reference(weights: _Weights, r: Array, y: Array, delta: Array) -> tuple[Array, Array]:
    """Whether the target is the reference, and `log power mean - log reference`.

    Two regimes, so that every digit survives. *Near*, |y| < 1/2: measured from the endpoint of the larger weight,
    `log1p(w expm1(s)) / delta` with s = y or -y, where nothing cancels. *Far*: measured from the endpoint of the larger
    share, `(log w_reference + log1p(exp(-|log odds|))) / delta`, a sum of numbers no larger than |y| in size.
    """
    near = jnp.abs(y) < 0.5
    target_heavier = weights.target > weights.base
    lighter = jnp.minimum(weights.base, weights.target)
    step = lighter * _expm1_series(jnp.where(target_heavier, -y, y))

    log_odds = _log_odds(weights, y)
    log_target_weight = _log_weight(weights.target, weights.base)
    log_weight = jnp.where(log_odds > 0, log_target_weight, _log_weight(weights.base, weights.target))

    total = _log1p_series(jnp.where(near, step, jnp.exp(-jnp.abs(log_odds)))) + jnp.where(near, 0, log_weight)
    linear = _is_zero(delta)
    power = total / jnp.where(linear, 1, delta)
    geometric = lighter * jnp.where(target_heavier, -r, r)
    return jnp.where(near | linear, target_heavier, log_odds > 0), jnp.where(linear, geometric, power)


# XLA's expm1 and log1p take twice the time of all the rest together, and its float64 log1p is off by a hundred ulp for
# some negative arguments. On the short ranges needed here a series is exact to rounding and costs next to nothing
# (benchmarks/results/interpolate.md).


def _expm1_series(x: Array) -> Array:
    """`expm1(x)` for |x| < 1/2."""
    result = jnp.zeros_like(x)
    for k in range(15 if x.dtype == jnp.float64 else 8, 0, -1):
        result = result * x + 1 / math.factorial(k)
    return result * x


def _log1p_series(x: Array) -> Array:
    """`log1p(x) = 2 artanh(x / (2 + x))` for -1/2 <= x <= 1."""
    t = x / (2 + x)
    square = t * t
    result = jnp.zeros_like(x)
    for k in range(17 if x.dtype == jnp.float64 else 8, -1, -1):
        result = result * square + 2 / (2 * k + 1)
    return t * result


def _derivative(weights: _Weights, r: Array, y: Array, delta: Array) -> Array:
    """`(1/delta) expm1(y) / (w_base + w_target exp(y))`, multiplied through by exp(-y) where y > 0."""
    linear = _is_zero(delta)
    small = jnp.exp(-jnp.abs(y))
    denominator = jnp.where(y > 0, weights.base * small + weights.target, weights.base + weights.target * small)
    power = -jnp.sign(y) * jnp.expm1(-jnp.abs(y)) / denominator / jnp.where(linear, 1, delta)
    # The minimum and maximum do not depend on beta inside the path.
    return jnp.where(linear, r, jnp.where(jnp.isinf(delta), 0, power))


def _derivative_in_delta(weights: _Weights, r: Array, y: Array, delta: Array) -> Array:
    """`(share_other * (log other - log reference) - (log mean - log reference)) / delta`.

    The two terms agree to first order in y, so for small |y| the cumulant series of `log E exp(y)` takes over.
    """
    variance = weights.base * weights.target
    skewness = variance * (weights.base - weights.target)
    kurtosis = variance * (1 - 6 * variance)
    series = variance / 2 + y * (skewness / 3 + y * kurtosis / 8)
    series = jnp.where(variance == 0, 0, series * jnp.square(r))

    in_series = (jnp.abs(y) < jnp.finfo(y.dtype).eps ** 0.25) | _is_zero(delta)
    target_is_reference, excess = _from_reference(weights, r, y, delta)
    log_odds = _log_odds(weights, y)
    share_other = jax.nn.sigmoid(jnp.where(target_is_reference, -log_odds, log_odds))
    tilt = jnp.where(share_other == 0, 0, share_other * jnp.where(target_is_reference, -r, r))
    return jnp.where(in_series, series, (tilt - excess) / jnp.where(in_series, 1, delta))


@jax.custom_jvp
def _power_mean(beta: Array, log_base: Array, log_target: Array, delta: Array, shift: Array) -> Array:
    weights = _mixing_weights(beta, shift)
    target_is_reference, excess = _from_reference(weights, *_exponents(log_base, log_target, delta), delta)
    mean = jnp.where(target_is_reference, log_target, log_base) + excess
    # The reference of the geometric mean can itself be -inf, and -inf + inf is NaN.
    empty = _is_zero(delta) & (jnp.minimum(log_base, log_target) == -jnp.inf)
    mean = jnp.where(empty, -jnp.inf, mean)
    mean = jnp.where(beta == 0, log_base, jnp.where(beta == 1, log_target, mean))
    return jnp.where((beta >= 0) & (beta <= 1), mean, jnp.nan)


def _power_mean_jvp(primals: tuple[Array, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    beta, log_base, log_target, delta, shift = primals
    weights = _mixing_weights(beta, shift)
    r, y = _exponents(log_base, log_target, delta)
    in_target = _derivative(weights, r, y, delta)
    variance = weights.base * weights.target
    log_odds = _log_odds(weights, y)
    partials = (
        weights.slope * in_target,
        jax.nn.sigmoid(-log_odds),
        jax.nn.sigmoid(log_odds),
        _derivative_in_delta(weights, r, y, delta),
        jnp.where(variance == 0, 0, variance * in_target),
    )
    mean = _power_mean(*primals)
    largest = jnp.finfo(mean.dtype).max
    tangent = jnp.zeros_like(mean)
    for partial, direction in zip(partials, tangents, strict=True):
        if not isinstance(direction, SymbolicZero):
            tangent = tangent + jnp.clip(partial, -largest, largest) * direction
    return mean, tangent


_power_mean.defjvp(_power_mean_jvp, symbolic_zeros=True)
