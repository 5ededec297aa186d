"""Say what a run knows about itself: what was chosen and why, why it stopped, what looks unreliable, and the verdict.

A remark is a record: its kind, and the numbers that belong to it. The sentences are all in this file, and
`str(remark)` fills in the numbers. No other code holds such sentences, and none reads them: control flow looks at
kinds.
"""

import dataclasses
import enum
import math
import string
from typing import Any

import numpy as np

from .core import is_traced


class Level(enum.StrEnum):
    """Name what to think of an answer.

    `sound` says that no check found a problem, not that there is none: see [How wrong is my
    evidence?](tutorials/how_wrong.md).

    Examples:
        >>> Level.DOUBTFUL == "doubtful", Level.DOUBTFUL.exit_code
        (True, 3)
    """

    SOUND = "sound"
    DOUBTFUL = "doubtful"
    WRONG = "wrong"

    @property
    def exit_code(self) -> int:
        """Exit code of `qpaths evidence`: 0, 3 or 4. Code 2 is for errors, 130 and 143 for interrupts."""
        return {Level.SOUND: 0, Level.DOUBTFUL: 3, Level.WRONG: 4}[self]


class Source(enum.StrEnum):
    """Name where a start of the path comes from."""

    BASE = "the base"
    PRIOR = "the base in the coordinates of a map of it"
    PILOT = "a fit to the particles of a pilot"
    ASCENTS = "ascents of the target"
    DRIVERS = "optima and curvature for given values of the coordinates that drive the scales of others"
    SCANS = "scans along single coordinates"
    REFINED = "a fit to the draws of a short run"
    CHAINS = "draws of Hamiltonian chains at the target"
    WEIGHTED = "weighted draws, in rounds"


class Shape(enum.StrEnum):
    """Describe a start of the path."""

    STUDENT = "a Student-t distribution"
    CURVED = "a curved distribution"
    WELLS = "mixtures in single coordinates"


class Refusal(enum.StrEnum):
    """Why a reference was not fitted, or not used."""

    TOO_FEW = "the particles are too few for the number of dimensions"
    SUBSPACE = "the particles lie in a subspace"
    SEVERAL_GROUPS = "the particles fall into several groups"
    HEAVY_TAILS = "the particles have heavy tails"
    NO_GRADIENT = "there is no gradient to climb, and differences of values lead to no optimum that can be afforded"
    NO_OPTIMUM = "no ascent reached an optimum"
    AT_INFINITY = "the target rises toward infinity"
    HARD_BOUND = "the target ends at a hard bound"
    FLAT = "the target is flat or a ridge at its optimum"
    NECK = "the curvature at the optimum disagrees with the spread of the draws"
    MISSED_MODES = "a run from the base found further modes"
    MANY_MODES = "nearly every ascent found a mode of its own"
    NOT_REACHED = "the pilot from there did not reach the target"
    LONGER = "the path from there is not shorter"
    POOR_FIT = "hardly any draw from there has weight"
    TOO_COSTLY = "there were not enough gradients for optima all over the range of the scales"
    LESS_MASS = "the pilot from there found less mass"
    UNSTABLE = "draws from there are lost in rounding errors of its map"


class Confirmation(enum.StrEnum):
    """Say whether a run from the base confirmed the mass that ascents found."""

    CONFIRMED = "a short run from the base found no other mode"
    COMPLETED = "a short run from the base found further modes, which are used"
    NOT_REACHED = "a short run from the base did not reach the target, and confirms nothing"
    TOO_FAR = "the base is too far away for a run from it to confirm the mass"


_BEYOND = dict.fromkeys(("error", "spread", "apart", "lag"), (1e3, "more than a thousand"))
_BEYOND["needed"] = (1e10, "more than ten billion")
"""Numbers in sentences beyond which there are words, and the words."""


class Sentence:
    """A sentence with numbers in braces, and parts that are only said if all of their numbers are known.

    Sentence("stopped after {spent:,}{limit} evaluations", limit=" of {budget:,}")
    """

    def __init__(self, text: str, **parts: str):
        self.text = text
        self.parts = parts

    def filled(self, values: dict[str, Any]) -> str:
        """Return the sentence with these numbers, and words for errors and costs beyond all measure."""
        values = {name: _in_words(name, value) for name, value in values.items()}
        said = {name: part.format(**values) if _is_known(part, values) else "" for name, part in self.parts.items()}
        return self.text.format(**values, **said)


