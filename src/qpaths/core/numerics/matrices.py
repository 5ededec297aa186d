"""The geometric mean of two covariances."""

from jaxtyping import Float

from ..arrays import namespace, quiet
from ..types import AnyArray


@quiet()
def geometric_mean(a: Float[AnyArray, "d d"], b: Float[AnyArray, "d d"]) -> Float[AnyArray, "d d"]:
    """The symmetric matrix S with `S inv(b) S = a`; NaN where one of the two is not positive definite.

    NumPy raises an error where b is not.
    """
    xp = namespace(a, b)
    factor = xp.linalg.cholesky(b)
    inner = factor.T @ xp.linalg.solve(b, xp.linalg.solve(b, a).T).T @ factor
    values, vectors = xp.linalg.eigh(0.5 * (inner + inner.T))
    mean = factor @ (vectors * xp.sqrt(xp.where(values > 0, values, xp.nan))) @ vectors.T @ factor.T
    return 0.5 * (mean + mean.T)
