"""Scores and virials: means over draws of the target that are zero."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from ...algorithms import Islands
from ...core import log_mean_exp, quiet
from ...remarks import Finding
from ...rows import Evaluator
from ..inputs import listed
from ..limits import NUM_JUMPS, NUM_PROBES, SCORES_COST
from .base import Check, Run, Seen

_ISLANDS_PER_DIMENSION = 10
"""Islands for each dimension, from which their means are regressed on each other."""
_UNBALANCED, _NARROW = 1e-5, 1e-4
"""Probabilities of noise below which scores are said not to balance, and draws to be narrower than the target."""
_NEAR, _JUMP, _JUMPING = 0.2, 0.02, 0.04
"""Distance to draws within which jumps are looked for, in differences of draws; nats of a jump, and their share."""


class Balance(NamedTuple):
    """Means that are zero over draws from all of the target, over these draws; both parts are in nats of log evidence.

    Suppose that draws of a normal distribution miss a share p of its mass on one side. In these units their mean score
    is then p to 2 p, their variance falls short by 2 p to 6 p, and the log evidence is off by p or a little more.
    """

    imbalance: float = 0.0
    """Length of the mean score in units of the draws' own spread, less what noise makes of it."""
    narrow: float = 0.0
    """By which share of its variance a coordinate falls short of the target, less noise; or all of them together."""
    where: tuple[int, ...] = ()
    """The coordinates that are narrow; none where only the sum of all is."""


def balance(evaluator: Evaluator, islands: Islands) -> Balance:
    """Test that scores and virials average to zero over all draws, as for a target without hard bounds (Stein).

    Draws that end where the target does not (before the neck of a funnel, say) leave the score open at that end, even
    if every run ends there. A virial, `x score + 1`, is one less the variance of the draws over that of the target for
    a normal one: it shows tails and necks that are missing. The noise is what the means of the islands show.
    """
    from scipy.special import stdtr

    found = islands.identities
    if not found.scores.size or not np.isfinite(found.scores).all():
        return Balance()
    rows = _draws_with_mass(evaluator, islands)
    if _is_bounded(evaluator, rows) or _has_jumps(evaluator, rows):
        return Balance()
    # Weighted by the evidence of each island: a mean for each by itself would be biased by its own noise.
    share = np.exp(islands.log_evidence - log_mean_exp(islands.log_evidence))[:, None]
    scores, virials, controlled = (share * values for values in (found.scores, found.virials, found.controlled))
    mean, noise, freedom = _intercept(scores, virials, controlled)
    variance = np.mean(share * found.variances, axis=0)
    tail = 2 * stdtr(freedom, -np.abs(mean) / np.maximum(noise, 1e-300))
    worst = int(np.argmin(tail))
    imbalance = float(variance[worst] * max(mean[worst] ** 2 - noise[worst] ** 2, 0.0)) ** 0.5
    balanced = tail[worst] * tail.size > _UNBALANCED
    return Balance(0.0 if balanced else imbalance, *_narrowness(virials))


def _narrowness(virials: Float[np.ndarray, "runs d"]) -> tuple[float, tuple[int, ...]]:
    """The largest virial above noise, of a coordinate or of the sum of all, and which coordinates have one."""
    from scipy.special import stdtr

    num, dimension = virials.shape
    # In d dimensions the squared distance from the center varies by sqrt(2 d): draws that miss a share p of the mass
    # far out fall short by some p sqrt(2 d) in all coordinates together.
    tested = np.column_stack([virials, np.sum(virials, axis=1) / (2 * dimension) ** 0.5])
    mean, noise = np.mean(tested, axis=0), np.std(tested, axis=0, ddof=1) / num**0.5
    tail = 2 * stdtr(num - 1, -mean / np.maximum(noise, 1e-300))
    tail[:-1] *= dimension  # the coordinates are one family of tests, and the sum is another
    beyond = np.where(tail < _NARROW, np.sqrt(np.maximum(mean**2 - noise**2, 0.0)), 0.0)
    return float(np.max(beyond)), tuple(int(i) for i in np.flatnonzero(beyond[:-1]))


