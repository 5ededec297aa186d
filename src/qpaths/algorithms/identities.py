"""Means over weighted draws that are zero for the target: its score, its virials, and kernels around some locations.

For a target without hard bounds `E[f . score + div f] = 0` for any smooth f (Stein's identity). With f = 1 and
`f = x - c` these are scores and virials. With a kernel `k(x_j, v)` in one coordinate they are the terms of a sliced
kernel Stein discrepancy (Gong et al., 2021): they see what is wrong near v. Kernels of all coordinates at once see
little from five dimensions on. The particles of a run carry their slopes, so that these means cost no evaluations.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from .._types import Rows, Vector
from ..annealing import Annealing, State
from ..arrays import quiet, softmax

_FEWEST = 20
"""Draws for each dimension, below which virials do not explain scores."""
_QUARTILES = 1.349
"""Distance of the quartiles of a standard normal distribution."""
_LOCATIONS = np.arange(-2.0, 2.5, 0.5)
"""Of kernels in each coordinate, from its median on and in its scales."""
_BANDWIDTH = 0.5


class Identities(NamedTuple):
    """Weighted means of runs, one row for each; empty rows where the kernel has no slopes."""

    scores: Float[np.ndarray, "runs d"]
    virials: Float[np.ndarray, "runs d"]
    controlled: Float[np.ndarray, "runs d"]
    """Means of the scores less what the virials of another run's draws explain of them."""
    variances: Float[np.ndarray, "runs d"]
    """Of the coordinates."""
    stein: Float[np.ndarray, "runs k"]
    """Means with kernels: for each location, one for each coordinate."""
    stein_squares: Float[np.ndarray, "runs k"]
    """Means of their squares."""


class Control(NamedTuple):
    """A center for the virials, and how much of them explains the scores."""

    center: Float[np.ndarray, " d"]
    coefficients: Float[np.ndarray, "d d"]
    scales: Float[np.ndarray, " d"]
    """Distances of the quartiles, as standard deviations of normal draws."""

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
        lower, center, upper = _quantiles(rows, weights, (0.25, 0.5, 0.75))
        scales = (upper - lower) / _QUARTILES
        num, dimension = rows.shape
        if num < _FEWEST * dimension or not np.isfinite(scores).all():
            return Control(center, np.zeros((dimension, dimension)), scales)
        virials, root = (rows - center) * scores + 1.0, np.sqrt(weights)[:, None]
        explained, wanted = root * (virials - weights @ virials), root * (scores - weights @ scores)
        return Control(center, np.linalg.lstsq(explained, wanted, rcond=None)[0], scales)

    def means(self, rows: Rows, scores: Rows, weights: Vector) -> Identities:
        """The means of one run."""
        away = rows - self.center
        score, virial = weights @ scores, weights @ (away * scores + 1.0)
        variance = weights @ away**2 - (weights @ away) ** 2
        kernels = [(weights @ terms, weights @ terms**2) for terms in self._stein(rows, scores)]
        stein, stein_squares = (np.concatenate(parts) for parts in zip(*kernels, strict=True))
        return Identities(score, virial, score - virial @ self.coefficients, variance, stein, stein_squares)

    def _stein(self, rows: Rows, scores: Rows) -> Iterator[Rows]:
        """Terms of each coordinate with an inverse multiquadric kernel around each location."""
        scales = np.maximum(self.scales, 1e-300)
        points, slopes = (rows - self.center) / scales, scores * scales
        for location in _LOCATIONS:
            away = (points - location) / _BANDWIDTH
            kernel = (1 + away**2) ** -0.5
            yield slopes * kernel - away * kernel**3 / _BANDWIDTH


def _quantiles(rows: Rows, weights: Vector, levels: tuple[float, ...]) -> list[Float[np.ndarray, " d"]]:
    """Of each coordinate of weighted draws."""
    order = np.argsort(rows, axis=0)
    cumulative = np.cumsum(weights[order], axis=0)
    firsts = (np.argmax(cumulative >= level * cumulative[-1], axis=0) for level in levels)
    return [np.take_along_axis(rows, np.take_along_axis(order, i[None], axis=0), axis=0)[0] for i in firsts]


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
