"""Kernels that follow the gradient: Hamiltonian Monte Carlo and, with one leapfrog step, MALA."""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import Array
from jaxtyping import Float

from .._checks import is_concrete
from .._types import PRNGKey, Scalar, ScalarLike
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

_MOST_UNROLLED = 10
_DIVERGED = 1000.0
"""Nats of kinetic energy gained on the way that no exact trajectory from a typical point would gain."""


def _effort(num_particles: int, again: bool) -> tuple[int, int]:
    """Rounds and copies of the tuning: fewer where the step size of the beta before is there to start from."""
    num_rounds, most = (4, 32) if again else (10, 64)
    return num_rounds, min(num_particles, most, max(16, num_particles // 8))


class LeapfrogParams(NamedTuple):
    """A square root of the preconditioner, a matrix or a diagonal, and the step size in its coordinates."""

    scale: Float[Array, "d d"] | Float[Array, " d"]
    step_size: Scalar

    def forward(self, vector: Float[Array, " d"]) -> Float[Array, " d"]:
        return times(vector, self.scale) if self.scale.ndim == 2 else self.scale * vector

    def backward(self, vector: Float[Array, " d"]) -> Float[Array, " d"]:
        return vector @ self.scale if self.scale.ndim == 2 else self.scale * vector


class _LeapfrogKernel(AbstractKernel[LeapfrogParams]):
    """The one implementation behind HMC and MALA: `num_leapfrog` evaluations with gradient per transition."""

    num_leapfrog: eqx.AbstractVar[int]
    step_size: eqx.AbstractVar[ScalarLike | None]
    preconditioner: eqx.AbstractVar[str]
    jitter: eqx.AbstractVar[ScalarLike]
    target_acceptance: eqx.AbstractVar[ScalarLike]

    def __check_init__(self) -> None:
        check_num_steps(self.num_steps)
        if self.num_leapfrog < 1:
            raise ValueError(f"`num_leapfrog` must be at least 1, got {self.num_leapfrog}.")
        if self.step_size is not None and is_concrete(self.step_size) and not self.step_size > 0:
            raise ValueError(f"`step_size` must be positive, got {self.step_size}: give None to have it tuned.")
        if is_concrete(self.jitter) and not 0 <= self.jitter < 1:
            raise ValueError(f"`jitter` must lie in [0, 1), got {self.jitter}: it is a share of the step size.")
        if is_concrete(self.target_acceptance) and not 0 < self.target_acceptance < 1:
            raise ValueError(
                f"`target_acceptance` must lie in (0, 1), got {self.target_acceptance}: it is a share of the proposals."
            )
        if self.preconditioner not in ("dense", "diagonal", "none"):
            raise ValueError(f"`preconditioner` must be dense, diagonal or none, got {self.preconditioner!r}.")

    with_slopes = True

    @property
    def needs_fit(self) -> bool:
        return self.step_size is None or self.preconditioner != "none"

    @property
    def evaluations(self) -> Evaluations:
        return Evaluations(values=0, gradients=self.num_leapfrog)

    def fit_evaluations(self, num_particles: int, again: bool) -> Evaluations:
        if self.step_size is not None:
            return Evaluations(0, 0)
        num_rounds, num_copies = _effort(num_particles, again)
        return Evaluations(0, num_rounds * num_copies * self.num_leapfrog)

    def step_size_of(self, params: LeapfrogParams) -> Scalar:
        return params.step_size

    def fit(
        self,
        path: FlatPath,
        beta: ScalarLike,
        particles: Particle,
        log_weights: Float[Array, " n"],
        key: PRNGKey,
        previous: LeapfrogParams | None,
    ) -> LeapfrogParams:
        scale = self._scale(particles.position, log_weights)
        dtype = particles.position.dtype
        if self.step_size is not None:
            return LeapfrogParams(scale, jnp.asarray(self.step_size, dtype))
        # A step of d^(-1/4) is about right for a whitened normal target.
        start = jnp.asarray(particles.position.shape[1] ** -0.25, dtype) if previous is None else previous.step_size
        effort = _effort(log_weights.size, previous is not None)
        step_size = self._tune(path, beta, particles, log_weights, key, scale, start, effort)
        if self.preconditioner == "dense":
            # Whitened, a normal target turns once in 2 pi: a quarter of that is a fresh draw, all of it is where the
            # particle was, and particles that stay put while their own covariance steers them bias the evidence.
            step_size = jnp.minimum(step_size, 0.5 * jnp.pi / self.num_leapfrog)
        return LeapfrogParams(scale, step_size)

    def _scale(self, positions: Float[Array, "n d"], log_weights: Float[Array, " n"]) -> Array:
        if self.preconditioner == "none":
            return jnp.ones(positions.shape[1], positions.dtype)
        covariance = weighted_moments(positions, log_weights)[1]
        return cholesky_or_diagonal(covariance) if self.preconditioner == "dense" else jnp.sqrt(jnp.diag(covariance))

    def _tune(
        self,
        path: FlatPath,
        beta: ScalarLike,
        particles: Particle,
        log_weights: Float[Array, " n"],
        key: PRNGKey,
        scale: Array,
        start: Scalar,
        effort: tuple[int, int],
    ) -> Scalar:
        """Step size at which copies of some particles accept as often as wanted; the particles themselves stay put.

        The acceptance rate is an average over the copies and so almost without noise: a few steps of stochastic
        approximation with decreasing gain settle it, and the mean of the later ones is taken.
        """
        num_rounds, num = effort
        keys = jax.random.split(key, 1 + num_rounds)
        # At random rather than the first ones: after resampling neighbours are copies of each other.
        cumulative = jnp.cumsum(jax.nn.softmax(log_weights))
        uniform = jax.random.uniform(keys[0], (num,), cumulative.dtype)
        chosen = jnp.searchsorted(cumulative, uniform * cumulative[-1], side="right")
        copies = jax.tree.map(lambda leaf: leaf[chosen], particles)

        def one_round(carry: tuple[Particle, Scalar], inputs: tuple[Array, Array]) -> Any:
            copies, log_step = carry
            key, gain = inputs
            params = LeapfrogParams(scale, jnp.exp(log_step))
            moved, info = jax.vmap(lambda p, n: self.transition(path, beta, p, n, params))(
                copies, self.randomness(key, copies.position[0], num)
            )
            error = jnp.mean(info.acceptance).astype(log_step.dtype) - self.target_acceptance
            # From -1 to 1: a step that is far too long must not throw the search further than one far too short.
            error = error / jnp.where(error > 0, 1 - self.target_acceptance, self.target_acceptance)
            log_step = log_step + gain * error
            return (moved, log_step), log_step

        gains = 1.0 / jnp.arange(1, num_rounds + 1, dtype=start.dtype) ** 0.5
        _, log_steps = jax.lax.scan(one_round, (copies, jnp.log(start)), (keys[1:], gains))
        return jnp.exp(jnp.mean(log_steps[num_rounds // 2 :]))

    def randomness(self, key: PRNGKey, position: Float[Array, " d"], num: int) -> tuple[Array, Array, Array]:
        uniform = flat_uniform(key, num, position.size + 2, position.dtype)
        # A step size that does not depend on the state leaves the kernel exact, and no orbit closes for every one.
        return normal_at(uniform[:, 2:]), 1 + self.jitter * (2 * uniform[:, 1] - 1), uniform[:, 0]

    def transition(
        self, path: FlatPath, beta: ScalarLike, particle: Particle, randomness: Any, params: LeapfrogParams
    ) -> tuple[Particle, Info]:
        start, factor, uniform = randomness
        step = params.step_size * factor

        def kick(momentum: Array, particle: Particle, share: float) -> Array:
            return momentum + share * step * params.backward(path.score(beta, particle))

        def leapfrog(carry: tuple[Particle, Array, Array], _: None) -> tuple[tuple[Particle, Array, Array], None]:
            particle, momentum, going = carry
            ahead = particle.position + step * params.forward(momentum)
            particle = path.waypoint(jnp.where(going, ahead, particle.position))
            # The half kicks at the end of one step and at the start of the next are one; the last is taken back.
            kicked = kick(momentum, particle, 1.0)
            # A trajectory without a finite score stays there, so that its end shows whether the density was to blame.
            going = going & jnp.isfinite(kicked).all()
            return (particle, jnp.where(going, kicked, momentum), going), None

        kicked = kick(start, particle, 0.5)
        begun = particle, kicked, jnp.isfinite(kicked).all()
        # On a GPU a round of a loop costs 12 us, and unrolled, the values of the path are computed only where they are
        # used; on a CPU it would only take longer to compile.
        unroll = 1 if jax.default_backend() == "cpu" else min(self.num_leapfrog, _MOST_UNROLLED)
        (proposal, momentum, _), _ = jax.lax.scan(leapfrog, begun, None, length=self.num_leapfrog, unroll=unroll)
        gained = 0.5 * (jnp.sum(momentum**2) - jnp.sum(start**2))
        # A trajectory that diverges ends in NaN by its own doing; it is rejected like any other bad proposal.
        diverged = ~((gained < _DIVERGED) & jnp.isfinite(proposal.position).all())
        momentum = kick(momentum, proposal, -0.5)
        kinetic = 0.5 * (jnp.sum(start**2) - jnp.sum(momentum**2))
        return accept(uniform, path, beta, particle, path.completed(proposal), kinetic, diverged=diverged)


class HMC(_LeapfrogKernel):
    """Hamiltonian Monte Carlo: each transition evaluates each density and its gradient `num_leapfrog` times.

    `step_size=None` has it tuned per beta to `target_acceptance`, or higher where a longer trajectory would turn back;
    a number is used as given, in the coordinates of the preconditioner. The step of each transition is multiplied by a
    uniform number in `1 +- jitter`. `preconditioner` is the covariance of the particles (`"dense"`), its diagonal
    (`"diagonal"`) or nothing (`"none"`).
    """

    num_steps: int = eqx.field(static=True, default=1)
    num_leapfrog: int = eqx.field(static=True, default=10)
    step_size: ScalarLike | None = None
    preconditioner: str = eqx.field(static=True, default="dense")
    jitter: ScalarLike = 0.2
    target_acceptance: ScalarLike = 0.85


class MALA(_LeapfrogKernel):  # type: ignore[misc]
    """The Metropolis-adjusted Langevin algorithm: Hamiltonian Monte Carlo with one leapfrog step, without jitter.

    Options as for `HMC`; 57 % is the optimal acceptance rate in many dimensions (Roberts and Rosenthal, 1998).
    """

    num_steps: int = eqx.field(static=True, default=1)
    step_size: ScalarLike | None = None
    preconditioner: str = eqx.field(static=True, default="dense")
    target_acceptance: ScalarLike = 0.574

    @property  # type: ignore[misc]
    def num_leapfrog(self) -> int:  # type: ignore[override]
        return 1

    @property  # type: ignore[misc]
    def jitter(self) -> float:
        return 0.0
