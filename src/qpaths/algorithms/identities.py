"""Means over weighted draws that are zero for the target: its score and its virials.

For a target without hard bounds `E[f . score + div f] = 0` for any smooth f (Stein's identity). With f = 1 and
`f = x - c` these are scores and virials. The particles of a run carry their slopes, so that these means cost no
evaluations.
"""

from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from ..annealing import Annealing, State
from ..core import Rows, Vector, quiet, softmax

_FEWEST = 20
"""Draws for each dimension, below which virials do not explain scores."""


class Identities(NamedTuple):
    """Weighted means of runs, one row for each; empty rows where the kernel has no slopes."""

    scores: Float[np.ndarray, "runs d"]
    virials: Float[np.ndarray, "runs d"]
    controlled: Float[np.ndarray, "runs d"]
    """Means of the scores less what the virials of another run's draws explain of them."""
    variances: Float[np.ndarray, "runs d"]
    """Of the coordinates."""


class Control(NamedTuple):
    """A center for the virials, and how much of them explains the scores."""

    center: Float[np.ndarray, " d"]
    coefficients: Float[np.ndarray, "d d"]

    @staticmethod
    @quiet()
    def of(annealing: Annealing, state: State) -> "Control | None":
        """From the draws of one run, to be used for others; None where the kernel has no slopes.

        In funnels and hierarchical models the scale of some coordinates depends on another coordinate. The score of
        that coordinate is mostly a sum of virials. What is left of it shows a missing end of the target far better.
        """
        if state.particles.slopes is None:
            return None
        return Control.from_draws(*_draws(annealing, state))

    @staticmethod
    def from_draws(rows: Rows, scores: Rows, weights: Vector) -> "Control":
        """From weighted draws and their scores. The center is the median: the mean of heavy tails may be far off."""
        center = _median(rows, weights)
        num, dimension = rows.shape
        if num < _FEWEST * dimension or not np.isfinite(scores).all():
            return Control(center, np.zeros((dimension, dimension)))
        virials, root = (rows - center) * scores + 1.0, np.sqrt(weights)[:, None]
        explained, wanted = root * (virials - weights @ virials), root * (scores - weights @ scores)
        return Control(center, np.linalg.lstsq(explained, wanted, rcond=None)[0])

    def means(self, rows: Rows, scores: Rows, weights: Vector) -> Identities:
        """The means of one run."""
        away = rows - self.center
        score, virial = weights @ scores, weights @ (away * scores + 1.0)
        variance = weights @ away**2 - (weights @ away) ** 2
        return Identities(score, virial, score - virial @ self.coefficients, variance)


def _median(rows: Rows, weights: Vector) -> Float[np.ndarray, " d"]:
    """Return that of each coordinate of weighted draws."""
    order = np.argsort(rows, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    first = np.argmax(cumulative >= 0.5 * cumulative[-1], axis=0)
    return np.take_along_axis(rows, np.take_along_axis(order, first[None], axis=0), axis=0)[0]


@quiet()
def identities(annealing: Annealing, state: State, control: Control | None) -> Identities:
    """The means of a run at its end."""
    if control is None:
        return Identities(*(np.zeros(0) for _ in Identities._fields))
    return control.means(*_draws(annealing, state))


def _draws(annealing: Annealing, state: State) -> tuple[Rows, Rows, Vector]:
    """Positions that have weight, the target's scores there, and the weights."""
    weights: Any = softmax(state.log_weights)
    used, evaluator = weights > 0, annealing.evaluator
    particles = jax.tree.map(lambda leaf: leaf[used], state.particles)
    rows, scores = evaluator.in_points(particles.position, evaluator.score(1.0, particles))
    return np.asarray(rows, float), np.asarray(scores, float), weights[used]
