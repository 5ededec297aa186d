"""The base itself: as it is, in the coordinates of a map of it, or from where ascents ended in a neck."""

from ...remarks import Refusal, Source
from .. import shares
from ..choices import Attempt
from ..state import TRIAL_PARTICLES, Found, Proposal, Proposer, Search


class Neck(Proposer):
    """The place where ascents ended in what may be a neck, if a small run from the base finds no more mass.

    The mode of a scale may also be too small because many coordinates depend on it. Fits to draws mend that.
    """

    source = Source.ASCENTS

    def suits(self, search: Search) -> bool:
        return search.neck is not None

    def propose(self, search: Search) -> Found | None:
        assert search.neck is not None
        is_small = search.num_particles <= TRIAL_PARTICLES
        num, cost = TRIAL_PARTICLES, search.trial_cost
        if is_small:
            num, cost = search.num_particles, shares.FROM_BASE * search.left
        trial = search.pilot(search.path, num, cost)
        search.first = trial if is_small else None
        if trial.reached and trial.mass[0] > search.neck[1].mass[0]:
            return None
        attempts = search.attempts
        search.attempts = [one._replace(refusal=None) if one.refusal is Refusal.NECK else one for one in attempts]
        return search.neck


class MapOfBase(Proposer):
    """The base in the coordinates of a map of it, where a small run from there finds more mass."""

    source = Source.PRIOR

    def suits(self, search: Search) -> bool:
        return search.base_component is not None

    def propose(self, search: Search) -> Proposal | None:
        component = search.base_component
        assert component is not None
        return Proposal.of(component, judged_alone=True) if search.is_better_mapped(component) else None


class Base(Proposer):
    """The base as it is, by a separate run."""

    source = Source.BASE

    def propose(self, search: Search) -> Found:
        first = search.first or search.pilot(search.path, search.num_particles, shares.FROM_BASE * search.left)
        search.attempts.append(Attempt(self.source, None, first.barrier, *first.mass))
        return search.path, first
