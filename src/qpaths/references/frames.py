"""Linear coordinates for curved maps of targets that are products of blocks.

Within a block of two coordinates, the coordinate that bends the other is the direction for which draws are most likely.
What is left, which terms and in which order, is found as in the coordinates as they are.
"""

import math

import numpy as np
from jaxtyping import Float

from ..core import one_thread, quiet
from ..maps import Chain, Rotate, Triangular, mean_and_log_scale
from .blocks import Blocks
from .fitting import HostRows, Matrix

Pairs = Float[np.ndarray, "n 2"]

_NUM_ANGLES, _NUM_NARROWED, _MOST_DRAWS = 16, 10, 2048
"""Directions that are tried, steps by which the best is narrowed down, and draws that judge them."""
_GOLDEN = (math.sqrt(5) - 1) / 2
_FARTHEST = 50.0
"""Square of a residual beyond which a draw counts no more."""


def find_frame(blocks: Blocks, draws: HostRows) -> Chain | None:
    """A linear map from coordinates to points in which one coordinate of each pair bends the other.

    None where the draws of a pair lie on a line.
    """
    axes = blocks.axes.copy()
    few = draws[:: math.ceil(len(draws) / _MOST_DRAWS)]
    with one_thread(), quiet():
        try:
            z = np.linalg.solve(axes, (few - np.median(few, axis=0)).T).T
            for group in blocks.groups:
                if len(group) == 2:
                    axes[:, group] = axes[:, group] @ _axes_of_pair(z[:, group])
        except np.linalg.LinAlgError:
            return None
    return linear_map(axes)


def linear_map(axes: Matrix) -> Chain:
    """The map `x = axes @ z`: an orthogonal matrix times a lower triangular one."""
    orthogonal, upper = np.linalg.qr(axes[:, ::-1])
    rotation, lower = orthogonal[:, ::-1], upper[::-1, ::-1]
    signs = np.sign(np.diag(lower))
    return Chain.of(Triangular.of(np.zeros(len(axes)), lower * signs[:, None]), Rotate(rotation * signs))


def _axes_of_pair(z: Pairs) -> Matrix:
    """Axes of two coordinates of which the first bends the second, such that draws are most likely."""
    root = np.linalg.cholesky(np.cov(z.T))
    white = np.linalg.solve(root, z.T).T
    step = math.pi / _NUM_ANGLES
    best = max((k * step for k in range(_NUM_ANGLES)), key=lambda angle: _likelihood(white, angle))
    low, high = best - step, best + step
    for _ in range(_NUM_NARROWED):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        low, high = (low, right) if _likelihood(white, left) > _likelihood(white, right) else (left, high)
    return root @ _rotation(0.5 * (low + high))


def _rotation(angle: float) -> Matrix:
    return np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])


def _likelihood(white: Pairs, angle: float) -> float:
    """Mean log likelihood of the second coordinate after a rotation, given the first."""
    first, second = (white @ _rotation(angle)).T
    of_mean = np.column_stack([np.ones(len(white)), first, first**2])
    of_scale = of_mean[:, :2]
    mean, log_scale = mean_and_log_scale(of_mean, of_scale, second, np.ones(len(white)))
    log_scales = of_scale @ log_scale
    squared = ((second - of_mean @ mean) * np.exp(-log_scales)) ** 2
    return -float(np.mean(log_scales + 0.5 * np.minimum(squared, _FARTHEST)))
