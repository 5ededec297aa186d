"""References at optima that are known, and that the draws miss."""

import numpy as np

from ...core import log_ess
from ...references import Ascents, Sample, missing_mass
from ...remarks import Source
from ..choices import less_mass
from ..state import Found, Proposal, Proposer, Search
from .refined import Refined


class KnownModes(Proposer):
    """The modes that an earlier run of the same model met."""

    source = Source.ASCENTS

    def suits(self, search: Search) -> bool:
        return bool(search.known)

    def propose(self, search: Search) -> Proposal:
        return Proposal(*Ascents(search.known, None, 0).components, judged_alone=True)


class MissedModes(Proposer):
    """All optima that were met, if draws miss the mass around some of them."""

    source = Source.ASCENTS

    def suits(self, search: Search) -> bool:
        return bool(search.known)

    def propose(self, search: Search) -> Proposal | None:
        pilot = search.found[1]
        before, after = search.stream.fold(700).split(2)
        log_weights = np.asarray(pilot.state.log_weights, float)
        effective = float(np.exp(log_ess(log_weights)))
        mass = pilot.mass[0] if pilot.reached else -np.inf
        sample = Sample.of(np.asarray(pilot.draws[0]), log_weights, effective, mass, before)
        missing, num = missing_mass(search.evaluator, search.known, sample, after)
        search.spend_values(num)
        if not missing.modes:
            return None
        return Proposal(*Ascents(search.known, None, 0).components, judged_alone=True)

    def confirmed(self, search: Search, found: Found) -> Found | None:
        if less_mass(search.found[1], found[1]) is not None:
            return None
        search.best = found
        search.ask(Refined())
        return search.best
