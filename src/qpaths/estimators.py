"""Estimators: arrays in, log evidence and its standard error out. Nothing here samples."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float, Int

from ._numerics import log_mean_exp
from ._types import AnyArray, FloatArray, RealLike, Scalar, ScalarLike, Vector
from .arrays import (
    is_traced,
    largest_first,
    logsumexp,
    map_rows,
    namespace,
    quiet,
    segment_sum,
    softmax,
    to_host,
    while_loop,
)
from .paths import AbstractPath


@quiet()
def importance_log_evidence(log_weights: Vector) -> tuple[Scalar, Scalar]:
    """Log of the mean weight of independent chains, and its standard error.

    The delta method, which a run of few good weights would make too small: `dominance` is added to its variance.
    """
    xp = namespace(log_weights)
    log_mean = log_mean_exp(log_weights)
    relative = xp.exp(log_weights - xp.where(xp.isfinite(log_mean), log_mean, 0.0))
    variance = xp.var(relative, ddof=1) / log_weights.shape[0]
    return log_mean, xp.sqrt(variance + dominance(log_weights))


@quiet()
def dominance(log_weights: Vector) -> Scalar:
    """What to add to the variance of the log of a mean weight when few weights make it up; zero for healthy weights.

    The relative variance of the mean cannot exceed 1, but the log of the mean can be off by any amount: by what the
    heaviest weight adds to it (the first order of that is in the variance already), and by the mass that no weight has
    found. The second shows where the largest sqrt(n) weights have most of the total, and a tail index k > 1 (Hill's
    estimator on them): the mean would then grow by k - 1 with every factor e in the number of particles, and as much is
    taken to be missing for each that was made.
    """
    xp = namespace(log_weights)
    num = math.isqrt(log_weights.size)
    largest = largest_first(log_weights, num + 1)
    weights = xp.exp(largest - logsumexp(log_weights))
    rest = xp.maximum(1.0 - weights[0], xp.finfo(weights.dtype).tiny)
    share = xp.clip(2 * xp.sum(weights[:num]) - 1, 0.0, 1.0)
    tail_index = _tail_index(largest, xp.sum(log_weights > -xp.inf))
    missing = share * math.log(log_weights.size) * xp.maximum(tail_index - 1.0, 0.0)
    return xp.square(xp.log(rest) + weights[0]) + xp.square(missing)


def _tail_index(largest: Float[AnyArray, " k"], num_positive: Int[AnyArray, ""]) -> Scalar:
    """Mean excess of the largest log weights over the one below them; weights of zero do not count."""
    xp = namespace(largest)
    num = xp.clip(xp.sqrt(num_positive.astype(largest.dtype)).astype(int), 1, largest.size - 1)
    excess = xp.where(xp.arange(largest.size) < num, largest - largest[num], 0.0)
    return xp.where(num_positive > num, xp.sum(excess) / num, 0.0)


@quiet()
def genealogy_se(
    log_weights: Vector, ancestors: Int[AnyArray, " n"], resampling_variance: Scalar, stage_variance: Scalar
) -> Scalar:
    """Standard error of log Z-hat from the genealogy of one run of sequential Monte Carlo.

    `ancestors` names the particle of the first generation that each final particle descends from. The idea is that of
    Chan and Lai (2013) and of Lee and Whiteley (2018): descendants of one ancestor stay correlated when the moves do
    not mix, and the spread of the final weight over the N families shows it. Their estimator subtracts the spread that
    multinomial resampling causes by itself; `resampling_variance` is that spread for the scheme in use, summed over the
    resampling steps, so that the better schemes get the smaller error they deserve. `stage_variance`, the sum over the
    steps of the relative variance of the mean weight, is what is left when the moves mix perfectly, and so a floor.
    """
    xp = namespace(log_weights)
    num = log_weights.shape[0]
    per_family = segment_sum(softmax(log_weights), ancestors, num)
    spread = xp.sum(xp.square(per_family)) - 1.0 / num - resampling_variance
    # 1 - spread estimates Z^2 / E[Z-hat^2], which is exp(-variance) for a log-normal Z-hat.
    variance = -xp.log1p(-xp.clip(spread, 0.0, 1.0 - 1.0 / num**2))
    return xp.sqrt(xp.maximum(variance, stage_variance))


class Lag(NamedTuple):
    """How far moved particles lag behind the path, and by how much that is estimated to have shifted log Z-hat.

    Moves take the mean of the path's derivative towards its true value geometrically: what was off by e is off by
    rho e afterwards, where rho is the share of a particle's derivative that the moves leave. The moves themselves have
    then shifted the mean by (rho - 1) e, which is seen, so `-rho / (1 - rho)` times the shift is still missing. Over a
    step of width h a mean that is off by so much puts log Z-hat off by h times as much.
    """

    mean: Scalar
    """Estimated error of the mean derivative at the current beta."""
    mean_variance: Scalar
    """Variance of that estimate."""
    log_evidence: Scalar
    """Estimated error of log Z-hat so far; negative where it is too small."""
    variance: Scalar
    """Variance of that estimate."""

    def step(self, width: ScalarLike) -> "Lag":
        """After a step in beta."""
        error, variance = self.log_evidence + width * self.mean, self.variance + width**2 * self.mean_variance
        return self._replace(log_evidence=error, variance=variance)

    @quiet()
    def moved(self, before: Vector, after: Vector, log_weights: Vector) -> "Lag":
        """After moves that took the derivative of weighted particles from `before` to `after`."""
        xp = namespace(before, log_weights)
        weights = softmax(log_weights)
        counted = (weights > 0) & xp.isfinite(before) & xp.isfinite(after)
        before, shift = xp.where(counted, before, 0.0), xp.where(counted, after - before, 0.0)
        centred = xp.where(counted, before - weights @ before, 0.0)
        total = xp.maximum(weights @ centred**2, xp.finfo(before.dtype).tiny)
        # At least that of moves that leave no trace, even if they overshoot; at most that of the slowest moves which n
        # particles tell from none: 1 - rho is known to sqrt(2 (1 - rho) / n), which is half of it at 8 / n.
        few = xp.sum(weights**2)
        rho = xp.clip(1.0 + weights @ (centred * shift) / total, 0.0, xp.maximum(1.0 - 8.0 * few, 0.0))
        factor = rho / (1.0 - rho)
        mean = weights @ shift
        variance = factor**2 * (weights**2 @ (shift - mean) ** 2)
        # By the delta method, what is not known of rho: with few particles much.
        variance += mean**2 * few * (1.0 - rho**2) / (1.0 - rho) ** 4
        return self._replace(mean=-factor * mean, mean_variance=variance)

    def standard_error(self, stage_variance: ScalarLike) -> Scalar:
        """Standard error of a log Z-hat whose steps have `stage_variance`, and which is off by the lag beside.

        The lag is shrunk by its own noise (positive-part James-Stein): in a healthy run nothing is left of it. Two
        standard errors reach as far as the lag and two standard deviations of what is not known. A quarter is added to
        the lag, since what has outlived many moves decays more slowly than the derivative as a whole.
        """
        xp = namespace(self.variance)
        tiny = xp.finfo(self.variance.dtype).tiny
        share = xp.maximum(1.0 - self.variance / xp.maximum(self.log_evidence**2, tiny), 0.0)
        return 0.625 * share * xp.abs(self.log_evidence) + xp.sqrt(stage_variance + share * self.variance)


def jackknife_se(estimate: Callable[..., Scalar], *arrays: FloatArray) -> Scalar:
    """Standard error of `estimate(*arrays)` by leaving out one independent replica, along the second axis, at a time.

    For an estimate that is a mean over the replicas it is their standard deviation over the root of their number, times
    `few_replicas`.
    """
    xp = namespace(*arrays)
    num = arrays[0].shape[1]
    others = (xp.arange(num)[:, None] + xp.arange(1, num)) % num
    values = map_rows(xp, lambda rows: estimate(*(array[:, rows] for array in arrays)), others)
    return few_replicas(num) * xp.sqrt((num - 1.0) * xp.var(values))


def few_replicas(num: int) -> float:
    """By how much a standard error from `num` replicas is stretched so that two of them cover 95 %, as for many."""
    from scipy.special import stdtrit

    return float(stdtrit(num - 1, 0.975) / stdtrit(10**6, 0.975))


def neighbour_log_ratios(
    path: AbstractPath[Any], betas: Float[AnyArray, " num"], features: Any
) -> tuple[Float[AnyArray, "pairs n"], Float[AnyArray, "pairs n"]]:
    """What `stepping_stone` and `bridge` need of a stored run: `features` of n states at each beta, betas first.

    `forward[i]` is `log pi_{i+1} - log pi_i` at the states of beta i, `reverse[i]` is `log pi_i - log pi_{i+1}` at
    those of beta i + 1. Arithmetic on the features: no density is evaluated.
    """
    here, there = (b[(slice(None),) + (None,) * (num_axes_of(features) - 1)] for b in (betas[:-1], betas[1:]))
    low, high = (jax.tree.map(lambda leaf: leaf[part], features) for part in (slice(None, -1), slice(1, None)))  # noqa: B023
    return path.log_ratio(here, there, low), path.log_ratio(there, here, high)


def num_axes_of(features: Any) -> int:
    """Axes in front of a point's own numbers: those of a log density among the features."""
    return int(min(leaf.ndim for leaf in jax.tree.leaves(features)))


