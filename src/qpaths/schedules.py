"""Schedules: which betas a run visits."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from ._checks import is_concrete
from ._types import Scalar, ScalarLike


class AbstractSchedule(eqx.Module):
    """The betas of a run, from 0 to 1: fixed beforehand, or found on the way (`AdaptiveSchedule`)."""


class AbstractFixedSchedule(AbstractSchedule):
    """A schedule that is known before the run: `betas` are all of them, 0 and 1 included."""

    betas: eqx.AbstractVar[Float[Array, " num"]]


class LinearSchedule(AbstractFixedSchedule):
    """`num` equally spaced betas, endpoints included: `LinearSchedule(10)` makes 9 steps."""

    num: int = eqx.field(static=True)

    def __check_init__(self) -> None:
        _check_num(self.num)

    @property  # type: ignore[misc]
    def betas(self) -> Float[Array, " num"]:  # type: ignore[override]
        return jnp.linspace(0.0, 1.0, self.num)


class SigmoidSchedule(AbstractFixedSchedule):
    """`num` betas on a sigmoid from `-rate` to `rate`, rescaled to [0, 1]: dense at both ends (Grosse et al., 2015)."""

    num: int = eqx.field(static=True)
    rate: ScalarLike = 4.0

    def __check_init__(self) -> None:
        _check_num(self.num)
        if is_concrete(self.rate) and not self.rate > 0:
            raise ValueError(f"`rate` must be positive, got {self.rate}: 4 is the usual choice.")

    @property  # type: ignore[misc]
    def betas(self) -> Float[Array, " num"]:  # type: ignore[override]
        raw = jax.nn.sigmoid(self.rate * jnp.linspace(-1.0, 1.0, self.num))
        scaled = (raw - raw[0]) / (raw[-1] - raw[0])
        return scaled.at[-1].set(1.0)


class LogUniformSchedule(AbstractFixedSchedule):
    """0, then `num - 1` betas from `first` to 1 in equal ratios (Masrani, Le and Wood, 2019)."""

    num: int = eqx.field(static=True)
    first: ScalarLike = 0.025

    def __check_init__(self) -> None:
        _check_num(self.num)
        if is_concrete(self.first) and not 0 < self.first < 1:
            raise ValueError(f"`first` must lie in (0, 1), got {self.first}: it is the smallest beta after 0.")

    @property  # type: ignore[misc]
    def betas(self) -> Float[Array, " num"]:  # type: ignore[override]
        logs = jnp.log(self.first) * jnp.linspace(1.0, 0.0, self.num - 1)
        return jnp.concatenate([jnp.zeros(1, logs.dtype), jnp.exp(logs)]).at[-1].set(1.0)


class FixedSchedule(AbstractFixedSchedule):
    """The given betas, increasing from 0 to 1."""

    betas: Float[Array, " num"]

    def __init__(self, betas: Any):
        self.betas = jnp.asarray(betas, dtype=jnp.result_type(float))
        if is_concrete(self.betas):
            check_betas(self.betas)


class AdaptiveSchedule(AbstractSchedule):
    """The next beta is where the conditional ESS of the path's own weights falls to `target_ess` of the particles."""

    target_ess: ScalarLike = 0.5
    max_num: int = eqx.field(static=True, default=10_000)

    def __check_init__(self) -> None:
        if is_concrete(self.target_ess) and not 0 < self.target_ess < 1:
            raise ValueError(
                f"`target_ess` must lie in (0, 1), got {self.target_ess}: it is a fraction of the number of particles."
            )


def check_betas(betas: Any) -> None:
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
    if num < 2:
        raise ValueError(f"`num` must be at least 2, got {num}: it counts distributions, endpoints included.")


