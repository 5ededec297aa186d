"""Standard errors of log evidences: from weights, from families of particles, from their lag, from replicates.

A single view of a run can be blind to what went wrong in it. So SMC takes the larger of families and lag, and adds
`dominance`. What no particle came near remains unseen by all of them.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from ..core import (
    AnyArray,
    FloatArray,
    Scalar,
    ScalarLike,
    Vector,
    largest_first,
    log_mean_exp,
    logsumexp,
    map_rows,
    namespace,
    quiet,
    segment_sum,
    softmax,
)

_FEWEST_IN_TAIL = 25
"""Weights from which the shape of a tail is estimated."""
_EQUAL = 1e-3
"""Relative difference up to which weights count as equal there."""


class ErrorParts(NamedTuple):
    """The parts of the standard error of a log evidence, in nats, by where they come from."""

    within: float = 0.0
    """Error of the mean of the islands, from what each says of itself."""
    between: float = 0.0
    """The same from how the islands differ, at least that of log-normal estimates whose logs differ as these do."""
    collapse: float = 0.0
    """Mass lost in steps that hardly any particle survived."""
    tail: float = 0.0
    """Mass beyond the largest weight."""
    lag: float = 0.0
    """Lag of the particles behind the path."""
    scores: float = 0.0
    """Mean scores that should be zero."""
    virials: float = 0.0
    """Mean virials that should be zero: the draws are narrower than the target."""
    drift: float = 0.0
    """Mass that draws reach when they are moved on."""
    scans: float = 0.0
    """Mass that scans of single coordinates find."""
    uncovered: float = 0.0
    """Mass around known optima."""

    @property
    def pooled(self) -> float:
        """Error that the islands themselves show: the larger of two views, and mass that no particle saw."""
        return max(self.within, self.between) + self.collapse + self.tail

    @property
    def without_lag(self) -> float:
        """All but the lag."""
        checks = math.hypot(math.hypot(self.scores, self.virials), self.scans, self.drift, self.uncovered)
        return math.hypot(self.pooled, checks)

    @property
    def total(self) -> float:
        """The standard error.

        Islands share a lag, so averaging over them does not reduce it. It counts if it is larger than all the rest,
        also where it may be noise.
        """
        error, lag = self.without_lag, abs(self.lag)
        return math.hypot(error, lag) if lag > error else error


@quiet()
def importance_log_evidence(log_weights: Vector) -> tuple[Scalar, Scalar]:
    """Log of the mean weight of independent chains, and its standard error.

    The delta method, `std(w) / (mean(w) sqrt(n))`, is too small where few good weights make up the mean. So `dominance`
    is added to the variance.

    Args:
        log_weights: Log weights of n independent chains.

    Returns:
        The log of the mean weight, and its standard error.

    It cannot see mass that no chain has come near. See [Standard errors](algorithms.md#standard-errors).

    Examples:
        >>> import numpy as np
        >>> value, error = importance_log_evidence(np.log(np.array([1.0, 3.0, 1.0, 3.0])))
        >>> round(float(value), 4), round(float(error), 2)  # log 2
        (0.6931, 0.31)
    """
    xp = namespace(log_weights)
    log_mean = log_mean_exp(log_weights)
    relative = xp.exp(log_weights - xp.where(xp.isfinite(log_mean), log_mean, 0.0))
    variance = xp.var(relative, ddof=1) / log_weights.shape[0]
    return log_mean, xp.sqrt(variance + dominance(log_weights))


@quiet()
def dominance(log_weights: Vector) -> Scalar:
    """Return what to add to the variance of the log of a mean weight that few weights make up; zero for healthy ones.

    The relative variance of the mean cannot exceed 1, but the log of the mean can be off by any amount: by what the
    heaviest weight adds to it (the first order of that is in the variance already), and by the mass that no weight has
    found. The second shows where the largest sqrt(n) weights have most of the total, and a tail index k > 1 (Hill's
    estimator on them): the mean would then grow by k - 1 with every factor e in the number of particles, and as much is
    taken to be missing for each that was made.

    Args:
        log_weights: Log weights of n particles.

    Returns:
        A variance, in squares of nats.

    An estimate from n weights of what they do not contain: it catches a collapse, and cannot measure how large it is.
    See Hill (1975) for the tail index.

    Examples:
        >>> import numpy as np
        >>> round(float(dominance(np.zeros(100))), 6), bool(dominance(np.linspace(0.0, 50.0, 100)) > 1.0)
        (0.0, True)
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


def tail_index(log_weights: Vector) -> float:
    """Hill's estimate of the tail index k of weights: the moments of order 1 / k and above are infinite."""
    xp = namespace(log_weights)
    largest = largest_first(log_weights, math.isqrt(log_weights.size) + 1)
    return float(_tail_index(largest, xp.sum(log_weights > -xp.inf)))


def _tail_index(largest: Float[AnyArray, " k"], num_positive: Int[AnyArray, ""]) -> Scalar:
    """Mean excess of the largest log weights over the one below them; weights of zero do not count."""
    xp = namespace(largest)
    num = xp.clip(xp.sqrt(num_positive.astype(largest.dtype)).astype(int), 1, largest.size - 1)
    excess = xp.where(xp.arange(largest.size) < num, largest - largest[num], 0.0)
    return xp.where(num_positive > num, xp.sum(excess) / num, 0.0)


def pareto_shape(log_weights: Float[np.ndarray, " n"]) -> float:
    """Shape k of the generalized Pareto distribution of the largest weights, 0 where there are too few to tell.

    Weights with k > 0.5 have no variance. It is the diagnostic of Pareto smoothed importance sampling (Vehtari et al.,
    2024), by the estimator of Zhang and Stephens (2009). Hill's estimate is lower where the tail begins late.
    """
    num = int(min(0.2 * log_weights.size, 3 * log_weights.size**0.5))
    if num < _FEWEST_IN_TAIL:
        return 0.0
    return _shape_of_tail(np.sort(np.partition(log_weights, log_weights.size - num - 1)[-num - 1 :]))


def _shape_of_tail(largest: Float[np.ndarray, " k"]) -> float:
    """That of weights above the first of them, whose logs are in order.

    Where many of them are equal, as those of a likelihood with steps or a flat part are, no continuous distribution
    fits. Then it is Hill's estimate, or the shape of those above, if that is larger.
    """
    excess = np.expm1(largest - largest[0])[1:]
    num = excess.size
    if num < _FEWEST_IN_TAIL or not (np.isfinite(excess).all() and excess[-1] > 0):
        return 0.0
    above = largest[1:][excess > _EQUAL]
    if 4 * above.size < 3 * num:
        hill = float(np.mean(largest[1:] - largest[0]))
        return max(hill, _shape_of_tail(above)) if above.size else hill
    number = np.arange(1, 31 + math.isqrt(num))
    rates = 1 / excess[-1] + (1 - np.sqrt(number[-1] / (number - 0.5))) / (3 * excess[num // 4])
    shapes = np.mean(np.log1p(-rates[:, None] * excess), axis=1)
    likelihood = num * (np.log(-rates / shapes) - shapes - 1)
    rate = softmax(likelihood) @ rates
    return float(np.mean(np.log1p(-rate * excess)))


@quiet()
def genealogy_se(
    log_weights: Vector, ancestors: Int[AnyArray, " n"], resampling_variance: Scalar, stage_variance: Scalar
) -> Scalar:
    """Standard error of log Z-hat from the genealogy of one run of sequential Monte Carlo.

    The idea is that of Chan and Lai (2013) and of Lee and Whiteley (2018). Descendants of one ancestor stay correlated
    when the moves do not mix, and the spread of the final weight over the N families shows it. Their estimator
    subtracts the spread that multinomial resampling causes by itself. Here it is the spread that the scheme in use
    causes, so that better schemes get the smaller error they deserve.

    Args:
        log_weights: Log weights since the last resampling.
        ancestors: The particle of the first generation that each final particle descends from.
        resampling_variance: What resampling alone adds to the spread over the families, summed over the steps.
        stage_variance: The sum over the steps of the relative variance of the mean weight. It is what is left when the
            moves mix perfectly, and so a floor.

    Returns:
        The standard error. It does not see an error that all particles share: see `Lag`.

    Examples:
        >>> import numpy as np
        >>> alone = genealogy_se(np.zeros(100), np.arange(100), 0.0, 0.01)  # every particle has descendants
        >>> few = genealogy_se(np.zeros(100), np.arange(100) // 50, 0.0, 0.01)  # all descend from two
        >>> float(alone), bool(few > 5 * alone)
        (0.1, True)
    """
    xp = namespace(log_weights)
    num = log_weights.shape[0]
    per_family = segment_sum(softmax(log_weights), ancestors, num)
    spread = xp.sum(xp.square(per_family)) - 1.0 / num - resampling_variance
    # 1 - spread estimates Z^2 / E[Z-hat^2], which is exp(-variance) for a log-normal Z-hat.
    variance = -xp.log1p(-xp.clip(spread, 0.0, 1.0 - 1.0 / num**2))
    return xp.sqrt(xp.maximum(variance, stage_variance))


class Lag(NamedTuple):
    """Estimate of how far moved particles lag behind the path, and of how much that has shifted log Z-hat.

    Moves take the mean of the path's derivative towards its true value geometrically: what was off by e is off by
    rho e afterwards, where rho is the share of a particle's derivative that the moves leave. The moves themselves have
    then shifted the mean by (rho - 1) e, which is seen, so `-rho / (1 - rho)` times the shift is still missing. Over a
    step of width h a mean that is off by so much puts log Z-hat off by h times as much.

    `stats["log_evidence_lag"]` of a run is this estimate. It assumes that all errors decay at one rate, and is too
    small where a part of the target mixes much more slowly. See [Standard errors](algorithms.md#standard-errors).

    Examples:
        >>> import numpy as np
        >>> lag = Lag(*np.zeros(5)).step(0.5)
        >>> before, after = np.linspace(-1.0, 1.0, 1000), np.linspace(-1.0, 1.0, 1000) + 0.1
        >>> float(lag.moved(before, after, np.zeros(1000)).mean) < 0  # moves went up, so the mean is still too low
        True
    """

    mean: Scalar
    """Estimated error of the mean derivative at the current beta."""
    mean_variance: Scalar
    """Variance of that estimate."""
    log_evidence: Scalar
    """Estimated error of log Z-hat so far; negative where it is too small."""
    variance: Scalar
    """Variance of that estimate."""
    kept: Scalar
    """Share of a particle's derivative that all moves at the current beta have left."""

    def step(self, width: ScalarLike) -> "Lag":
        """After a step in beta; a step of no width is one more move at the same beta."""
        error, variance = self.log_evidence + width * self.mean, self.variance + width**2 * self.mean_variance
        kept = namespace(self.kept).where(width > 0, 1.0, self.kept).astype(self.kept.dtype)
        return self._replace(log_evidence=error, variance=variance, kept=kept)

    @quiet()
    def moved(self, before: Vector, after: Vector, log_weights: Vector) -> "Lag":
        """After moves that took the derivative of weighted particles from `before` to `after`."""
        xp = namespace(before, log_weights)
        weights = softmax(log_weights)
        counted = (weights > 0) & xp.isfinite(before) & xp.isfinite(after)
        before, shift = xp.where(counted, before, 0.0), xp.where(counted, after - before, 0.0)
        centered = xp.where(counted, before - weights @ before, 0.0)
        total = xp.maximum(weights @ centered**2, xp.finfo(before.dtype).tiny)
        # At least that of moves that leave no trace, even if they overshoot; at most that of the slowest moves which n
        # particles tell from none: 1 - rho is known to sqrt(2 (1 - rho) / n), which is half of it at 8 / n.
        few = xp.sum(weights**2)
        rho = xp.clip(1.0 + weights @ (centered * shift) / total, 0.0, xp.maximum(1.0 - 8.0 * few, 0.0))
        factor = rho / (1.0 - rho)
        mean = weights @ shift
        variance = factor**2 * (weights**2 @ (shift - mean) ** 2)
        # By the delta method, what is not known of rho: with few particles much.
        variance += mean**2 * few * (1.0 - rho**2) / (1.0 - rho) ** 4
        return self._replace(mean=-factor * mean, mean_variance=variance, kept=self.kept * rho)

    def standard_error(self, stage_variance: ScalarLike) -> Scalar:
        """Standard error of log Z-hat, given the `stage_variance` of its steps and this lag.

        The lag is shrunk by its own noise (positive-part James-Stein): in a healthy run nothing is left of it. Two
        standard errors reach as far as the lag and two standard deviations of what is not known. A quarter is added to
        the lag, since what has outlived many moves decays more slowly than the derivative as a whole.
        """
        xp = namespace(self.variance)
        tiny = xp.finfo(self.variance.dtype).tiny
        share = xp.maximum(1.0 - self.variance / xp.maximum(self.log_evidence**2, tiny), 0.0)
        return 0.625 * share * xp.abs(self.log_evidence) + xp.sqrt(stage_variance + share * self.variance)


def jackknife_se(estimate: Callable[..., Scalar], *arrays: FloatArray) -> Scalar:
    """Standard error of `estimate(*arrays)` by leaving out one independent replica at a time.

    Args:
        estimate: A function of the arrays that returns one number.
        arrays: Replicas lie along the second axis of each.

    For an estimate that is a mean over the replicas it is their standard deviation over the root of their number, times
    `few_replicas`.

    Returns:
        The standard error (Efron, 1982).

    Replicas must be independent. What all of them miss is not seen.

    Examples:
        >>> import numpy as np
        >>> replicas = np.array([[1.0, 2.0, 3.0, 4.0]])
        >>> round(float(jackknife_se(lambda values: values.mean(), replicas)), 3)  # 0.645 times `few_replicas(4)`
        1.048
    """
    xp = namespace(*arrays)
    num = arrays[0].shape[1]
    others = (xp.arange(num)[:, None] + xp.arange(1, num)) % num
    values = map_rows(xp, lambda rows: estimate(*(array[:, rows] for array in arrays)), others)
    return few_replicas(num) * xp.sqrt((num - 1.0) * xp.var(values))


def few_replicas(num: int) -> float:
    """The factor that makes two standard errors from `num` replicas cover 95 %, as those from many replicas do.

    It is the ratio of the 97.5 % quantiles of Student's t with `num - 1` degrees of freedom and the normal law.

    Examples:
        >>> round(few_replicas(8), 2)
        1.21
    """
    from scipy.special import stdtrit

    return float(stdtrit(num - 1, 0.975) / stdtrit(10**6, 0.975))


Chains = Float[np.ndarray, "chains n"]


@quiet()
def effective_size(values: Chains) -> float:
    """The number of independent draws whose mean is as certain as that of these (Vehtari et al., 2021).

    The sum of autocorrelations ends where a pair of them turns negative, and pairs never rise (Geyer, 1992). Chains
    that disagree count as little. As `arviz.ess(..., method="mean")`, which also splits the chains.
    """
    halves = _split(values)
    num, total = halves.shape[1], halves.size
    within, mixed = _variances(halves)
    if not mixed > 0:
        return float(total)
    centered = halves - halves.mean(axis=1, keepdims=True)
    # At every lag, by Fourier transforms.
    spectrum = np.fft.rfft(centered, 2 * num, axis=1)
    autocovariances = np.fft.irfft(np.abs(spectrum) ** 2, axis=1)[:, :num] / num
    correlations = 1 - (within - autocovariances.mean(axis=0) * num / (num - 1)) / mixed
    correlations[0] = 1.0
    pairs = correlations[0 : 2 * (num // 2) : 2] + correlations[1 : 2 * (num // 2) : 2]
    negative = np.flatnonzero(pairs < 0)
    pairs = np.minimum.accumulate(pairs[: negative[0] if negative.size else len(pairs)])
    time = max(-1 + 2 * float(np.sum(pairs)), 1 / np.log10(max(total, 10)))
    return min(total / time, total * float(np.log10(total)))


@quiet()
def r_hat(values: Chains) -> float:
    """Spread of all draws over that within halves of chains: 1 where chains agree."""
    within, mixed = _variances(_split(values))
    return float(np.sqrt(mixed / within)) if within > 0 else 1.0


def _split(values: Chains) -> Float[np.ndarray, "halves m"]:
    half = values.shape[1] // 2
    return np.concatenate([values[:, :half], values[:, -half:]])


def _variances(chains: Chains) -> tuple[float, float]:
    """Mean variance within chains, and an estimate of that of all draws that also sees how the means differ."""
    num = chains.shape[1]
    within = float(np.mean(np.var(chains, axis=1, ddof=1)))
    return within, within * (num - 1) / num + float(np.var(np.mean(chains, axis=1), ddof=1))
