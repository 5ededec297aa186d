"""Square roots of covariances, the scales that kernels move by: made, applied, and interpolated."""

from typing import NamedTuple

import numpy as np
from jax.typing import DTypeLike
from jaxtyping import Float

from ..core import AnyArray, Rows, geometric_mean, namespace, quiet

_RIDGE, _CONSPICUOUS = 1e-2, 1.5
"""Added to a variance of about one, and how many times more than noise a direction must differ from the others."""


def cholesky_or_diagonal(covariance: Float[AnyArray, "d d"]) -> Float[AnyArray, "d d"]:
    """Cholesky factor; where rounding left the matrix indefinite, that of its diagonal."""
    xp = namespace(covariance)
    with quiet():
        diagonal = xp.diag(xp.sqrt(xp.diag(covariance)))
    try:
        factor = xp.linalg.cholesky(covariance)
    except np.linalg.LinAlgError:  # of NumPy; JAX returns NaN
        return diagonal
    return xp.where(xp.isnan(factor).any(), diagonal, factor)


def times(vectors: Rows, factors: Float[AnyArray, "g d d"]) -> Rows:
    """`factor @ vector` for every row, with the factor of the row's group.

    The matrix stands on the right so that the batch stays the slowest axis: with the batch as the fastest one
    everything after it runs several times slower on a CPU, the user's density above all. Vectors in single precision
    are multiplied in single precision on the host, unless the scales of the factors are out of its range.
    """
    if namespace(factors) is np and factors.dtype != vectors.dtype and _in_range(factors, vectors.dtype):
        factors = factors.astype(vectors.dtype)
    if factors.shape[0] == 1:
        return vectors @ factors[0].T
    xp = namespace(vectors)
    grouped = vectors.reshape(factors.shape[0], -1, vectors.shape[1])
    return (grouped @ xp.swapaxes(factors, 1, 2)).reshape(vectors.shape)


def _in_range(factors: AnyArray, dtype: DTypeLike) -> bool:
    """Return whether the scales of factors are far from the smallest and the largest number of a type."""
    scales, limits = np.abs(np.diagonal(factors, axis1=-2, axis2=-1)), np.finfo(dtype)
    return bool(np.all((scales > limits.tiny * 1e8) & (scales < limits.max * 1e-8)))


