"""The q-Gaussian on the real line, for every q < 3: compact support below q = 1, Student-t above."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from ..core import PRNGKey, Scalar, ScalarLike, promote_jax
from ..deformed import log_q_of_exp
from . import elliptical
from .base import Parameters, ScaledMember
from .parameters import check_between, check_finite, check_numbers, check_positive
from .q_family import AbstractQExponentialFamily


class AbstractQGaussian(AbstractQExponentialFamily):
    """A q-Gaussian by whatever parameter names its order: phi(x) = (x, x^2), eta = (loc, loc^2 + scale^2)."""

    loc: eqx.AbstractVar[ScalarLike]
    scale: eqx.AbstractVar[ScalarLike]

    @abc.abstractmethod
    def with_scatter(self, loc: Any, variance: Any) -> Any:
        """The member of the same order with this location and square of the scale."""

    def log_prob(self, x: ScalarLike) -> Scalar:
        z = (x - self.loc) / self.scale
        return elliptical.log_density(self.delta, jnp.square(z), jnp.log(self.scale), 1)

    def sufficient_statistics(self, x: ScalarLike) -> Parameters:
        return jnp.asarray(x), jnp.square(x)

    def free_energy(self, natural: Parameters) -> Scalar:
        return elliptical.free_energy(self.delta, elliptical.as_matrix(natural))

    @property
    def natural(self) -> Parameters:
        loc, scale = promote_jax(self.loc, self.scale)
        linear, quadratic = elliptical.natural(self.delta, loc[None], scale[None, None])
        return linear[0], quadratic[0, 0]

    @property
    def moments(self) -> Parameters:
        return jnp.asarray(self.loc), jnp.square(self.loc) + jnp.square(self.scale)

    def with_natural(self, natural: Parameters) -> Any:
        check_positive("-natural[1]", -natural[1], "the coefficient of x^2 is negative in every member")
        mean, scatter = elliptical.from_natural(self.delta, elliptical.as_matrix(natural))
        return self.with_scatter(mean[0], scatter[0, 0])

    def with_moments(self, moments: Parameters) -> Any:
        variance = moments[1] - jnp.square(moments[0])
        check_positive("moments[1] - moments[0]**2", variance, "it is the variance of the escort")
        return self.with_scatter(moments[0], variance)

    def with_offset(self, natural: Parameters, offset: ScalarLike) -> ScaledMember:
        mean, scatter, log_mass = elliptical.from_offset(self.delta, elliptical.as_matrix(natural), offset)
        return ScaledMember(self.with_scatter(mean[0], scatter[0, 0]), log_mass)

    def mix_moments(self, other: Any, beta: ScalarLike) -> Any:
        return self._mix(other, beta, 1.0)

    def mix_moments_as_published(self, other: Any, beta: ScalarLike) -> Any:
        return self._mix(other, beta, elliptical.published_spread(self.delta, 1))

    def _mix(self, other: Any, beta: ScalarLike, spread: ScalarLike) -> Any:
        ends = (self.loc, self.scale**2), (other.loc, other.scale**2)
        return self.with_scatter(*elliptical.mix_scatter(*ends, beta, spread))


class QGaussian(AbstractQGaussian):
    """The q-Gaussian density, proportional to `exp_q(-z^2 / (3 - q))` with z = (x - loc) / scale, for q < 3.

    q = 1 is `Normal(loc, scale)`; q > 1 is `StudentT((3 - q) / (q - 1), loc, scale)`; for q < 1 the support is
    |z| < sqrt((3 - q) / (1 - q)). The variance of the escort is scale^2 for every q, that of the density itself
    scale^2 (3 - q) / (5 - 3 q) for q < 5/3. For q > 0 the escort is the q-Gaussian of order 2 - 1/q.

    Args:
        q: The order, below 3.
        loc: The center.
        scale: The scale, positive: the standard deviation of the escort.

    See [Families](families.md). For q < 1 the density is zero outside its support, so a path to it excludes points.

    Examples:
        >>> import qpaths as qp
        >>> student, same = qp.StudentT(1.0, 0.0, 2.0), QGaussian(2.0, 0.0, 2.0)
        >>> bool(abs(student.log_prob(1.0) - same.log_prob(1.0)) < 1e-5)
        True
    """

    q: ScalarLike
    loc: ScalarLike
    scale: ScalarLike

    def __check_init__(self) -> None:
        check_between("q", self.q, -jnp.inf, 3, "from 3 on the density cannot be normalized")
        check_finite("loc", self.loc)
        check_positive("scale", self.scale, "it is the standard deviation at q = 1")

    def sample(self, key: PRNGKey) -> Scalar:
        """The Box-Muller method with a deformed logarithm (Thistleton et al., 2007), exact for every q."""
        check_numbers(q=self.q, loc=self.loc, scale=self.scale)
        dtype = jnp.result_type(self.q, self.loc, self.scale, 0.0)
        exponential, angle = jax.random.split(key)
        log_uniform = -jax.random.exponential(exponential, dtype=dtype)
        radius = jnp.sqrt(-2 * log_q_of_exp(log_uniform, 2 * self.delta / (2 + self.delta)))
        return self.loc + self.scale * radius * jnp.cos(2 * jnp.pi * jax.random.uniform(angle, dtype=dtype))

    @property
    def delta(self) -> ScalarLike:
        return 1 - self.q

    @property
    def fixed(self) -> dict[str, Any]:
        return {"q": self.q}

    def with_scatter(self, loc: Any, variance: Any) -> "QGaussian":
        return QGaussian(self.q, loc, jnp.sqrt(variance))

    def escort(self) -> "QGaussian":
        check_between("q", self.q, 0, 3, "the escort of a q-Gaussian is one for q > 0")
        # exp_q(-z^2 / m)^q = exp_q'(-z'^2 / m') with delta' = delta / q, m = 2 + delta, m' = 2 + delta'.
        ratio = (2 + self.delta) / (2 * self.q + self.delta)
        return QGaussian(2 - 1 / self.q, self.loc, self.scale * jnp.sqrt(ratio))
