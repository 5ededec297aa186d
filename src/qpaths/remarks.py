"""What a run says about itself: what was chosen and why, why it stopped, and what looks unreliable.

A remark is a record: its kind, and the numbers that belong to it. The sentences are the templates in this file, and
`str(remark)` fills them in. No other code holds such sentences, and none reads them: control flow looks at kinds.
"""

import dataclasses
import enum
import string
from typing import Any

from .reasons import Check as Check
from .reasons import Level as Level
from .reasons import Refusal as Refusal
from .reasons import Shape as Shape
from .reasons import Source as Source


class Kind(enum.Enum):
    """A kind of remark; calling it with numbers makes a remark."""

    def __call__(self, **values: Any) -> "Remark":
        return Remark(self, tuple(values.items()))

    @property
    def template(self) -> str:
        """The sentence, with the names of the numbers in braces; what follows a bar is said only if its numbers are."""
        return str(self.value)


class Note(Kind):
    """What was chosen, and why."""

    FROM_BASE = "annealed from the base|, in the coordinates of {mapped}|, along a path of length {length:.1f}"
    FROM_REFERENCE = (
        "annealed from {shape} found by {source}, mixed with {share:.0%} of the base|, "
        "with {num_modes} modes|; the path has length {length:.2f}"
    )
    CHECKED = "{check}"
    REFUSED = "without {source}, because {refusal}"
    OWN_PATH = "{name} as given, which has no order q to choose"
    NOT_COMPARED = "q = {q:.6g}: comparing others would have cost more than a quarter of the budget"
    KEPT = "q = {q:.6g}: no other q was better beyond noise| ({num_dropped} of them did not reach the target)"
    BETTER = (
        "q = {q:.6g}: in the pilots its bound on the log evidence was {gain:.2f} +- {gain_se:.2f} nats above that of "
        "the geometric path| ({num_dropped} others did not reach the target)"
    )
    ORDER = "q = {q:.6g}"
    EQUAL_STEPS = "{num} distributions at equal distances on a path of length {length:.2f}"
    WEIGHTS = "weights alone, without moves: the draws are worth {ess:.0%} of as many independent ones"
    CHAINS = (
        "{num} distributions with {num_leapfrog} leapfrog steps at each, momenta kept by {persistence:.0%}, "
        "step sizes spread by a factor of {spread:g}, {acceptance:.0%} of moves accepted; single chains fall short of "
        "the log evidence by about {shortfall:.3f} nats"
    )
    NO_GRADIENT = (
        "random-walk moves, because of an endpoint without gradient ({ends}); give `Density(..., gradient=...)` for "
        "Hamiltonian moves"
    )
    NOT_DIFFERENTIABLE = (
        "random-walk moves, because JAX cannot differentiate the {ends} ({reason}); with a gradient the moves would be "
        "Hamiltonian ones, which need far fewer evaluations"
    )
    IGNORED = (
        "the likelihood does not depend on {coordinates}: its gradient there is zero at all of {num} draws from the "
        "prior, and so is every tie of the prior to another coordinate; check whether the likelihood uses it"
    )
    CERTIFICATE = (
        "on data simulated from the prior the log evidence lies between {lower:.3f} +- {lower_se:.3f} and {upper:.3f} "
        "+- {upper_se:.3f}, a gap of {gap:.3f} nats for single chains of the same procedure; there is one exact draw "
        "of the posterior, so the second standard error is itself an estimate: in tests two of them covered in 9 of 10 "
        "runs or more, and in 86 % of them for posteriors with heavy tails"
    )


class Stop(Kind):
    """Why a call of `evidence` ended."""

    STANDARD_ERROR = (
        "stopped at a standard error of {wanted:g}, as wanted, after {spent:,}| of {budget:,}| evaluations ({pilots:,} "
        "in pilots)"
    )
    BUDGET = (
        "stopped when the budget was spent, after {spent:,}| of {budget:,}| evaluations ({pilots:,} in pilots)"
        "|; a standard error of {wanted:g} would take about {needed:,.0f}"
    )
    SECONDS = (
        "stopped after {seconds:.3g} of {limit:.3g} seconds and {spent:,}| of {budget:,}| evaluations ({pilots:,} in "
        "pilots)"
        "|; a standard error of {wanted:g} would take about {needed:,.0f}"
    )
    OUT_OF_REACH = (
        "stopped, short of what was wanted, after {spent:,} evaluations ({pilots:,} in pilots); a standard error of "
        "{wanted:g} would take about {needed:,.0f}; give a `budget` or `seconds` to go on nevertheless"
    )
    INTERRUPTED = "interrupted after {spent:,}| of {budget:,}| evaluations ({pilots:,} in pilots)"
    NOTHING_FOUND = "stopped after the pilots, which found nothing"
    ENDED = "the run ended"


