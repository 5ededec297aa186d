"""Estimators: arrays in, log evidence and its standard error out. Nothing here samples."""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float, Int
from scipy.stats import t as student_t

from ._numerics import log_mean_exp
from ._types import FloatArray, Scalar, ScalarLike
from .paths import AbstractPath


def importance_log_evidence(log_weights: Float[Array, " n"]) -> tuple[Scalar, Scalar]:
    """Log of the mean weight of independent chains, and its standard error.

    The delta method, which a run of few good weights would make too small: `dominance` is added to its variance.
    """
    log_mean = log_mean_exp(log_weights)
    relative = jnp.exp(log_weights - jnp.where(jnp.isfinite(log_mean), log_mean, 0.0))
    variance = jnp.var(relative, ddof=1) / log_weights.shape[0]
    return log_mean, jnp.sqrt(variance + dominance(log_weights))


def dominance(log_weights: Float[Array, " n"]) -> Scalar:
    """What to add to the variance of the log of a mean weight when few weights make it up; zero for healthy weights.

    The relative variance of the mean cannot exceed 1, but the log of the mean can be off by any amount: by what the
    heaviest weight adds to it (the first order of that is in the variance already), and by the mass that no weight has
    found. The second shows where the largest sqrt(n) weights have most of the total, and a tail index k > 1 (Hill's
    estimator on them): the mean would then grow by k - 1 with every factor e in the number of particles, and as much is
    taken to be missing for each that was made.
    """
    num = math.isqrt(log_weights.size)
    largest, _ = jax.lax.top_k(log_weights, num + 1)
    weights = jnp.exp(largest - jax.nn.logsumexp(log_weights))
    rest = jnp.maximum(1.0 - weights[0], jnp.finfo(weights.dtype).tiny)
    share = jnp.clip(2 * jnp.sum(weights[:num]) - 1, 0.0, 1.0)
    tail_index = _tail_index(largest, jnp.sum(log_weights > -jnp.inf))
    missing = share * jnp.log(float(log_weights.size)) * jnp.maximum(tail_index - 1.0, 0.0)
    return jnp.square(jnp.log(rest) + weights[0]) + jnp.square(missing)


def _tail_index(largest: Float[Array, " k"], num_positive: Int[Array, ""]) -> Scalar:
    """Mean excess of the largest log weights over the one below them; weights of zero do not count."""
    num = jnp.clip(jnp.sqrt(num_positive.astype(largest.dtype)).astype(int), 1, largest.size - 1)
    excess = jnp.where(jnp.arange(largest.size) < num, largest - largest[num], 0.0)
    return jnp.where(num_positive > num, jnp.sum(excess) / num, 0.0)


def step_length(log_weights: Float[Array, " n"], increments: Float[Array, " n"]) -> Scalar:
    """`sqrt(log E[w^2] - 2 log E[w])` of the incremental weights w: how much one step of a path asks of a population.

    For a short step it is the standard deviation of the log increment, the length of the step in the Fisher-Rao metric,
    and it adds up along the path to the barrier. Unlike that standard deviation it exists where part of the population
    falls off the support; where all of it does it is infinite.
    """
    log_weights = log_weights - jax.nn.logsumexp(log_weights)
    increments = jnp.where(log_weights == -jnp.inf, 0.0, increments)
    first = jax.nn.logsumexp(log_weights + increments)
    second = jax.nn.logsumexp(log_weights + 2 * increments)
    return jnp.sqrt(jnp.where(first > -jnp.inf, jnp.maximum(second - 2 * first, 0.0), jnp.inf))


