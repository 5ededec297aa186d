"""Schedules: which betas a run visits."""

from collections.abc import Callable
from typing import Any

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
    particles carry. Bisection on a bracket that always holds the answer: it needs no derivative, returns no NaN, and
    always moves on. Where even the smallest step loses too much (part of the particles fall off the support at once)
    it takes the smallest step, and 1 where 1 is close enough.
    """
    log_normalised = log_weights - jax.nn.logsumexp(log_weights)

    def close_enough(new_beta: Array) -> Array:
        # A particle that has no weight left does not count, whatever its ratio of zero to zero.
        increments = jnp.where(log_normalised == -jnp.inf, 0.0, log_ratio(new_beta))
        first = jax.nn.logsumexp(log_normalised + increments)
        second = jax.nn.logsumexp(log_normalised + 2 * increments)
        return (2 * first - second >= jnp.log(target_ess)) & (first > -jnp.inf)

    def halve(_: Any, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
        low, high = bracket
        middle = 0.5 * (low + high)
        ok = close_enough(middle)
        # When low and high are neighbours the middle is one of them and the bracket stands.
        return jnp.where(ok, middle, low), jnp.where(ok | (middle <= low), high, middle)

    one = jnp.ones_like(beta)
    low, high = jax.lax.fori_loop(0, 64, halve, (beta, one))
    chosen = jnp.where(low > beta, low, high)
    return jnp.where(close_enough(one), one, chosen)


def respace(betas: Float[Array, " num"], costs: Float[Array, " steps"]) -> Float[Array, " num"]:
    """As many betas, placed so that every step has the same share of the total cost.

    `costs` are what each step costs now (a rejection rate, a discrepancy), none negative; in between the cumulative
    cost is taken as linear in beta. A step without cost counts as a hundredth of the mean, so that the betas
    stay apart; where no step costs anything the betas stay as they are.
    """
    mean = jnp.mean(costs)
    costs = jnp.where(mean > 0, jnp.maximum(costs, 0.01 * mean), 1.0)
    cumulative = jnp.concatenate([jnp.zeros(1, costs.dtype), jnp.cumsum(costs)])
    levels = jnp.linspace(0.0, 1.0, betas.shape[0], dtype=costs.dtype) * cumulative[-1]
    return jnp.interp(levels, cumulative, betas).at[0].set(0.0).at[-1].set(1.0)