class Finding(Kind):
    """What looks unreliable; the first part is the observation, the last what to do about it."""

    NOT_FINITE = (
        "`{name}` is {value}, which says nothing about the answer: check whether a log density overflows far from the "
        "draws, and whether there are enough draws or chains for a standard error"
    )
    NOTHING_REACHED = (
        "no particle reached the target, so the evidence may be anything: give a base that overlaps the target, or a "
        "target that is positive where the base is ({error})"
    )
    NOT_NORMALIZED = (
        "the base (prior) does not integrate to 1 but to exp({log_mass:.3f} +- {error:.3f}), judged by draws "
        "from it and from a fitted distribution, and the log evidence is shifted by as much: normalize its log density"
    )
    FLAT = (
        "the target is the same at all values of {coordinates}, so its integral is infinite and there is no evidence: "
        "multiply it by a prior that integrates to 1"
    )
    CONSTANT = (
        "the likelihood is constant, {value:.6g} at all of {num} draws from the prior, and the posterior is the prior: "
        "check whether the likelihood uses its argument"
    )
    SAMPLER = (
        "the sampler of the base (prior) does not draw from its density: they differ in {coordinates}|, where the "
        "draws of {worst} are {ratio:.2g} times as wide as the density|; compare the parameters of the two, for "
        "instance a variance with a standard deviation"
    )
    JACOBIAN = (
        "the density of the base (prior) lacks a Jacobian, probably: in {coordinates} the sampler fits a density with "
        "the log derivative of `{function}` added; add it to the log density"
    )
    DEPENDENCE = (
        "the sampler of the base (prior) does not draw from its density: {first} and {second} depend on each other in "
        "another way; check whether two draws share a key, and split the key (`jax.random.split`)"
    )
    FROZEN = (
        "the sampler of the base (prior) returned the same value of {coordinates} in all of {num} draws: draw with "
        "`jax.random` and the key, since NumPy's random numbers are drawn only once when JAX traces the sampler"
    )
    OUTSIDE = "the base (prior) has density zero at {num} of {total} draws from its sampler: check the bounds of both"
    PILOT_FELL_SHORT = (
        "the pilot did not get from the base to the target in {cost:,} evaluations: give a larger budget, or a base "
        "nearer to the target"
    )
    RISES = (
        "ascents of the target rise toward infinity, which may be the reason: check that its integral is finite, and "
        "that no scale in the likelihood can become zero"
    )
    UNCONFIRMED = (
        "{num_modes} modes were found by climbing, and no run from the base confirmed that there are no more: give a "
        "larger budget, or a base nearer to the target"
    )
    ROUTES = (
        "two searches for a start of the path found masses that differ by {apart:.2g} nats: one of them has missed a "
        "part of the target, and both may have; give a larger budget, or reparameterize the model"
    )
    SCORES = (
        "the target's scores do not average to zero over the draws ({imbalance:.2f} standard deviations): part of the "
        "target was not reached, perhaps the neck of a funnel; reparameterize the model"
    )
    NARROW = (
        "the draws are narrower than the target in {where}, by {short:.1%} of its variance (mean virial): "
        "tails or the neck of a funnel were not reached; reparameterize the model, or give a base with heavier tails"
    )
    NOT_SEARCHED = (
        "nothing has looked for further modes of the target: it has no gradient, and ascents by differences need a "
        "smooth density and more evaluations; give `Density(..., gradient=...)`, or a larger budget"
    )
    UNCOVERED = (
        "ascents found {num_modes} modes with {expected:.1%} of the mass, and {found:.1%} of the draws are there, so "
        "the log evidence is at least {error:.2g} nats too small; give a larger budget, or a base that is closer to "
        "all modes"
    )
    MISSED_MODE = (
        "the draws miss a mode or an end of the target along {coordinate}: {expected:.1%} of the mass belongs there, "
        "and {found:.1%} of the draws are there; give a larger budget, or a base that is closer to all modes"
    )
    DRIFT = (
        "moved on, the draws drift to places that the run reached too rarely: {before:.1%} of the draws are there, and "
        "{after:.1%} belong there, so the log evidence may be {error:.2g} nats too small; give a larger budget, or "
        "reparameterize the model"
    )
    ACCEPTANCE = (
        "moves are rarely accepted ({acceptance:.0%} at beta = {beta:.3g}): the scales of the target may differ from "
        "place to place; reparameterize the model"
    )
    ANCESTORS = (
        "all draws descend from {num} of {total} first particles: the moves hardly renew them; give a kernel with more "
        "steps, or a larger budget"
    )
    LONG_STEP = "few particles survive the long step to beta = {beta:.3g}: a larger budget makes more steps"
    LOST_ISLANDS = "{num} of {total} islands found no mass at all: take a base nearer to the target"
    DISAGREEMENT = (
        "islands disagree by more than the standard errors that they report: moves may not cross between parts of the "
        "target; give a larger budget, or more moves"
    )
    SPREAD = (
        "single islands differ by {spread:.2g} nats (standard deviation): the largest of such estimates decide, and "
        "more islands may find larger ones; give a larger budget, or reparameterize the model"
    )
    LAG = (
        "the particles lag behind the path by about {lag:.3g} nats, more than the standard error of {error:.3g}; "
        "give a larger budget, or a kernel with more steps"
    )
    RAISED = "the density raised errors at {num} points, which count as points without mass; the first: {first}"
    LARGE_ERROR = "the standard error of {error:.2g} nats is above {most:g} and says little: give a larger budget"
    HEAVY_WEIGHTS = (
        "the weights have a heavy tail (Pareto index {tail_index:.2f}): the base has lighter tails than the target, "
        "and mass far out is missing; give a wider base, or reparameterize the model"
    )
    FEW_EFFECTIVE = (
        "the {total} draws are worth only {ess:.0f} independent ones (effective sample size), fewer than {fewest}: "
        "give a larger budget"
    )

    @property
    def level(self) -> Level:
        """How bad it is."""
        return Level.WRONG if self in _WRONG else Level.DOUBTFUL


