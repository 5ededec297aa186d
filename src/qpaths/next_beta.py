"""The next beta of an adaptive schedule: a search that needs no derivative and always moves on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ._types import Scalar, ScalarLike, Vector
from .arrays import namespace, quiet, while_loop
from .schedules import step_length


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

    def distance(new_beta: Any) -> Any:
        return step_length(log_weights, log_ratio(new_beta)).astype(beta.dtype)

    wanted = xp.sqrt(-xp.log(xp.asarray(target_ess, beta.dtype)))
    aim = wanted * (1 - 0.5 * eps**0.5)  # a little too close, so that the search ends on the right side

    def unsettled(bracket: _Bracket) -> Any:
        settled = bracket.low_distance >= wanted * (1 - eps**0.5)
        # When low and high are neighbors nothing is left between them.
        return (bracket.num_steps < 128) & ~settled & (0.5 * (bracket.low + bracket.high) > bracket.low)

    @quiet()
    def narrow(bracket: _Bracket) -> _Bracket:
        low, high, width = bracket.low, bracket.high, bracket.high - bracket.low
        share = (aim - bracket.low_distance) / (bracket.high_distance - bracket.low_distance)
        # Linear interpolation; bisection where the step before has not halved the bracket, or a distance is infinite.
        bisect = (width > 0.5 * bracket.width_before) | ~(share > 0)
        middle = xp.clip(low + xp.where(bisect, 0.5, share) * width, low, high)
        found = distance(middle)
        close = found <= wanted
        return _Bracket(
            bracket.num_steps + 1,
            xp.where(close, middle, low),
            xp.where(close, high, middle),
            xp.where(close, found, bracket.low_distance),
            xp.where(close, bracket.high_distance, found),
            xp.where(bisect, xp.inf, width),
        )

    one = xp.ones_like(beta)
    to_one, zero = distance(one), xp.zeros_like(beta)
    if xp is np and to_one <= wanted:
        return one
    start = _Bracket(xp.zeros((), int), beta, one, zero, to_one, xp.full_like(beta, xp.inf))
    final = while_loop(xp, unsettled, narrow, start)
    return xp.where(to_one <= wanted, one, xp.where(final.low > beta, final.low, final.high))


class _Bracket(NamedTuple):
    """Two betas with the answer between them, and how far the weights are apart at each."""

    num_steps: Any
    low: Any
    high: Any
    low_distance: Any
    high_distance: Any
    width_before: Any
    """Infinite after a bisection, so that two never follow each other."""
