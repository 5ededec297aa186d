"""Estimators: arrays in, log evidence out. Nothing here samples or evaluates a density.

All work on stored runs, such as the `features` of a `ParallelTempering` result:

    forward, reverse = neighbor_log_ratios(path, result.betas, result.features)
    log_evidence = bridge(forward, reverse).sum()
"""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..core import (
    AnyArray,
    Features,
    FloatArray,
    RealLike,
    is_traced,
    log_mean_exp,
    logsumexp,
    namespace,
    quiet,
    sigmoid,
    softmax,
    to_host,
    while_loop,
)
from ..paths import AbstractPath

_FLOOR = 1e4
"""Nats below the highest log ratio of a side of a bridge, beyond which one counts as no mass."""
_MOST_STEPS = 100
"""Most steps of the search for the root of a bridge; bisection alone needs about 70 for ordinary log ratios."""


def neighbor_log_ratios(
    path: AbstractPath[Any], betas: Float[AnyArray, " num"], features: Features
) -> tuple[Float[AnyArray, "pairs n"], Float[AnyArray, "pairs n"]]:
    """Log ratios of neighboring densities at the states of a run, for `stepping_stone` and `bridge`.

    Args:
        path: The path of the run.
        betas: Its betas.
        features: The path's features of n states at each beta, betas first.

    Returns:
        `forward[i]`, which is `log pi_{i+1} - log pi_i` at the states of beta i, and `reverse[i]`, which is
        `log pi_i - log pi_{i+1}` at those of beta i + 1.

    The states need no weights, as those of `ParallelTempering` (`result.features`). See [Parallel
    tempering](algorithms.md#parallel-tempering).

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(lambda x: 0.0 * x, lambda x: x)
        >>> states = np.array([[1.0], [1.0], [2.0]])  # one state at each of three betas
        >>> features = jax.vmap(jax.vmap(path.features))(states)
        >>> forward, reverse = neighbor_log_ratios(path, np.array([0.0, 0.5, 1.0]), features)
        >>> forward.ravel().tolist(), reverse.ravel().tolist()
        ([0.5, 0.5], [-0.5, -1.0])
    """
    here, there = (b[(slice(None),) + (None,) * (num_axes_of(features) - 1)] for b in (betas[:-1], betas[1:]))
    low, high = (jax.tree.map(lambda leaf: leaf[part], features) for part in (slice(None, -1), slice(1, None)))  # noqa: B023
    return path.log_ratio(here, there, low), path.log_ratio(there, here, high)


def num_axes_of(features: Features) -> int:
    """Axes in front of a point's own numbers: those of a log density among the features."""
    return int(min(leaf.ndim for leaf in jax.tree.leaves(features)))


def stepping_stone(log_ratios: Float[AnyArray, "pairs n"]) -> Float[AnyArray, " pairs"]:
    """Log of the mean ratio for each pair of neighbors (Xie, Lewis, Fan, Kuo and Chen, 2011); their sum is log Z.

    With the forward ratios of `neighbor_log_ratios` it estimates `log Z_{i+1}/Z_i`, with the reverse ones the negative
    of it. Each direction needs states that cover the neighbor; `bridge` needs only overlap.

    Args:
        log_ratios: One row of log ratios for each pair of neighbors.

    Returns:
        One log ratio of normalizing constants for each pair.

    Examples:
        >>> import numpy as np
        >>> stepping_stone(np.log([[1.0, 3.0]])).round(4).tolist()  # log 2
        [0.6931]
    """
    return log_mean_exp(log_ratios)


