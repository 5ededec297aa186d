"""The gamma distribution."""

import jax
import jax.numpy as jnp
from jax import Array

from ..core import PRNGKey, Scalar, ScalarLike, log1p
from .base import AbstractExponentialFamily, Parameters
from .dual import solve_root
from .parameters import check_numbers, check_positive


class Gamma(AbstractExponentialFamily):
    """The gamma density, proportional to `x^(concentration - 1) exp(-rate x)` for x > 0.

    phi(x) = (log x, x), theta = (concentration - 1, -rate), eta = (digamma(concentration) - log rate,
    concentration / rate). The moments have no closed inverse: `with_moments` solves one equation by Newton's method.

    Args:
        concentration: The shape parameter; 1 is the exponential density.
        rate: The inverse of the scale; the mean is concentration / rate.

    Both must be positive. See [Families](families.md).

    Examples:
        >>> float(Gamma(3.0, 2.0).moments[1])  # the mean, concentration / rate
        1.5
    """

    concentration: ScalarLike
    rate: ScalarLike

    def __check_init__(self) -> None:
        check_positive("concentration", self.concentration, "it is the shape parameter")
        check_positive("rate", self.rate, "it is the inverse of the scale")

    def log_prob(self, x: ScalarLike) -> Scalar:
        inside = jnp.asarray(x) > 0
        y = jnp.where(inside, x, 1)
        a = jnp.asarray(self.concentration, jnp.result_type(0.0, self.concentration))
        value = a * jnp.log(self.rate) - jax.lax.lgamma(a) + (a - 1) * jnp.log(y) - self.rate * y
        return jnp.where(inside, value, -jnp.inf)

    def sample(self, key: PRNGKey) -> Scalar:
        check_numbers(concentration=self.concentration, rate=self.rate)
        dtype = jnp.result_type(self.concentration, self.rate, 0.0)
        return jax.random.gamma(key, jnp.asarray(self.concentration, dtype)) / self.rate

    def sufficient_statistics(self, x: ScalarLike) -> Parameters:
        return jnp.log(x), jnp.asarray(x)

    def log_partition(self, natural: Parameters) -> Scalar:
        a, rate = 1 + natural[0], -natural[1]
        return jnp.where((a > 0) & (rate > 0), jax.lax.lgamma(a) - a * jnp.log(rate), jnp.nan)

    @property
    def natural(self) -> Parameters:
        dtype = jnp.result_type(0.0, self.concentration, self.rate)
        return jnp.asarray(self.concentration - 1, dtype), jnp.asarray(-self.rate, dtype)

    @property
    def moments(self) -> Parameters:
        a = jnp.asarray(self.concentration, jnp.result_type(0.0, self.concentration))
        return jax.lax.digamma(a) - jnp.log(self.rate), a / self.rate

    def with_natural(self, natural: Parameters) -> "Gamma":
        check_positive("natural[0] + 1", natural[0] + 1, "it is the concentration")
        check_positive("-natural[1]", -natural[1], "it is the rate")
        return Gamma(1 + natural[0], -natural[1])

    def with_moments(self, moments: Parameters) -> "Gamma":
        """One equation, `log a - digamma(a) = log E[x] - E[log x]`, in the variable log a: nearly a straight line."""
        gap = jnp.log(moments[1]) - moments[0]
        check_positive("log(moments[1]) - moments[0]", gap, "the log of the mean exceeds the mean of the log")
        return _from_gap(gap, moments[1])

    def mix_moments(self, other: "Gamma", beta: ScalarLike) -> "Gamma":
        """The gaps `log E[x] - E[log x]` mix linearly but for Jensen's term of the means; all terms are positive."""
        (first, mean), (second, other_mean) = self._gap_and_mean(), other._gap_and_mean()
        swap = jnp.asarray(beta) > 0.5
        weight = jnp.where(swap, 1 - beta, beta)
        step = jnp.log(other_mean / mean) * jnp.where(swap, -1, 1)
        jensen = log1p(weight * jnp.expm1(step)) - weight * step
        return _from_gap((1 - beta) * first + beta * second + jensen, (1 - beta) * mean + beta * other_mean)

    def _gap_and_mean(self) -> tuple[Array, Array]:
        a = jnp.asarray(self.concentration, jnp.result_type(0.0, self.concentration))
        return _log_minus_digamma(a), a / self.rate


def _from_gap(gap: Array, mean: Array) -> Gamma:
    # The gap is 1/(2a) for large a and 1/a for small.
    log_a = solve_root(_log_gap_residual, -jnp.log(2 * jax.lax.stop_gradient(gap)), gap)
    return Gamma(jnp.exp(log_a), jnp.exp(log_a) / mean)


def _log_gap_residual(log_a: Array, gap: Array) -> Array:
    return jnp.log(_log_minus_digamma(jnp.exp(log_a))) - jnp.log(gap)


def _log_minus_digamma(a: Array) -> Array:
    """`log a - digamma(a)`; for large a the difference of two large numbers, so there its asymptotic series."""
    large = a >= 16
    x = jnp.where(large, a, 16)
    w = 1 / (x * x)
    series = 0.5 / x + w * (1 / 12 - w * (1 / 120 - w * (1 / 252 - w * (1 / 240 - w / 132))))
    y = jnp.where(large, 1, a)
    return jnp.where(large, series, jnp.log(y) - jax.lax.digamma(y))