def genealogy_se(
    log_weights: Float[Array, " n"], ancestors: Int[Array, " n"], resampling_variance: Scalar, stage_variance: Scalar
) -> Scalar:
    """Standard error of log Z-hat from the genealogy of one run of sequential Monte Carlo.

    `ancestors` names the particle of the first generation that each final particle descends from. The idea is that of
    Chan and Lai (2013) and of Lee and Whiteley (2018): descendants of one ancestor stay correlated when the moves do
    not mix, and the spread of the final weight over the N families shows it. Their estimator subtracts the spread that
    multinomial resampling causes by itself; `resampling_variance` is that spread for the scheme in use, summed over the
    resampling steps, so that the better schemes get the smaller error they deserve. `stage_variance`, the sum over the
    steps of the relative variance of the mean weight, is what is left when the moves mix perfectly, and so a floor.
    """
    num = log_weights.shape[0]
    per_family = jax.ops.segment_sum(jax.nn.softmax(log_weights), ancestors, num_segments=num)
    spread = jnp.sum(jnp.square(per_family)) - 1.0 / num - resampling_variance
    # 1 - spread estimates Z^2 / E[Z-hat^2], which is exp(-variance) for a log-normal Z-hat.
    variance = -jnp.log1p(-jnp.clip(spread, 0.0, 1.0 - 1.0 / num**2))
    return jnp.sqrt(jnp.maximum(variance, stage_variance))


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

    def moved(self, before: Float[Array, " n"], after: Float[Array, " n"], log_weights: Float[Array, " n"]) -> "Lag":
        """After moves that took the derivative of weighted particles from `before` to `after`."""
        weights = jax.nn.softmax(log_weights)
        counted = (weights > 0) & jnp.isfinite(before) & jnp.isfinite(after)
        before, shift = jnp.where(counted, before, 0.0), jnp.where(counted, after - before, 0.0)
        centred = jnp.where(counted, before - weights @ before, 0.0)
        total = jnp.maximum(weights @ centred**2, jnp.finfo(before.dtype).tiny)
        # At least that of moves that leave no trace, even if they overshoot; at most that of the slowest moves which n
        # particles tell from none: 1 - rho is known to sqrt(2 (1 - rho) / n), which is half of it at 8 / n.
        few = jnp.sum(weights**2)
        rho = jnp.clip(1.0 + weights @ (centred * shift) / total, 0.0, jnp.maximum(1.0 - 8.0 * few, 0.0))
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
        tiny = jnp.finfo(self.variance.dtype).tiny
        share = jnp.maximum(1.0 - self.variance / jnp.maximum(self.log_evidence**2, tiny), 0.0)
        return 0.625 * share * jnp.abs(self.log_evidence) + jnp.sqrt(stage_variance + share * self.variance)


def jackknife_se(estimate: Callable[..., Scalar], *arrays: FloatArray) -> Scalar:
    """Standard error of `estimate(*arrays)` by leaving out one independent replica, along the second axis, at a time.

    For an estimate that is a mean over the replicas it is their standard deviation over the root of their number, times
    `few_replicas`.
    """
    num = arrays[0].shape[1]
    others = (jnp.arange(num)[:, None] + jnp.arange(1, num)) % num
    values = jax.lax.map(lambda rows: estimate(*(array[:, rows] for array in arrays)), others)
    return few_replicas(num) * jnp.sqrt((num - 1.0) * jnp.var(values))


def few_replicas(num: int) -> float:
    """By how much a standard error from `num` replicas is stretched so that two of them cover 95 %, as for many."""
    return float(student_t.ppf(0.975, num - 1) / student_t.ppf(0.975, 10**6))


def neighbour_log_ratios(
    path: AbstractPath[Any], betas: Float[Array, " num"], features: Any
) -> tuple[Float[Array, "pairs n"], Float[Array, "pairs n"]]:
    """What `stepping_stone` and `bridge` need of a stored run: `features` of n states at each beta, betas first.

    `forward[i]` is `log pi_{i+1} - log pi_i` at the states of beta i, `reverse[i]` is `log pi_i - log pi_{i+1}` at
    those of beta i + 1. Arithmetic on the features: no density is evaluated.
    """
    # Both directions in one call: the code of a path is long and would be compiled twice.
    states = jax.tree.map(lambda leaf: jnp.concatenate([leaf[:-1], leaf[1:]]), features)
    here, there = jnp.concatenate([betas[:-1], betas[1:]]), jnp.concatenate([betas[1:], betas[:-1]])
    ratios = jax.vmap(jax.vmap(path.log_ratio, in_axes=(None, None, 0)))(here, there, states)
    return ratios[: betas.shape[0] - 1], ratios[betas.shape[0] - 1 :]


