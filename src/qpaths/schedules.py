"""Schedules: which betas a run visits, and how far apart they are.

The length of a step, `step_length`, is the common measure: an adaptive schedule makes steps of one length, and tuned
schedules are re-spaced (`respace`) to equal lengths.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np
from jaxtyping import Float

from .core import (
    AnyArray,
    Scalar,
    ScalarLike,
    Vector,
    as_float,
    is_concrete,
    logsumexp,
    namespace,
    quiet,
    sigmoid,
    while_loop,
)


class AbstractSchedule(eqx.Module):
    """The betas of a run, from 0 to 1: fixed before the run, or found during it (`AdaptiveSchedule`).

    See [Schedules](algorithms.md#schedules). An adaptive one does not run under `jax.jit`.

    Examples:
        >>> isinstance(AdaptiveSchedule(), AbstractSchedule), isinstance(AdaptiveSchedule(), AbstractFixedSchedule)
        (True, False)
    """


class AbstractFixedSchedule(AbstractSchedule):
    """A schedule that is known before the run, as AIS, BDMC and compiled runs need.

    A subclass has `betas`, a field or property: all betas in increasing order, 0 and 1 included. Nothing checks the
    betas of a subclass. `FixedSchedule` checks those that it is given. See [Schedules](algorithms.md#schedules).

    Examples:
        >>> isinstance(LinearSchedule(3), AbstractFixedSchedule)
        True
    """

    betas: eqx.AbstractVar[Float[AnyArray, " num"]]


class LinearSchedule(AbstractFixedSchedule):
    """`num` equally spaced betas, endpoints included.

    Simple and rarely good: most paths need small steps near the base. See `qpaths.equalize`, and
    [Schedules](algorithms.md#schedules).

    Args:
        num: Distributions, endpoints included, so there are `num - 1` steps; at least 2.

    Examples:
        >>> LinearSchedule(5).betas.tolist()
        [0.0, 0.25, 0.5, 0.75, 1.0]
    """

    num: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        _check_num(self.num)

    @property  # type: ignore[misc]
    def betas(self) -> Float[AnyArray, " num"]:
        return np.linspace(0.0, 1.0, self.num)


class SigmoidSchedule(AbstractFixedSchedule):
    """`num` betas on a sigmoid from `-rate` to `rate`, rescaled to [0, 1]: dense at both ends (Grosse et al., 2015).

    Args:
        num: Distributions, endpoints included.
        rate: The larger, the denser at the ends.

    Made for paths that change fastest near both ends. Most paths from a prior do not: they change fastest near the
    base, see `qpaths.equalize`.

    Examples:
        >>> betas = SigmoidSchedule(5).betas
        >>> float(betas[0]), round(float(betas[2]), 3), float(betas[-1])
        (0.0, 0.5, 1.0)
    """

    num: int = eqx.field(static=True)
    rate: ScalarLike = 4.0

    def __check_init__(self) -> None:
        _check_num(self.num)
        if is_concrete(self.rate) and not self.rate > 0:
            raise ValueError(f"`rate` must be positive, got {self.rate}: 4 is the usual choice.")

    @property  # type: ignore[misc]
    def betas(self) -> Float[AnyArray, " num"]:
        raw = sigmoid(self.rate * np.linspace(-1.0, 1.0, self.num))
        return _between_ends((raw - raw[0]) / (raw[-1] - raw[0]))


class LogUniformSchedule(AbstractFixedSchedule):
    """0, then `num - 1` betas from `first` to 1 in equal ratios (Masrani, Le and Wood, 2019).

    The usual grid of `ThermodynamicObjective`: dense where the integrand changes fastest. It is not made for
    sampling: `qpaths.equalize` finds a schedule for that.

    Args:
        num: Distributions, endpoints included.
        first: The smallest beta after 0, in (0, 1).

    Examples:
        >>> LogUniformSchedule(4, first=0.01).betas.round(3).tolist()
        [0.0, 0.01, 0.1, 1.0]
    """

    num: int = eqx.field(static=True)
    first: ScalarLike = 0.025

    def __check_init__(self) -> None:
        _check_num(self.num)
        if is_concrete(self.first) and not 0 < self.first < 1:
            raise ValueError(f"`first` must lie in (0, 1), got {self.first}: it is the smallest beta after 0.")

    @property  # type: ignore[misc]
    def betas(self) -> Float[AnyArray, " num"]:
        xp = namespace(self.first)
        inside = xp.exp(xp.log(self.first) * np.linspace(1.0, 0.0, self.num - 1))
        return _between_ends(xp.concatenate([xp.zeros(1, inside.dtype), inside]))


class FixedSchedule(AbstractFixedSchedule):
    """The given betas, increasing from 0 to 1.

    `FixedSchedule(result.betas)` repeats what an adaptive run has found, so that a new run need not adapt its betas.

    Args:
        betas: Numbers that increase strictly from 0 to 1; anything else is an error, except under `jax.jit`.

    See [Schedules](algorithms.md#schedules).

    Examples:
        >>> FixedSchedule([0.0, 0.1, 1.0]).betas.size
        3
    """

    betas: Float[AnyArray, " num"]

    def __init__(self, betas: Any):
        if is_concrete(betas):
            betas = np.asarray(betas, float)
            check_betas(betas)
        self.betas = as_float(namespace(betas), betas)


class AdaptiveSchedule(AbstractSchedule):
    """Finds each beta on the way, so that every step asks the same of the particles (`SMC` only).

    The next beta is where the conditional effective sample size of the path's own weights falls to `target_ess` of the
    particles (Zhou, Johansen and Aston, 2016).

    Args:
        target_ess: A share of the particles in (0, 1). Larger values make more and shorter steps.
        max_num: The most steps before the run gives up with an error.

    The number of steps is not known beforehand, so it cannot run under `jax.jit`. The choice depends on the particles,
    which leaves a small bias. A second run with `FixedSchedule(result.betas)` does not have this bias.

    Examples:
        >>> import jax
        >>> import jax.numpy as jnp
        >>> import qpaths as qp
        >>> base = qp.MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> path = qp.GeometricPath(base, lambda x: base.log_prob(x) - 2.0 * jnp.sum((x - 1.0) ** 2))
        >>> result = qp.SMC(200, AdaptiveSchedule(0.5), qp.RandomWalk(3)).run(path, key=jax.random.key(0))
        >>> float(result.betas[0]), float(result.betas[-1])
        (0.0, 1.0)
    """

    target_ess: ScalarLike = 0.5
    max_num: int = eqx.field(static=True, default=10_000)

    def __check_init__(self) -> None:
        if is_concrete(self.target_ess) and not 0 < self.target_ess < 1:
            raise ValueError(
                f"`target_ess` must lie in (0, 1), got {self.target_ess}: it is a fraction of the number of particles."
            )


def check_betas(betas: AnyArray) -> None:
    """Raise unless concrete betas increase strictly from 0 to 1."""
    values = np.asarray(betas)
    shown = np.array2string(values, threshold=8, precision=6)
    if values.ndim != 1 or values.size < 2:
        raise ValueError(f"`betas` must be a list of at least two numbers, got {shown}.")
    if values[0] != 0 or values[-1] != 1:
        raise ValueError(f"`betas` must run from 0 to 1, got {shown}: start with 0 and end with 1.")
    if not (np.diff(values) > 0).all():
        where = int(np.argmin(np.diff(values) > 0))
        raise ValueError(
            f"`betas` must increase from 0 to 1, got {shown}: entry {where + 1} ({values[where + 1]}) does not exceed "
            f"the one before ({values[where]})."
        )


def _check_num(num: int) -> None:
    """Raise if a schedule has not even two distributions."""
    if num < 2:
        raise ValueError(f"`num` must be at least 2, got {num}: it counts distributions, endpoints included.")


def _between_ends(betas: AnyArray) -> AnyArray:
    """The betas with 0 and 1 themselves at the ends."""
    xp = namespace(betas)
    return xp.concatenate([xp.zeros(1, betas.dtype), betas[1:-1], xp.ones(1, betas.dtype)])


@quiet()
def step_length(log_weights: Vector, increments: Vector) -> Scalar:
    """`sqrt(log E[w^2] - 2 log E[w])` of the incremental weights w: how much one step of a path asks of a population.

    For a short step it is the standard deviation of the log increment, the length of the step in the Fisher-Rao metric,
    and it adds up along the path to the barrier. Unlike that standard deviation it exists where part of the population
    falls off the support; where all of it does it is infinite. The conditional effective sample size is the share
    `exp(-length^2)` of the particles.

    Args:
        log_weights: Log weights of the particles before the step, up to a constant.
        increments: Log incremental weights of the step, one for each particle.

    Returns:
        The length, a number from 0 to infinity.

    It is estimated from the particles, so it is too small where the particles have not followed the path (Zhou,
    Johansen and Aston, 2016, for the conditional ESS).

    Examples:
        >>> import numpy as np
        >>> increments = np.log([1.0, 3.0])
        >>> length = step_length(np.zeros(2), increments)
        >>> round(float(np.exp(-(length**2))), 3)  # (1 + 3)^2 / (2 (1 + 9)): the conditional ESS of the step
        0.8
    """
    xp = namespace(log_weights, increments)
    if xp is np and not log_weights.any():  # as after resampling: one exponential instead of three
        return _step_length_of_equals(increments)
    log_weights = log_weights - logsumexp(log_weights)
    # A particle that has no weight left does not count, whatever its ratio of zero to zero.
    increments = xp.where(log_weights == -xp.inf, 0.0, increments)
    first = logsumexp(log_weights + increments)
    second = logsumexp(log_weights + 2 * increments)
    return xp.sqrt(xp.where(first > -xp.inf, xp.maximum(second - 2 * first, 0.0), xp.inf))


def _step_length_of_equals(increments: np.ndarray) -> np.float64:
    """Compute `step_length` for particles of equal weight."""
    largest = np.max(increments)
    if not np.isfinite(largest):
        return np.float64(np.nan if largest == np.inf else np.inf)
    ratios = np.exp(increments - largest)
    return np.sqrt(np.maximum(np.log(ratios @ ratios * ratios.size) - 2 * np.log(np.sum(ratios)), 0.0))


def respace(
    betas: Float[AnyArray, " old"], costs: Float[AnyArray, " steps"], num: int | None = None
) -> Float[AnyArray, " new"]:
    """Betas at which every step has the same share of the total cost.

    The cumulative cost is taken as linear in beta within each step, as in the round-based scheme of Syed,
    Bouchard-Cote, Deligiannidis and Doucet (2022). Repeat with fresh costs until the betas settle, as `qpaths.equalize`
    does.

    Args:
        betas: The betas now.
        costs: What each step costs now, such as its length or a rejection rate; not negative. A step without cost
            counts as a hundredth of the mean, so that the betas stay apart. An infinite cost counts as the largest
            finite one.
        num: How many betas to return; as many as there are by default.

    Returns:
        The new betas, from 0 to 1. Where no step costs anything the old betas come back. Betas that are neighbors in
        floating point may become equal.

    Examples:
        >>> import numpy as np
        >>> respace(np.array([0.0, 0.5, 1.0]), np.array([3.0, 1.0])).round(3).tolist()
        [0.0, 0.333, 1.0]
    """
    xp = namespace(betas, costs)
    is_finite = xp.isfinite(costs)
    costs = xp.where(is_finite, costs, xp.maximum(1.0, xp.max(xp.where(is_finite, costs, 0.0)))).astype(costs.dtype)
    mean = xp.mean(costs)
    costs = xp.where(mean > 0, xp.maximum(costs, 0.01 * mean), 1.0)
    cumulative = xp.concatenate([xp.zeros(1, costs.dtype), xp.cumsum(costs)])
    levels = xp.linspace(0.0, 1.0, num or betas.shape[0], dtype=costs.dtype) * cumulative[-1]
    return _between_ends(xp.interp(levels, cumulative, betas))


_LEAST_PADDED = 2**15
"""Length up to which all schedules share a compiled program; the padding takes a quarter of a megabyte."""


def padded(betas: Float[AnyArray, " num"]) -> Float[AnyArray, " size"]:
    """The betas, filled up with the last one to one of a few lengths.

    So a compiled program sees arrays of one shape, and the number of steps is a number (`qpaths.annealing.
    anneal_groups`).
    """
    num = betas.shape[0]
    size = max(_LEAST_PADDED, 1 << (num - 1).bit_length())
    if is_concrete(betas):
        betas = np.asarray(betas)
    return namespace(betas).pad(betas, (0, size - num), mode="edge")


def next_beta(log_ratio: Callable[[Any], Any], beta: Scalar, log_weights: Vector, target_ess: ScalarLike) -> Scalar:
    """The largest beta whose conditional effective sample size is at least `target_ess` of the particles.

    `log_ratio(new_beta)` gives the path's own log incremental weights, one per particle; `log_weights` are those the
    particles carry. The search keeps a bracket that always holds the answer: it needs no derivative, returns no NaN,
    and always moves on. Where even the smallest step loses too much (part of the particles fall off the support at
    once) it takes the smallest step, and 1 where 1 is close enough.
    """
    xp = namespace(log_weights, beta)
    beta = xp.asarray(beta)
    eps = xp.finfo(beta.dtype).eps

    def distance(new_beta: AnyArray) -> AnyArray:
        return step_length(log_weights, log_ratio(new_beta)).astype(beta.dtype)

    wanted = xp.sqrt(-xp.log(xp.asarray(target_ess, beta.dtype)))
    aim = wanted * (1 - 0.5 * eps**0.5)  # a little too close, so that the search ends on the right side

    def unsettled(bracket: _Bracket) -> AnyArray:
        settled = bracket.low_distance >= wanted * (1 - eps**0.5)
        middle = 0.5 * (bracket.low + bracket.high)  # equal to one of the two where they are neighbors
        return (bracket.num_steps < 128) & ~settled & (middle > bracket.low) & (middle < bracket.high)

    @quiet()
    def narrow(bracket: _Bracket) -> _Bracket:
        low, high, width = bracket.low, bracket.high, bracket.high - bracket.low
        share = bracket.low_value / (bracket.low_value - bracket.high_value)
        # Linear interpolation; bisection where the same end has moved three times, or a distance is infinite. It goes
        # further to a side the longer the answer was on that side: some answers are at 1e-40, or at 1 - 1e-12.
        num_same = xp.abs(bracket.streak)
        bisect = (num_same > 2) | ~(share > 0)
        part = 0.5 ** xp.maximum(num_same, 1).astype(beta.dtype)
        part = xp.where(bracket.streak > 0, 1 - part, part)
        inside = xp.nextafter(low, high), xp.nextafter(high, low)
        middle = xp.clip(low + xp.where(bisect, part, share) * width, *inside)
        found = distance(middle)
        close, value = found <= wanted, found - aim
        # The method of Anderson and Bjorck (1973): an end that stays for a second time counts less, so that the other
        # end does not creep towards the answer alone.
        left = 1 - value / xp.where(close, bracket.low_value, bracket.high_value)
        stays = (close == (bracket.streak > 0)) & (num_same > 0)
        less = xp.where(stays, xp.where(left > 0, left, 0.5), 1.0)
        return _Bracket(
            bracket.num_steps + 1,
            xp.where(close, middle, low),
            xp.where(close, high, middle),
            xp.where(close, found, bracket.low_distance),
            xp.where(close, value, less * bracket.low_value),
            xp.where(close, less * bracket.high_value, value),
            xp.where(stays, bracket.streak, 0) + xp.where(close, 1, -1),
        )

    one = xp.ones_like(beta)
    to_one, zero = distance(one), xp.zeros_like(beta)
    if xp is np and to_one <= wanted:
        return one
    start = _Bracket(xp.zeros((), int), beta, one, zero, -aim, to_one - aim, xp.zeros((), int))
    final = while_loop(xp, unsettled, narrow, start)
    return xp.where(to_one <= wanted, one, xp.where(final.low > beta, final.low, final.high))


class _Bracket(NamedTuple):
    """Two betas with the answer between them, and how far the weights are apart at each."""

    num_steps: AnyArray
    low: AnyArray
    high: AnyArray
    low_distance: AnyArray
    low_value: AnyArray
    """Distance minus the one that is aimed at, perhaps made smaller for the interpolation."""
    high_value: AnyArray
    streak: AnyArray
    """Number of steps that have found `low` since one found `high`; negative the other way round."""
