"""Numerics that every layer shares.

Nothing here knows about paths or samplers. All functions work in the precision of their arguments, and return no NaN
for arguments in their domain, `-inf` included. They take NumPy and JAX arrays and answer with the same. All but the
mean of matrices are elementwise, or reduce over one axis.
"""

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.custom_derivatives import SymbolicZero
from jaxtyping import Float

from .arrays import logsumexp, namespace, quiet, sigmoid
from .types import AnyArray, FloatArray, PyTree, RealLike, ScalarLike


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


def log1p(x: AnyArray) -> AnyArray:
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


def promote(*values: PyTree) -> tuple[Any, ...]:
    """All values as arrays of their common floating type; Python numbers do not widen it."""
    xp = namespace(*values)
    dtype = xp.result_type(*values)
    if not jnp.issubdtype(dtype, jnp.floating):
        dtype = xp.result_type(float)
    return tuple(xp.asarray(value, dtype) for value in values)


def promote_jax(*values: PyTree) -> tuple[Array, ...]:
    """Promote to JAX arrays whatever the values are."""
    return tuple(map(jnp.asarray, promote(*values)))


@quiet()
def geometric_mean(a: Float[AnyArray, "d d"], b: Float[AnyArray, "d d"]) -> Float[AnyArray, "d d"]:
    """The symmetric matrix S with `S inv(b) S = a`; NaN where one of the two is not positive definite.

    NumPy raises an error where b is not.
    """
    xp = namespace(a, b)
    factor = xp.linalg.cholesky(b)
    inner = factor.T @ xp.linalg.solve(b, xp.linalg.solve(b, a).T).T @ factor
    values, vectors = xp.linalg.eigh(0.5 * (inner + inner.T))
    mean = factor @ (vectors * xp.sqrt(xp.where(values > 0, values, xp.nan))) @ vectors.T @ factor.T
    return 0.5 * (mean + mean.T)


def log_power_mean_pair(
    beta: RealLike, log_base: RealLike, log_target: RealLike, delta: RealLike, shift: RealLike = 0.0
) -> FloatArray:
    """`(1/delta) log[(1 - b) exp(delta log_base) + b exp(delta log_target)]` where `logit b = logit beta + shift`.

    The power mean of two numbers given by their logs, with `delta = 1 - q`; `delta = 0` is the weighted sum of the
    logs, `delta = inf` their maximum and `delta = -inf` their minimum. `beta = 0` and `beta = 1` return `log_base` and
    `log_target` themselves, bit for bit; a beta outside [0, 1] gives NaN. Differentiable in every argument without
    NaN: an infinite derivative comes back as the largest finite number, since infinity times a zero tangent is NaN.
    """
    arguments = promote(beta, log_base, log_target, delta, shift)
    if namespace(*arguments) is jnp:
        return _power_mean_jax(*arguments)
    with quiet():
        mean = _plain_mean(*arguments)
        return _power_mean(*arguments) if mean is None else mean


def _plain_mean(
    beta: AnyArray, log_base: AnyArray, log_target: AnyArray, delta: AnyArray, shift: AnyArray
) -> AnyArray | None:
    """On the host, what `_power_mean` makes of finite numbers at one beta and one q, in less than half of the time."""
    if beta.ndim or delta.ndim or shift.ndim or shift != 0 or not 0 < beta < 1 or not np.isfinite(delta):
        return None
    r, target_heavier, lighter = log_target - log_base, beta > 0.5, min(beta, 1 - beta)
    if _is_zero(delta):
        mean = log_target - lighter * r if target_heavier else log_base + lighter * r
        return mean if np.isfinite(mean).all() else None
    y = delta * r
    near = np.abs(y) < 0.5
    if near.all():
        step = lighter * np.expm1(-y if target_heavier else y)
        return (log_target if target_heavier else log_base) + np.log1p(step) / delta
    step = lighter * np.expm1(np.where(near, -y if target_heavier else y, 0.0))
    weights = _mixing_weights(beta, shift)
    log_odds = weights.log_odds + y
    by_target = log_odds > 0
    log_weight = np.where(
        by_target, _log_weight(beta, 1 - beta, weights.log_odds), _log_weight(1 - beta, beta, -weights.log_odds)
    )
    total = np.log1p(np.where(near, step, np.exp(-np.abs(log_odds)))) + np.where(near, 0.0, log_weight)
    mean = np.where(np.where(near, target_heavier, by_target), log_target, log_base) + total / delta
    return mean if np.isfinite(mean).all() else None


