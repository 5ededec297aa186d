"""Any kernel of BlackJAX as a kernel of this library."""

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jaxtyping import Float

from ..core import AnyArray, Cost, HostRows, PyTree, RealLike, Rows, Stream, StreamRows, namespace
from ..paths import AbstractPath
from ..rows import Evaluator, Layout, Particles
from .base import AbstractKernel, Cloud, Info, check_num_steps, per_particle, weighted_moments

Matrix = Float[AnyArray, "*g d d"]


class BlackJAXKernel(AbstractKernel[Matrix]):
    """A BlackJAX sampling algorithm, rebuilt at each beta (needs the extra `qpaths[blackjax]`).

    Args:
        build: `build(log_density, covariance)` returns the algorithm for a log density over flat vectors, given the
            covariance of the particles.
        num_steps: Transitions at each beta.
        evaluations_per_transition: What the result reports as the cost, in gradients. BlackJAX evaluates the density
            itself, so the true number is not known beforehand.

    The cached features do not help BlackJAX: every transition evaluates the density anew.

        kernel = BlackJAXKernel(lambda f, cov: blackjax.nuts(f, step_size=0.5, inverse_mass_matrix=cov))

    See [BlackJAX](your_model.md#blackjax). Kernels that adapt while they run are not invariant, and bias the evidence.

    Examples:
        >>> import blackjax
        >>> kernel = BlackJAXKernel(lambda f, cov: blackjax.hmc(f, 0.5, cov, num_integration_steps=3), num_steps=2)
        >>> kernel.num_steps, kernel.needs_fit
        (2, True)
    """

    build: Callable[[Callable[[Array], Array], Array], Any] = eqx.field(static=True)  # type: ignore[misc]
    num_steps: int = eqx.field(static=True, default=1)
    evaluations_per_transition: int = eqx.field(static=True, default=1)

    def __check_init__(self) -> None:
        check_num_steps(self.num_steps)

    with_slopes = False
    needs_fit = True

    @property
    def cost(self) -> Cost:
        return Cost.values(1) + Cost.gradients(self.evaluations_per_transition)

    def fit(self, cloud: Cloud, stream: Stream, previous: Matrix | None) -> Matrix:
        """The covariance of the weighted particles."""
        return weighted_moments(cloud)[1]

    def randomness(self, rows: StreamRows, position: Rows, num: int) -> AnyArray:
        """Data of keys, one for each transition of each particle."""
        if isinstance(rows, HostRows):
            uniform = rows.draw(position.shape[0], num, 0, 2)[1]
            return (uniform * 2**32).astype(np.uint32)
        return jnp.swapaxes(jax.vmap(lambda key: jax.random.key_data(jax.random.split(key, num)))(rows.keys), 0, 1)

    def transition(
        self, evaluator: Evaluator, beta: RealLike, particles: Particles, randomness: PyTree, params: Matrix
    ) -> tuple[Particles, Info]:
        xp, num = evaluator.xp, particles.position.shape[0]
        covariances = xp.broadcast_to(per_particle(params, num), (num, *params.shape[1:]))
        betas = xp.broadcast_to(xp.asarray(beta), (num,))
        position = particles.position.astype(evaluator.layout.dtype)
        step = _step if namespace(position) is jnp else _compiled_step
        moved, acceptance = step(self.build, evaluator.path, evaluator.layout, betas, position, randomness, covariances)
        position = xp.asarray(moved, particles.position.dtype)
        new = evaluator.particles(position, with_slopes=False)
        invalid = evaluator.log_density(beta, new.features) == xp.inf
        accepted = (position != particles.position).any(axis=1)
        return new, Info(xp.asarray(acceptance, position.dtype), accepted, invalid, position)


def _step(
    build: Callable[..., Any],
    path: AbstractPath[Any],
    layout: Layout,
    betas: AnyArray,
    positions: AnyArray,
    data: AnyArray,
    covariances: AnyArray,
) -> tuple[Array, Array]:
    """One transition of every particle from a fresh state of BlackJAX, and its acceptance rate where it has one."""

    def one(beta: AnyArray, position: AnyArray, data: AnyArray, covariance: AnyArray) -> tuple[Array, Array]:
        def log_density(position: Array) -> Array:
            return path.log_density_from(beta, path.features(layout.points(position)))

        algorithm = build(log_density, covariance.astype(position.dtype))
        state, info = algorithm.step(jax.random.wrap_key_data(data), algorithm.init(position))
        return state.position, jnp.asarray(getattr(info, "acceptance_rate", jnp.nan), position.dtype)

    return jax.vmap(one)(betas, positions, data, covariances)


@functools.partial(jax.jit, static_argnums=(0, 2))
def _compiled_step(*arguments: Any) -> tuple[Array, Array]:
    """`_step` for runs on the host, where only this call is compiled."""
    return _step(*arguments)
