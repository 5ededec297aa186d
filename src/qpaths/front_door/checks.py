"""Checks of the draws in the end."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..algorithms.islands import Islands
from ..arrays import to_host
from ..evaluation import AbstractEvaluator

_UNBALANCED = 0.01
"""Probability of noise below which scores are said not to balance."""
_PROBES = 256
"""Points beyond the draws at which a target without hard bounds must have mass."""


class Balance(NamedTuple):
    """Whether the target's scores balance over the draws, as they do over draws from all of the target."""

    imbalance: float
    """Length of the mean score in units of the draws' own spread, less what noise makes of it."""
    probability: float
    """With which noise alone would make the most conspicuous coordinate of the mean so large."""

    @property
    def error(self) -> float:
        """What it adds to the standard error: nothing unless it is beyond noise.

        Draws of a normal distribution that miss a share p of its mass on one side have a mean score of p to 2 p in such
        units, and put the log evidence off by p or a little more.
        """
        return self.imbalance if self.probability < _UNBALANCED else 0.0


def balance(evaluator: AbstractEvaluator, islands: Islands, num_draws: int) -> Balance:
    """Look at the mean of the target's score over some draws, which is zero for a target without hard bounds (Stein).

    Draws that end where the target does not (before the neck of a funnel, say) leave it open at that end, even if every
    run ends there. The noise is what the means of the islands show; `_less_noise` takes most of it away first.
    """
    from scipy.special import stdtr

    num_islands = islands.log_weights.shape[0]
    each = max(1, min(islands.log_weights.shape[1], num_draws // num_islands))
    rows, scores, outside = _scores(evaluator, evaluator.layout.rows(islands.samples)[:, :each])
    if outside.any() or not np.isfinite(scores).all():
        return Balance(0.0, 1.0)
    means = _less_noise(rows, scores).reshape(num_islands, each, -1).mean(axis=1)
    mean, noise = means.mean(axis=0), np.std(means, axis=0, ddof=1) / num_islands**0.5
    tail = 2 * stdtr(num_islands - 1, -np.abs(mean) / np.maximum(noise, 1e-300))
    spread = np.atleast_2d(np.cov(rows.T))
    imbalance = max(0.0, float(mean @ spread @ mean - np.diag(spread) @ noise**2)) ** 0.5
    return Balance(imbalance, min(1.0, float(np.min(tail)) * tail.size))


def _less_noise(rows: Float[np.ndarray, "n d"], scores: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    """The scores less what the virials `x_j score_j + 1` explain of them, which have mean zero as well.

    Where the scale of some coordinates depends on another (funnels, hierarchical models) the score of that other is
    mostly the sum of their virials, and what is left of it tells a missing end from a tenth of the draws.
    """
    num, dimension = scores.shape
    if num < 20 * dimension:
        return scores
    virials = (rows - rows.mean(axis=0)) * scores + 1.0
    coefficients = np.linalg.lstsq(virials - virials.mean(axis=0), scores - scores.mean(axis=0), rcond=None)[0]
    return scores - virials @ coefficients


def _scores(evaluator: AbstractEvaluator, rows: Any) -> tuple[Any, Any, Any]:
    """Rows of all islands, the target's scores there, and at which points beyond them the target has no mass."""
    rows = np.asarray(rows, float).reshape(-1, rows.shape[-1])
    particles = evaluator.particles(rows, with_slopes=True)
    # Differences of draws reach beyond them in every direction in which they spread.
    beyond = rows + 3 * (np.roll(rows, 1, axis=0) - np.roll(rows, 2, axis=0))
    outside = evaluator.values(beyond[:_PROBES]).log_target
    return rows, *to_host((evaluator.score(1.0, particles), outside == -np.inf))
