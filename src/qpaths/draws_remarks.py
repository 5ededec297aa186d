"""What `qpaths.evidence_from_draws` says about its answer; see `remarks.py`."""

from .remarks import Kind, Level


class DrawsNote(Kind):
    """What was done with the draws."""

    BRIDGED = (
        "bridge sampling between {num} draws in {num_chains} chains and {num_proposed} of fitted references; each "
        "reference is fitted to one half of the draws, and bridges with the other"
    )
    WORTH = "the draws are worth {worth:.0f} independent ones for this estimate"

    @property
    def praise(self) -> str:
        """The last line where there is no finding."""
        return "both halves of the draws agree, and no mass was found where there are no draws"


class DrawsFinding(Kind):
    """What looks unreliable in an estimate from draws."""

    MISSED_MODE = (
        "the draws miss a mode: an ascent from {where} ended at {point}, far from all draws, where the log density is "
        "{height:.1f} relative to their mode; run the sampler from several starts, or use `qpaths.evidence`"
    )
    MISSED_MASS = (
        "the reference finds mass where there are no draws: its own estimate of the log evidence is {more:.2f} nats "
        "higher; run the sampler longer, or use `qpaths.evidence`"
    )
    OTHER_DENSITY = (
        "the draws do not come from the density: moves that leave it as it is change the draws in {what}; check that "
        "model, data and units belong to these draws, and that the sampler reported no divergences"
    )
    CHAINS_DISAGREE = (
        "the chains disagree (r-hat of the log density is {r_hat:.2f}): run the sampler longer, or from several starts"
    )
    HALVES_DISAGREE = (
        "the two halves of the draws give estimates that differ by {difference:.2f} nats, where {error:.2f} is "
        "expected: run the sampler longer"
    )
    DRAWS_WORTH_LITTLE = (
        "the draws are worth only {worth:.0f} independent ones for this estimate, fewer than {fewest}: run the sampler "
        "longer"
    )
    DRAWS_FIT_BADLY = (
        "the standard error of {error:.2g} nats is above {most:g}, where it says little about the error: the draws "
        "hardly look like any reference; use `qpaths.evidence`"
    )
    NO_SEARCH = (
        "no search for further modes was made, because the log density has no gradient: check that the chains started "
        "at different places"
    )

    @property
    def level(self) -> Level:
        """All of them leave the answer open."""
        return Level.DOUBTFUL
