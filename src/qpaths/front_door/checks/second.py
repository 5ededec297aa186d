"""A second search for modes, which shares nothing with the first: a small population that anneals from the base."""

import numpy as np

from ...core import Cost, log_ess, softmax
from ...references import Reference, least_covered
from ...remarks import Confirmation, Finding, Note
from ...schedules import AdaptiveSchedule
from ...search import run_pilot
from .base import Check, Run, Seen

_SHARE, _LEAST = 0.12, 10_000.0
"""Share of the evaluations of a run for the second search, and the least number of these."""
_PER_PARTICLE, _PARTICLES = 250.0, (32, 1024)
"""Evaluations that a particle takes on its way, and the fewest and the most particles."""
_NUM_STARTS = 48
"""Draws of the population from which ascents start."""
_FEW, _LITTLE, _FAR_ABOVE = 3, 0.45, 3.0
"""Dimensions in which draws of the base see narrow modes, the share of the evaluations for each of two kinds of draws,
and nats above the answer of a weight that belongs to a mode."""
_BEYOND_NOISE, _LEAST_APART = 3.0, 0.02
"""Standard errors and nats by which the second search must find more mass."""
_MOST_NOISE = 1.5
"""Nats from which on an agreement says nothing."""


class Second(Check):
    """A second opinion on the mass and on the modes, where the first search had several modes or no confirmation."""

    def look(self, run: Run) -> Seen:
        share = min(_SHARE * run.spent.total, run.left)
        if not _is_wanted(run):
            return _uncovered(run, int(_LITTLE * share))
        if share < _LEAST:
            return Seen()
        num = int(np.clip(share / _PER_PARTICLE, *_PARTICLES))
        stream = run.stream.fold(8)
        pilot = run_pilot(run.evaluator.path, AdaptiveSchedule(), run.kernel, num, key=stream, max_cost=share)
        cost = pilot.cost
        if not pilot.reached or not np.isfinite(pilot.mass).all():
            return Seen(cost=cost)
        value, error = pilot.mass
        first, first_error = run.islands.pooled
        apart = value - first
        log_weights = np.asarray(pilot.state.log_weights, float)
        cumulative = np.cumsum(softmax(log_weights))
        chosen = np.searchsorted(cumulative, np.asarray(stream.fold(1).uniform((_NUM_STARTS,))) * cumulative[-1])
        places = np.asarray(pilot.draws[0], float)[np.minimum(chosen, len(cumulative) - 1)]
        # A population that is worth a few draws has a standard error that means nothing.
        noise = _BEYOND_NOISE * float(np.hypot(error, first_error)) + _LEAST_APART
        is_worth = bool(np.exp(log_ess(log_weights)) >= _PARTICLES[0])
        if apart <= noise or not is_worth:
            return Seen(cost=cost, places=places, agrees=is_worth and abs(apart) <= noise < _MOST_NOISE)
        return Seen((Finding.SECOND(apart=apart),), {"uncovered": apart}, cost, places)


def _uncovered(run: Run, num: int) -> Seen:
    """Return places where the target is far above the reference, in so few dimensions that draws of the base see them.

    A narrow mode next to a wide one has no slope that leads to it.
    """
    reference = run.recipe.path.base
    if not isinstance(reference, Reference) or run.evaluator.dimension > _FEW or num < _PARTICLES[0]:
        return Seen()
    above = run.islands.pooled[0] + _FAR_ABOVE
    places, num_values = least_covered(reference, run.evaluator, run.stream.fold(9), num, above)
    return Seen(cost=Cost(target=num_values), places=places if len(places) else None)


def _is_wanted(run: Run) -> bool:
    """Return whether the first search had several modes, or its only mode is not confirmed."""
    starts = [note for note in run.recipe.notes if note.kind is Note.FROM_REFERENCE]
    checks = [note.check for note in run.recipe.notes if note.kind is Note.CHECKED]
    if not starts:
        return False  # the islands anneal from the base themselves
    return starts[0].num_modes is not None or Confirmation.CONFIRMED not in checks