def next_beta(
    log_ratio: Callable[[Array], Array], beta: Scalar, log_weights: Float[Array, " n"], target_ess: ScalarLike
) -> Scalar:
    """The largest beta whose conditional effective sample size is at least `target_ess` of the particles.

    `log_ratio(new_beta)` gives the path's own log incremental weights, one per particle; `log_weights` are those the
    particles carry. The search keeps a bracket that always holds the answer: it needs no derivative, returns no NaN,
    and always moves on. Where even the smallest step loses too much (part of the particles fall off the support at
    once) it takes the smallest step, and 1 where 1 is close enough.
    """
    log_normalised = log_weights - jax.nn.logsumexp(log_weights)
    eps = jnp.finfo(beta.dtype).eps

    def distance(new_beta: Array) -> Array:
        """Root of -log(share kept): for small steps proportional to the step."""
        # A particle that has no weight left does not count, whatever its ratio of zero to zero.
        increments = jnp.where(log_normalised == -jnp.inf, 0.0, log_ratio(new_beta))
        first = jax.nn.logsumexp(log_normalised + increments)
        second = jax.nn.logsumexp(log_normalised + 2 * increments)
        return jnp.where(first > -jnp.inf, jnp.sqrt(jnp.maximum(second - 2 * first, 0.0)), jnp.inf)

    wanted = jnp.sqrt(-jnp.log(jnp.asarray(target_ess, beta.dtype)))
    aim = wanted * (1 - 0.5 * eps**0.5)  # a little too close, so that the search ends on the right side

    def unsettled(bracket: _Bracket) -> Array:
        settled = bracket.low_distance >= wanted * (1 - eps**0.5)
        # When low and high are neighbours nothing is left between them.
        return (bracket.num_steps < 128) & ~settled & (0.5 * (bracket.low + bracket.high) > bracket.low)

    def narrow(bracket: _Bracket) -> _Bracket:
        low, high, width = bracket.low, bracket.high, bracket.high - bracket.low
        share = (aim - bracket.low_distance) / (bracket.high_distance - bracket.low_distance)
        # Linear interpolation; bisection where the step before has not halved the bracket, or a distance is infinite.
        bisect = (width > 0.5 * bracket.width_before) | ~(share > 0)
        middle = jnp.clip(low + jnp.where(bisect, 0.5, share) * width, low, high)
        found = distance(middle)
        close = found <= wanted
        return _Bracket(
            bracket.num_steps + 1,
            jnp.where(close, middle, low),
            jnp.where(close, high, middle),
            jnp.where(close, found, bracket.low_distance),
            jnp.where(close, bracket.high_distance, found),
            jnp.where(bisect, jnp.inf, width),
        )

    one = jnp.ones_like(beta)
    to_one, zero = distance(one), jnp.zeros_like(beta)
    start = _Bracket(jnp.zeros((), int), beta, one, zero, to_one, jnp.full_like(beta, jnp.inf))
    final = jax.lax.while_loop(unsettled, narrow, start)
    return jnp.where(to_one <= wanted, one, jnp.where(final.low > beta, final.low, final.high))


class _Bracket(NamedTuple):
    """Two betas with the answer between them, and how far the weights are apart at each."""

    num_steps: Array
    low: Array
    high: Array
    low_distance: Array
    high_distance: Array
    width_before: Array
    """Infinite after a bisection, so that two never follow each other."""


def respace(betas: Float[Array, " old"], costs: Float[Array, " steps"], num: int | None = None) -> Float[Array, " new"]:
    """`num` betas, or as many as there are, placed so that every step has the same share of the total cost.

    `costs` are what each step costs now (a rejection rate, a discrepancy), none negative; in between the cumulative
    cost is taken as linear in beta. A step without cost counts as a hundredth of the mean, so that the betas
    stay apart; where no step costs anything the betas stay as they are.
    """
    mean = jnp.mean(costs)
    costs = jnp.where(mean > 0, jnp.maximum(costs, 0.01 * mean), 1.0)
    cumulative = jnp.concatenate([jnp.zeros(1, costs.dtype), jnp.cumsum(costs)])
    levels = jnp.linspace(0.0, 1.0, num or betas.shape[0], dtype=costs.dtype) * cumulative[-1]
    return jnp.interp(levels, cumulative, betas).at[0].set(0.0).at[-1].set(1.0)