def power_mean_pair_derivative(
    beta: RealLike, log_base: RealLike, log_target: RealLike, delta: RealLike, shift: RealLike = 0.0
) -> FloatArray:
    """Derivative of `log_power_mean_pair` in `beta`, one-sided at 0 and 1; infinite where it is."""
    return power_mean_pair_derivatives(beta, log_base, log_target, delta, shift)[0]


@quiet()
def power_mean_pair_derivatives(
    beta: RealLike, log_base: RealLike, log_target: RealLike, delta: RealLike, shift: RealLike = 0.0
) -> tuple[FloatArray, FloatArray]:
    """First and second derivative of `log_power_mean_pair` in `beta`, one-sided at 0 and 1.

    Let `w` be the weight of the target, `A = 1 - beta + beta exp(shift)`, and `B` the same at `shift + y`. The first is
    `(1/delta) exp(shift) expm1(y) / (A B)`, and its logarithm has the derivative `d log(dw/dbeta) - delta first`.
    """
    arguments = promote(beta, log_base, log_target, delta, shift)
    return _derivatives(*arguments)


def _derivatives(
    beta: AnyArray, log_base: AnyArray, log_target: AnyArray, delta: AnyArray, shift: AnyArray
) -> tuple[Any, Any]:
    """See `power_mean_pair_derivatives`; exponents are added before they are taken, so that no weight underflows."""
    xp = namespace(beta)
    weights = _mixing_weights(beta, shift)
    r, y = _exponents(log_base, log_target, delta)
    inside = (beta >= 0) & (beta <= 1)
    if (
        xp is np and _is_zero(delta).all() and not shift.any()
    ):  # the derivative of the geometric mean is r, and does not bend
        first = xp.where(inside, r, xp.nan)
        return first, xp.where(inside, np.zeros_like(r), xp.nan)
    after = shift + y
    exponent = xp.minimum(shift, 0) + xp.maximum(y, 0) - xp.maximum(after, 0)
    exponent = xp.where(xp.isinf(y), xp.where(y > 0, -xp.maximum(shift, 0), xp.minimum(shift, 0)), exponent)
    small = xp.exp(-xp.abs(after))
    # At an end what is left of the denominator is an exponential, which may underflow.
    end = (beta == 0) | (beta == 1)
    at_end = xp.where(beta == 0, xp.maximum(after, 0), xp.maximum(-after, 0))
    exponent = exponent + xp.where(end & xp.isfinite(y), at_end, 0)
    denominator = xp.where(after > 0, (1 - beta) * small + beta, (1 - beta) + beta * small)
    over = 1 / xp.where(end & xp.isfinite(y), 1, denominator)
    linear = _is_zero(delta)
    core = -xp.sign(y) * xp.expm1(-xp.abs(y)) / xp.where(linear, 1, delta)

    straight = xp.where(r == 0, 0, xp.exp(weights.log_slope) * r)

    def times_core(log_factor: AnyArray) -> AnyArray:
        factor = xp.exp(exponent - log_factor) * over
        power = xp.where((core == 0) | xp.isinf(factor) & xp.isinf(core), core, core * factor)
        # The minimum and maximum do not depend on beta inside the path.
        return xp.where(linear, straight, xp.where(xp.isinf(delta), 0, power))

    first = times_core(weights.log_total)
    turn = delta * times_core(weights.log_total + xp.maximum(weights.log_slope, 0))
    curve = weights.bend - xp.where(linear | xp.isinf(delta), 0, turn)
    second = xp.where((first == 0) | (curve == 0), 0, first * xp.exp(xp.maximum(weights.log_slope, 0)) * curve)
    return xp.where(inside, first, xp.nan), xp.where(inside, second, xp.nan)


@quiet()
def power_mean_pair_shares(
    beta: RealLike, log_base: RealLike, log_target: RealLike, delta: RealLike, shift: RealLike = 0.0
) -> tuple[FloatArray, FloatArray]:
    """Derivatives of `log_power_mean_pair` in `log_base` and `log_target`: the shares `(1 - a, a)` of the endpoints."""
    beta, log_base, log_target, delta, shift = promote(beta, log_base, log_target, delta, shift)
    if namespace(log_base) is np and not np.any(delta) and not np.any(shift):
        return 1 - beta + np.zeros_like(log_base), beta + np.zeros_like(log_base)
    log_odds = _log_odds(_mixing_weights(beta, shift), _exponents(log_base, log_target, delta)[1])
    return sigmoid(-log_odds), sigmoid(log_odds)


_TINY = 1e-30
"""A weight below this, in either precision, has a log that is its log odds to the last digit."""