def _intercept(
    scores: Float[np.ndarray, "runs d"],
    virials: Float[np.ndarray, "runs d"],
    controlled: Float[np.ndarray, "runs d"],
) -> tuple[Float[np.ndarray, " d"], Float[np.ndarray, " d"], int]:
    """The mean score where all virials are zero, its standard error, and the degrees of freedom of that.

    Scores and virials share most of their noise where the scale of a coordinate depends on another. The intercept of a
    regression of the islands' means is free of it.
    """
    num, dimension = scores.shape
    if num < _ISLANDS_PER_DIMENSION * dimension:
        return controlled.mean(axis=0), np.std(controlled, axis=0, ddof=1) / num**0.5, num - 1
    center = virials.mean(axis=0)
    explained, wanted = virials - center, scores - scores.mean(axis=0)
    coefficients = np.linalg.lstsq(explained, wanted, rcond=None)[0]
    freedom = num - dimension - 1
    residual = np.sqrt(np.sum(np.square(wanted - explained @ coefficients), axis=0) / freedom)
    leverage = 1 / num + center @ np.linalg.pinv(explained.T @ explained) @ center
    return scores.mean(axis=0) - center @ coefficients, residual * leverage**0.5, freedom


def _draws_with_mass(evaluator: Evaluator, islands: Islands) -> Float[np.ndarray, "n d"]:
    """The first draws that have weight, two more than are looked at."""
    rows = np.asarray(evaluator.layout.rows(islands.samples), float)
    return rows.reshape(-1, rows.shape[-1])[islands.log_weights.ravel() > -np.inf][: NUM_PROBES + 2]


def _has_jumps(evaluator: Evaluator, rows: Float[np.ndarray, "n d"]) -> bool:
    """Return whether the target changes by more than its gradient says between points near each other.

    It is then a function with steps, and the identity has a term at each of them.
    """
    start = rows[:NUM_JUMPS]
    change = _NEAR * (np.roll(start, 1, axis=0) - np.roll(start, 2, axis=0))
    ends = evaluator.waypoints(np.concatenate([start, start + change, start + 0.5 * change]))
    values = np.asarray(evaluator.log_density(1.0, ends.features), float)
    slopes = np.asarray(ends.slopes.target if evaluator.path.is_pointwise else evaluator.score(1.0, ends), float)
    first, last, middle = (np.sum(part * change, axis=1) for part in np.split(slopes, 3))
    before, after, _ = np.split(values, 3)
    # Simpson's rule, whose error is judged by the trapezoidal one.
    expected, rough = (first + 4 * middle + last) / 6, 0.5 * (first + last)
    with quiet():
        beyond = np.abs(after - before - expected) > _JUMP + 2 * np.abs(expected - rough)
    return float(np.mean(beyond & np.isfinite(expected))) > _JUMPING


def _is_bounded(evaluator: Evaluator, rows: Float[np.ndarray, "n d"]) -> bool:
    """Return whether the target has no mass at some points beyond the draws, where the identity has further terms."""
    # Differences of draws reach beyond them in every direction in which they spread.
    beyond = rows + 3 * (np.roll(rows, 1, axis=0) - np.roll(rows, 2, axis=0))
    return bool((np.asarray(evaluator.values(beyond[:NUM_PROBES]).log_target) == -np.inf).any())


class Balanced(Check):
    """Scores and virials of the draws."""

    def look(self, run: Run) -> Seen:
        if not run.kernel.with_slopes:
            return Seen()
        found, findings = balance(run.evaluator, run.islands), []
        if found.imbalance > 0:
            findings.append(Finding.SCORES(imbalance=found.imbalance))
        if found.narrow > 0:
            where = listed(found.where, run.names) or "all coordinates together"
            findings.append(Finding.NARROW(where=where, short=found.narrow))
        return Seen(tuple(findings), {"scores": found.imbalance, "virials": found.narrow}, SCORES_COST)
