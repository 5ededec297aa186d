"""Linear coordinates for curved maps: where a target is a product of small blocks after a linear change of variables.

In such coordinates the Hessian of the log density is block diagonal at every point. So a few Hessians show the
coordinates without any noise of sampling, wherever the points lie: they are the eigenvectors of the matrices that
commute with all Hessians, once these are whitened (Maehara and Murota, 2011). Within a block of two coordinates, the one
that bends the other is the direction for which draws are most likely.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..arrays import one_thread, quiet
from .climb import minus_hessians
from .fitting import HostRows, Matrix
from .maps import TriangularMap
from .regression import mean_and_log_scale

Hessians = Float[np.ndarray, "n d d"]

NUM_HESSIANS = 32
LARGEST = 40
"""Dimensions up to which blocks are looked for."""
_COMMUTES = 1e-3
"""Size of the commutators, squared and compared with that of most matrices, below which a matrix commutes."""
_COUPLED = 1e-2
"""Size of the entries of all Hessians for two coordinates, compared with the diagonal, above which these are coupled."""
_NUM_ANGLES, _NUM_NARROWED, _MOST_DRAWS = 16, 10, 2048
"""Directions that are tried, steps by which the best is narrowed down, and draws that judge them."""
_GOLDEN = (math.sqrt(5) - 1) / 2


class Blocks(NamedTuple):
    """Coordinates z of points `axes @ z`, and the groups of them that have nothing to do with each other."""

    axes: Matrix
    groups: tuple[tuple[int, ...], ...]


def hessians_at(slopes_at: Callable[[Any], Any], draws: HostRows, precision: float) -> Hessians:
    """Minus the Hessians at a few of the draws, by `2 d` gradients each; `precision` is that of the gradients."""
    points = draws[np.linspace(0, len(draws) - 1, NUM_HESSIANS).astype(int)]
    return minus_hessians(slopes_at, points, precision**0.25 * np.std(draws, axis=0))


@quiet()
def find_blocks(hessians: Hessians, covariance: Matrix) -> Blocks | None:
    """The coordinates in which all Hessians are block diagonal; None where there are none but those of a single block.

    The covariance only tells which Hessians are large. The common matrices need not be exact, since the sum of Hessians
    is block diagonal in the same coordinates, and so whitens them without mixing blocks.
    """
    hessians = hessians[np.isfinite(hessians).all(axis=(1, 2))]
    with one_thread():
        try:
            root = np.linalg.cholesky(covariance)
            hessians = hessians / _sizes(root.T @ hessians @ root)
            whitener = np.linalg.inv(np.linalg.cholesky(np.mean(hessians, axis=0))).T
        except np.linalg.LinAlgError:  # a saddle, or draws in a subspace
            return None
        white = whitener.T @ hessians @ whitener
        white = white / _sizes(white)
        rotation = _common_axes(white)
        turned = rotation.T @ white @ rotation
        groups = _groups(np.sqrt(np.mean(turned**2, axis=0)))
    return Blocks(whitener @ rotation, groups) if len(groups) > 1 else None


def find_frame(blocks: Blocks, draws: HostRows) -> TriangularMap:
    """A linear map from coordinates to points, in which one coordinate of each pair bends the other."""
    axes = blocks.axes.copy()
    few = draws[:: math.ceil(len(draws) / _MOST_DRAWS)]
    z = np.linalg.solve(blocks.axes, (few - np.median(few, axis=0)).T).T
    with one_thread(), quiet():
        for group in blocks.groups:
            if len(group) == 2:
                own = list(group)
                axes[:, own] = axes[:, own] @ _pair(z[:, own])
    return linear_map(axes)


def linear_map(axes: Matrix) -> TriangularMap:
    """The map `x = axes @ z`: an orthogonal matrix times a lower triangular one."""
    orthogonal, upper = np.linalg.qr(axes[:, ::-1])
    rotation, lower = orthogonal[:, ::-1], upper[::-1, ::-1]
    signs = np.sign(np.diag(lower))
    return TriangularMap.linear(np.zeros(len(axes)), lower * signs[:, None], rotation * signs)


def _sizes(matrices: Hessians) -> Float[np.ndarray, "n 1 1"]:
    return np.sqrt(np.sum(matrices**2, axis=(1, 2), keepdims=True)) + 1e-300


def _common_axes(matrices: Hessians) -> Matrix:
    """Eigenvectors of a symmetric matrix that commutes with all of these, as far as possible.

    `sum_i |H_i X - X H_i|^2` is a quadratic form in X. Of its null space any element will do: the identity has no
    axes, and a random one tells all blocks apart.
    """
    num, dimension, _ = matrices.shape
    squares = np.einsum("nij,njk->ik", matrices, matrices) / num
    identity = np.eye(dimension)
    mixed = np.tensordot(matrices, matrices, axes=(0, 0)).transpose(0, 2, 1, 3).reshape(dimension**2, -1) / num
    form = np.kron(squares, identity) + np.kron(identity, squares) - 2 * mixed
    rows, columns = np.tril_indices(dimension)
    size = np.where(rows == columns, 0.5, math.sqrt(0.5))
    first, second = rows * dimension + columns, columns * dimension + rows
    half = (form[:, first] + form[:, second]) * size
    values, vectors = np.linalg.eigh((half[first] + half[second]) * size[:, None])
    null = vectors[:, values < _COMMUTES * np.median(values)]
    # Fixed numbers, so that the same draws give the same fit.
    element = (null @ np.random.default_rng(0).standard_normal(null.shape[1])) * size
    commuting = np.zeros((dimension, dimension))
    commuting[rows, columns] += element
    commuting[columns, rows] += element
    return np.linalg.eigh(commuting)[1]


def _groups(sizes: Matrix) -> tuple[tuple[int, ...], ...]:
    """Coordinates that are coupled, directly or through others."""
    diagonal = np.diag(sizes)
    coupled = sizes > _COUPLED * np.sqrt(diagonal[:, None] * diagonal)
    while True:
        further = (coupled.astype(int) @ coupled) > 0
        if (further == coupled).all():
            break
        coupled = further
    return tuple(sorted({tuple(np.flatnonzero(row).tolist()) for row in coupled}))


def _pair(z: Float[np.ndarray, "n 2"]) -> Matrix:
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


def _likelihood(white: Float[np.ndarray, "n 2"], angle: float) -> float:
    """Mean log likelihood of the second coordinate after a rotation, given the first."""
    first, second = (white @ _rotation(angle)).T
    of_mean = np.column_stack([np.ones(len(white)), first, first**2])
    of_scale = of_mean[:, :2]
    mean, log_scale = mean_and_log_scale(of_mean, of_scale, second, np.ones(len(white)))
    log_scales = of_scale @ log_scale
    return -float(np.mean(log_scales + 0.5 * np.minimum(((second - of_mean @ mean) * np.exp(-log_scales)) ** 2, 50.0)))
