"""Checks of the draws in the end."""

import math
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from .._types import Rows
from ..algorithms.continued import Draws, Drift, continued, size_for
from ..algorithms.islands import Islands
from ..arrays import quiet, softmax
from ..cost import Cost
from ..kernels import FrozenKernel
from ..numerics import log_ess, log_mean_exp
from ..recipe import Recipe
from ..rows import Evaluator, evaluator_of

_ISLANDS_PER_DIMENSION = 10
"""Islands for each dimension, from which their means are regressed on each other."""
_UNBALANCED, _NARROW = 1e-5, 1e-4
"""Probabilities of noise below which scores are said not to balance, and draws to be narrower than the target."""
NUM_PROBES = 256
"""Points beyond the draws at which a target without hard bounds must have mass."""
_NUM_JUMPS, _NEAR, _JUMP, _JUMPING = 64, 0.2, 0.02, 0.04
"""Draws near which jumps are looked for, how near in differences of draws, nats that are a jump, and their share."""
_CONTINUED_SHARE, _CONTINUED_LEAST = 0.1, 10_000.0
"""Of the evaluations of a run, those with which its draws are moved on, and how many these are at least."""
_NUM_COMPARED = 4096
"""Draws of a run with moves with which those that are moved on are compared."""
COST = Cost(target=NUM_PROBES) + Cost.gradients(3 * _NUM_JUMPS)
"""Of the checks of scores, at most."""


class Balance(NamedTuple):
    """Whether means that are zero over draws from all of the target are zero over these draws."""

    imbalance: float = 0.0
    """Length of the mean score in units of the draws' own spread, less what noise makes of it."""
    narrow: float = 0.0
    """By which share of its variance a coordinate falls short of the target, less noise; or all of them together."""
    where: tuple[int, ...] = ()
    """The coordinates that are narrow; none where only the sum of all is."""

    @property
    def error(self) -> float:
        """What it adds to the standard error.

        Suppose that draws of a normal distribution miss a share p of its mass on one side. In these units their mean
        score is then p to 2 p, their variance falls short by 2 p to 6 p, and the log evidence is off by p or a little
        more.
        """
        return float(math.hypot(self.imbalance, self.narrow))


def balance(evaluator: Evaluator, islands: Islands) -> Balance:
    """Whether scores and virials average to zero over all draws, as they do for a target without hard bounds (Stein).

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


def drift_of_draws(recipe: Recipe, islands: Islands, spent: Cost, num_left: float, stream: Any) -> tuple[Drift, Cost]:
    """Whether the draws stay where they are when they are moved on; and the cost, at most what is left.

    A tail or a ridge that every island reaches too rarely shows. A mode that no move leads to does not.
    """
    kernel: Any = recipe.kernel
    log_weights = islands.log_weights.ravel()
    weights = np.asarray(softmax(log_weights), float)
    first, moves = stream.split(2)
    num_values = 0 if recipe.num_steps == 1 else _NUM_COMPARED
    most = min(max(_CONTINUED_SHARE * spent.total, _CONTINUED_LEAST), num_left) - num_values
    size = size_for(most, kernel) if isinstance(kernel, FrozenKernel) else None
    if size is None or not np.isfinite(weights).all():
        return Drift(), Cost()
    evaluator = evaluator_of(recipe.path, moves, with_slopes=kernel.with_slopes)

    def rows(numbers: Any) -> Rows:
        points = jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:])[numbers], islands.samples)
        return np.asarray(evaluator.layout.rows(points))

    draws = Draws(rows, log_weights, weights, float(np.exp(log_ess(log_weights))))
    if num_values:  # weights are ratios only where nothing was moved
        chosen = draws.chosen(num_values, float(np.asarray(first.uniform((1,)))[0]))
        values = evaluator.particles(rows(chosen), with_slopes=False)
        ratios = np.asarray(evaluator.log_ratio(0.0, 1.0, values.features), float)
        equal = np.full(num_values, 1 / num_values)
        effective = min(draws.effective, float(num_values))
        draws = Draws(lambda numbers: rows(chosen[numbers]), ratios, equal, effective)
    drift, cost = continued(evaluator, kernel, draws, size, moves)
    return drift, cost + Cost.values(num_values)


def _draws_with_mass(evaluator: Evaluator, islands: Islands) -> Float[np.ndarray, "n d"]:
    """The first draws that have weight, two more than are looked at."""
    rows = np.asarray(evaluator.layout.rows(islands.samples), float)
    return rows.reshape(-1, rows.shape[-1])[islands.log_weights.ravel() > -np.inf][: NUM_PROBES + 2]


def _has_jumps(evaluator: Evaluator, rows: Float[np.ndarray, "n d"]) -> bool:
    """Whether the target changes by more than its gradient says between points near each other.

    It is then a function with steps, and the identity has a term at each of them.
    """
    start = rows[:_NUM_JUMPS]
    change = _NEAR * (np.roll(start, 1, axis=0) - np.roll(start, 2, axis=0))
    ends = evaluator.waypoints(np.concatenate([start, start + change, start + 0.5 * change]))
    values = np.asarray(ends.features.log_target, float)
    slopes = np.asarray(ends.slopes.target, float)
    first, last, middle = (np.sum(part * change, axis=1) for part in np.split(slopes, 3))
    before, after, _ = np.split(values, 3)
    # Simpson's rule, whose error is judged by the trapezoidal one.
    expected, rough = (first + 4 * middle + last) / 6, 0.5 * (first + last)
    with quiet():
        beyond = np.abs(after - before - expected) > _JUMP + 2 * np.abs(expected - rough)
    return float(np.mean(beyond & np.isfinite(expected))) > _JUMPING


def _is_bounded(evaluator: Evaluator, rows: Float[np.ndarray, "n d"]) -> bool:
    """Whether the target has no mass at some points beyond the draws: the identity then has terms at the bound."""
    # Differences of draws reach beyond them in every direction in which they spread.
    beyond = rows + 3 * (np.roll(rows, 1, axis=0) - np.roll(rows, 2, axis=0))
    return bool((np.asarray(evaluator.values(beyond[:NUM_PROBES]).log_target) == -np.inf).any())
