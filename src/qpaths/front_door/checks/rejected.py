"""Points that the run has rejected, because a density failed there."""

import numpy as np

from ...core import Cost
from ...rows import Faults, faults_of_call, rejecting
from .base import Check, Run, Seen

_NUM, _STEP = 256, 0.5
"""Points around the final draws, and how far from these they are, in differences of two draws."""


class Rejected(Check):
    """The share of points around the final draws at which a density fails.

    A solver that fails at 2 % of the draws from the prior does no harm if it does not fail where the posterior is.
    """

    def look(self, run: Run) -> Seen:
        faults = faults_of_call()
        if faults is None or not faults.num or not np.isfinite(run.weights).all():
            return Seen()
        cumulative = np.cumsum(run.weights)
        uniform = np.asarray(run.stream.fold(7).uniform((_NUM,)))
        rows = run.rows[np.minimum(np.searchsorted(cumulative, uniform * cumulative[-1]), len(cumulative) - 1)]
        around = rows + _STEP * (np.roll(rows, 1, axis=0) - np.roll(rows, 2, axis=0))
        with rejecting(Faults()) as near:
            run.evaluator.values(around)
        return Seen(cost=Cost(target=_NUM), rejected=near.num / _NUM)
