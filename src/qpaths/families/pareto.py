"""The generalized Pareto distribution: the q-exponential family with phi(x) = x on a half line."""

from typing import Any

import jax
import jax.numpy as jnp

from ..core import PRNGKey, Scalar, ScalarLike
from ..deformed import log_exp_delta, log_q_of_exp
from .base import Parameters, ScaledMember
from .parameters import check_between, check_finite, check_numbers, check_positive
from .q_family import AbstractQExponentialFamily, q_from_shape


class GeneralizedPareto(AbstractQExponentialFamily):
    """`[1 + shape (x - loc) / scale]^(-1/shape - 1) / scale` for x >= loc and shape > -1, the paper's xi.

    q = (2 shape + 1) / (shape + 1), so q < 2; shape = 0 is the exponential density; for shape < 0 the support ends at
    loc - scale / shape. Members share `shape` and `loc`. The escort, for shape > -1/2, has shape / (1 + shape) and
    scale / (1 + shape); its mean is loc + scale, so scales mix linearly in the moment parameters.

    Args:
        shape: The tail index, above -1: the paper's xi (appendix D.1).
        loc: Where the support begins.
        scale: The scale, positive.

    The mean exists for shape < 1 only.

    Examples:
        >>> import jax.numpy as jnp
        >>> round(float(jnp.exp(GeneralizedPareto(0.0, 0.0, 1.0).log_prob(2.0))), 4)  # exp(-2)
        0.1353
    """

    shape: ScalarLike
    loc: ScalarLike
    scale: ScalarLike

    def __check_init__(self) -> None:
        check_between("shape", self.shape, -1, jnp.inf, "-1 is the uniform density, where q is infinite")
        check_finite("loc", self.loc)
        check_positive("scale", self.scale, "it is the scale")

    def log_prob(self, x: ScalarLike) -> Scalar:
        z = (x - self.loc) / self.scale
        inside = z >= 0
        value = log_exp_delta(-(1 + self.shape) * jnp.where(inside, z, 0), self.delta) - jnp.log(self.scale)
        return jnp.where(inside, value, -jnp.inf)

    def sample(self, key: PRNGKey) -> Scalar:
        """The inverse of the tail function, `loc - scale log_q(u)` with 1 - q = -shape."""
        check_numbers(shape=self.shape, loc=self.loc, scale=self.scale)
        dtype = jnp.result_type(self.shape, self.loc, self.scale, 0.0)
        return self.loc - self.scale * log_q_of_exp(-jax.random.exponential(key, dtype=dtype), -self.shape)

    @property
    def q(self) -> ScalarLike:
        return q_from_shape(self.shape)

    @property
    def delta(self) -> ScalarLike:
        return -self.shape / (1 + self.shape)

    @property
    def fixed(self) -> dict[str, Any]:
        return {"shape": self.shape, "loc": self.loc}

    def sufficient_statistics(self, x: ScalarLike) -> Parameters:
        return (jnp.asarray(x),)

    def free_energy(self, natural: Parameters) -> Scalar:
        log_scale = -(1 + self.shape) * jnp.log(-natural[0] / (1 + self.shape))
        return natural[0] * self.loc - log_q_of_exp(-log_scale, self.delta)

    @property
    def natural(self) -> Parameters:
        return (-(1 + self.shape) * jnp.asarray(self.scale, jnp.result_type(0.0, self.scale)) ** (-1 - self.delta),)

    @property
    def moments(self) -> Parameters:
        return (jnp.asarray(self.loc + self.scale),)

    def _with(self, scale: Any) -> "GeneralizedPareto":
        return GeneralizedPareto(self.shape, self.loc, scale)

    def with_natural(self, natural: Parameters) -> "GeneralizedPareto":
        check_positive("-natural[0]", -natural[0], "the coefficient of x is negative in every member")
        return self._with((-natural[0] / (1 + self.shape)) ** (-1 - self.shape))

    def with_moments(self, moments: Parameters) -> "GeneralizedPareto":
        check_positive("moments[0] - loc", moments[0] - self.loc, "the mean of the escort is loc + scale")
        return self._with(moments[0] - self.loc)

    def mix_moments(self, other: "GeneralizedPareto", beta: ScalarLike) -> "GeneralizedPareto":
        return self._with((1 - beta) * self.scale + beta * other.scale)

    def with_offset(self, natural: Parameters, offset: ScalarLike) -> ScaledMember:
        log_peak = log_exp_delta(natural[0] * self.loc - offset, self.delta)
        scale = -(1 + self.shape) * jnp.exp(self.delta * log_peak) / natural[0]
        return ScaledMember(self._with(scale), log_peak + jnp.log(scale))

    def escort(self) -> "GeneralizedPareto":
        check_between("shape", self.shape, -0.5, jnp.inf, "the escort of a generalized Pareto density is one for q > 0")
        return GeneralizedPareto(self.shape / (1 + self.shape), self.loc, self.scale / (1 + self.shape))