def stepping_stone(log_ratios: Float[AnyArray, "pairs n"]) -> Float[AnyArray, " pairs"]:
    """Log of the mean ratio for each pair of neighbours (Xie, Lewis, Fan, Kuo and Chen, 2011); their sum is log Z.

    With the forward ratios of `neighbour_log_ratios` it estimates `log Z_{i+1}/Z_i`, with the reverse ones the negative
    of it. Each direction needs states that cover the neighbour; `bridge` needs only overlap.
    """
    return log_mean_exp(log_ratios)


@quiet()
def bridge(forward: Float[AnyArray, "pairs n"], reverse: Float[AnyArray, "pairs m"]) -> Float[AnyArray, " pairs"]:
    """`log Z_{i+1}/Z_i` for each pair of neighbours by bridge sampling (Bennett, 1976; Meng and Wong, 1996).

    The root c of `sum sigmoid(forward - c + log m/n) = sum sigmoid(reverse + c - log m/n)`, which for independent draws
    has the least variance of all estimates from the two samples (it is MBAR for two states). Both sides are nearly
    exponential or constant in c, so Newton's method on the difference of their logs settles in a few steps; a step
    that leaves the bracket is replaced by bisection. Where no state of one side has mass at the other it is infinite.
    """
    if not is_traced(forward, reverse):
        forward, reverse = to_host((forward, reverse))
    xp = namespace(forward, reverse)

    def improve(carry: Any) -> Any:
        count, _, c, low, high = carry
        value, slope = _bridge_excess(forward, reverse, c)
        low, high = xp.where(value > 0, c, low), xp.where(value < 0, c, high)
        newton = c - value / slope
        new = xp.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        return count + 1, xp.max(xp.abs(new - c) / (1 + xp.abs(c))), new, low, high

    low, high = _bracket(forward, reverse)
    tolerance = 8 * xp.finfo(low.dtype).eps
    carry = xp.zeros((), int), xp.full((), xp.inf, low.dtype), 0.5 * (low + high), low, high
    c = while_loop(xp, lambda carry: (carry[0] < 100) & (carry[1] > tolerance), improve, carry)[2]
    above, below = (xp.any(side > -xp.inf, axis=1) for side in (forward, reverse))
    return xp.where(above & below, c, xp.where(above, xp.inf, xp.where(below, -xp.inf, xp.nan))).astype(low.dtype)


