"""Square roots of covariances, the scales that kernels move by: made, applied, and interpolated."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from .._types import AnyArray, Rows
from ..arrays import namespace, quiet


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
    everything after it runs several times slower on a CPU, the user's density above all.
    """
    if factors.shape[0] == 1:
        return vectors @ factors[0].T
    xp = namespace(vectors)
    grouped = vectors.reshape(factors.shape[0], -1, vectors.shape[1])
    return (grouped @ xp.swapaxes(factors, 1, 2)).reshape(vectors.shape)


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


def scales_between(low: AnyArray, high: AnyArray, share: Any) -> AnyArray:
    """Positive numbers that are the share of the way from `low` to `high` on a log scale."""
    share = namespace(low, high, share).asarray(share, low.dtype)
    share = share.reshape(share.shape + (1,) * (low.ndim - share.ndim))
    return low ** (1 - share) * high**share


def factors_between(low: Float[AnyArray, "*g d d"], high: Float[AnyArray, "*g d d"], share: Any) -> AnyArray:
    """A Cholesky factor between two: scales go geometrically, and what the scale of each row leaves goes linearly."""
    xp = namespace(low, high, share)
    first, last = (xp.diagonal(factor, axis1=-2, axis2=-1) for factor in (low, high))
    units = [factor / xp.where(scale > 0, scale, 1)[..., None] for factor, scale in ((low, first), (high, last))]
    part = xp.asarray(share, low.dtype)[..., None, None]
    return scales_between(first, last, share)[..., None] * ((1 - part) * units[0] + part * units[1])


class LeapfrogParams(NamedTuple):
    """A square root of the preconditioner, a matrix or a diagonal, and the step size in its coordinates.

    With the square root L, momenta are standard normal in the coordinates z of `x = L z`. The mass matrix is the
    inverse of `L L^T`.
    """

    scale: Float[AnyArray, "*g d d"] | Float[AnyArray, "*g d"]
    step_size: Float[AnyArray, "*g"]

    def forward(self, vectors: Rows) -> Rows:
        """From the coordinates of the preconditioner to those of the target: `L v` for every row."""
        if self.scale.ndim == 3:
            return times(vectors, self.scale)
        return per_particle(self.scale, vectors.shape[0]) * vectors

    def backward(self, vectors: Rows) -> Rows:
        """The transpose, for gradients: `L^T g` for every row."""
        if self.scale.ndim == 3:
            return times(vectors, namespace(self.scale).swapaxes(self.scale, 1, 2))
        return per_particle(self.scale, vectors.shape[0]) * vectors
