"""The generalised (Kolmogorov-Nagumo) mean of the endpoints for any monotone function."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jax import Array

from .._numerics import promote
from .._types import FloatArray, RealLike
from ..densities import DensityLike, as_pytree, endpoint
from .base import AbstractPointwisePath


class GeneralizedMeanPath(AbstractPointwisePath):
    """`h^-1((1-beta) h(base) + beta h(target))` for a monotone h (paper, eq. abstract_mean).

    Densities of real problems under- and overflow, so h is written on the log scale: `transform(log_u) = h(u)` and
    `inverse(h(u)) = log_u`, both elementwise and differentiable by JAX. `transform = inverse = lambda v: v` is the
    geometric path; `transform = lambda v: jnp.exp(delta * v)`, `inverse = lambda v: jnp.log(v) / delta` a q-path.
    Power means are the only ones that do not depend on the unit in which the densities are measured (Hardy,
    Littlewood and Polya), and `QPath` computes those exactly.
    """

    base: DensityLike = eqx.field(converter=endpoint("base"))
    target: DensityLike = eqx.field(converter=endpoint("target"))
    transform: Callable[[Array], Array] = eqx.field(converter=as_pytree)
    inverse: Callable[[Array], Array] = eqx.field(converter=as_pytree)

    def interpolate(self, beta: RealLike, log_base: RealLike, log_target: RealLike) -> FloatArray:
        beta, log_base, log_target = promote(beta, log_base, log_target)
        # Where an end has no weight its h may be infinite, and 0 * inf is NaN.
        base_part = jnp.where(beta == 1, 0, (1 - beta) * self.transform(log_base))
        target_part = jnp.where(beta == 0, 0, beta * self.transform(log_target))
        mean = self.inverse(base_part + target_part)
        return jnp.where(beta == 0, log_base, jnp.where(beta == 1, log_target, mean))
