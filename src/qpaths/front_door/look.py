"""All checks of the draws of a run, in turns, with what is left of the budget."""

import math
import time
from typing import Any, NamedTuple

import numpy as np

from ..algorithms.continued import Drift
from ..algorithms.islands import Islands
from ..arrays import softmax
from ..cost import Cost
from ..kernels import AbstractKernel
from ..numerics import log_ess
from ..references.ascents import Mode, modes_at
from ..references.climb import TYPICAL_GRADIENTS, climbable
from ..references.known import Missing, Sample, distinct, missing_mass
from ..rows import Evaluator
from .checkpoint import CallState
from .checks import COST as CHECKS_COST
from .checks import Balance, balance, drift_of_draws
from .limits import Limits
from .missed import Missed, missed_modes


class Checks(NamedTuple):
    """What checks of the draws of a run have shown."""

    balance: Balance = Balance()
    missed: Missed = Missed()
    drift: Drift = Drift()
    missing: Missing = Missing()

    @property
    def error(self) -> float:
        """What they add to the standard error."""
        return math.hypot(self.balance.error, self.missed.error, self.drift.error, self.missing.error)


def look(
    evaluator: Evaluator,
    state: CallState,
    kernel: AbstractKernel[Any],
    limits: Limits,
    spent: Cost,
    started: float,
    stream: Any,
) -> tuple[Checks, Cost]:
    """Return what the checks show, and what they cost, at most what is left."""
    islands = state.islands
    assert islands is not None

    def left() -> float:
        return limits.left(spent + cost, time.monotonic() - started)

    cost, balanced = Cost(), Balance()
    if kernel.with_slopes:
        balanced, cost = balance(evaluator, islands), CHECKS_COST
    drift, extra = drift_of_draws(state.recipe, islands, spent, left(), stream.fold(2))
    cost += extra
    missed, num = missed_modes(evaluator, islands, spent.total, left(), stream.fold(1))
    cost += Cost(target=num)
    starts = [found for found in (missed.starts, drift.places) if found is not None]
    modes, extra = _optima(evaluator, kernel, islands, starts, left(), stream.fold(3))
    cost += extra
    modes = distinct(state.recipe.modes, modes)
    missing, num = missing_mass(evaluator, modes, _sample(evaluator, islands, stream.fold(4)), stream.fold(5))
    return Checks(balanced, missed, drift, missing), cost + Cost(target=num)


def _optima(
    evaluator: Evaluator,
    kernel: AbstractKernel[Any],
    islands: Islands,
    starts: list[Any],
    left: float,
    stream: Any,
) -> tuple[tuple[Mode, ...], Cost]:
    """Return the optima above places where the draws miss mass."""
    if not starts:
        return (), Cost()
    source, each = climbable(evaluator, kernel.with_slopes, stream)
    rows = np.concatenate(starts)
    if len(rows) * TYPICAL_GRADIENTS * each.total > left:
        return (), Cost()
    draws = np.asarray(evaluator.layout.rows(islands.samples), float).reshape(-1, rows.shape[1])
    weights = np.asarray(softmax(islands.log_weights.ravel()), float)[:, None]
    center = np.sum(weights * draws, axis=0)
    spread = np.maximum(np.sqrt(np.sum(weights * (draws - center) ** 2, axis=0)), 1e-12)
    found = modes_at(source, rows, spread, int(left / each.total))
    return found.known, found.num_gradients * each


def _sample(evaluator: Evaluator, islands: Islands, stream: Any) -> Sample:
    """Return some draws of all islands."""
    rows = np.asarray(evaluator.layout.rows(islands.samples), float)
    rows, log_weights = rows.reshape(-1, rows.shape[-1]), islands.log_weights.ravel()
    ancestors = float(np.sum(islands.stats["num_ancestors"], axis=0)[-1])
    effective = min(float(np.exp(log_ess(log_weights))), ancestors)
    return Sample.of(rows, log_weights, effective, islands.pooled[0], stream)
