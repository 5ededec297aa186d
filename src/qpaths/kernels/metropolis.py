"""Metropolis kernels that need no gradient: one evaluation of each density per transition."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import jax.scipy.linalg as jsl
from jax import Array
from jaxtyping import Float

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
    times,
    weighted_moments,
)


class RandomWalk(AbstractKernel[Float[Array, "d d"]]):
    """Random-walk Metropolis; the proposal covariance is `scale^2 / d` times that of the particles.

    `scale = 2.38` is optimal for a Gaussian in many dimensions (Roberts, Gelman and Gilks, 1997).
    """

    num_steps: int = eqx.field(static=True, default=1)
    scale: ScalarLike = 2.38

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
        previous: Float[Array, "d d"] | None,
    ) -> Float[Array, "d d"]:
        _, covariance = weighted_moments(particles.position, log_weights)
        return self.scale * covariance.shape[0] ** -0.5 * cholesky_or_diagonal(covariance)

    def randomness(self, key: PRNGKey, position: Float[Array, " d"], num: int) -> tuple[Array, Array]:
        noise_key, uniform_key = jax.random.split(key)
        # Any symmetric law leaves the walk exact, and single precision takes half the time.
        noise = jax.random.normal(noise_key, (num, *position.shape), jnp.float32).astype(position.dtype)
        return noise, jax.random.uniform(uniform_key, (num,), position.dtype)

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
        noise_key, uniform_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, (num, *position.shape), position.dtype)
        return noise, jax.random.uniform(uniform_key, (num,), position.dtype)

    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: Fitted
    ) -> tuple[Particle, Info]:
        noise, uniform = randomness
        proposal = path.particle(params.mean + times(noise, params.cholesky), with_slopes=False)
        correction = params.log_density(particle.position) - params.log_density(proposal.position)
        return accept(uniform, path, beta, particle, proposal, correction)