class _Weights(NamedTuple):
    """The two mixing weights, apart so that neither loses digits: `base` is not computed as `1 - target`."""

    base: AnyArray
    target: AnyArray
    log_odds: AnyArray
    """`logit beta + shift`, which has a number where a weight underflows."""
    log_total: AnyArray
    """Log of `1 - beta + beta exp(shift)` over the larger of `exp(shift)` and 1."""
    log_slope: AnyArray
    """Log of d target / d beta."""
    bend: AnyArray
    """d log slope / d beta, over the slope where that is above 1."""


def _mixing_weights(beta: AnyArray, shift: AnyArray) -> _Weights:
    """Weights of the endpoints after the shift of logit(beta), without overflow for any shift."""
    xp = namespace(beta)
    zero = xp.zeros_like(beta)
    log_odds = xp.log(beta) - log1p(-beta)
    if xp is np and not shift.any():  # as always but for a scaled target, and known on the host
        return _Weights(1 - beta, beta, log_odds, zero, zero, zero)
    scale = xp.exp(-xp.abs(shift))
    base = (1 - beta) * xp.where(shift > 0, scale, 1)
    target = beta * xp.where(shift < 0, scale, 1)
    # At an end the total is 1 or the scale, which may underflow; inside it is at least min(beta, 1 - beta).
    end = (beta == 0) | (beta == 1)
    total = xp.where(end, 1, base + target)
    at_end = xp.where(beta == 0, -xp.maximum(shift, 0), xp.minimum(shift, 0))
    log_total = xp.where(end, at_end, xp.log(total))
    log_slope = xp.where(end, xp.where(beta == 0, shift, -shift), -xp.abs(shift) - 2 * log_total)
    loss = xp.expm1(-xp.abs(shift))
    bend = xp.where(beta == 0, -2, 2) * xp.where(xp.where(beta == 0, shift, -shift) > 0, -loss, loss)
    inside = 2 * xp.where(shift > 0, loss, -loss) / total * xp.exp(-xp.maximum(log_slope, 0))
    return _Weights(
        xp.where(end, 1 - beta, base / total),
        xp.where(end, beta, target / total),
        xp.where(end, log_odds, log_odds + shift),
        log_total,
        log_slope,
        xp.where(end, bend, inside),
    )


def _exponents(log_base: AnyArray, log_target: AnyArray, delta: AnyArray) -> tuple[Any, Any]:
    """`r = log_target - log_base` and `y = delta r`; r is 0 where both are `-inf`, and 0 * inf is 0."""
    xp = namespace(log_base)
    r = xp.where(log_target == log_base, 0, log_target - log_base)
    return r, xp.where((r == 0) | (delta == 0), 0, delta * r)


def _log_weight(weight: AnyArray, other: AnyArray, log_odds: AnyArray) -> AnyArray:
    """Log of one of two weights that sum to one; a weight near one is known better through the other.

    `log_odds` are those of the weight, and its log where it underflows.
    """
    xp = namespace(weight)
    log_small = xp.where(weight < _TINY, log_odds, xp.log(weight))
    return xp.where(other < 0.5, log1p(-xp.where(other < 0.5, other, 0)), log_small)


def _log_odds(weights: _Weights, y: AnyArray) -> AnyArray:
    """Log odds of the target's share, `logit b + y`; at the ends of the path the weight decides, even if y is inf."""
    xp = namespace(y, weights.base)
    return xp.where(xp.isinf(weights.log_odds), weights.log_odds, weights.log_odds + y)


def _is_zero(delta: AnyArray) -> AnyArray:
    """Zero, or so small that XLA may flush it to zero."""
    return namespace(delta).abs(delta) < jnp.finfo(delta.dtype).tiny


