"""Metropolis kernels that need no gradient: one evaluation of each density per transition."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
import numpy as np
from jax import Array
from jaxtyping import Float
from scipy.special import ndtri

from .._checks import is_concrete
from .._types import PRNGKey, ScalarLike
from .base import (
    AbstractKernel,
    Evaluations,
    FlatPath,
    Info,
    Particle,
    accept,
    check_num_steps,
    cholesky_or_diagonal,
    flat_uniform,
    normal_at,
    times,
    weighted_moments,
)

_HALF = ndtri(0.5 + (np.arange(2**15) + 0.5) / 2**16).astype(np.float32)
_NOISE = np.concatenate([-_HALF[::-1], _HALF])
"""Quantiles of the normal law at 2^16 equal steps. Any symmetric law leaves a random walk exact, and to look it up
takes a quarter of the time of drawing from the normal law itself."""


class RandomWalk(AbstractKernel[Float[Array, "d d"]]):
    """Random-walk Metropolis; the proposal covariance is `scale^2 / d` times that of the particles.

    `scale = 2.38` is optimal for a Gaussian in many dimensions (Roberts, Gelman and Gilks, 1997).
    """

    num_steps: int = eqx.field(static=True, default=1)
    scale: ScalarLike = 2.38

    def __check_init__(self) -> None:
        check_num_steps(self.num_steps)
        if is_concrete(self.scale) and not self.scale > 0:
            raise ValueError(f"`scale` must be positive, got {self.scale}: 2.38 is the usual choice.")

    with_slopes = False
    needs_fit = True
    evaluations = Evaluations(values=1, gradients=0)

    def fit(
        self,
        path: FlatPath,
        beta: ScalarLike,
        particles: Particle,
        log_weights: Float[Array, " n"],
        key: PRNGKey,
        previous: Float[Array, "d d"] | None,
    ) -> Float[Array, "d d"]:
        _, covariance = weighted_moments(particles.position, log_weights)
        return self.scale * covariance.shape[0] ** -0.5 * cholesky_or_diagonal(covariance)

    def randomness(self, key: PRNGKey, position: Float[Array, " d"], num: int) -> tuple[Array, Array]:
        bits = jax.random.bits(key, (num * (position.size + 2),), jnp.uint16)  # in one call, as in `flat_uniform`
        noise, rest = bits[: num * position.size], bits[num * position.size :].astype(jnp.uint32)
        noise = jnp.asarray(_NOISE, position.dtype)[noise].reshape(num, -1)
        # In the middle of equal steps, as many as the type can tell apart: neither 0 nor 1.
        width = min(32, jnp.finfo(position.dtype).nmant)
        uniform = (((rest[:num] << 16 | rest[num:]) >> (32 - width)).astype(position.dtype) + 0.5) * 2.0**-width
        return noise, uniform

    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: Float[Array, "d d"]
    ) -> tuple[Particle, Info]:
        noise, uniform = randomness
        proposal = path.particle(particle.position + times(noise, params), with_slopes=False)
        return accept(uniform, path, beta, particle, proposal, 0.0)


class Fitted(NamedTuple):
    """A normal distribution fitted to the particles."""

    mean: Float[Array, " d"]
    cholesky: Float[Array, "d d"]

    def log_density(self, position: Float[Array, " d"]) -> Float[Array, ""]:
        """Up to a constant."""
        return -0.5 * jnp.sum(jsl.solve_triangular(self.cholesky, position - self.mean, lower=True) ** 2)


class IndependentMH(AbstractKernel[Fitted]):
    """Independent Metropolis-Hastings; the proposal is a normal distribution fitted to the particles."""

    num_steps: int = eqx.field(static=True, default=1)

    def __check_init__(self) -> None:
        check_num_steps(self.num_steps)

    with_slopes = False
    needs_fit = True
    evaluations = Evaluations(values=1, gradients=0)

    def fit(
        self,
        path: FlatPath,
        beta: ScalarLike,
        particles: Particle,
        log_weights: Float[Array, " n"],
        key: PRNGKey,
        previous: Fitted | None,
    ) -> Fitted:
        mean, covariance = weighted_moments(particles.position, log_weights)
        return Fitted(mean, cholesky_or_diagonal(covariance))

    def randomness(self, key: PRNGKey, position: Float[Array, " d"], num: int) -> tuple[Array, Array]:
        uniform = flat_uniform(key, num, position.size + 1, position.dtype)
        return normal_at(uniform[:, 1:]), uniform[:, 0]

    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: Fitted
    ) -> tuple[Particle, Info]:
        noise, uniform = randomness
        proposal = path.particle(params.mean + times(noise, params.cholesky), with_slopes=False)
        correction = params.log_density(particle.position) - params.log_density(proposal.position)
        return accept(uniform, path, beta, particle, proposal, correction)