def _bridge_excess(forward: Any, reverse: Any, c: Any) -> tuple[Any, Any]:
    """Log of the left over the right side of the equation of `bridge`, and its derivative in c."""
    xp = namespace(forward)
    c = c - math.log(reverse.shape[1] / forward.shape[1])

    def log_side(side: Any) -> tuple[Any, Any]:
        log_terms = -xp.logaddexp(0.0, -side)
        log_sum = logsumexp(log_terms, axis=1)
        return log_sum, xp.sum(xp.exp(log_terms - xp.logaddexp(0.0, side) - log_sum[:, None]), axis=1)

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
    """Mean and variance of `d/dbeta log pi` under the density at one beta, and the slope of that mean in beta."""

    mean: FloatArray
    variance: FloatArray
    slope: FloatArray


def derivative_moments(
    path: AbstractPath[Any], beta: RealLike, features: Any, log_weights: FloatArray
) -> DerivativeMoments:
    """Moments of the path's derivative from n weighted states at `beta`; a state of weight zero does not count.

    With l = log pi_beta and m(beta) = E[l'], differentiating under the integral gives `m' = Var[l'] + E[l'']`. On the
    geometric path l'' = 0; on a power-mean path `l = log[(1-beta) + beta exp(delta r)] / delta + ...` is the log of a
    linear function over delta, so `l'' = -delta l'^2` (plus a multiple of l' where `log_scale` bends beta).
    Differentiating the path's own derivative is right for every path.
    """
    return moments_from(*path.derivatives_from(beta, features), log_weights)


@quiet()
def moments_from(values: FloatArray, curvatures: FloatArray, log_weights: FloatArray) -> DerivativeMoments:
    """As `derivative_moments`, from the first and second derivatives of the path; states are the last axis."""
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

    `means` and `slopes` are those of `derivative_moments` at each beta. The rules are `"trapezoid"`, `"simpson"` and
    `"corrected"`, the trapezoid less `h^2/12` times the change of the slope, whose error falls with the fourth power of
    the step (Friel, Hurn and Wyse, 2014, where the slope is the variance because the path is geometric). Only
    `"corrected"` looks at the slopes.
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
    """Integral of parabolas through three neighbours; steps 0 and 1 share one, 2 and 3 the next, and so on.

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