@quiet()
def bridge(forward: Float[AnyArray, "pairs n"], reverse: Float[AnyArray, "pairs m"]) -> Float[AnyArray, " pairs"]:
    """`log Z_{i+1}/Z_i` for each pair of neighbors by bridge sampling (Bennett, 1976; Meng and Wong, 1996).

    Args:
        forward: Log ratios at the n states of the lower beta, from `neighbor_log_ratios`.
        reverse: Log ratios at the m states of the higher beta.

    Returns:
        One log ratio for each pair. Where no state of one side has mass at the other it is infinite.

    The estimate is the root c of

        sum sigmoid(forward - c + log m/n) = sum sigmoid(reverse + c - log m/n).

    For independent draws it has the least variance of all estimates from the two samples; it is MBAR for two states.
    Both sides are nearly exponential or constant in c, so Newton's method on the difference of their logs settles in a
    few steps; a step that leaves the bracket is replaced by bisection. The two samples must overlap. Log ratios of one
    side that are 10,000 below its highest count as no mass: a wide proposal finds such values far out. Where no root
    is reached, and where a log ratio is NaN, the estimate is NaN.

    Examples:
        >>> import numpy as np
        >>> bridge(np.full((1, 5), 2.0), np.full((1, 5), -2.0)).tolist()  # a constant ratio of exp(2)
        [2.0]
    """
    if not is_traced(forward, reverse):
        forward, reverse = to_host((forward, reverse))
    xp = namespace(forward, reverse)
    forward, reverse = _with_floor(forward), _with_floor(reverse)

    def improve(carry: Any) -> Any:
        count, _, c, low, high = carry
        value, slope = _bridge_excess(forward, reverse, c)
        low, high = xp.where(value > 0, c, low), xp.where(value < 0, c, high)
        newton = c - value / slope
        new = xp.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        return count + 1, xp.max(xp.abs(new - c) / (1 + xp.abs(c))), new, low, high

    low, high = _bracket(forward, reverse)
    epsilon = float(xp.finfo(low.dtype).eps)
    carry = xp.zeros((), int), xp.full((), xp.inf, low.dtype), 0.5 * (low + high), low, high
    c = while_loop(xp, lambda carry: (carry[0] < _MOST_STEPS) & (carry[1] > 8 * epsilon), improve, carry)[2]
    near = epsilon**0.5 * (1 + xp.abs(c))
    before, after = (_bridge_excess(forward, reverse, c + change)[0] for change in (-near, near))
    is_root = (before >= -(epsilon**0.5)) & (after <= epsilon**0.5)
    above, below = (xp.any(side > -xp.inf, axis=1) for side in (forward, reverse))
    neither = xp.where(above, xp.inf, xp.where(below, -xp.inf, xp.nan))
    is_number = ~xp.any(xp.isnan(forward), axis=1) & ~xp.any(xp.isnan(reverse), axis=1)
    found = xp.where(above & below, xp.where(is_root, c, xp.nan), neither)
    return xp.where(is_number, found, xp.nan).astype(low.dtype)


def _with_floor(side: AnyArray) -> AnyArray:
    """Log ratios of one side, without those so low that sums over all would lose every digit in rounding."""
    xp = namespace(side)
    highest = xp.max(side, axis=1, keepdims=True, where=xp.isfinite(side), initial=-xp.inf)
    return xp.where(side < highest - _FLOOR, -xp.inf, side)


def _bridge_excess(forward: AnyArray, reverse: AnyArray, c: AnyArray) -> tuple[Any, Any]:
    """Log of the left over the right side of the equation of `bridge`, and its derivative in c."""
    xp = namespace(forward)
    c = c - math.log(reverse.shape[1] / forward.shape[1])

    def log_side(side: AnyArray) -> tuple[Any, Any]:
        log_terms = -xp.logaddexp(0.0, -side)
        # Weights that sum to one whatever the terms are: a mean of slopes, each between 0 and 1.
        return logsumexp(log_terms, axis=1), xp.sum(softmax(log_terms) * sigmoid(-side), axis=1)

    left, left_slope = log_side(forward - c[:, None])
    right, right_slope = log_side(reverse + c[:, None])
    return left - right, -(left_slope + right_slope)


def _bracket(forward: Float[AnyArray, "pairs n"], reverse: Float[AnyArray, "pairs m"]) -> tuple[Any, Any]:
    """Two numbers between which the root of `bridge` lies where both sides exist."""
    xp = namespace(forward)
    values = xp.concatenate([forward, -reverse], axis=1)
    possible = xp.isfinite(values)
    # A side with a single finite term exceeds 1/2 once c is past it; the other is then below total * exp(-slack).
    slack = 2 * math.log(4.0 * values.shape[1])
    low = xp.min(values, axis=1, where=possible, initial=xp.inf) - slack
    high = xp.max(values, axis=1, where=possible, initial=-xp.inf) + slack
    exists = xp.any(possible, axis=1)
    return xp.where(exists, low, 0.0), xp.where(exists, high, 0.0)


class DerivativeMoments(NamedTuple):
    """Mean and variance of `d/dbeta log pi` under the density at one beta, and the slope of that mean in beta.

    Attributes:
        mean: The mean, the integrand of thermodynamic integration.
        variance: The variance. It does not exist where the derivative has heavy tails.
        slope: The derivative of the mean in beta. On the geometric path it is the variance.

    See [Thermodynamic integration](algorithms.md#thermodynamic-integration).

    Examples:
        >>> DerivativeMoments(1.0, 2.0, 2.0).mean
        1.0
    """

    mean: FloatArray
    variance: FloatArray
    slope: FloatArray


