"""References with the curvature of the modes that ascents find."""

from ...references import FEWEST_DIFFERENCES, Ascents, Reference, find_modes, least_covered, with_more_modes
from ...remarks import Confirmation, Refusal, Source
from .. import shares
from ..choices import BASE_SHARE, less_mass
from ..state import CHECK_PARTICLES, FARTHEST, Found, Proposal, Proposer, Search

_NO_SHORTER = 0.6
"""Share of the length of the path from the base, above which one from several modes is of no use."""

_MOST_UNSEEN = 0.4
"""Estimate of the share of mass in modes that no ascent came to, above which a run from the base is better."""


class Climbers(Proposer):
    """The modes that ascents from draws of the base find, confirmed or completed by a short run from the base."""

    source = Source.ASCENTS

    def __init__(self) -> None:
        self.ascents = Ascents((), None, 0)

    def propose(self, search: Search) -> Proposal | Refusal:
        most = int(shares.ASCENTS * search.max_cost / search.cost_of_gradient.total)
        if not search.kernel.with_slopes and most < FEWEST_DIFFERENCES:
            return Refusal.NO_GRADIENT
        self.ascents = search.climbed(find_modes(search.climbable, search.stream.fold(100), most, search.structure))
        refusal = self.ascents.refusal
        if refusal is None:
            if len(self.ascents.modes) > 1:  # a pilot of several modes costs more than looking for others first
                self.ascents = self._covering(search)
            return Proposal(*self.ascents.components, judged_alone=True)
        led_nowhere = not search.kernel.with_slopes and refusal in (Refusal.NO_OPTIMUM, Refusal.FLAT)
        return Refusal.NO_GRADIENT if led_nowhere else refusal

    def confirmed(self, search: Search, found: Found) -> Found | None:
        """Return what ascents found, confirmed or completed by a run from the base, unless that contradicts it."""
        if len(self.ascents.modes) == 1:
            completed = self._completed(search, found, self._covering(search))
            if completed is None:
                return None
            found = completed
        if search.distance(found[1]) > FARTHEST:
            search.check = Confirmation.TOO_FAR
            return found
        is_alone = len(self.ascents.modes) == 1
        num = CHECK_PARTICLES if is_alone else search.num_particles
        share = shares.CONFIRMING if num == CHECK_PARTICLES else shares.CONFIRMING_SEVERAL
        first = search.pilot(search.path, num, share * search.max_cost)
        if not first.reached:
            search.check = Confirmation.NOT_REACHED
            return found
        if self.ascents.unseen > _MOST_UNSEEN and less_mass(found[1], first) is None:
            search.refuse(Refusal.MANY_MODES)
            return None
        more = search.climbed(with_more_modes(search.climbable, self.ascents, first.draws[0], by_mass=True))
        if more.refusal is not None:
            search.refuse(more.refusal)
            return None
        is_complete = len(more.modes) <= len(self.ascents.modes)
        completed = self._completed(search, found, more)
        if completed is None:
            return None
        refusal = less_mass(first, completed[1])
        if refusal is None and not is_alone and less_mass(completed[1], first) is None:
            # Modes of a funnel say little about it: the base itself may be as near.
            refusal = Refusal.LONGER if completed[1].barrier > _NO_SHORTER * first.barrier else None
        if refusal is not None:
            search.refuse(refusal)
            return None
        search.check = Confirmation.CONFIRMED if is_complete else Confirmation.COMPLETED
        return completed

    def _covering(self, search: Search) -> Ascents:
        """Return also the modes above places which a reference with the modes so far covers least."""
        components, shares_of_modes = self.ascents.components
        layout = search.evaluator.layout
        reference = Reference(components, shares_of_modes, search.path.base, BASE_SHARE, layout)
        positions, num = least_covered(reference, search.evaluator, search.stream.fold(101))
        search.spend_values(num)
        more = search.climbed(with_more_modes(search.climbable, self.ascents, positions, by_mass=False))
        return self.ascents if more.refusal else more

    def _completed(self, search: Search, found: Found, more: Ascents) -> Found | None:
        if len(more.modes) <= len(self.ascents.modes):
            return found
        search.refuse(Refusal.MISSED_MODES)
        self.ascents = more
        return search.judge(self.source, Proposal(*more.components, judged_alone=True))
