"""Optima that a run has met, around which its draws must have the target's mass."""

import numpy as np

from ...core import Cost, Stream
from ...references import TYPICAL_GRADIENTS, Mode, Sample, climbable, distinct, missing_mass, modes_at
from ...remarks import Finding
from .base import Check, Run, Seen


class KnownModes(Check):
    """Optima of all ascents, and those above places where other checks found that mass is missing."""

    def look(self, run: Run) -> Seen:
        stream = run.stream
        modes, cost = _optima_above(run, stream.fold(3))
        modes = distinct(run.recipe.modes, modes)
        sample = Sample.of(run.rows, run.log_weights, run.effective, run.islands.pooled[0], stream.fold(4))
        missing, num = missing_mass(run.evaluator, modes, sample, stream.fold(5))
        cost += Cost(target=num)
        if not missing.modes:
            return Seen(cost=cost)
        numbers = {"expected": missing.expected, "found": missing.found, "error": missing.error}
        finding = Finding.UNCOVERED(num_modes=len(missing.modes), **numbers)
        return Seen((finding,), {"uncovered": missing.error}, cost, modes=missing.modes)


def _optima_above(run: Run, stream: Stream) -> tuple[tuple[Mode, ...], Cost]:
    """Return the optima above places where the draws miss mass."""
    if not run.places:
        return (), Cost()
    source, each = climbable(run.evaluator, run.kernel.with_slopes, stream)
    starts = np.concatenate(run.places)
    if len(starts) * TYPICAL_GRADIENTS * each.total > run.left:
        return (), Cost()
    draws, weights = run.rows, run.weights[:, None]
    center = np.sum(weights * draws, axis=0)
    spread = np.maximum(np.sqrt(np.sum(weights * (draws - center) ** 2, axis=0)), 1e-12)
    found = modes_at(source, starts, spread, int(run.left / each.total))
    return found.known, found.num_gradients * each
