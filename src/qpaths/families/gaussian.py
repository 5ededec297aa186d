"""The normal distribution in one and many dimensions."""

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import Array
from jaxtyping import ArrayLike, Float, Real

from .._checks import is_concrete
from .._types import PRNGKey, Scalar, ScalarLike


class Normal(eqx.Module):
    """The normal density on the real line with mean `loc` and standard deviation `scale`."""

    loc: ScalarLike
    scale: ScalarLike

    def __check_init__(self) -> None:
        if is_concrete(self.scale) and not np.asarray(self.scale) > 0:
            raise ValueError(f"`scale` must be positive, got {self.scale}: it is the standard deviation.")

    def log_prob(self, x: ScalarLike) -> Scalar:
        z = (x - self.loc) / self.scale
        return -0.5 * jnp.square(z) - jnp.log(self.scale) - 0.5 * jnp.log(2 * jnp.pi)

    def sample(self, key: PRNGKey) -> Scalar:
        return self.loc + self.scale * jax.random.normal(key, dtype=jnp.result_type(self.loc, self.scale, 0.0))


class MultivariateNormal(eqx.Module):
    """The normal density in d dimensions with the given mean and covariance matrix."""

    mean: Float[Array, " d"]
    cov: Float[Array, "d d"]
    cholesky: Float[Array, "d d"]

    def __init__(self, mean: Real[ArrayLike, " d"], cov: Real[ArrayLike, "d d"]):
        dtype = jnp.result_type(mean, cov, 0.0)
        self.mean = jnp.asarray(mean, dtype)
        self.cov = jnp.asarray(cov, dtype)
        if self.mean.ndim != 1 or self.cov.shape != self.mean.shape * 2:
            raise ValueError(
                f"`mean` must have shape (d,) and `cov` (d, d), got {self.mean.shape} and {self.cov.shape}: "
                f"for one dimension use `Normal`."
            )
        self.cholesky = jnp.linalg.cholesky(self.cov)
        if is_concrete(self.cholesky) and np.isnan(np.asarray(self.cholesky)).any():
            raise ValueError(f"`cov` must be symmetric and positive definite, got {self.cov}.")

    def log_prob(self, x: Real[ArrayLike, " d"]) -> Scalar:
        z = jsl.solve_triangular(self.cholesky, x - self.mean, lower=True)
        log_det = jnp.sum(jnp.log(jnp.diag(self.cholesky)))
        return -0.5 * jnp.sum(jnp.square(z)) - log_det - 0.5 * z.size * jnp.log(2 * jnp.pi)

    def sample(self, key: PRNGKey) -> Float[Array, " d"]:
        return self.mean + self.cholesky @ jax.random.normal(key, self.mean.shape, self.mean.dtype)