def _from_reference(weights: _Weights, r: AnyArray, y: AnyArray, delta: AnyArray) -> tuple[Any, Any]:
    """Return whether the target is the reference, and `log power mean - log reference`.

    Two regimes, so that every digit survives. *Near*, |y| < 1/2: measured from the endpoint of the larger weight,
    `log1p(w expm1(s)) / delta` with s = y or -y, where nothing cancels. *Far*: measured from the endpoint of the larger
    share, `(log w_reference + log1p(exp(-|log odds|))) / delta`, a sum of numbers no larger than |y| in size.
    """
    xp = namespace(y, weights.base)
    near = xp.abs(y) < 0.5
    target_heavier = weights.target > weights.base
    lighter = xp.minimum(weights.base, weights.target)
    geometric = lighter * xp.where(target_heavier, -r, r)
    if xp is np and _is_zero(delta).all():  # nothing else is needed, and on the host that is known
        return target_heavier, geometric
    step = lighter * _expm1_series(xp.where(target_heavier, -y, y))
    if xp is np and near.all() and not _is_zero(delta).any():
        return target_heavier, _log1p_series(step) / delta

    log_odds = _log_odds(weights, y)
    log_target_weight = _log_weight(weights.target, weights.base, weights.log_odds)
    log_base_weight = _log_weight(weights.base, weights.target, -weights.log_odds)
    log_weight = xp.where(log_odds > 0, log_target_weight, log_base_weight)

    total = _log1p_series(xp.where(near, step, xp.exp(-xp.abs(log_odds)))) + xp.where(near, 0, log_weight)
    linear = _is_zero(delta)
    power = total / xp.where(linear, 1, delta)
    return xp.where(near | linear, target_heavier, log_odds > 0), xp.where(linear, geometric, power)


# XLA's expm1 and log1p take twice the time of all the rest together, and its float64 log1p is off by a hundred ulp for
# some negative arguments. On the short ranges needed here a series is exact to rounding and costs next to nothing
# (benchmarks/results/interpolate.md).


def _expm1_series(x: AnyArray) -> AnyArray:
    """`expm1(x)` for |x| < 1/2."""
    xp = namespace(x)
    if xp is np:
        return np.expm1(x)
    result = jnp.zeros_like(x)
    for k in range(15 if x.dtype == jnp.float64 else 8, 0, -1):
        result = result * x + 1 / math.factorial(k)
    return result * x


def _log1p_series(x: AnyArray) -> AnyArray:
    """`log1p(x) = 2 artanh(x / (2 + x))` for -1/2 <= x <= 1."""
    xp = namespace(x)
    if xp is np:
        return np.log1p(x)
    t = x / (2 + x)
    square = t * t
    result = jnp.zeros_like(x)
    for k in range(17 if x.dtype == jnp.float64 else 8, -1, -1):
        result = result * square + 2 / (2 * k + 1)
    return t * result


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
    share_other = sigmoid(jnp.where(target_is_reference, -log_odds, log_odds))
    tilt = jnp.where(share_other == 0, 0, share_other * jnp.where(target_is_reference, -r, r))
    return jnp.where(in_series, series, (tilt - excess) / jnp.where(in_series, 1, delta))


def _power_mean(beta: AnyArray, log_base: AnyArray, log_target: AnyArray, delta: AnyArray, shift: AnyArray) -> AnyArray:
    """The value of `log_power_mean_pair` on arrays of one type; exact at both ends, NaN outside [0, 1]."""
    xp = namespace(beta)
    weights = _mixing_weights(beta, shift)
    target_is_reference, excess = _from_reference(weights, *_exponents(log_base, log_target, delta), delta)
    mean = xp.where(target_is_reference, log_target, log_base) + excess
    # The reference of the geometric mean can itself be -inf, and -inf + inf is NaN.
    empty = _is_zero(delta) & (xp.minimum(log_base, log_target) == -xp.inf)
    mean = xp.where(empty, -xp.inf, mean)
    mean = xp.where(beta == 0, log_base, xp.where(beta == 1, log_target, mean))
    return xp.where((beta >= 0) & (beta <= 1), mean, xp.nan)


_power_mean_jax = jax.custom_jvp(_power_mean)


def _power_mean_jvp(primals: tuple[Array, ...], tangents: tuple[Any, ...]) -> tuple[Array, Array]:
    """Closed forms for all five partial derivatives, each clipped to finite numbers."""
    beta, log_base, log_target, delta, shift = primals
    weights = _mixing_weights(beta, shift)
    r, y = _exponents(log_base, log_target, delta)
    in_beta = _derivatives(*primals)[0]
    log_odds = _log_odds(weights, y)
    partials = (
        in_beta,
        sigmoid(-log_odds),
        sigmoid(log_odds),
        _derivative_in_delta(weights, r, y, delta),
        jnp.where((beta == 0) | (beta == 1), 0, beta * (1 - beta) * in_beta),
    )
    mean = _power_mean_jax(*primals)
    largest = jnp.finfo(mean.dtype).max
    tangent = jnp.zeros_like(mean)
    for partial, direction in zip(partials, tangents, strict=True):
        if not isinstance(direction, SymbolicZero):
            tangent = tangent + jnp.clip(partial, -largest, largest) * direction
    return mean, tangent


_power_mean_jax.defjvp(_power_mean_jvp, symbolic_zeros=True)
