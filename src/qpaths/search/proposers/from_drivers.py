"""References for targets in which a few coordinates drive the scales of all others."""

import numpy as np

from ...references import ROTATED, conditional_design
from ...remarks import Refusal, Source
from .. import shares
from ..choices import can_map
from ..fits import NUM_OF_BASE, drivers_of, map_of_base
from ..pilot import Pilot
from ..state import Found, Proposal, Proposer, Search
from ..weighted import GOOD, POOREST, weighted_fit


class DriversOfBase(Proposer):
    """Optima and curvature at values of the base's hyperparameters, which a map of the base shows."""

    source = Source.DRIVERS

    def suits(self, search: Search) -> bool:
        return can_map(search.kernel)

    def propose(self, search: Search) -> Proposal | Refusal | None:
        draws = np.asarray(search.evaluator.draw(search.stream.fold(500), NUM_OF_BASE), float)
        search.base_component = map_of_base(draws)
        if search.base_component is None or not search.kernel.with_slopes:
            return None
        drivers = drivers_of(search.base_component)
        return from_drivers(search, draws, draws, None, drivers) if drivers else None


class Drivers(Proposer):
    """Optima and curvature at values of the drivers that draws show; better draws may show more of them."""

    source = Source.DRIVERS
    rounds = 10

    def suits(self, search: Search) -> bool:
        return search.kernel.with_slopes and search.is_worth_more()

    def propose(self, search: Search) -> Proposal | Refusal | None:
        pilot = search.found[1]
        draws, scores = pilot.draws
        assert scores is not None
        return from_drivers(search, draws, scores, pilot)

    def is_last(self, search: Search, before: Found | None, after: Found) -> bool:
        return search.settled


def from_drivers(
    search: Search, draws: np.ndarray, scores: np.ndarray, before: Pilot | None, given: tuple[int, ...] = ()
) -> Proposal | Refusal | None:
    """Return a fit to optima and curvature at values of the drivers that draws show, or of those that are given."""
    design_stream, fit_stream = search.stream.fold(200 + search.num_pilots).split(2)
    most = int(min(shares.DRIVERS * search.max_cost, search.left) / 2)
    blocks = None if before is None or set(ROTATED) <= set(search.drivers) else search.blocks(before)
    direction = None if blocks is None else blocks.direction
    design, drivers, num = conditional_design(
        search.evaluator, draws, scores, most, design_stream, search.drivers, given, direction
    )
    search.spend_gradients(num)
    if design is None:
        return None
    component, ess, num = weighted_fit(design, search.evaluator, fit_stream)
    search.spend_values(num)
    if ess < POOREST:
        search.drivers += () if given else drivers
        return Refusal.POOR_FIT
    search.drivers += drivers
    return Proposal.of(component, settles=ess > GOOD, judged_alone=before is None)
