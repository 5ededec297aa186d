"""The Student-t distribution in one and many dimensions: the q-exponential family with q > 1 and `phi = (x, x x^T)`."""

from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import Array
from jaxtyping import ArrayLike, Float, Real

from ..core import PRNGKey, Scalar, ScalarLike
from . import elliptical
from .base import Parameters, ScaledMember
from .parameters import check_finite, check_numbers, check_positive, cholesky
from .q_family import AbstractQExponentialFamily, q_from_df
from .q_gaussian import AbstractQGaussian


class StudentT(AbstractQGaussian):
    """The Student-t density on the real line.

    q = (df + 3) / (df + 1), so 1 < q < 3. The escort is Student-t with df + 2 and scale^2 df / (df + 2); its variance
    is scale^2, so the moment parameters are (loc, loc^2 + scale^2), for every df > 0. A q-path of this order between
    two such densities with the same df stays in the family.

    Args:
        df: Degrees of freedom; 1 is the Cauchy density.
        loc: The center.
        scale: The scale, not squared. The variance is scale^2 df / (df - 2) for df > 2.

    See the paper, appendix D.1. A large `df` costs no digits: the density tends to the normal one.

    Examples:
        >>> import jax.numpy as jnp
        >>> round(float(jnp.exp(StudentT(1.0, 0.0, 1.0).log_prob(0.0))), 4)  # 1 / pi
        0.3183
    """

    df: ScalarLike
    loc: ScalarLike
    scale: ScalarLike

    def __check_init__(self) -> None:
        check_positive("df", self.df, "the normal density, df -> inf, is `Normal`")
        check_finite("loc", self.loc)
        check_positive("scale", self.scale, "it is the scale, the square root of the scale matrix")

    def sample(self, key: PRNGKey) -> Scalar:
        check_numbers(df=self.df, loc=self.loc, scale=self.scale)
        dtype = jnp.result_type(self.df, self.loc, self.scale, 0.0)
        return self.loc + self.scale * jax.random.t(key, self.df, dtype=dtype)

    @property
    def q(self) -> ScalarLike:
        return q_from_df(self.df, 1)

    @property
    def delta(self) -> ScalarLike:
        return -2 / (self.df + 1)

    @property
    def fixed(self) -> dict[str, Any]:
        return {"df": self.df}

    def with_scatter(self, loc: Any, variance: Any) -> "StudentT":
        return StudentT(self.df, loc, jnp.sqrt(variance))

    def escort(self) -> "StudentT":
        return StudentT(self.df + 2, self.loc, self.scale * jnp.sqrt(self.df / (self.df + 2)))