_WRONG = (
    *(Finding.NOT_FINITE, Finding.NOTHING_REACHED, Finding.NOT_NORMALIZED, Finding.FLAT),
    *(Finding.SAMPLER, Finding.JACOBIAN, Finding.DEPENDENCE, Finding.FROZEN, Finding.OUTSIDE),
)
"""Findings after which the answer is not that of the model, whatever the standard error says."""


@dataclasses.dataclass(frozen=True)
class Remark:
    """One remark of a verdict: its kind and its numbers, which are also attributes. `str(remark)` is the sentence.

    Args:
        kind: A member of `Note`, `Stop` or `Finding`. A kind called with its numbers makes the remark.
        values: Names and values of the numbers.

    Programs should look at `kind` and the numbers: the sentences may change from version to version. See [The
    verdict](evidence.md#the-verdict).

    Examples:
        >>> remark = Finding.FEW_EFFECTIVE(total=200, ess=41.0, fewest=100)
        >>> remark.kind.name, remark.ess
        ('FEW_EFFECTIVE', 41.0)
    """

    kind: Kind
    values: tuple[tuple[str, Any], ...]

    def __getattr__(self, name: str) -> Any:
        values = dict(object.__getattribute__(self, "values"))
        if name not in values:
            raise AttributeError(name)
        return values[name]

    def __str__(self) -> str:
        values = dict(self.values)
        parts = [part for part in self.kind.template.split("|") if _is_known(part, values)]
        return "".join(parts).format(**values)

    def with_values(self, **values: Any) -> "Remark":
        """The same remark with other numbers."""
        return Remark(self.kind, tuple({**dict(self.values), **values}.items()))

    def as_dict(self) -> dict[str, Any]:
        """The record as JSON can hold it."""
        return {"kind": self.kind.name, **dict(self.values)}

    @staticmethod
    def from_dict(record: dict[str, Any]) -> "Remark":
        """The remark that `as_dict` wrote."""
        kinds = (kind for family in Kind.__subclasses__() for kind in family if kind.name == record["kind"])
        return next(kinds)(**{name: value for name, value in record.items() if name != "kind"})


def _is_known(part: str, values: dict[str, Any]) -> bool:
    """Whether all numbers of a part of a sentence are there."""
    return all(name is None or values.get(name) is not None for _, name, _, _ in string.Formatter().parse(part))
