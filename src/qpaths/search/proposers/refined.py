"""References fitted to the last draws, round by round."""

from typing import Any

from ...remarks import Refusal, Source
from ..choices import is_fitted, less_mass
from ..fits import fit_each, fit_to_pilot
from ..state import Found, Proposal, Proposer, Search

_SETTLED = 0.85
"""Share of the length of the path before, above which a round is the last."""


class Refined(Proposer):
    """A fit to the last draws, run again with more particles, until the path stops getting shorter."""

    source = Source.REFINED
    rounds = 6

    def name(self, search: Search) -> Source:
        return self.source if is_fitted(search.found[0].base) else Source.PILOT

    def suits(self, search: Search) -> bool:
        return search.is_worth_more()

    def propose(self, search: Search) -> Proposal | Refusal | None:
        path, pilot = search.found
        base: Any = path.base
        if is_fitted(base) and len(base.components) > 1:  # each of several modes is fitted alone
            fits = fit_each(base, pilot, search.images)
            return None if fits is None else Proposal(*fits)
        fit = fit_to_pilot(base, pilot, search.base_component, search.blocks(pilot))
        return fit.refusal if fit.fitted is None else Proposal.of(fit.fitted)

    def is_last(self, search: Search, before: Found | None, after: Found) -> bool:
        assert before is not None
        return after[1].barrier > _SETTLED * before[1].barrier and less_mass(after[1], before[1]) is None
