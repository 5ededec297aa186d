"""Shapes of the noise in the coordinates of a map, found by scans.

After a linear or curved map the coordinates of the target are close to independent, but not to a Student-t
distribution: the log of a scale has an exponential tail on one side, a bounded parameter ends on one side. A scan moves
one coordinate of a draw over a grid while the others stay. The mean over a few draws is an estimate of its density, far
into tails that no draw has reached, and a mixture of normal distributions is fitted to it.
"""

from typing import Any

import numpy as np
from jaxtyping import Float

from ..core import logsumexp, one_thread, quiet
from ..rows import Evaluator
from .components import Component
from .wells import fit_mixtures, scan

_NUM_SCANS, _NUM_POINTS, _NUM_FINE = 8, 64, 400
"""Draws through which scans go, points of a scan, and points between them."""
_LEAST_REACH, _MOST_REACH, _CENTER = 25.0, 100.0, 2.0
"""Least and most reach of scans, and the distance up to which their points are dense."""
_NOTHING = 700.0
"""Nats below the highest density at which there is nothing."""


def num_shaped(dimension: int) -> int:
    """Values of the target that `fit_shapes` takes."""
    return _NUM_SCANS * _NUM_POINTS * dimension


@quiet()
def fit_shapes(evaluator: Evaluator, noise: Float[np.ndarray, "n d"], component: Component) -> Component:
    """The component with a mixture for each coordinate of its noise; `evaluator` and draws are in these coordinates."""
    noise = np.asarray(noise, float)
    through = noise[np.linspace(0, len(noise) - 1, _NUM_SCANS).astype(int)]
    reach = np.clip(1.5 * np.max(np.abs(noise), axis=0), _LEAST_REACH, _MOST_REACH)
    points, fine = (_grid(reach, num) for num in (_NUM_POINTS, _NUM_FINE))
    density = logsumexp(scan(evaluator, through, points), axis=0)
    density = np.maximum(density - np.max(density, axis=1, keepdims=True), -_NOTHING)
    log_density = np.array([np.interp(*one) for one in zip(fine, points, density, strict=True)])
    mass = np.exp(log_density) * np.gradient(fine, axis=1)
    with one_thread():
        shapes = fit_mixtures(fine, mass / np.sum(mass, axis=1, keepdims=True))
    return Component(component.df, component.map, shapes)


def _grid(reach: Float[np.ndarray, " d"], num: int) -> Any:
    """Points of each coordinate, dense in the middle."""
    ends = np.arcsinh(reach / _CENTER)[:, None]
    return _CENTER * np.sinh(ends * np.linspace(-1.0, 1.0, num))