class _Words(str):
    """Words in place of a number: they are the same in every format."""

    def __format__(self, spec: str) -> str:
        return str(self)


def _in_words(name: str, value: Any) -> Any:
    """Return words for an error of nats, or a number of evaluations, that is beyond all measure."""
    limit, words = _BEYOND.get(name, (math.inf, ""))
    return _Words(words) if isinstance(value, int | float) and limit < abs(value) < math.inf else value


def _is_known(part: str, values: dict[str, Any]) -> bool:
    """Tell whether all numbers of a part of a sentence are there."""
    return all(name is None or values.get(name) is not None for _, name, _, _ in string.Formatter().parse(part))


class Kind(enum.Enum):
    """A kind of remark, with its sentence; calling it with numbers makes a remark."""

    def __call__(self, **values: Any) -> "Remark":
        return Remark(self, tuple(values.items()))

    def sentence(self, values: dict[str, Any]) -> str:
        """Return the sentence with these numbers."""
        sentence = self.value if isinstance(self.value, Sentence) else Sentence(self.value)
        return sentence.filled(values)


class Note(Kind):
    """Say what was chosen, and why."""

    FROM_BASE = Sentence(
        "annealed from the base{where}, along a path of length {length:.1f}", where=", in the coordinates of {mapped}"
    )
    FROM_REFERENCE = Sentence(
        "annealed from {shape} found by {source}, mixed with {share:.0%} of the base{modes}; the path has length "
        "{length:.2f}",
        modes=", with {num_modes} modes",
    )
    CHECKED = "{check}"
    REFUSED = "without {source}, because {refusal}"
    OWN_PATH = "{name} as given, which has no order q to choose"
    NOT_COMPARED = "q = {q:.6g}: comparing others would have cost more than a quarter of the budget"
    KEPT = Sentence(
        "q = {q:.6g}: no other q was better beyond noise{dropped}",
        dropped=" ({num_dropped} of them did not reach the target)",
    )
    BETTER = Sentence(
        "q = {q:.6g}: in the pilots its bound on the log evidence was {gain:.2f} +- {gain_se:.2f} nats above that of "
        "the geometric path{dropped}",
        dropped=" ({num_dropped} others did not reach the target)",
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
    FAULTS = "{num} points count as points without mass: {what}"
    NOT_DIFFERENTIABLE = (
        "random-walk moves, because JAX cannot differentiate the {ends} ({reason}); with a gradient the moves would be "
        "Hamiltonian ones, which need far fewer evaluations"
    )
    DROPPED = (
        "the constants that `~` drops in Stan are kept: the log density is {constant:+.6g} from Stan's own (`lp__`)"
    )
    MINOR = "too little to matter, and counted in the standard error: {what}"
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


_OF_BUDGET, _WOULD_TAKE = " of {budget:,}", "; a standard error of {wanted:g} would take about {needed:,.0f}"
"""Parts of several sentences."""


class Stop(Kind):
    """Why a call of `evidence` ended."""

    STANDARD_ERROR = Sentence(
        "stopped at a standard error of {wanted:g}, as wanted, after {spent:,}{of_budget} evaluations ({pilots:,} in "
        "pilots)",
        of_budget=_OF_BUDGET,
    )
    BUDGET = Sentence(
        "stopped when the budget was spent, after {spent:,}{of_budget} evaluations ({pilots:,} in pilots){more}",
        of_budget=_OF_BUDGET,
        more=_WOULD_TAKE,
    )
    SECONDS = Sentence(
        "stopped after {seconds:.3g} of {limit:.3g} seconds and {spent:,}{of_budget} evaluations ({pilots:,} in "
        "pilots){more}",
        of_budget=_OF_BUDGET,
        more=_WOULD_TAKE,
    )
    OUT_OF_REACH = Sentence(
        "stopped, short of what was wanted, after {spent:,} evaluations ({pilots:,} in pilots){more}; give a `budget` "
        "or `seconds` to go on nevertheless",
        more=_WOULD_TAKE,
    )
    INTERRUPTED = Sentence(
        "interrupted after {spent:,}{of_budget} evaluations ({pilots:,} in pilots)", of_budget=_OF_BUDGET
    )
    NOTHING_FOUND = "stopped after the pilots, which found nothing"
    ENDED = "the run ended"


class Finding(Kind):
    """Say what looks unreliable; the first part is the observation, the last what to do about it."""

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
    HALF_PRIOR = (
        "the prior of `{name}` ({what}) does not integrate to 1 but to {mass:.4g}, and the log evidence is shifted by "
        "{constant:+.4f} in all: if models with other priors are compared, truncate the prior, or subtract this"
    )
    IMPROPER_PRIOR = (
        "the prior of `{name}` is improper, its integral is infinite, and the log evidence has an arbitrary constant: "
        "give it a prior that integrates to 1"
    )
    FLAT = (
        "the target is the same at all values of {coordinates}, so its integral is infinite and there is no evidence: "
        "multiply it by a prior that integrates to 1"
    )
    CONSTANT = (
        "the likelihood is constant, {value:.6g} at all of {num} draws from the prior, and the posterior is the prior: "
        "check whether the likelihood uses its argument"
    )
    SAMPLER = Sentence(
        "the sampler of the base (prior) does not draw from its density: they differ in {coordinates}{widths}; compare "
        "the parameters of the two, for instance a variance with a standard deviation",
        widths=", where the draws of {worst} are {ratio:.2g} times as wide as the density",
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
    DISCRETE = (
        "the sampler of the base (prior) returned only {num} different values of {coordinates} in {total} draws, which "
        "have no density: sum over discrete values in the likelihood, or give a `kernel` that moves them"
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
        "the path starts at {num_modes} modes, and no run from the base confirmed that there are no more: give a "
        "larger budget, or a base nearer to the target"
    )
    UNSEEN = (
        "the search still found new modes when it ended: by estimate, {share:.0%} of the mass lies in modes that were "
        "met once or never; give a larger budget, or `groups` of parameters that belong together"
    )
    ROUTES = (
        "two searches for a start of the path found masses that differ by {apart:.2g} nats: one of them has missed a "
        "part of the target, and both may have; give a larger budget, or reparameterize the model"
    )
    SECOND = (
        "a second search, which shares nothing with the first, found {apart:.2g} nats more mass: the draws miss a part "
        "of the target; give a larger budget, or reparameterize the model"
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
    FAULTS = (
        "{what}, and so at {before:.1%} of the draws from the prior and {after:.1%} of points around the final draws; "
        "these points count as points without mass, as is right where the model cannot be, and wrong where it could"
    )
    MANY_FAULTS = (
        "{what}, and so at {before:.1%} of the draws from the prior and {after:.1%} of points around the final draws: "
        "too many to count them as points without mass; mend the function there"
    )
    LARGE_ERROR = "the standard error of {error:.2g} nats is above {most:g} and says little: give a larger budget"
    AUDIT = (
        "for data set {number} `evidence` gives another answer than weighted draws, by {apart:.2g} nats, and so it may "
        "for others: the posteriors may have modes that ascents miss; call `evidence` for each data set"
    )
    LEFT_OUT = (
        "with all observations the evidence is {apart:.2g} nats from that of the result, so one of the two is wrong: "
        "the posterior may have several modes; take `folds`, which carries draws along paths"
    )
    NOT_COVERED = (
        "the draws hardly cover the posterior with the new prior (worth {ess:.0f}, Pareto index {tail_index:.2f}): "
        "give `reweight(prior=..., key=...)`, which carries them there"
    )
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
        """Return how bad it is."""
        return Level.WRONG if self in _WRONG else Level.DOUBTFUL


_WRONG = (
    *(Finding.NOT_FINITE, Finding.NOTHING_REACHED, Finding.NOT_NORMALIZED, Finding.FLAT),
    *(Finding.SAMPLER, Finding.JACOBIAN, Finding.DEPENDENCE, Finding.FROZEN, Finding.OUTSIDE),
    Finding.DISCRETE,
    Finding.MANY_FAULTS,
)
"""Findings after which the answer is not that of the model, whatever the standard error says."""


class DrawsNote(Kind):
    """Say what `qpaths.evidence_from_draws` did with the draws."""

    BRIDGED = (
        "bridge sampling between {num} draws in {num_chains} chains and {num_proposed} of fitted references; each "
        "reference is fitted to one half of the draws, and bridges with the other"
    )
    WORTH = "the draws are worth {worth:.0f} independent ones for this estimate"


class AfterNote(Kind):
    """Say what was made of a result afterwards."""

    UPDATED = (
        "carried from the draws without the new data, in {num_steps} steps; the log predictive density of the new data "
        "is {predictive:.4f} +- {predictive_se:.4f}"
    )
    REWEIGHTED = (
        "draws of one prior, taken to another; by weights alone they are worth {ess:.0f} of {total} (Pareto index "
        "{tail_index:.2f})"
    )
    BATCHES = "{num} blocks of data, one after the other; draws were carried {num_moves} times"
    WEIGHED = "{num} weighted draws of a fitted reference, worth {ess:.0%} of as many (Pareto index {tail_index:.2f})"
    NOT_REACHED = "the call ended before this data set"


class DrawsFinding(Kind):
    """Say what looks unreliable in an estimate from draws."""

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
        return self.kind.sentence(dict(self.values))

    def __repr__(self) -> str:
        return f"<{type(self.kind).__name__}.{self.kind.name}: {self}>"

    def with_values(self, **values: Any) -> "Remark":
        """Return the same remark with other numbers."""
        return Remark(self.kind, tuple({**dict(self.values), **values}.items()))


@dataclasses.dataclass(frozen=True)
class Verdict:
    """Hold what `qpaths.evidence` says about its answer. `str(verdict)` is the text.

    `level` is "sound" if there are no findings, and otherwise that of the worst finding, "doubtful" or "wrong". The
    command `qpaths evidence` ends with the exit code of the level. [The verdict](evidence.md#the-verdict) lists all
    checks, and what they cannot see.

    Attributes:
        stopped: Why the call ended.
        chosen: What was chosen, and why.
        findings: What looks unreliable, and what to do about it.

    Examples:
        >>> from qpaths.remarks import Finding, Stop
        >>> stopped = Stop.BUDGET(spent=900, budget=1000, pilots=100)
        >>> str(Verdict(stopped).level)
        'sound'
        >>> few = Finding.FEW_EFFECTIVE(total=200, ess=41.0, fewest=100)
        >>> str(Verdict(stopped, findings=(few,)).level)
        'doubtful'
    """

    stopped: Remark
    chosen: tuple[Remark, ...] = ()
    findings: tuple[Remark, ...] = ()

    @staticmethod
    def of(verdict: "Verdict | None", **numbers: Any) -> "Verdict | None":
        """Return a verdict that is "wrong" where one of some numbers is NaN or infinite, and as given otherwise.

        Every result passes its estimates and standard errors through here when it is made. Comparisons with NaN are
        false, so that no other check would see one. Inside a compiled program nothing is known of the numbers.
        """
        if is_traced(numbers) or (verdict is not None and verdict.level == Level.WRONG):
            return verdict
        bad = {name: value for name, value in numbers.items() if not np.isfinite(np.asarray(value, float)).all()}
        if not bad:
            return verdict
        name, value = next(iter(bad.items()))
        found = Finding.NOT_FINITE(name=name, value=str(np.asarray(value, float)))
        if verdict is None:
            return Verdict(Stop.ENDED(), findings=(found,))
        return dataclasses.replace(verdict, findings=(*verdict.findings, found))

    @property
    def fell_short(self) -> bool:
        """Return whether the run ended before it had an answer: the estimate is a lower bound, and no more."""
        kinds = {finding.kind for finding in self.findings}
        return Finding.PILOT_FELL_SHORT in kinds or {Finding.LARGE_ERROR, Finding.FEW_EFFECTIVE} <= kinds

    @property
    def level(self) -> Level:
        return max((f.kind.level for f in self.findings), key=list(Level).index, default=Level.SOUND)  # type: ignore[attr-defined]

    def __str__(self) -> str:
        first, *rest = self.short.splitlines()
        return "\n".join([first, *(f"chosen: {remark}." for remark in self.chosen), *rest])

    @property
    def short(self) -> str:
        """Why the call ended, what looks unreliable, and the level: the text without what was chosen and why."""
        lines = [f"{self.stopped}."]
        lines += [f"beware: {finding}." for finding in self.findings]
        if not self.findings:
            moved = all(remark.kind is not Note.WEIGHTS for remark in self.chosen)
            praise = "the islands agree" + (", and moves are accepted" if moved else "")
            if isinstance(self.stopped.kind, DrawsNote):
                praise = "both halves of the draws agree, and no mass was found where there are no draws"
            checks = [remark.check for remark in self.chosen if remark.kind is Note.CHECKED]
            if checks and not {Confirmation.CONFIRMED, Confirmation.COMPLETED} & set(checks):
                lines.append(f"no check found a problem, but no second search for modes was possible: {praise}.")
            else:
                lines.append(f"nothing looks unreliable: {praise}.")
        lines.append(f"verdict: {self.level}.")
        return "\n".join(lines)