def stepping_stone(log_ratios: Float[Array, "pairs n"]) -> Float[Array, " pairs"]:
    """Log of the mean ratio for each pair of neighbours (Xie, Lewis, Fan, Kuo and Chen, 2011); their sum is log Z.

    With the forward ratios of `neighbour_log_ratios` it estimates `log Z_{i+1}/Z_i`, with the reverse ones the negative
    of it. Each direction needs states that cover the neighbour; `bridge` needs only overlap.
    """
    return log_mean_exp(log_ratios)


@jax.jit
def bridge(forward: Float[Array, "pairs n"], reverse: Float[Array, "pairs m"]) -> Float[Array, " pairs"]:
    """`log Z_{i+1}/Z_i` for each pair of neighbours by bridge sampling (Bennett, 1976; Meng and Wong, 1996).

    The root c of `sum sigmoid(forward - c + log m/n) = sum sigmoid(reverse + c - log m/n)`, which for independent draws
    has the least variance of all estimates from the two samples (it is MBAR for two states). Both sides are nearly
    exponential or constant in c, so Newton's method on the difference of their logs settles in a few steps; a step
    that leaves the bracket is replaced by bisection. Where no state of one side has mass at the other it is infinite.
    """

    def improve(carry: Any) -> Any:
        count, _, c, low, high = carry
        value, slope = _bridge_excess(forward, reverse, c)
        low, high = jnp.where(value > 0, c, low), jnp.where(value < 0, c, high)
        newton = c - value / slope
        new = jnp.where((newton >= low) & (newton <= high), newton, 0.5 * (low + high))
        return count + 1, jnp.max(jnp.abs(new - c) / (1 + jnp.abs(c))), new, low, high

    low, high = _bracket(forward, reverse)
    tolerance = 8 * jnp.finfo(low.dtype).eps
    carry = jnp.zeros((), int), jnp.full((), jnp.inf, low.dtype), 0.5 * (low + high), low, high
    c = jax.lax.while_loop(lambda carry: (carry[0] < 100) & (carry[1] > tolerance), improve, carry)[2]
    above, below = (jnp.any(side > -jnp.inf, axis=1) for side in (forward, reverse))
    return jnp.where(above & below, c, jnp.where(above, jnp.inf, jnp.where(below, -jnp.inf, jnp.nan)))


def _bridge_excess(forward: Array, reverse: Array, c: Array) -> tuple[Array, Array]:
    """Log of the left over the right side of the equation of `bridge`, and its derivative in c."""
    c = c - jnp.log(reverse.shape[1] / forward.shape[1])

    def log_side(side: Array) -> tuple[Array, Array]:
        log_terms = jax.nn.log_sigmoid(side)
        log_sum = jax.nn.logsumexp(log_terms, axis=1)
        return log_sum, jnp.sum(jnp.exp(log_terms + jax.nn.log_sigmoid(-side) - log_sum[:, None]), axis=1)

    left, left_slope = log_side(forward - c[:, None])
    right, right_slope = log_side(reverse + c[:, None])
    return left - right, -(left_slope + right_slope)


def _bracket(forward: Float[Array, "pairs n"], reverse: Float[Array, "pairs m"]) -> tuple[Array, Array]:
    """Two numbers between which the root of `bridge` lies where both sides exist."""
    values = jnp.concatenate([forward, -reverse], axis=1)
    possible = jnp.isfinite(values)
    # A side with a single finite term exceeds 1/2 once c is past it; the other is then below total * exp(-slack).
    slack = 2 * jnp.log(4.0 * values.shape[1])
    low = jnp.min(values, axis=1, where=possible, initial=jnp.inf) - slack
    high = jnp.max(values, axis=1, where=possible, initial=-jnp.inf) + slack
    exists = jnp.any(possible, axis=1)
    return jnp.where(exists, low, 0.0), jnp.where(exists, high, 0.0)


class DerivativeMoments(NamedTuple):
    """Mean and variance of `d/dbeta log pi` under the density at one beta, and the slope of that mean in beta."""

    mean: FloatArray
    variance: FloatArray
    slope: FloatArray


