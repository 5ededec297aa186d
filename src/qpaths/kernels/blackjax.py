"""Any kernel of BlackJAX as a kernel of this library."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from .._types import PRNGKey, ScalarLike
from .base import (
    AbstractKernel,
    Evaluations,
    FlatPath,
    Info,
    Particle,
    check_num_steps,
    weighted_moments,
)


class BlackJAXKernel(AbstractKernel[Float[Array, "d d"]]):
    """A BlackJAX sampling algorithm, rebuilt at each beta.

    `build(log_density, covariance)` returns the algorithm for a log density over flat vectors, given the covariance of
    the particles: `lambda f, cov: blackjax.nuts(f, step_size=0.5, inverse_mass_matrix=cov)`. BlackJAX evaluates the
    path's density itself, so the cached features do not help it; how often cannot be known beforehand, and
    `evaluations_per_transition` is what the result reports.
    """

    build: Callable[[Callable[[Array], Array], Array], Any] = eqx.field(static=True)  # type: ignore[misc]
    num_steps: int = eqx.field(static=True, default=1)
    evaluations_per_transition: int = eqx.field(static=True, default=1)

    def __check_init__(self) -> None:
        check_num_steps(self.num_steps)

    with_slopes = False
    needs_fit = True

    @property
    def evaluations(self) -> Evaluations:
        return Evaluations(values=1, gradients=self.evaluations_per_transition)

    def fit(
        self,
        path: FlatPath,
        beta: ScalarLike,
        particles: Particle,
        log_weights: Float[Array, " n"],
        key: PRNGKey,
        previous: Float[Array, "d d"] | None,
    ) -> Float[Array, "d d"]:
        return weighted_moments(particles.position, log_weights)[1]

    def randomness(self, key: PRNGKey, position: Float[Array, " d"], num: int) -> Array:
        return jax.random.split(key, num)

    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: Float[Array, "d d"]
    ) -> tuple[Particle, Info]:
        def log_density(position: Array) -> Array:
            return path.log_density(beta, path.particle(position, with_slopes=False))

        algorithm = self.build(log_density, params)
        state, info = algorithm.step(randomness, algorithm.init(particle.position))
        moved = path.particle(state.position, with_slopes=False)
        acceptance = jnp.asarray(getattr(info, "acceptance_rate", jnp.nan), jnp.result_type(float))
        invalid = path.log_density(beta, moved) == jnp.inf
        return moved, Info(acceptance, invalid, moved.position)
