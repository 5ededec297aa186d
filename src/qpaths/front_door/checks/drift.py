"""Draws that are moved on, and must stay where they are."""

from typing import Any

import jax
import numpy as np

from ...algorithms import Draws, Drift, Islands, continued, size_for
from ...core import Cost, Rows, Stream, log_ess, softmax
from ...kernels import FrozenKernel
from ...recipe import Recipe
from ...remarks import Finding
from ...rows import evaluator_of
from .base import Check, Run, Seen

_SHARE, _LEAST = 0.1, 10_000.0
"""Share of the evaluations of a run with which its draws are moved on, and the least number of these."""
_NUM_COMPARED = 4096
"""Draws of a run with moves with which those that are moved on are compared."""


def drift_of_draws(
    recipe: Recipe, islands: Islands, spent: Cost, num_left: float, stream: Stream
) -> tuple[Drift, Cost]:
    """Test that draws stay where they are when they are moved on; return also the cost, at most what is left.

    A tail or a ridge that every island reaches too rarely shows. A mode that no move leads to does not.
    """
    kernel: Any = recipe.kernel
    log_weights = islands.log_weights.ravel()
    weights = np.asarray(softmax(log_weights), float)
    first, moves = stream.split(2)
    num_values = 0 if recipe.num_steps == 1 else _NUM_COMPARED
    most = min(max(_SHARE * spent.total, _LEAST), num_left) - num_values
    size = size_for(most, kernel) if isinstance(kernel, FrozenKernel) else None
    if size is None or not np.isfinite(weights).all():
        return Drift(), Cost()
    evaluator = evaluator_of(recipe.path, moves, with_slopes=kernel.with_slopes)

    def rows(numbers: Any) -> Rows:
        points = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[numbers], islands.samples)
        return np.asarray(evaluator.layout.rows(points))

    draws = Draws(rows, log_weights, weights, float(np.exp(log_ess(log_weights))))
    if num_values:  # weights are ratios only where nothing was moved
        chosen = draws.chosen(num_values, float(np.asarray(first.uniform((1,)))[0]))
        values = evaluator.particles(rows(chosen), with_slopes=False)
        ratios = np.asarray(evaluator.log_ratio(0.0, 1.0, values.features), float)
        equal = np.full(num_values, 1 / num_values)
        effective = min(draws.effective, float(num_values))
        draws = Draws(lambda numbers: rows(chosen[numbers]), ratios, equal, effective)
    drift, cost = continued(evaluator, kernel, draws, size, moves)
    return drift, cost + Cost.values(num_values)


class Drifts(Check):
    """Draws that are moved on."""

    def look(self, run: Run) -> Seen:
        drift, cost = drift_of_draws(run.recipe, run.islands, run.spent, run.left, run.stream.fold(2))
        if not drift.error > 0:
            return Seen(cost=cost)
        finding = Finding.DRIFT(before=drift.before, after=drift.after, error=drift.error)
        return Seen((finding,), {"drift": drift.error}, cost, drift.places)