class MultivariateStudentT(AbstractQExponentialFamily):
    """The Student-t density in d dimensions (paper, eq. student).

    q = (df + d + 2) / (df + d), so 1 < q < 1 + 2/d. The escort is Student-t with df + 2 and scale matrix times
    df / (df + 2); its covariance is the scale matrix S, so the moment parameters are `(mean, S + mean mean^T)`.

    Args:
        df: Degrees of freedom.
        mean: The center, shape (d,); it is the mean for df > 1.
        scale_matrix: Shape (d, d), symmetric and positive definite. The covariance is S df / (df - 2) for df > 2.

    The moments of a path exist for every df > 0, because they are moments of the escort. Those of the density itself
    need df > 2.

    Examples:
        >>> import jax.numpy as jnp
        >>> density = MultivariateStudentT(3.0, jnp.zeros(2), jnp.eye(2))
        >>> round(float(density.q), 3)  # q = (df + d + 2) / (df + d)
        1.4
    """

    df: ScalarLike
    mean: Float[Array, " d"]
    scale_matrix: Float[Array, "d d"]
    cholesky: Float[Array, "d d"]

    def __init__(self, df: ScalarLike, mean: Real[ArrayLike, " d"], scale_matrix: Real[ArrayLike, "d d"]):
        dtype = jnp.result_type(mean, scale_matrix, 0.0)
        self.df = df
        self.mean = jnp.asarray(mean, dtype)
        self.scale_matrix = jnp.asarray(scale_matrix, dtype)
        if self.mean.ndim != 1 or self.scale_matrix.shape != self.mean.shape * 2:
            raise ValueError(
                f"`mean` must have shape (d,) and `scale_matrix` (d, d), got {self.mean.shape} and "
                f"{self.scale_matrix.shape}: for one dimension use `StudentT`."
            )
        check_positive("df", df, "the normal density, df -> inf, is `MultivariateNormal`")
        check_finite("mean", self.mean)
        self.cholesky = cholesky("scale_matrix", self.scale_matrix)

    def log_prob(self, x: Real[ArrayLike, " d"]) -> Scalar:
        z = jsl.solve_triangular(self.cholesky, x - self.mean, lower=True)
        log_det = jnp.sum(jnp.log(jnp.diag(self.cholesky)))
        return elliptical.log_density(self.delta, jnp.sum(jnp.square(z)), log_det, self.mean.size)

    def sample(self, key: PRNGKey) -> Float[Array, " d"]:
        """A normal draw over the root of a chi-square draw with df degrees of freedom."""
        key_normal, key_gamma = jax.random.split(key)
        z = jax.random.normal(key_normal, self.mean.shape, self.mean.dtype)
        chi_square = 2 * jax.random.gamma(key_gamma, jnp.asarray(self.df / 2, self.mean.dtype))
        return self.mean + self.cholesky @ z * jnp.sqrt(self.df / chi_square)

    @property
    def q(self) -> ScalarLike:
        return q_from_df(self.df, self.mean.size)

    @property
    def delta(self) -> ScalarLike:
        return -2 / (self.df + self.mean.size)

    @property
    def fixed(self) -> dict[str, Any]:
        return {"dimension": self.mean.shape[-1], "df": self.df}

    def sufficient_statistics(self, x: Array) -> Parameters:
        return x, jnp.outer(x, x)

    def free_energy(self, natural: Parameters) -> Scalar:
        return elliptical.free_energy(self.delta, natural)

    @property
    def natural(self) -> Parameters:
        return elliptical.natural(self.delta, self.mean, self.cholesky)

    @property
    def moments(self) -> Parameters:
        return self.mean, self.scale_matrix + jnp.outer(self.mean, self.mean)

    def with_natural(self, natural: Parameters) -> "MultivariateStudentT":
        cholesky("-natural[1]", -natural[1])
        return MultivariateStudentT(self.df, *elliptical.from_natural(self.delta, natural))

    def with_moments(self, moments: Parameters) -> "MultivariateStudentT":
        return MultivariateStudentT(self.df, moments[0], moments[1] - jnp.outer(moments[0], moments[0]))

    def with_offset(self, natural: Parameters, offset: ScalarLike) -> ScaledMember:
        mean, scatter, log_mass = elliptical.from_offset(self.delta, natural, offset)
        return ScaledMember(MultivariateStudentT(self.df, mean, scatter), log_mass)

    def mix_moments(self, other: Any, beta: ScalarLike) -> "MultivariateStudentT":
        return self._mix(other, beta, 1.0)

    def mix_moments_as_published(self, other: Any, beta: ScalarLike) -> "MultivariateStudentT":
        return self._mix(other, beta, elliptical.published_spread(self.delta, self.mean.size))

    def _mix(self, other: Any, beta: ScalarLike, spread: ScalarLike) -> "MultivariateStudentT":
        ends = (self.mean, self.scale_matrix), (other.mean, other.scale_matrix)
        return MultivariateStudentT(self.df, *elliptical.mix_scatter(*ends, beta, spread))

    def escort(self) -> "MultivariateStudentT":
        return MultivariateStudentT(self.df + 2, self.mean, self.scale_matrix * (self.df / (self.df + 2)))
