"""The generalized (Kolmogorov-Nagumo) mean of the endpoints for any monotone function."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array

from ..core import FloatArray, RealLike, promote_jax
from ..densities import DensityLike, as_pytree, endpoint
from .base import AbstractPointwisePath


class GeneralizedMeanPath(AbstractPointwisePath):
    """`h^-1((1-beta) h(base) + beta h(target))` for a monotone h (paper, eq. abstract_mean).

    Densities of real problems under- and overflow, so h is written on the log scale: `transform(log_u) = h(u)` and
    `inverse(h(u)) = log_u`, both elementwise and differentiable by JAX. `transform = inverse = lambda v: v` is the
    geometric path; `transform = lambda v: jnp.exp(delta * v)`, `inverse = lambda v: jnp.log(v) / delta` a q-path.
    Power means are the only ones that do not depend on the unit in which the densities are measured (Hardy,
    Littlewood and Polya), and `QPath` computes those exactly.

    Args:
        base: A density, or a function of one point that returns its log density.
        target: Another one, normalized or not.

        transform: `h` on the log scale, `transform(log_u) = h(u)`.
        inverse: Its inverse, `inverse(h(u)) = log_u`.

    Examples:
        >>> path = GeneralizedMeanPath(lambda x: -x, lambda x: -3 * x, lambda v: v, lambda v: v)
        >>> float(path.log_density(0.5, 1.0))  # the geometric path
        -2.0
    """

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))
    transform: Callable[[Array], Array] = eqx.field(converter=as_pytree)
    inverse: Callable[[Array], Array] = eqx.field(converter=as_pytree)

    def _transformed(self, beta: Array, log_base: Array, log_target: Array) -> tuple[Array, Array]:
        """The mean of h, and its derivative in beta. Where an end has no weight its h may be infinite."""
        base, target = self.transform(log_base), self.transform(log_target)
        slope = jnp.where(log_base == log_target, 0, target - base)
        base = jnp.where((beta == 1) & jnp.isinf(base), 0, base)
        target = jnp.where((beta == 0) & jnp.isinf(target), 0, target)
        mean = (1 - beta) * base + beta * target
        return mean, jnp.broadcast_to(slope, mean.shape)

    def interpolate(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        beta, log_base, log_target = promote_jax(beta, log_base, log_target)
        mean = self.inverse(self._transformed(beta, log_base, log_target)[0])
        mean = jnp.where(beta == 0, log_base, jnp.where(beta == 1, log_target, mean))
        return jnp.where((beta >= 0) & (beta <= 1), mean, jnp.nan)

    def derivative(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        """By the chain rule, which also holds at the ends, where `interpolate` returns the endpoints themselves."""
        beta, log_base, log_target = promote_jax(beta, log_base, log_target)
        mean, slope = self._transformed(beta, log_base, log_target)
        value, derivative = jax.jvp(self.inverse, (mean,), (slope,))
        derivative = jnp.where(value == -jnp.inf, 0, derivative)  # nothing is there, and stays so
        return jnp.where((beta >= 0) & (beta <= 1), derivative, jnp.nan)

    def shares(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> tuple[FloatArray, FloatArray]:
        """By differentiation; the weights themselves where nothing is."""
        beta, log_base, log_target = promote_jax(beta, log_base, log_target)
        empty = self.interpolate(beta, log_base, log_target) == -jnp.inf
        base, target = super().shares(beta, log_base, log_target)
        return jnp.where(empty, 1 - beta, base), jnp.where(empty, beta, target)