def derivative_moments(
    path: AbstractPath[Any], beta: ScalarLike, features: Any, log_weights: Float[Array, " n"]
) -> DerivativeMoments:
    """Moments of the path's derivative from n weighted states at `beta`; a state of weight zero does not count.

    With l = log pi_beta and m(beta) = E[l'], differentiating under the integral gives `m' = Var[l'] + E[l'']`. On the
    geometric path l'' = 0; on a power-mean path `l = log[(1-beta) + beta exp(delta r)] / delta + ...` is the log of a
    linear function over delta, so `l'' = -delta l'^2` (plus a multiple of l' where `log_scale` bends beta).
    Differentiating the path's own derivative is right for every path.
    """
    beta = jnp.asarray(beta, jnp.result_type(0.0, beta))
    values, curvatures = jax.jvp(
        lambda b: jax.vmap(lambda f: path.derivative_from(b, f))(features), (beta,), (jnp.ones_like(beta),)
    )
    weights = jax.nn.softmax(log_weights)
    values, curvatures = jnp.where(weights > 0, values, 0.0), jnp.where(weights > 0, curvatures, 0.0)
    mean = jnp.sum(weights * values)
    variance = jnp.sum(weights * jnp.square(values - mean))
    slope = variance + jnp.sum(weights * curvatures)
    finite = jnp.isfinite(mean)
    return DerivativeMoments(mean, jnp.where(finite, variance, jnp.inf), jnp.where(finite, slope, jnp.inf))


def thermodynamic_integration(
    betas: Float[Array, " num"],
    means: Float[Array, " num"],
    slopes: Float[Array, " num"] | None = None,
    *,
    rule: str = "corrected",
) -> Float[Array, " steps"]:
    """`log Z_{i+1}/Z_i` for each step as the integral of E[d/dbeta log pi]; their sum is the log evidence.

    `means` and `slopes` are those of `derivative_moments` at each beta. The rules are `"trapezoid"`, `"simpson"` and
    `"corrected"`, the trapezoid less `h^2/12` times the change of the slope, whose error falls with the fourth power of
    the step (Friel, Hurn and Wyse, 2014, where the slope is the variance because the path is geometric). Only
    `"corrected"` looks at the slopes.
    """
    check_rule(rule)
    widths = jnp.diff(betas)
    trapezoid = 0.5 * widths * (means[:-1] + means[1:])
    if rule == "trapezoid" or (rule == "simpson" and betas.shape[0] == 2):
        return trapezoid
    if rule == "simpson":
        return _simpson(widths, means)
    if slopes is None:
        raise ValueError("`slopes` must be given for the corrected rule, got None: or take `rule='simpson'`.")
    # An infinite end makes the integral infinite whatever the slope there.
    return jnp.where(jnp.isinf(trapezoid), trapezoid, trapezoid - jnp.square(widths) / 12 * jnp.diff(slopes))


def check_rule(rule: str) -> None:
    """Raise unless `thermodynamic_integration` knows the rule."""
    if rule not in ("trapezoid", "simpson", "corrected"):
        raise ValueError(f"`rule` must be trapezoid, simpson or corrected, got {rule!r}.")


def _simpson(widths: Float[Array, " steps"], values: Float[Array, " num"]) -> Float[Array, " steps"]:
    """Integral of parabolas through three neighbours; steps 0 and 1 share one, 2 and 3 the next, and so on.

    The last of an odd number of steps takes the parabola of the last three values.
    """
    step = np.arange(widths.shape[0])
    ahead = (step % 2 == 0) & (step + 1 < step.size)
    near, middle = np.where(ahead, step, step + 1), np.where(ahead, step + 1, step)
    far = np.where(ahead, step + 2, step - 1)
    other = widths[np.where(ahead, step + 1, step - 1)]
    total = widths + other
    bend = jnp.square(widths) / (other * total)
    share = widths / total
    weighted = (3 - share) * values[near] + (3 + bend + share) * values[middle] - bend * values[far]
    return widths * weighted / 6
