"""References judged by weights: draws from them that are only evaluated, at a small part of what a pilot costs."""

from typing import Any

import numpy as np

from ..core import Stream, log_ess, quiet
from ..kernels import AbstractKernel
from ..paths import AbstractPath
from ..references import Component, Hierarchy
from ..rows import Evaluator, evaluator_of
from ..stats import tail_index

POOREST, GOOD, ENOUGH, FINE = 0.005, 0.2, 0.5, 0.8
"""Effective share of draws below which a fit is not worth a pilot, above which it is good enough, above which its draws
need only weights, and above which another round would gain little."""
_NUM_DRAWS, _NUM_ROUNDS = 2048, 3
_HEAVIEST = 0.6
"""Tail index of the weights above which they are not trusted alone."""


@quiet()
def weighted_fit(fit: Hierarchy, evaluator: Evaluator, stream: Stream) -> tuple[Component, float, int]:
    """Return the best of a fit and fits to its weighted draws, the effective share of its draws, and evaluations."""
    best, best_share, num_values = fit.component, -1.0, 0
    for number in range(_NUM_ROUNDS):
        rows = fit.component.draw(stream.fold(number), _NUM_DRAWS)
        log_prob = fit.component.log_prob(rows)
        log_weights = evaluator.values(rows).log_target - log_prob
        # Neither NaN nor +inf, which a model may have where it overflows.
        log_weights = np.where(log_weights < np.inf, log_weights, -np.inf)
        num_values += len(rows)
        # Scales that overflow far out make a density that is not a number, as is the share where no draw has weight.
        is_good = np.isfinite(log_prob).all() and np.isfinite(log_weights).any()
        share = float(np.exp(log_ess(log_weights))) / len(rows) if is_good else 0.0
        if share > best_share:
            best, best_share = fit.component, share
        if share > FINE or share < POOREST / 10:
            break
        fit = fit.refitted(rows, log_weights)
    return best, best_share, num_values


def weights_alone(path: AbstractPath[Any], kernel: AbstractKernel[Any], stream: Stream, num: int) -> float:
    """Effective share of `num` draws from the base that only get weights; 0 where the tail of these is too heavy."""
    evaluator = evaluator_of(path, stream, with_slopes=kernel.with_slopes)
    values = evaluator.values(evaluator.draw(stream, num))
    log_weights = np.asarray(evaluator.log_ratio(0.0, 1.0, values))
    if not np.isfinite(log_weights).any() or tail_index(log_weights) > _HEAVIEST:
        return 0.0
    return float(np.exp(log_ess(log_weights))) / num
