"""Linear coordinates in which a target is a product of small blocks, from Hessians of its log density.

In such coordinates the Hessian is block diagonal at every point. So a few Hessians show the coordinates without any
noise of sampling, wherever the points lie: they are the eigenvectors of the matrices that commute with all Hessians,
once these are whitened (Maehara and Murota, 2011). Within a block one direction may drive all others, as in a rotated
funnel. Hessians show that, too: given the driver the others are normal with variances along fixed axes, and so what is
left of the Hessians without this direction commutes.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from ..core import one_thread, quiet
from .climb import minus_hessians
from .fitting import HostRows, Matrix
from .hierarchy import rotation_to

Hessians = Float[np.ndarray, "h d d"]
Direction = Float[np.ndarray, " d"]

NUM_HESSIANS, _FEWEST = 32, 8
"""Points at which Hessians are taken, and at which they must be finite."""
LARGEST = 40
"""Dimensions up to which blocks are looked for."""
_COMMUTES = 1e-3
"""Size of the commutators, squared and compared with that of most matrices, below which a matrix commutes."""
_COUPLED = 1e-2
"""Size of the entries of Hessians for two coordinates, compared with the diagonal, above which these are coupled."""
_COMMON = 0.98
"""Mean squared cosine of the angles between a direction and planes above which it lies in all of them."""
_ALONG = 0.999
"""Cosine of the angle to a coordinate above which a direction is this coordinate."""
_NUM_COMBINED, _NUM_STARTS, _LARGEST_SEARCH, _EXACT = 8, 8, 16, 1e-6
"""Limits of the search for a driver: combinations of Hessians, starts, dimensions at most, and commutators, squared and
compared with the matrices, below which a direction is one."""


class Blocks(NamedTuple):
    """Coordinates z of points `axes @ z`, and the groups of them that have nothing to do with each other.

    A driver is the first of its group. `direction` says which combination of the original coordinates drives all
    others, where there is one group, with a driver that is not a coordinate itself.
    """

    axes: Matrix
    groups: tuple[tuple[int, ...], ...]
    direction: Direction | None


def hessians_at(slopes_at: Callable[[Any], Any], draws: HostRows, precision: float) -> Hessians:
    """Minus the Hessians at a few of the draws, by `2 d` gradients each; `precision` is that of the gradients."""
    points = draws[np.linspace(0, len(draws) - 1, NUM_HESSIANS).astype(int)]
    return minus_hessians(slopes_at, points, precision**0.25 * np.std(draws, axis=0))


@quiet()
def find_blocks(hessians: Hessians, covariance: Matrix) -> Blocks | None:
    """The coordinates in which all Hessians are block diagonal; None where they show neither a pair nor a driver.

    The covariance only tells which Hessians are large: a weighted sum of Hessians is block diagonal in the same
    coordinates whatever the weights, and so whitens them without mixing blocks.
    """
    hessians = hessians[np.isfinite(hessians).all(axis=(1, 2))]
    if len(hessians) < _FEWEST:
        return None
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
        driven = [_driven_axes(turned[:, group][:, :, group]) for group in groups]
        for group, axes in zip(groups, driven, strict=True):
            rotation[:, group] = rotation[:, group] if axes is None else rotation[:, group] @ axes
    if all(axes is None and len(group) != 2 for group, axes in zip(groups, driven, strict=True)):
        return None
    direction = None
    if len(groups) == 1 and driven[0] is not None:
        direction = _unless_coordinate(np.linalg.solve(whitener.T, rotation[:, 0]), np.diag(covariance))
    return Blocks(whitener @ rotation, groups, direction)


def _sizes(matrices: Hessians) -> Float[np.ndarray, "h 1 1"]:
    return np.sqrt(np.sum(matrices**2, axis=(1, 2), keepdims=True)) + 1e-300


def _common_axes(matrices: Hessians) -> Matrix:
    """Eigenvectors of a symmetric matrix that commutes with all of these.

    `sum_i |H_i X - X H_i|^2` is a quadratic form in X. Of its null space a random element tells all blocks apart.
    """
    num, dimension, _ = matrices.shape
    squares = np.sum(matrices @ matrices, axis=0) / num
    identity = np.eye(dimension)
    mixed = np.tensordot(matrices, matrices, axes=(0, 0)).transpose(0, 2, 1, 3).reshape(dimension**2, -1) / num
    form = np.kron(squares, identity) + np.kron(identity, squares) - 2 * mixed
    # In a basis of the symmetric matrices.
    rows, columns = np.tril_indices(dimension)
    size = np.where(rows == columns, 0.5, math.sqrt(0.5))
    first, second = rows * dimension + columns, columns * dimension + rows
    half = (form[:, first] + form[:, second]) * size
    values, vectors = np.linalg.eigh((half[first] + half[second]) * size[:, None])
    null = vectors[:, values < _COMMUTES * np.median(values)]
    element = (null @ _fixed_numbers(null.shape[1])) * size
    commuting = np.zeros((dimension, dimension))
    commuting[rows, columns] += element
    commuting[columns, rows] += element
    return np.linalg.eigh(commuting)[1]


def _fixed_numbers(*shape: int) -> Any:
    """Normal numbers that are always the same, so that the same draws give the same fit."""
    return np.random.default_rng(0).standard_normal(shape)


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


# One direction that drives all others.


def _driven_axes(matrices: Hessians) -> Matrix | None:
    """A rotation of which the first axis drives the others, and the others are those of their variances."""
    if matrices.shape[1] < 3:
        return None
    driver = _in_all_planes(matrices)
    if driver is None:
        driver = _leaves_commuting(matrices)
    if driver is None:
        return None
    rotation = rotation_to(driver)
    combined = np.tensordot(_fixed_numbers(len(matrices)), rotation.T @ matrices @ rotation, axes=1)
    rotation[:, 1:] = rotation[:, 1:] @ np.linalg.eigh(combined[1:, 1:])[1]
    return rotation


def _in_all_planes(matrices: Hessians) -> Direction | None:
    """The direction w for which each matrix is `a 1 + w b' + b w'`; None where none is.

    So it is if w changes all conditional precisions by the same factor `a`. Apart from w and b all eigenvalues are `a`,
    which lies between the other two. Hence w is what the planes of these two share.
    """
    values, vectors = np.linalg.eigh(matrices)
    away = np.abs(values - np.median(values, axis=1, keepdims=True))
    planes = np.take_along_axis(vectors, np.argsort(-away, axis=1)[:, None, :2], axis=2)
    shared, directions = np.linalg.eigh(np.mean(planes @ planes.transpose(0, 2, 1), axis=0))
    return directions[:, -1] if shared[-1] > _COMMON > shared[-2] else None


def _leaves_commuting(matrices: Hessians) -> Direction | None:
    """The direction without which all matrices commute; None where none is found.

    The search has local optima, and starts several times. That a direction is right shows in the commutators.
    """
    num, dimension, _ = matrices.shape
    if dimension > _LARGEST_SEARCH:
        return None
    import scipy.optimize

    combined = np.tensordot(_fixed_numbers(_NUM_COMBINED, num) / math.sqrt(num), matrices, axes=1)
    scale = float(np.sum(combined**2) * np.sum(combined[0] ** 2))
    arguments: Any = {"args": (combined / scale**0.25,), "jac": True, "method": "BFGS", "options": {"gtol": 1e-12}}
    for start in _fixed_numbers(_NUM_STARTS, dimension):
        found = scipy.optimize.minimize(_commutators, start, **arguments)
        if found.fun < _EXACT:
            return found.x / np.linalg.norm(found.x)
    return None


def _commutators(direction: Direction, matrices: Hessians) -> tuple[float, Direction]:
    """Squared commutators of the first of some matrices with the others, all without a direction; and the gradient."""
    length = np.linalg.norm(direction)
    unit = direction / length
    left = np.eye(len(unit)) - np.outer(unit, unit)
    parts = left @ matrices @ left
    first = parts[0]
    commutators = parts @ first - first @ parts
    slopes = 2 * (commutators @ first - first @ commutators)
    slopes[0] += 2 * np.sum(parts @ commutators - commutators @ parts, axis=0)
    pulled = np.sum(slopes @ left @ matrices, axis=0)
    slope = -2 * (pulled + pulled.T) @ unit
    return float(np.sum(commutators**2)), (slope - unit * (unit @ slope)) / length


def _unless_coordinate(direction: Direction, variances: Direction) -> Direction | None:
    share = direction**2 * variances
    return None if np.max(share) > _ALONG**2 * np.sum(share) else direction
