"""The normal distribution in one and many dimensions."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import Array
from jaxtyping import ArrayLike, Float, Real

from ..core import PRNGKey, Scalar, ScalarLike
from .base import AbstractExponentialFamily, Parameters
from .elliptical import mix_scatter, symmetric_inverse
from .parameters import check_finite, check_numbers, check_positive, cholesky


class Normal(AbstractExponentialFamily):
    """The normal density on the real line with mean `loc` and standard deviation `scale`.

    phi(x) = (x, x^2), theta = (loc / scale^2, -1 / (2 scale^2)), eta = (loc, loc^2 + scale^2).

    Args:
        loc: The mean.
        scale: The standard deviation, positive.

    The paths of the paper's Figures 2 and 3 join two of these. Points are numbers, not arrays of length one.

    Examples:
        >>> round(float(Normal(0.0, 1.0).kl_divergence(Normal(1.0, 1.0))), 6)
        0.5
    """

    loc: ScalarLike
    scale: ScalarLike

    def __check_init__(self) -> None:
        check_finite("loc", self.loc)
        check_positive("scale", self.scale, "it is the standard deviation")

    def log_prob(self, x: ScalarLike) -> Scalar:
        z = (x - self.loc) / self.scale
        return -0.5 * jnp.square(z) - jnp.log(self.scale) - 0.5 * jnp.log(2 * jnp.pi)

    def sample(self, key: PRNGKey) -> Scalar:
        check_numbers(loc=self.loc, scale=self.scale)
        return self.loc + self.scale * jax.random.normal(key, dtype=jnp.result_type(self.loc, self.scale, 0.0))

    def sufficient_statistics(self, x: ScalarLike) -> Parameters:
        return jnp.asarray(x), jnp.square(x)

    def log_partition(self, natural: Parameters) -> Scalar:
        linear, quadratic = natural
        return -jnp.square(linear) / (4 * quadratic) - 0.5 * jnp.log(-quadratic / jnp.pi)

    @property
    def natural(self) -> Parameters:
        precision = jnp.asarray(1 / self.scale**2)
        return precision * self.loc, -precision / 2

    @property
    def moments(self) -> Parameters:
        return jnp.asarray(self.loc), jnp.square(self.loc) + jnp.square(self.scale)

    def with_natural(self, natural: Parameters) -> "Normal":
        check_positive("-natural[1]", -natural[1], "the coefficient of x^2 is -1 / (2 scale^2)")
        variance = -0.5 / natural[1]
        return Normal(variance * natural[0], jnp.sqrt(variance))

    def with_moments(self, moments: Parameters) -> "Normal":
        variance = moments[1] - jnp.square(moments[0])
        check_positive("moments[1] - moments[0]**2", variance, "it is the variance")
        return Normal(moments[0], jnp.sqrt(variance))

    def mix_moments(self, other: "Normal", beta: ScalarLike) -> "Normal":
        """By means and variances, which keep their digits when the mean is far from zero."""
        mean, variance = mix_scatter((self.loc, self.scale**2), (other.loc, other.scale**2), beta, 1.0)
        return Normal(mean, jnp.sqrt(variance))


class MultivariateNormal(AbstractExponentialFamily):
    """The normal density in d dimensions.

    `phi(x) = (x, x x^T)`, `theta = (P mean, -P / 2)` with P the inverse covariance, `eta = (mean, cov + mean mean^T)`.
    Points have shape (d,); for one dimension use `Normal`, whose points are numbers.

    Args:
        mean: Shape (d,).
        cov: The covariance matrix, shape (d, d), symmetric and positive definite.

    The covariance is factored once, when the density is made; it must be positive definite to the precision of JAX. See
    [Families](families.md).

    Examples:
        >>> import jax.numpy as jnp
        >>> density = MultivariateNormal(jnp.zeros(2), jnp.eye(2))
        >>> round(float(density.log_prob(jnp.zeros(2))), 3)  # -log(2 pi)
        -1.838
    """

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
        check_finite("mean", self.mean)
        self.cholesky = cholesky("cov", self.cov)

    def log_prob(self, x: Real[ArrayLike, " d"]) -> Scalar:
        z = jsl.solve_triangular(self.cholesky, x - self.mean, lower=True)
        log_det = jnp.sum(jnp.log(jnp.diag(self.cholesky)))
        return -0.5 * jnp.sum(jnp.square(z)) - log_det - 0.5 * z.size * jnp.log(2 * jnp.pi)

    def sample(self, key: PRNGKey) -> Float[Array, " d"]:
        return self.mean + self.cholesky @ jax.random.normal(key, self.mean.shape, self.mean.dtype)

    @property
    def fixed(self) -> dict[str, Any]:
        return {"dimension": self.mean.shape[-1]}

    def sufficient_statistics(self, x: Array) -> Parameters:
        return x, jnp.outer(x, x)

    def log_partition(self, natural: Parameters) -> Scalar:
        linear, precision = natural[0], -2 * natural[1]
        factor = jnp.linalg.cholesky(precision)
        z = jsl.solve_triangular(factor, linear, lower=True)
        log_det = jnp.sum(jnp.log(jnp.diag(factor)))
        return 0.5 * jnp.sum(jnp.square(z)) - log_det + 0.5 * z.size * jnp.log(2 * jnp.pi)

    @property
    def natural(self) -> Parameters:
        precision = jsl.cho_solve((self.cholesky, True), jnp.eye(self.mean.size, dtype=self.mean.dtype))
        return precision @ self.mean, -precision / 2

    @property
    def moments(self) -> Parameters:
        return self.mean, self.cov + jnp.outer(self.mean, self.mean)

    def with_natural(self, natural: Parameters) -> "MultivariateNormal":
        cholesky("-natural[1]", -natural[1])
        cov = symmetric_inverse(-2 * natural[1])
        return MultivariateNormal(cov @ natural[0], cov)

    def with_moments(self, moments: Parameters) -> "MultivariateNormal":
        return MultivariateNormal(moments[0], moments[1] - jnp.outer(moments[0], moments[0]))

    def mix_moments(self, other: "MultivariateNormal", beta: ScalarLike) -> "MultivariateNormal":
        return MultivariateNormal(*mix_scatter((self.mean, self.cov), (other.mean, other.cov), beta, 1.0))
