"""References judged by weights: draws from them that are only evaluated, at a small part of what a pilot costs."""

from typing import Any

import numpy as np

from ..evaluation import AbstractEvaluator
from ..numerics import log_ess
from ..references.components import Component
from ..references.modulated import Design

POOREST, GOOD = 0.02, 0.2
"""Effective share of draws below which a fit is not worth a pilot, and above which it is good enough."""
_NUM_DRAWS, _NUM_ROUNDS = 2048, 2


def weighted_fit(design: Design, evaluator: AbstractEvaluator, stream: Any) -> tuple[Component, float, int]:
    """The best fit to a design and to draws from an earlier fit, the effective share of its draws, and evaluations."""
    component, best_share, num_values = design.fit(), -1.0, 0
    for number in range(_NUM_ROUNDS):
        rows = component.draw(stream.fold(number), _NUM_DRAWS)
        log_weights = evaluator.values(rows).log_target - component.log_prob_and_slope(rows)[0]
        log_weights = np.nan_to_num(log_weights, nan=-np.inf)
        num_values += len(rows)
        share = float(np.exp(log_ess(log_weights))) / len(rows)
        if share > best_share:
            best, best_share = component, share
        if share > GOOD or share < POOREST / 10:
            break
        component = design.and_draws(rows, log_weights).fit()
    return best, best_share, num_values