def derivative_moments(
    path: AbstractPath[Any], beta: RealLike, features: Features, log_weights: FloatArray
) -> DerivativeMoments:
    """Moments of the path's derivative from n weighted states at `beta`.

    With l = log pi_beta and m(beta) = E[l'], differentiating under the integral gives `m' = Var[l'] + E[l'']`, the
    slope. On the geometric path l'' = 0. On a power-mean path `l = log[(1-beta) + beta exp(delta r)] / delta + ...` is
    the log of a linear function over delta, so `l'' = -delta l'^2`, plus a multiple of l' where `log_scale` bends beta.
    The path's own derivatives are used, which is right for every path (Friel, Hurn and Wyse, 2014, for the geometric
    one).

    Args:
        path: The path.
        beta: Where the states are draws from.
        features: The path's features of the states.
        log_weights: Their log weights. A state of weight zero does not count.

    Returns:
        `DerivativeMoments`. They are infinite where the derivative is, as at beta = 0 with a target that is -inf at a
        state.

    Examples:
        >>> import jax
        >>> import numpy as np
        >>> import qpaths as qp
        >>> path = qp.GeometricPath(lambda x: 0.0 * x, lambda x: x)
        >>> moments = derivative_moments(path, 0.5, jax.vmap(path.features)(np.array([1.0, 3.0])), np.zeros(2))
        >>> float(moments.mean), float(moments.variance)
        (2.0, 1.0)
    """
    return moments_from(*path.derivatives_from(beta, features), log_weights)


@quiet()
def moments_from(values: FloatArray, curvatures: FloatArray, log_weights: FloatArray) -> DerivativeMoments:
    """Return `derivative_moments` from the first and second derivatives of the path; states are the last axis."""
    xp = namespace(values, log_weights)
    weights = softmax(log_weights)
    values, curvatures = xp.where(weights > 0, values, 0.0), xp.where(weights > 0, curvatures, 0.0)
    mean = xp.sum(weights * values, axis=-1)
    variance = xp.sum(weights * xp.square(values - mean[..., None]), axis=-1)
    slope = variance + xp.sum(weights * curvatures, axis=-1)
    finite = xp.isfinite(mean)
    return DerivativeMoments(mean, xp.where(finite, variance, xp.inf), xp.where(finite, slope, xp.inf))


@quiet()
def thermodynamic_integration(
    betas: Float[AnyArray, " num"],
    means: Float[AnyArray, " num"],
    slopes: Float[AnyArray, " num"] | None = None,
    *,
    rule: str = "corrected",
) -> Float[AnyArray, " steps"]:
    """`log Z_{i+1}/Z_i` for each step as the integral of E[d/dbeta log pi]; their sum is the log evidence.

    Args:
        betas: Where the means are known, increasing.
        means: Those of `derivative_moments` at each beta.
        slopes: Theirs, too; only `"corrected"` needs them.
        rule: `"trapezoid"`, `"simpson"`, or `"corrected"`: the trapezoid less `h^2/12` times the change of the slope.
            Its error falls with the fourth power of the step (Friel, Hurn and Wyse, 2014, where the slope is the
            variance because the path is geometric).

    Returns:
        One log ratio for each step.

    The error of the rule is not estimated: halve the steps and compare.

    Examples:
        >>> import numpy as np
        >>> betas = np.array([0.0, 0.5, 1.0])
        >>> float(thermodynamic_integration(betas, 3 * betas**2, 6 * betas).sum())  # exact for cubics
        1.0
    """
    check_rule(rule)
    xp = namespace(betas, means)
    widths = xp.diff(betas)
    trapezoid = 0.5 * widths * (means[:-1] + means[1:])
    if rule == "trapezoid" or (rule == "simpson" and betas.shape[0] == 2):
        return trapezoid
    if rule == "simpson":
        return _simpson(widths, means)
    if slopes is None:
        raise ValueError("`slopes` must be given for the corrected rule, got None: or take `rule='simpson'`.")
    # An infinite end makes the integral infinite whatever the slope there.
    return xp.where(xp.isinf(trapezoid), trapezoid, trapezoid - xp.square(widths) / 12 * xp.diff(slopes))


def check_rule(rule: str) -> None:
    """Raise unless `thermodynamic_integration` knows the rule."""
    if rule not in ("trapezoid", "simpson", "corrected"):
        raise ValueError(f"`rule` must be trapezoid, simpson or corrected, got {rule!r}.")


def _simpson(widths: Float[AnyArray, " steps"], values: Float[AnyArray, " num"]) -> Float[AnyArray, " steps"]:
    """Integral of parabolas through three neighbors; steps 0 and 1 share one, 2 and 3 the next, and so on.

    The last of an odd number of steps takes the parabola of the last three values.
    """
    xp = namespace(widths, values)
    step = np.arange(widths.shape[0])
    ahead = (step % 2 == 0) & (step + 1 < step.size)
    near, middle = np.where(ahead, step, step + 1), np.where(ahead, step + 1, step)
    far = np.where(ahead, step + 2, step - 1)
    other = widths[np.where(ahead, step + 1, step - 1)]
    total = widths + other
    bend = xp.square(widths) / (other * total)
    share = widths / total
    weighted = (3 - share) * values[near] + (3 + bend + share) * values[middle] - bend * values[far]
    return widths * weighted / 6
