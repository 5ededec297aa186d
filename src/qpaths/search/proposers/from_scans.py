"""References from scans along coordinates: mixtures in each of them, or noise of another shape."""

import dataclasses
import math
from typing import Any

import numpy as np

from ...references import fit_shapes, fit_wells, has_groups, num_scanned, num_shaped
from ...remarks import Source
from .. import shares
from ..choices import Attempt, from_base, is_fitted
from ..state import NUM_WEIGHTED, Found, Proposal, Proposer, Search
from ..weighted import ENOUGH, FINE, POOREST, weights_alone

_BETTER = 1.3
"""Factor by which more draws must be effective for noise of another shape."""
_DEFENSE = 0.2
"""Share of the noise with heavy tails that stays."""


class Scans(Proposer):
    """Mixtures in single coordinates, where some have several modes; with correlations in the second round.

    The first draws have too few ancestors for correlations.
    """

    source = Source.SCANS
    rounds = 2

    def __init__(self) -> None:
        self.correlated = False

    def suits(self, search: Search) -> bool:
        affordable = num_scanned(search.evaluator.dimension) <= shares.SCANS * search.left
        has_several = self.correlated or has_groups(search.found[1].draws[0])
        return has_several and affordable and search.is_worth_more()

    def propose(self, search: Search) -> Proposal | None:
        draws = search.found[1].draws[0]
        component = fit_wells(search.evaluator, draws, search.stream.fold(400), self.correlated)
        search.spend_values(num_scanned(search.evaluator.dimension))
        self.correlated = True
        return None if component is None else Proposal.of(component, settles=True)


class Shapes(Proposer):
    """Noise of other shapes than Student's, found by scans in the coordinates of the map, where it is better.

    Tails that are heavier on one side, or end early, are what a map leaves.
    """

    source = Source.SCANS

    def suits(self, search: Search) -> bool:
        path, pilot = search.found
        base: Any = path.base
        if not is_fitted(base) or not base.is_mapped or len(base.components) > 1 or base.components[0].wells:
            return False
        if base.components[0].drivers:  # they have a mixture of their own
            return False
        return pilot.reached and num_shaped(search.evaluator.dimension) + 2 * NUM_WEIGHTED <= search.left

    def propose(self, search: Search) -> Proposal | Found | None:
        path, pilot = search.found
        base: Any = path.base
        before, after = search.stream.fold(600).split(2)
        search.spend_values(NUM_WEIGHTED)
        ess = weights_alone(path, search.kernel, before, NUM_WEIGHTED)
        if ess > FINE:
            return None
        component = fit_shapes(pilot.annealing.evaluator, pilot.state.particles.position, base.components[0])
        search.spend_values(num_shaped(search.evaluator.dimension) + NUM_WEIGHTED)
        # The part with heavy tails stays as a defense.
        parts, own = (component, base.components[0]), np.array([1 - _DEFENSE, _DEFENSE])
        shaped = from_base(path, dataclasses.replace(base, components=parts, shares=own))
        ess_after = weights_alone(shaped, search.kernel, after, NUM_WEIGHTED)
        if ess_after < max(_BETTER * ess, POOREST):
            return None
        if ess_after < ENOUGH:
            return Proposal(parts, own) if pilot.cost.total < search.left else None
        # Weights alone are enough, and moves would be those of the same coordinates.
        length = math.sqrt(-math.log(min(ess_after, 0.999)))
        search.attempts.append(Attempt(self.source, None, length, *pilot.mass, shape=component.shape))
        return shaped, pilot._replace(lengths=pilot.lengths * (length / pilot.barrier if pilot.barrier else 1.0))