def per_particle(values: AnyArray, num: int) -> AnyArray:
    """Parameters of groups as parameters of particles.

    Args:
        values: An array with a leading axis of groups.
        num: The number of particles. It must be a multiple of the number of groups.

    Returns:
        An array with one entry for each particle. A single group is returned as it is, because it broadcasts.

    See [The methods](tutorials/own_kernel.md#the-methods).

    Examples:
        >>> import numpy as np
        >>> per_particle(np.array([1.0, 2.0]), 4).tolist()
        [1.0, 1.0, 2.0, 2.0]
    """
    groups = values.shape[0]
    return values if groups in (1, num) else namespace(values).repeat(values, num // groups, axis=0)


def scales_between(low: AnyArray, high: AnyArray, share: AnyArray) -> AnyArray:
    """Positive numbers that are the share of the way from `low` to `high` on a log scale."""
    share = namespace(low, high, share).asarray(share, low.dtype)
    share = share.reshape(share.shape + (1,) * (low.ndim - share.ndim))
    return low ** (1 - share) * high**share


def factors_between(low: Float[AnyArray, "*g d d"], high: Float[AnyArray, "*g d d"], share: AnyArray) -> AnyArray:
    """A Cholesky factor between two: scales go geometrically, and what the scale of each row leaves goes linearly."""
    xp = namespace(low, high, share)
    first, last = (xp.diagonal(factor, axis1=-2, axis2=-1) for factor in (low, high))
    units = [factor / xp.where(scale > 0, scale, 1)[..., None] for factor, scale in ((low, first), (high, last))]
    part = xp.asarray(share, low.dtype)[..., None, None]
    return scales_between(first, last, share)[..., None] * ((1 - part) * units[0] + part * units[1])


class LowRank(NamedTuple):
    """The square root `D (1 + U (S - 1) U^T)`: a diagonal D, and stretches S along a few orthonormal directions U."""

    diagonal: Float[AnyArray, "*g d"]
    directions: Float[AnyArray, "*g d k"]
    stretches: Float[AnyArray, "*g k"]

    def times(self, vectors: Rows, transposed: bool) -> Rows:
        """The product with every row, or that of the transpose."""
        diagonal = per_particle(self.diagonal, vectors.shape[0])
        if transposed:
            return self._stretched(diagonal * vectors)
        return diagonal * self._stretched(vectors)

    def _stretched(self, vectors: Rows) -> Rows:
        xp = namespace(vectors, self.directions)
        grouped = vectors.reshape(self.directions.shape[0], -1, vectors.shape[1])
        along = (grouped @ self.directions) * (self.stretches - 1)[:, None]
        return vectors + (along @ xp.swapaxes(self.directions, 1, 2)).reshape(vectors.shape)

    def toward(self, other: "LowRank", share: AnyArray) -> "LowRank":
        """Between two: the diagonal goes geometrically, and directions are those of the nearer one."""
        xp = namespace(self.diagonal, other.diagonal, share)

        def nearer(low: AnyArray, high: AnyArray) -> AnyArray:
            part = xp.asarray(share)
            return xp.where(part.reshape(part.shape + (1,) * (low.ndim - part.ndim)) < 0.5, low, high)

        diagonal = scales_between(self.diagonal, other.diagonal, share)
        return LowRank(diagonal, *map(nearer, self[1:], other[1:]))


def low_rank(positions: Rows, scores: Rows, weights: AnyArray, rank: int) -> LowRank:
    """The scale of a weighted population and the scores at it, with `rank` directions, half of them from the scores.

    Of all scales S with `x = S z` it is about the one for which draws and scores have the same covariance. That is the
    geometric mean of the covariance of the draws and the inverse of that of the scores. It is taken for each coordinate
    first, and then in the space of the directions along which draws or scores vary most. Draws show the wide directions
    and scores the narrow ones, also where there are fewer of them than dimensions. (Seyboldt, Carlson and Carpenter,
    2026, use it for mass matrices.)
    """
    xp = namespace(positions)
    root = xp.sqrt(weights)[:, None]
    x, g = (root * (rows - weights @ rows) for rows in (positions, scores))
    spread, slope = (xp.sqrt(xp.sum(part**2, axis=0)) for part in (x, g))
    tiny = xp.finfo(positions.dtype).tiny ** 0.5
    known = (spread > tiny) & (slope > tiny)
    diagonal = xp.where(known, xp.sqrt(spread / xp.where(known, slope, 1)), xp.maximum(spread, tiny))
    x, g = x / diagonal, g * diagonal
    wide, narrow = (xp.linalg.svd(part, full_matrices=False)[2][: rank // 2].T for part in (x, g))
    basis = xp.linalg.qr(xp.concatenate([wide, narrow], axis=1))[0]
    values, vectors = xp.linalg.eigh(geometric_mean(_covariance(x @ basis), xp.linalg.inv(_covariance(g @ basis))))
    # Of n draws without any structure, the variance along the widest direction is (1 + sqrt(d / n))^2.
    noise = 1 + xp.sqrt(positions.shape[1] * xp.sum(weights**2))
    stretches = xp.where(xp.abs(xp.log(values)) > xp.log(_CONSPICUOUS * noise), xp.sqrt(values), 1.0)
    return LowRank(diagonal, basis @ vectors, stretches.astype(positions.dtype))


def _covariance(centered: Rows) -> AnyArray:
    """Covariance of weighted, centered rows, with a ridge that a population of a few cannot do without."""
    xp = namespace(centered)
    return centered.T @ centered + _RIDGE * xp.eye(centered.shape[1], dtype=centered.dtype)


class LeapfrogParams(NamedTuple):
    """A square root of the preconditioner, a matrix, a diagonal or more, and the step size in its coordinates.

    With the square root L, momenta are standard normal in the coordinates z of `x = L z`. The mass matrix is the
    inverse of `L L^T`.
    """

    scale: Float[AnyArray, "*g d d"] | Float[AnyArray, "*g d"] | LowRank
    step_size: Float[AnyArray, "*g"]

    def forward(self, vectors: Rows) -> Rows:
        """From the coordinates of the preconditioner to those of the target: `L v` for every row."""
        if isinstance(self.scale, LowRank):
            return self.scale.times(vectors, transposed=False)
        if self.scale.ndim == 3:
            return times(vectors, self.scale)
        return per_particle(self.scale, vectors.shape[0]) * vectors

    def backward(self, vectors: Rows) -> Rows:
        """The transpose, for gradients: `L^T g` for every row."""
        if isinstance(self.scale, LowRank):
            return self.scale.times(vectors, transposed=True)
        if self.scale.ndim == 3:
            return times(vectors, namespace(self.scale).swapaxes(self.scale, 1, 2))
        return per_particle(self.scale, vectors.shape[0]) * vectors
