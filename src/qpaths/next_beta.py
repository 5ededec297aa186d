"""The next beta of an adaptive schedule: a search that needs no derivative and always moves on."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .core import Scalar, ScalarLike, Vector, namespace, quiet, while_loop
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

    num_steps: Any
    low: Any
    high: Any
    low_distance: Any
    low_value: Any
    """Distance minus the one that is aimed at, perhaps made smaller for the interpolation."""
    high_value: Any
    streak: Any
    """How many steps have found `low` since one found `high`; negative the other way round."""
